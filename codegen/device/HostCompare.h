//===- HostCompare.h - Bitwise comparison, 64 bytes a step ------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The inner loop of the host diff. Equal memory, which is nearly all of it, is
/// skipped 64 bytes a step; where a step differs, a mask of its elements is
/// formed and its bits are walked. SSE2 is part of x86-64, so nothing depends
/// on -march; other machines use the plain text.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_HOSTCOMPARE_H
#define DELTA_CODEGEN_DEVICE_HOSTCOMPARE_H

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace delta::device {

/// Bytes of a step.
constexpr int64_t StepBytes = 64;

#ifdef __SSE2__
inline __m128i load16(const char *bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i *>(bytes));
}

/// Number of leading bytes, a multiple of 64, that are surely equal.
inline int64_t skipEqual(const char *left, const char *right, int64_t size) {
  int64_t at = 0;
  for (; at + StepBytes <= size; at += StepBytes) {
    __m128i e0 = _mm_cmpeq_epi8(load16(left + at), load16(right + at));
    __m128i e1 =
        _mm_cmpeq_epi8(load16(left + at + 16), load16(right + at + 16));
    __m128i e2 =
        _mm_cmpeq_epi8(load16(left + at + 32), load16(right + at + 32));
    __m128i e3 =
        _mm_cmpeq_epi8(load16(left + at + 48), load16(right + at + 48));
    __m128i all = _mm_and_si128(_mm_and_si128(e0, e1), _mm_and_si128(e2, e3));
    if (_mm_movemask_epi8(all) != 0xffff)
      break;
  }
  return at;
}

/// Bit i: element i of a step of 16-bit elements differs.
inline uint64_t changeMask(const uint16_t *left, const uint16_t *right) {
  uint64_t equal = 0;
  for (int half = 0; half < 2; ++half) {
    const char *l = reinterpret_cast<const char *>(left + half * 16);
    const char *r = reinterpret_cast<const char *>(right + half * 16);
    __m128i lo = _mm_cmpeq_epi16(load16(l), load16(r));
    __m128i hi = _mm_cmpeq_epi16(load16(l + 16), load16(r + 16));
    uint64_t bits = uint32_t(_mm_movemask_epi8(_mm_packs_epi16(lo, hi)));
    equal |= bits << (half * 16);
  }
  return ~equal & 0xffffffffu;
}
#else
inline int64_t skipEqual(const char *left, const char *right, int64_t size) {
  int64_t at = 0;
  for (; at + StepBytes <= size; at += StepBytes) {
    uint64_t l[8], r[8], differ = 0;
    memcpy(l, left + at, sizeof(l));
    memcpy(r, right + at, sizeof(r));
    for (int word = 0; word < 8; ++word)
      differ |= l[word] ^ r[word];
    if (differ)
      break;
  }
  return at;
}
#endif

/// Bit i: element i of a step of 64 bytes differs.
template <typename Bits>
inline uint64_t changeMask(const Bits *left, const Bits *right) {
  uint64_t mask = 0;
  for (unsigned i = 0; i < StepBytes / sizeof(Bits); ++i)
    mask |= uint64_t(left[i] != right[i]) << i;
  return mask;
}

/// Where changed elements are listed. Beyond `limit` they are only counted:
/// the tile is dense then, and nobody reads its list.
template <typename Bits> struct ChangeList {
  uint16_t *offsets;
  Bits *values;
  uint32_t limit;
  uint32_t count;

  void add(uint32_t offset, Bits value) {
    offsets[count] = uint16_t(offset);
    values[count++] = value;
  }
};

/// Lists the elements of `now` that differ from `before`. The first of them has
/// offset `firstOffset` in its tile.
template <typename Bits>
inline void listChanges(const Bits *now, const Bits *before, int64_t size,
                        uint32_t firstOffset, ChangeList<Bits> &list) {
  constexpr int64_t StepSize = StepBytes / int64_t(sizeof(Bits));
  int64_t at = 0;
  while (size - at >= StepSize) {
    at += skipEqual(reinterpret_cast<const char *>(now + at),
                    reinterpret_cast<const char *>(before + at),
                    (size - at) * int64_t(sizeof(Bits))) /
          int64_t(sizeof(Bits));
    // Stay here while steps differ: at 1 % three of ten do.
    for (; size - at >= StepSize; at += StepSize) {
      uint64_t mask = changeMask(now + at, before + at);
      if (!mask)
        break;
      if (list.count > list.limit) {
        list.count += uint32_t(__builtin_popcountll(mask));
        continue;
      }
      for (; mask; mask &= mask - 1) {
        uint32_t i = uint32_t(__builtin_ctzll(mask));
        list.add(firstOffset + uint32_t(at) + i, now[at + i]);
      }
    }
  }
  for (; at < size; ++at)
    if (now[at] != before[at])
      list.add(firstOffset + uint32_t(at), now[at]);
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_HOSTCOMPARE_H
