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
/// A move of one ulp.
constexpr uint64_t kUlp = 65536;
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
  const int64_t size = int64_t(kUlp * 3 + (bits >> 8) % (kUlp * 13));
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
template <class T> using Moves = std::array<T, size_t(kBlock)>;

/// Sums of fewer bits than the magnitude of a float, so that adding them cannot
/// overflow.
int32_t bounded(int64_t sum) {
  return int32_t(std::clamp<int64_t>(sum, -(1 << 28), 1 << 28));
}
int64_t bounded(uint64_t sum) { return int64_t(sum); }

template <class T, class F>
void sumMoves(const Block &block, double rate, Moves<T> &moves, const F &size) {
  moves.fill(0);
  for (int64_t step = 1; step <= block.step; ++step)
    draw(block.streamKey(Jumps, uint64_t(step)), rate,
         [&](int64_t place, uint64_t bits) {
           T &sum = moves[size_t(place)];
           sum = bounded(sum + size(bits));
         });
}

/// A drift of `mean` +- `spread` in 65536ths of an ulp.
struct Drift {
  int32_t mean = 0;
  int32_t spread = 0;
};

/// Bits of the fp32 masters of a block. All of it is 32-bit arithmetic, which
/// compilers turn into vectors.
inline __attribute__((always_inline)) void masters(uint64_t key, Drift drift,
                                                   int unitShift,
                                                   const int32_t *moves,
                                                   uint32_t *out) {
  const auto low = uint32_t(key), high = uint32_t(key >> 32);
  for (uint32_t i = 0; i < uint32_t(kBlock); ++i) {
    // Two rounds of a 32-bit mixer give 64 bits.
    uint32_t x = low + i * 0x9e3779b9u;
    x = (x ^ x >> 16) * 0x21f0aaadu;
    x = (x ^ x >> 15) * 0x735a2d97u;
    x ^= x >> 15;
    uint32_t y = (x ^ high) * 0x85ebca6bu;
    y = (y ^ y >> 13) * 0xc2b2ae35u;
    y ^= y >> 16;
    // Four lanes of 16 bits sum to a bell; one lane's low bits are the
    // fraction. The low bits of the sum stay uniform whatever that is, and
    // whatever the direction and size of the drift are, which are other bits.
    const auto sum =
        int32_t((x & 0xffff) + (x >> 16) + (y & 0xffff) + (y >> 16)) - 131070;
    const float value = float(sum * 4096 + int32_t(y & 0xfff)) * 0x1p-33f;
    uint32_t pattern;
    __builtin_memcpy(&pattern, &value, sizeof(pattern));
    const int32_t weight = int32_t(x >> 16 & 0xff) - 128;
    const int32_t size = drift.mean + ((drift.spread * weight) >> 7);
    const int32_t move = ((x & 1 ? size : -size) + moves[i]) >> unitShift;
    int32_t magnitude = int32_t(pattern & 0x7fffffffu) + move;
    magnitude = magnitude < 0 ? 0 : magnitude;
    out[i] = (pattern & 0x80000000u) | uint32_t(magnitude);
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void mastersAvx2(uint64_t key, Drift drift,
                                                 int unitShift,
                                                 const int32_t *moves,
                                                 uint32_t *out) {
  masters(key, drift, unitShift, moves, out);
}
#endif

/// The same numbers on every machine.
void fillMasters(uint64_t key, Drift drift, int unitShift, const int32_t *moves,
                 uint32_t *out) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2"))
    return mastersAvx2(key, drift, unitShift, moves, out);
#endif
  masters(key, drift, unitShift, moves, out);
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

/// A block of 16-bit floats: drift and jumps of the masters, then rounding.
/// `unitShift`: bits of a 65536th of an ulp below the last bit of a pattern.
template <class Round>
void fillRounded(const Block &block, int unitShift, const Round &round,
                 uint16_t *out) {
  // The mean share that crosses a boundary is the mean size of a step, for no
  // step is longer than an ulp.
  const double drift = 0.9 * block.share / (1 - 0.1 * block.share);
  const double spread = 0.9 * std::min(drift, 1 - drift);
  const int64_t phase = block.step % (2 * kTurn);
  const double distance = 65536 * double(std::min(phase, 2 * kTurn - phase));
  Moves<int32_t> moves;
  sumMoves(block, 0.1 * block.share, moves, jump);
  std::array<uint32_t, size_t(kBlock)> master;
  fillMasters(block.streamKey(Base),
              {int32_t(std::lround(drift * distance)),
               int32_t(std::lround(spread * distance))},
              unitShift, moves.data(), master.data());
  for (size_t i = 0; i < size_t(kBlock); ++i)
    out[i] = round(master[i]);
}

void fillFloat(const Block &block, uint32_t *out) {
  Moves<int32_t> moves;
  sumMoves(block, block.share, moves, [](uint64_t bits) -> int64_t {
    const int64_t few = bits & 1 ? 1 : -1;
    return (bits >> 1) % 10 == 0 ? jump(bits >> 8) / 65536 : few;
  });
  fillMasters(block.streamKey(Base), {}, /*unitShift=*/0, moves.data(), out);
}

void fillInteger(const Block &block, uint64_t *out) {
  Moves<int64_t> moves;
  sumMoves(block, block.share, moves,
           [](uint64_t bits) { return bits >> 1 | 1; });
  const uint64_t key = block.streamKey(Base);
  for (int64_t i = 0; i < kBlock; ++i)
    out[i] = hash(key, uint64_t(i)) + uint64_t(moves[size_t(i)]);
}

/// One whole block. T decides between 16-bit floats, fp32 and i64.
void fillBlock(const Block &block, const std::string &dtype, uint16_t *out) {
  const bool half = dtype == "fp16";
  // Lambdas, so that the rounding is inlined.
  if (half)
    fillRounded(
        block, /*unitShift=*/3, [](uint32_t bits) { return toFp16(bits); },
        out);
  else // A master is no NaN.
    fillRounded(
        block, /*unitShift=*/0,
        [](uint32_t bits) {
          return uint16_t((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
        },
        out);
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
