//===- SegmentCompare.cuh - What changed in a segment -----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A warp finds the changed elements of its segment, in order: each lane forms
/// the mask of the elements that it read, a scan over the lanes gives them
/// their ranks, and a sink takes them.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_SEGMENTCOMPARE_CUH
#define DELTA_CODEGEN_DEVICE_SEGMENTCOMPARE_CUH

#include "codegen/device/BlockSums.cuh"
#include "codegen/device/TileElements.cuh"
#include "codegen/device/VectorMask.h"

namespace delta::device {

/// Keeps changes in the list of the warp, as many as it has room for.
struct ListSink {
  SharedAddress first;
  uint32_t room;

  template <typename Bits>
  __device__ void put(uint32_t rank, uint32_t offset, Bits value) const {
    if (rank < room)
      storeShared(first + rank * 4,
                  sizeof(Bits) == 2 ? offset | uint32_t(value) << 16 : offset);
  }
};

/// Writes changes where they go. Elements are read twice for that: whoever
/// writes them in between, against the rules, gets no more of them into the
/// streams than there is room for.
template <typename Bits> struct StreamSink {
  uint16_t *offsets;
  Bits *values;
  uint32_t end; ///< rank behind those that were found

  __device__ void put(uint32_t rank, uint32_t offset, Bits value) const {
    if (rank >= end)
      return;
    offsets[rank] = uint16_t(offset);
    values[rank] = value;
  }
};

/// Changes of up to 32 elements a lane, from `offset` on, in the order of the
/// lanes. Adds to `count`, which is the same in all lanes; valueAt(bit) is a
/// value.
template <typename Sink, typename ValueAt>
__device__ inline void takeMask(uint32_t mask, uint32_t offset, uint32_t &count,
                                const Sink &sink, const ValueAt &valueAt) {
  const uint32_t own = uint32_t(__popc(int(mask)));
  const uint32_t inclusive = warpInclusive(own);
  uint32_t rank = count + inclusive - own;
  for (; mask; mask &= mask - 1, ++rank) {
    const uint32_t bit = uint32_t(__ffs(int(mask))) - 1;
    sink.put(rank, offset + bit, valueAt(bit));
  }
  count += __shfl_sync(FullWarp, inclusive, WarpThreads - 1);
}

template <typename Elements, typename Bits, typename Sink>
class SegmentCompare : TileElements<Elements, Bits> {
  using Base = TileElements<Elements, Bits>;
  using Base::PerVector;

public:
  /// Element by element, offsets [from, end) of a tile; returns the new count.
  DELTA_DEVICE_COLD static uint32_t elements(const DiffArguments &arguments,
                                             const SourceTile &tile,
                                             const SegmentRuns &runs,
                                             uint32_t from, uint32_t end,
                                             uint32_t count, Sink sink) {
    const Bits *before = Base::snapshotOf(tile);
    for (uint32_t base = from; base < end; base += WarpThreads) {
      const uint32_t offset = base + laneOf();
      Bits now = 0;
      bool differs = false;
      if (offset < end) {
        now = Base::value(arguments, tile, &runs, offset);
        differs = now != before[offset];
      }
      takeOne(differs, offset, now, count, sink);
    }
    return count;
  }

  /// Elements that are marked in a bitmap of the parameters.
  DELTA_DEVICE_COLD static uint32_t
  marked(const DiffArguments &arguments, const SourceTile &tile,
         const SegmentRuns &runs, Segment segment, uint32_t count, Sink sink) {
    const SourceRow &row = arguments.rows[tile.row];
    const uint32_t *bits = arguments.bits[tile.row];
    if (tile.path == ContiguousPath)
      return markedPiece(arguments, tile, bits,
                         row.firstBit +
                             (tile.source - row.source) / int64_t(sizeof(Bits)),
                         segment, count, sink);
    for (uint32_t base = segment.first; base < segment.end();
         base += WarpThreads) {
      const uint32_t offset = base + laneOf();
      bool isMarked = false;
      if (offset < segment.end()) {
        int64_t at = row.firstBit + placeOf(runs, *row.box, offset);
        isMarked = bits[at / 32] >> (at % 32) & 1;
      }
      Bits now = isMarked ? Base::value(arguments, tile, &runs, offset) : 0;
      takeOne(isMarked, offset, now, count, sink);
    }
    return count;
  }

