//===- VectorMask.h - Which elements of a vector differ ---------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Bitwise comparison of 16 bytes, by arithmetic: a predicate for each element
/// would take more of them than there are.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_VECTORMASK_H
#define DELTA_CODEGEN_DEVICE_VECTORMASK_H

#include "codegen/device/IndexFunctions.h"

namespace delta::device {

/// Not zero if any bit differs.
__device__ inline uint32_t differing(const uint4 &a, const uint4 &b) {
  return (a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w);
}

/// The top bits of the halves of a word: set where the half is not zero.
__device__ inline uint32_t halvesSet(uint32_t word) {
  // The lower bits carry into the top one, or it is set itself.
  return ((word & 0x7fff7fffu) + 0x7fff7fffu) | word;
}

/// Bytes 0xff where the halves of `low`, then of `high`, have their top bit.
__device__ inline uint32_t topBits(uint32_t low, uint32_t high) {
#ifdef DELTA_DEVICE_TEXT
  return (low >> 15 & 1) * 0xffu | (low >> 31) * 0xff00u |
         (high >> 15 & 1) * 0xff0000u | (high >> 31) * 0xff000000u;
#else
  uint32_t bytes;
  asm("prmt.b32 %0, %1, %2, 0xfdb9;" : "=r"(bytes) : "r"(low), "r"(high));
  return bytes;
#endif
}

/// Bit i: element i of the vectors differs.
template <typename Bits>
__device__ inline uint32_t maskOf(const uint4 &a, const uint4 &b) {
  const uint32_t x = a.x ^ b.x, y = a.y ^ b.y, z = a.z ^ b.z, w = a.w ^ b.w;
  if (sizeof(Bits) == 2) {
    // Bytes of -1 times -1, -2, -4, ...: a sum with a bit for each.
    uint32_t low = topBits(halvesSet(x), halvesSet(y));
    uint32_t high = topBits(halvesSet(z), halvesSet(w));
    return uint32_t(__dp4a(int(low), int(0xf8fcfeffu),
                           __dp4a(int(high), int(0x80c0e0f0u), 0)));
  }
  if (sizeof(Bits) == 4)
    return uint32_t(x != 0) | uint32_t(y != 0) << 1 | uint32_t(z != 0) << 2 |
           uint32_t(w != 0) << 3;
  return uint32_t((x | y) != 0) | uint32_t((z | w) != 0) << 1;
}

/// Element `i` of a vector, by selects and a shift: registers have no index.
template <typename Bits>
__device__ inline Bits elementOf(const uint4 &vector, uint32_t i) {
  const uint32_t first = i * sizeof(Bits) / 4;
  const uint32_t low = first & 1 ? vector.y : vector.x;
  const uint32_t high = first & 1 ? vector.w : vector.z;
  const uint32_t word = first & 2 ? high : low;
  if (sizeof(Bits) == 2)
    return Bits(word >> (i % 2) * 16);
  if (sizeof(Bits) == 4)
    return Bits(word);
  return Bits(uint64_t(i ? vector.w : vector.y) << 32 |
              (i ? vector.z : vector.x));
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_VECTORMASK_H
