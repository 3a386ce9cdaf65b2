//===- LookBack.cuh - Prefix sums across tiles in one pass ------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Decoupled look-back: a tile publishes what it packs as soon as that is
/// known. To find its place, a warp walks back over its predecessors until one
/// of them knows the sums of all before. The sums depend on the order of tiles
/// alone, so the packed bytes do too.
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
          a.numSent + b.numSent, a.numPresent + b.numPresent,
          a.valuesBegin + b.valuesBegin};
}

/// The sums at which a section begins whose predecessors end at `sums`.
DELTA_HD TileSums alignedForSection(const TileSums &sums) {
  uint64_t valuesBegin = alignPart(sums.valueBytes);
  return {alignPart(sums.numOffsets * 2) / 2, valuesBegin, sums.numSent, 0,
          valuesBegin};
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
    return {listed(), valueBytes(), sent(), sent() ? 1u : 0u, 0};
  }
  DELTA_HD TileSpan span() const {
    TileSpan span;
    span.hasBegin = beginsSection();
    (span.hasBegin ? span.rest : span.first) = sums();
    return span;
  }
};

/// Writes a word that others wait for. What it says is all in the word: no
/// fence is needed, which would wait for every load of the thread.
__device__ inline void publish(unsigned long long *at, uint64_t bits) {
  *const_cast<volatile unsigned long long *>(at) = bits;
}

/// What has been published so far. Reads past the L1 cache.
__device__ inline uint64_t peek(const unsigned long long *at) {
  return *const_cast<const volatile unsigned long long *>(at);
}

/// The sums at the end of a tile, as published: each with a bit that says that
/// it is there.
constexpr uint32_t NumSumWords = sizeof(TileSums) / 8;

/// By a warp. `index`: of the tile.
__device__ inline void publishSums(unsigned long long *inclusive, int64_t index,
                                   const TileSums &sums) {
  const uint64_t values[NumSumWords] = {sums.numOffsets, sums.valueBytes,
                                        sums.numSent, sums.numPresent,
                                        sums.valuesBegin};
  uint64_t own = 0;
#pragma unroll
  for (uint32_t i = 0; i < NumSumWords; ++i)
    own = laneOf() == i ? values[i] : own;
  if (laneOf() < NumSumWords)
    publish(inclusive + index * NumSumWords + laneOf(), own << 1 | 1);
}

