//===- LookBack.cuh - Prefix sums across tiles in one pass ------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Decoupled look-back: a tile publishes what it packs at once, then walks back
/// over its predecessors until one of them knows the sums of all before. The
/// sums depend on the order of tiles alone, so the packed bytes do too.
///
/// Where a section begins, the streams are filled up to a multiple of 16 bytes
/// and the count of its tiles starts again. What a row of tiles does to the
/// sums x is therefore one of two functions, and those are closed under
/// composition:
///
///   x -> x + first                     no section begins among the tiles
///   x -> align(x + first) + rest       one or several do
///
/// Tiles are taken from a counter in ascending order. Hence every predecessor
/// is done or is being worked on by a resident block, and waiting ends.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_LOOKBACK_CUH
#define DELTA_CODEGEN_DEVICE_LOOKBACK_CUH

#include "codegen/device/SourceArguments.h"
#include "codegen/device/Threads.cuh"

namespace delta::device {

DELTA_HD TileSums operator+(const TileSums &a, const TileSums &b) {
  return {a.numOffsets + b.numOffsets, a.valueBytes + b.valueBytes,
          a.numSent + b.numSent, a.numPresent + b.numPresent};
}

/// The sums at which a section begins whose predecessors end at `sums`.
DELTA_HD TileSums alignedForSection(const TileSums &sums) {
  return {alignPart(sums.numOffsets * 2) / 2, alignPart(sums.valueBytes),
          sums.numSent, 0};
}

/// What some tiles in a row do to the sums.
struct TileSpan {
  TileSums first = {};
  TileSums rest = {};
  bool hasBegin = false; ///< a section begins among them

  DELTA_HD TileSums after(const TileSums &sums) const {
    return hasBegin ? alignedForSection(sums + first) + rest : sums + first;
  }
  /// These tiles, then `next`.
  DELTA_HD TileSpan then(const TileSpan &next) const {
    if (!hasBegin)
      return {first + next.first, next.rest, next.hasBegin};
    return {first, next.after(rest), true};
  }
};

/// What a tile publishes, in one word that is written at once. Status in the
/// lowest bits; a word of zeros says nothing yet.
struct TileWord {
  static constexpr uint64_t HasOwn = 1, HasInclusive = 2, StatusMask = 3;
  static constexpr uint64_t BeginsSection = 4;
  uint64_t bits;

