//===- Update.cpp - Weights that change like trained ones -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Works in blocks of 4,096 elements. What happens to few elements (jumps,
/// special values) is drawn as a list of places a block, so its cost follows
/// the number of changes; what happens to all costs one hash an element.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/Update.h"

#include "tools/reference/Moves.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace delta::reference {
namespace {

constexpr int64_t kBlock = 4096;
constexpr double kSpecialShare = 1.0 / 2048;
/// Steps after which the direction of a master turns.
constexpr int64_t kTurn = 64;
/// Streams of random numbers.
enum Stream : uint64_t { Base, Jumps, Specials, SpecialSteps };

/// The finalizer of splitmix64.
uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

uint64_t hash(uint64_t key, uint64_t index) {
  return mix(key + index * 0x9e3779b97f4a7c15u);
}

uint64_t keyOf(const std::string &name, uint64_t seed) {
  uint64_t key = 0xcbf29ce484222325u; // FNV-1a
  for (const unsigned char c : name)
    key = (key ^ c) * 0x100000001b3u;
  return mix(key ^ mix(seed));
}

/// In (0, 1].
double unit(uint64_t bits) { return double((bits >> 11) + 1) * 0x1p-53; }

/// Calls each(place, random bits) for the places of a block that are drawn
/// with probability `rate`, ascending.
template <class F> void draw(uint64_t key, double rate, const F &each) {
  if (rate <= 0)
    return;
  const double scale = 1 / std::log1p(-rate); // -0 where the rate is 1
  uint64_t number = 0;
  for (int64_t place = 0;; ++place) {
    const double gap = std::log(unit(hash(key, number++))) * scale;
    if (gap >= double(kBlock))
      return;
    place += int64_t(gap);
    if (place >= kBlock)
      return;
    each(place, hash(key, number++));
  }
}

/// 3 to 16 ulps either way, in 65536ths of an ulp.
int64_t jump(uint64_t bits) {
  const int64_t size = 3 * 65536 + int64_t((bits >> 8) % (13 * 65536));
  return bits & 1 ? size : -size;
}

/// What one block of one parameter is drawn from.
struct Block {
  uint64_t key;
  uint64_t number;
  int64_t step;
  double share;