/// By a warp: of a tile that has said that it has them.
__device__ inline TileSums awaitSums(const unsigned long long *inclusive,
                                     int64_t index) {
  const uint32_t lane = laneOf();
  uint64_t own;
  do {
    own = lane < NumSumWords ? peek(inclusive + index * NumSumWords + lane) : 1;
  } while (!__all_sync(FullWarp, own & 1));
  own >>= 1;
  return {__shfl_sync(FullWarp, own, 0), __shfl_sync(FullWarp, own, 1),
          __shfl_sync(FullWarp, own, 2), __shfl_sync(FullWarp, own, 3),
          __shfl_sync(FullWarp, own, 4)};
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

/// The words of the predecessors nearest to a tile, as a warp sees them: word
/// `i * WarpThreads + lane` is that of the tile so many before the last one.
class LookBackWindow {
public:
  /// As many as run at once on a large GPU are seen in one round trip.
  static constexpr uint32_t NumGroups = 16;
  static constexpr int64_t NumTiles = int64_t(NumGroups) * WarpThreads;

  /// The tiles before `end`; those before the first one count as known.
  __device__ LookBackWindow(const unsigned long long *words, int64_t end)
      : words(words), last(end - 1 - int64_t(laneOf())) {
#pragma unroll
    for (uint32_t i = 0; i < NumGroups; ++i)
      seen[i].bits = at(i) >= 0 ? peek(words + at(i)) : TileWord::HasInclusive;
  }

  /// Waits until all tiles up to the nearest that knows the sums before it have
  /// published what they pack. Returns whether there is such a tile.
  __device__ bool wait() {
    while (!isComplete()) {
      __nanosleep(LookBackNap);
#pragma unroll
      for (uint32_t i = 0; i < NumGroups; ++i)
        if (seen[i].status() == 0)
          seen[i].bits = peek(words + at(i));
    }
    return group < NumGroups;
  }
  /// That tile, or -1: the sums before are zero.
  __device__ int64_t known() const {
    return last + int64_t(laneOf()) - int64_t(group * WarpThreads + nearest);
  }

  /// The tiles between it and the end, then `next`.
  __device__ TileSpan then(const TileSpan &next) const {
    uint32_t listed = 0, valueBytes = 0, sent = 0, present = 0;
    bool begins = false;
#pragma unroll
    for (uint32_t i = 0; i < NumGroups; ++i) {
      const TileWord word = isIn(i) ? seen[i] : TileWord{0};
      listed += word.listed();
      valueBytes += word.valueBytes();
      sent += word.sent();
      present += word.sent() != 0;
      begins |= word.beginsSection();
    }
    if (__any_sync(FullWarp, begins))
      return thenSections(next);
    TileSpan span;
    span.first = {__reduce_add_sync(FullWarp, listed),
                  __reduce_add_sync(FullWarp, valueBytes),
                  __reduce_add_sync(FullWarp, sent),
                  __reduce_add_sync(FullWarp, present), 0};
    return span.then(next);
  }

private:
  /// Nanoseconds between two looks at a tile that has published nothing.
  /// Hundreds of blocks that look at the same few words without a pause keep
  /// that part of the L2 cache from the loads that everyone waits for.
  static constexpr uint32_t LookBackNap = 200;

  __device__ int64_t at(uint32_t i) const {
    return last - int64_t(i * WarpThreads);
  }
  __device__ bool isIn(uint32_t i) const {
    return i < group || (i == group && laneOf() < nearest);
  }
  __device__ bool isComplete() {
    group = NumGroups;
    nearest = WarpThreads;
    bool isMissing = false;
#pragma unroll
    for (uint32_t i = 0; i < NumGroups; ++i) {
      if (group < NumGroups)
        continue;
      const uint32_t known =
          __ballot_sync(FullWarp, seen[i].status() == TileWord::HasInclusive);
      if (known) {
        group = i;
        nearest = uint32_t(__ffs(int(known))) - 1;
      }
      // Tiles behind one that knows the sums do not matter.
      isMissing |= seen[i].status() == 0 && (!known || laneOf() < nearest);
    }
    return !__any_sync(FullWarp, isMissing);
  }
  __device__ TileSpan thenSections(TileSpan next) const {
#pragma unroll
    for (uint32_t i = 0; i < NumGroups; ++i)
      if (i <= group)
        addSections(seen[i], i == group ? nearest : WarpThreads, next);
    return next;
  }

  const unsigned long long *words;
  int64_t last; ///< tile of the lane in the first group
  TileWord seen[NumGroups];
  uint32_t group = 0, nearest = 0;
};

/// The sums at which a tile begins, which its predecessors have published or
/// will. Publishes those at which it ends. `index` counts the tiles of the
/// round; the tile itself has published `own`. Called by all lanes of one warp.
__device__ inline TileSums lookBack(unsigned long long *words,
                                    unsigned long long *inclusive,
                                    int64_t index, TileWord own) {
  TileSpan between; // the tiles from the window to this one
  TileSums before = {};
  for (int64_t end = index;; end -= LookBackWindow::NumTiles) {
    LookBackWindow window(words, end);
    const bool isKnown = window.wait();
    between = window.then(between);
    if (!isKnown)
      continue;
    if (window.known() >= 0)
      before = awaitSums(inclusive, window.known());
    break;
  }
  before = between.after(before);
  if (own.beginsSection())
    before = alignedForSection(before);
  publishSums(inclusive, index, before + own.sums());
  if (laneOf() == 0)
    publish(words + index,
            (own.bits & ~TileWord::HasOwn) | TileWord::HasInclusive);
  return before;
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_LOOKBACK_CUH