  /// Vectors [0, numVectors) of a segment, read here; for what is rarely done.
  DELTA_DEVICE_COLD static uint32_t
  vectors(const DiffArguments &arguments, const SourceTile &tile,
          const SegmentRuns &runs, Segment segment, uint32_t numVectors,
          uint32_t count, Sink sink) {
    constexpr uint32_t InFlight = 4;
    const Bits *before = Base::snapshotOf(tile);
    for (uint32_t base = 0; base < numVectors; base += InFlight * WarpThreads) {
      uint4 now[InFlight] = {}, old[InFlight] = {};
#pragma unroll
      for (uint32_t i = 0; i < InFlight; ++i) {
        const uint32_t vector = base + i * WarpThreads + laneOf();
        if (vector >= numVectors)
          continue;
        const uint32_t offset = segment.first + vector * PerVector;
        now[i] = __ldcs(Base::vectorAt(arguments, tile, &runs, offset));
        old[i] = __ldcs(reinterpret_cast<const uint4 *>(before + offset));
      }
#pragma unroll
      for (uint32_t i = 0; i < InFlight; ++i)
        takeMask(maskOf<Bits>(now[i], old[i]),
                 segment.first +
                     (base + i * WarpThreads + laneOf()) * PerVector,
                 count, sink,
                 [&](uint32_t bit) { return elementOf<Bits>(now[i], bit); });
    }
    return count;
  }

private:
  /// One element a lane, in the order of the lanes.
  __device__ static void takeOne(bool isTaken, uint32_t offset, Bits value,
                                 uint32_t &count, const Sink &sink) {
    const uint32_t taken = __ballot_sync(FullWarp, isTaken);
    const uint32_t before = taken & ((1u << laneOf()) - 1);
    if (isTaken)
      sink.put(count + uint32_t(__popc(int(before))), offset, value);
    count += uint32_t(__popc(int(taken)));
  }

  /// A word of marks a lane, four in flight; bit `first` is that of offset 0.
  __device__ static uint32_t markedPiece(const DiffArguments &arguments,
                                         const SourceTile &tile,
                                         const uint32_t *bits, int64_t first,
                                         Segment segment, uint32_t count,
                                         const Sink &sink) {
    constexpr uint32_t InFlight = 4, Step = WarpThreads * 32;
    const Bits *now = reinterpret_cast<const Bits *>(tile.source);
    for (uint32_t base = segment.first; base < segment.end();
         base += InFlight * Step) {
      uint32_t words[InFlight];
#pragma unroll
      for (uint32_t i = 0; i < InFlight; ++i)
        words[i] =
            wordOf(bits, first, base + i * Step + laneOf() * 32, segment.end());
#pragma unroll
      for (uint32_t i = 0; i < InFlight; ++i) {
        uint32_t word = words[i], offset = base + i * Step + laneOf() * 32;
        if (!__any_sync(FullWarp, word != 0))
          continue;
        takeMask(word, offset, count, sink,
                 [&](uint32_t bit) { return now[offset + bit]; });
      }
    }
    return count;
  }

  /// The marks of 32 elements from `offset` on, but none from `end` on.
  __device__ static uint32_t wordOf(const uint32_t *bits, int64_t first,
                                    uint32_t offset, uint32_t end) {
    if (offset >= end)
      return 0;
    const int64_t begin = first + offset;
    const uint32_t shift = uint32_t(begin % 32);
    const uint32_t left = end - offset;
    uint32_t word = __ldcs(bits + begin / 32) >> shift;
    if (shift && left > 32 - shift)
      word |= __ldcs(bits + begin / 32 + 1) << (32 - shift);
    return left < 32 ? word & ((1u << left) - 1) : word;
  }
};

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_SEGMENTCOMPARE_CUH