  uint64_t streamKey(Stream stream, uint64_t step = 0) const {
    return hash(hash(key, stream + 16 * step), number);
  }
};

/// Moves that few elements made, summed over all steps so far.
using Moves = std::array<int64_t, size_t(kBlock)>;

template <class F>
void sumMoves(const Block &block, double rate, Moves &moves, const F &size) {
  moves.fill(0);
  for (int64_t step = 1; step <= block.step; ++step)
    draw(block.streamKey(Jumps, uint64_t(step)), rate,
         [&](int64_t place, uint64_t bits) {
           moves[size_t(place)] += size(bits);
         });
}

/// Bits of the master before the first step.
uint32_t startOf(uint64_t bits, uint64_t more) {
  // Four lanes of 16 bits sum to a bell; a fraction fills the low bits.
  const int64_t sum = int64_t(bits & 0xffff) + int64_t(bits >> 16 & 0xffff) +
                      int64_t(bits >> 32 & 0xffff) + int64_t(bits >> 48) -
                      131070;
  const float value = (float(sum) + float(more >> 40) * 0x1p-24f) * 0x1p-21f;
  uint32_t pattern;
  std::memcpy(&pattern, &value, sizeof(pattern));
  return pattern;
}

/// Moves the magnitude of a float, as an integer, without changing its sign.
uint32_t moved(uint32_t pattern, int64_t bits) {
  const int64_t magnitude = int64_t(pattern & 0x7fffffffu) + bits;
  return (pattern & 0x80000000u) |
         uint32_t(std::clamp<int64_t>(magnitude, 0, 0x7f000000));
}

/// The pattern of the `which`-th special value.
template <class T>
T specialOf(uint64_t which, uint64_t payload, int mantissaBits) {
  constexpr int kBits = int(sizeof(T)) * 8;
  const T sign = T(T(1) << (kBits - 1));
  const T infinity = T(T(sign - 1) >> mantissaBits << mantissaBits);
  const T quiet = T(T(1) << (mantissaBits - 1));
  const T low = T(payload % (quiet - 1) + 1);
  switch (which % 8) {
  case 0:
    return T(infinity | quiet | low);
  case 1:
    return sign; // -0.0
  case 2:
    return T(infinity | low); // signaling
  case 3:
    return infinity;
  case 4:
    return T(sign | infinity | quiet | low);
  case 5:
    return 0;
  case 6:
    return T(sign | infinity);
  default:
    return low; // subnormal
  }
}

template <class T>
void placeSpecials(const Block &block, int mantissaBits, T *out) {
  draw(block.streamKey(Specials), kSpecialShare,
       [&](int64_t place, uint64_t bits) {
         const uint64_t key =
             hash(block.streamKey(SpecialSteps), uint64_t(place));
         uint64_t which = bits;
         for (int64_t step = 1; step <= block.step; ++step)
           which += unit(hash(key, uint64_t(step))) <= block.share;
         out[place] = specialOf<T>(which, hash(bits, which), mantissaBits);
       });
}

/// A block of 16-bit floats: drift and jumps of the master, then rounding.
/// `unitShift`: bits of a 65536th of an ulp below the last bit of a pattern.
template <class Round>
void fillRounded(const Block &block, int unitShift, const Round &round,
                 uint16_t *out) {
  const double drift = 0.9 * block.share / (1 - 0.1 * block.share);
  const double spread = 0.9 * std::min(drift, 1 - drift);
  const auto driftBits = int64_t(drift * 0x1p32);
  const auto spreadBits = int64_t(spread * 0x1p16);
  const int64_t phase = block.step % (2 * kTurn);
  const int64_t distance = std::min(phase, 2 * kTurn - phase);
  Moves moves;
  sumMoves(block, 0.1 * block.share, moves, jump);
  const uint64_t key = block.streamKey(Base);
  for (int64_t i = 0; i < kBlock; ++i) {
    const uint64_t bits = hash(key, uint64_t(i));
    const uint64_t more = bits * 0xd1342543de82ef95u;
    // The size of the drift varies by +- `spread`; its mean is `drift`.
    const int64_t weight = int64_t(more >> 8 & 0xffff) - 32768;
    const int64_t size = driftBits + spreadBits * weight * 2;
    const int64_t drifted = (size * distance) >> 16;
    const int64_t move = (more & 1 ? drifted : -drifted) + moves[size_t(i)];
    out[i] = round(moved(startOf(bits, more), move >> unitShift));
  }
}

void fillFloat(const Block &block, uint32_t *out) {
  Moves moves;
  sumMoves(block, block.share, moves, [](uint64_t bits) -> int64_t {
    const int64_t few = bits & 1 ? 1 : -1;
    return (bits >> 1) % 10 == 0 ? jump(bits >> 8) / 65536 : few;
  });
  const uint64_t key = block.streamKey(Base);
  for (int64_t i = 0; i < kBlock; ++i) {
    const uint64_t bits = hash(key, uint64_t(i));
    out[i] = moved(startOf(bits, bits * 0xd1342543de82ef95u), moves[size_t(i)]);
  }
}

void fillInteger(const Block &block, uint64_t *out) {
  Moves moves;
  sumMoves(block, block.share, moves,
           [](uint64_t bits) { return int64_t(bits >> 1 | 1); });
  const uint64_t key = block.streamKey(Base);
  for (int64_t i = 0; i < kBlock; ++i)
    out[i] = hash(key, uint64_t(i)) + uint64_t(moves[size_t(i)]);
}

/// One whole block. T decides between 16-bit floats, fp32 and i64.
void fillBlock(const Block &block, const std::string &dtype, uint16_t *out) {
  const bool half = dtype == "fp16";
  if (half)
    fillRounded(block, /*unitShift=*/3, toFp16, out);
  else
    fillRounded(block, /*unitShift=*/0, toBf16, out);
  placeSpecials(block, /*mantissaBits=*/half ? 10 : 7, out);
}

void fillBlock(const Block &block, const std::string &, uint32_t *out) {
  fillFloat(block, out);
  placeSpecials(block, /*mantissaBits=*/23, out);
}

void fillBlock(const Block &block, const std::string &, uint64_t *out) {
  fillInteger(block, out);
}

} // namespace

template <class T>
void Update::fill(const std::string &name, const std::string &dtype,
                  int64_t begin, int64_t size, int64_t step, T *out) const {
  const int64_t end = begin + size;
  std::array<T, size_t(kBlock)> part;
  for (int64_t at = begin; at < end;) {
    const int64_t number = at / kBlock, first = number * kBlock;
    const Block block = {keyOf(name, seed), uint64_t(number), step, share};
    const int64_t next = std::min(end, first + kBlock);
    const bool whole = at == first && next == first + kBlock;
    fillBlock(block, dtype, whole ? out : part.data());
    if (!whole)
      std::copy(part.begin() + (at - first), part.begin() + (next - first),
                out);
    out += next - at;
    at = next;
  }
}

template void Update::fill(const std::string &, const std::string &, int64_t,
                           int64_t, int64_t, uint16_t *) const;
template void Update::fill(const std::string &, const std::string &, int64_t,
                           int64_t, int64_t, uint32_t *) const;
template void Update::fill(const std::string &, const std::string &, int64_t,
                           int64_t, int64_t, uint64_t *) const;

} // namespace delta::reference