  /// A tile of `sent` elements of `size` bytes, `listed` of them with offsets.
  DELTA_HD static TileWord of(uint32_t listed, uint32_t sent, uint32_t size,
                              bool beginsSection) {
    return {HasOwn | (beginsSection ? BeginsSection : 0) |
            uint64_t(listed) << 3 | uint64_t(sent) << 20 |
            uint64_t(sent * size) << 40};
  }
  DELTA_HD uint32_t listed() const { return uint32_t(bits >> 3 & 0x1ffff); }
  DELTA_HD uint32_t sent() const { return uint32_t(bits >> 20 & 0x1ffff); }
  DELTA_HD uint32_t valueBytes() const { return uint32_t(bits >> 40); }
  DELTA_HD uint64_t status() const { return bits & StatusMask; }
  DELTA_HD bool beginsSection() const { return bits & BeginsSection; }
  DELTA_HD TileSums sums() const {
    return {listed(), valueBytes(), sent(), sent() ? 1u : 0u};
  }
  DELTA_HD TileSpan span() const {
    TileSpan span;
    span.hasBegin = beginsSection();
    (span.hasBegin ? span.rest : span.first) = sums();
    return span;
  }
};

/// Writes a word that others wait for.
__device__ inline void publish(unsigned long long *at, uint64_t bits) {
  *const_cast<volatile unsigned long long *>(at) = bits;
}

/// What a tile has published so far. Reads past the L1 cache.
__device__ inline uint64_t peek(const unsigned long long *at) {
  return *const_cast<const volatile unsigned long long *>(at);
}

__device__ inline TileSums readSums(const TileSums *from) {
  __threadfence(); // not before the word that declares them
  const volatile TileSums *sums = from;
  return {sums->numOffsets, sums->valueBytes, sums->numSent, sums->numPresent};
}

__device__ inline TileSums sumsOfLane(const TileSums &sums, uint32_t lane) {
  return {__shfl_sync(FullWarp, sums.numOffsets, int(lane)),
          __shfl_sync(FullWarp, sums.valueBytes, int(lane)),
          __shfl_sync(FullWarp, sums.numSent, int(lane)),
          __shfl_sync(FullWarp, sums.numPresent, int(lane))};
}

/// The span of the tiles of lanes 0 to `count` - 1, of which lane 0 has the
/// last one, where a section begins among them. All lanes get it.
DELTA_DEVICE_COLD void addSections(TileWord word, uint32_t count,
                                   TileSpan &between) {
  TileSpan span;
  for (uint32_t from = count; from-- > 0;)
    span =
        span.then(TileWord{__shfl_sync(FullWarp, word.bits, int(from))}.span());
  between = span.then(between);
}

/// The same where none begins: the sums alone.
__device__ inline TileSpan spanOfLanes(TileWord word, uint32_t count) {
  bool isIn = threadIdx.x % WarpThreads < count;
  TileSpan span;
  span.first = {
      __reduce_add_sync(FullWarp, isIn ? word.listed() : 0u),
      __reduce_add_sync(FullWarp, isIn ? word.valueBytes() : 0u),
      __reduce_add_sync(FullWarp, isIn ? word.sent() : 0u),
      uint64_t(__popc(__ballot_sync(FullWarp, isIn && word.sent() != 0)))};
  return span;
}

/// Tiles that a lane looks at before it waits for any: as many as run at once
/// on a large GPU are seen in one round trip to memory.
constexpr uint32_t LookBackDepth = 16;

/// Nanoseconds between two looks at a tile that has published nothing. Hundreds
/// of blocks that look at the same few words without a pause keep that part of
/// the L2 cache from the loads that everyone waits for.
constexpr uint32_t LookBackNap = 500;

/// Publishes a tile, and returns the sums at which it begins. `index` counts
/// the tiles of the round. Called by all 32 lanes of one warp.
__device__ inline TileSums lookBack(unsigned long long *words,
                                    TileSums *inclusive, int64_t index,
                                    TileWord own) {
  uint32_t lane = threadIdx.x % WarpThreads;
  if (index > 0 && lane == 0)
    publish(words + index, own.bits);
  TileSpan between; // the tiles from the window to this one
  TileSums before = {};
  bool isKnown = index == 0;
  for (int64_t end = index; !isKnown;
       end -= int64_t(LookBackDepth) * WarpThreads) {
    uint64_t seen[LookBackDepth];
#pragma unroll
    for (uint32_t i = 0; i < LookBackDepth; ++i) {
      // Lane 0 of the first step looks at the nearest predecessor.
      int64_t at = end - 1 - int64_t(i * WarpThreads + lane);
      seen[i] = at >= 0 ? peek(words + at) : TileWord::HasInclusive;
    }
#pragma unroll
    for (uint32_t i = 0; i < LookBackDepth; ++i) {
      if (isKnown)
        continue;
      int64_t at = end - 1 - int64_t(i * WarpThreads + lane);
      TileWord word = {seen[i]};
      uint32_t known, nearest, missing;
      for (;;) {
        known =
            __ballot_sync(FullWarp, word.status() == TileWord::HasInclusive);
        nearest = known ? uint32_t(__ffs(int(known))) - 1 : WarpThreads;
        missing = __ballot_sync(FullWarp, lane < nearest && word.status() == 0);
        if (!missing) // tiles behind one that knows the sums do not matter
          break;
        __nanosleep(LookBackNap);
        if (word.status() == 0)
          word = {peek(words + at)};
      }
      if (__any_sync(FullWarp, lane < nearest && word.beginsSection()))
        addSections(word, nearest, between);
      else
        between = spanOfLanes(word, nearest).then(between);
      if (!known)
        continue;
      isKnown = true;
      TileSums sums = {};
      if (lane == nearest && at >= 0)
        sums = readSums(inclusive + at);
      before = sumsOfLane(sums, nearest);
    }
  }
  before = between.after(before);
  if (own.beginsSection())
    before = alignedForSection(before);
  if (lane == 0) {
    volatile TileSums *to = inclusive + index;
    TileSums sums = before + own.sums();
    to->numOffsets = sums.numOffsets;
    to->valueBytes = sums.valueBytes;
    to->numSent = sums.numSent;
    to->numPresent = sums.numPresent;
    __threadfence();
    publish(words + index,
            (own.bits & ~TileWord::HasOwn) | TileWord::HasInclusive);
  }
  return before;
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_LOOKBACK_CUH
