//===- WholeCopy.cuh - Tiles that are all sent whole ------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A warp that copies its segments of all tiles, for a seed or a full sync. The
/// scribe is ahead of it with their places.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_WHOLECOPY_CUH
#define DELTA_CODEGEN_DEVICE_WHOLECOPY_CUH

#include "codegen/device/BlockSums.cuh"
#include "codegen/device/StageRing.cuh"
#include "codegen/device/VectorMask.h"

namespace delta::device {

/// Adds up the checksum terms of values that are copied whole; see
/// SectionPlan::isEven. By one warp.
class ValueSums {
public:
  /// Goes on with a tile. `at`: bytes of the section's values before vector 0.
  __device__ void begin(const DiffArguments &arguments, const TileSlot &slot,
                        uint64_t at) {
    uint64_t *const next = arguments.valueSums && slot.section.isEven
                               ? arguments.valueSums + slot.tile.section
                               : nullptr;
    if (next != to)
      flush();
    to = next;
    const SectionPlan &plan = slot.section;
    // All tiles of the section that are in the round are present.
    const int64_t first = plan.firstTile > arguments.roundBegin
                              ? plan.firstTile
                              : arguments.roundBegin;
    const int64_t end =
        plan.endTile < arguments.roundEnd ? plan.endTile : arguments.roundEnd;
    SectionShape shape = {uint64_t(plan.endTile - plan.firstTile),
                          uint64_t(end - first), 0, 0};
    firstWord = sectionWord(SectionHeaderBytes + shape.valuesBegin() + at);
  }
  __device__ bool isOn() const { return to; }
  /// The weight of the first word of a vector; see checksumTerm.
  __device__ uint64_t weightOf(uint32_t index) const {
    return (firstWord + uint64_t(index) * 2 + 1) * ChecksumStep;
  }
  __device__ void add(const uint4 &vector, uint64_t weight) {
    sum += mix((uint64_t(vector.y) << 32 | vector.x) + weight) +
           mix((uint64_t(vector.w) << 32 | vector.z) + weight + ChecksumStep);
  }
  /// Adds what there is to the section's sum: once for all of its tiles, since
  /// all warps add to the same.
  __device__ void flush() {
    const uint64_t all = warpSum(sum);
    if (to && laneOf() == 0)
      atomicAdd(reinterpret_cast<unsigned long long *>(to),
                (unsigned long long)(all));
    sum = 0;
  }

private:
  uint64_t *to = nullptr;
  uint64_t firstWord = 0;
  uint64_t sum = 0;
};

template <typename Elements> class CopyWorker {
public:
  DELTA_DEVICE_COLD static void run() { CopyWorker().copyAll(); }

private:
  static constexpr uint32_t PerStage = StageRing<true>::PerStage;

  __device__ void copyAll() {
    DiffStorage &storage = diffStorage();
    if (storage.arguments.valueSums && blockIdx.x == 0 && threadIdx.x == 0)
      storage.arguments.totals->hasValueSums = 1;
    for (TileTurn turn;; turn = turn.next()) {
      storage.taken[turn.slot].wait(turn.slotPhase);
      const TileSlot &slot = storage.slots[turn.slot];
      if (slot.isEnd)
        break;
      const TileTurn next = turn.next();
      ring.fill(next);
      storage.free[turn.held].wait(turn.heldPhase);
      forElementsOf<Elements>(slot.tile, [&](auto bits) {
        copy<decltype(bits)>(turn, next, slot);
      });
      __syncwarp();
      if (laneOf() == 0)
        storage.full[turn.held].arrive();
    }
    sums.flush();
  }

  template <typename Bits>
  __device__ void copy(TileTurn turn, TileTurn next, const TileSlot &slot) {
    constexpr uint32_t PerVector = 16 / sizeof(Bits);
    DiffStorage &storage = diffStorage();
    const DiffArguments &arguments = storage.arguments;
    const Segment segment = Segment::of(slot.tile.numElements, warpOf());
    const TileSums before = storage.before[turn.held];
    const bool isSent = storage.found[turn.held].isSent;
    Bits *values =
        reinterpret_cast<Bits *>(arguments.values + before.valueBytes) +
        segment.first;
    sums.begin(arguments, slot,
               before.valueBytes - before.valuesBegin +
                   uint64_t(segment.first) * sizeof(Bits));
    const uint32_t numVectors = ringVectors(arguments, slot, warpOf());
    for (uint32_t base = 0; base < numVectors; base += PerStage) {
      const Stage stage = ring.waitForOwn();
      if (isSent)
        store(stage, base, numVectors, values);
      ring.releaseOwn();
      ring.fill(next);
    }
    if (isSent && numVectors * PerVector < segment.count)
      copyOthers<Bits>(turn, numVectors * PerVector);
  }

  template <typename Bits>
  __device__ void store(const Stage &stage, uint32_t base, uint32_t numVectors,
                        Bits *values) {
    constexpr uint32_t PerVector = 16 / sizeof(Bits);
    const uint32_t first = base + laneOf();
    const bool isAligned = reinterpret_cast<uintptr_t>(values) % 16 == 0;
    if (base + PerStage <= numVectors && isAligned)
      return storeAll(stage, reinterpret_cast<uint4 *>(values) + first,
                      sums.weightOf(first));
    for (uint32_t i = 0; first + i * WarpThreads < numVectors; ++i) {
      const uint4 loaded = loadVector(stage.lane + i * WarpThreads * 16);
      const uint32_t vector = first + i * WarpThreads;
      if (sums.isOn())
        sums.add(loaded, sums.weightOf(vector));
      if (isAligned)
        __stcs(reinterpret_cast<uint4 *>(values) + vector, loaded);
      else
        for (uint32_t j = 0; j < PerVector; ++j)
          values[vector * PerVector + j] = elementOf<Bits>(loaded, j);
    }
  }
  __device__ void storeAll(const Stage &stage, uint4 *to, uint64_t weight) {
    uint4 loaded[2 * LaneVectors];
#pragma unroll
    for (uint32_t i = 0; i < 2 * LaneVectors; ++i)
      loaded[i] = loadVector(stage.lane + i * WarpThreads * 16);
#pragma unroll
    for (uint32_t i = 0; i < 2 * LaneVectors; ++i)
      __stcs(to + i * WarpThreads, loaded[i]);
    if (!sums.isOn())
      return;
#pragma unroll
    for (uint32_t i = 0; i < 2 * LaneVectors; ++i)
      sums.add(loaded[i], weight + i * (2 * WarpThreads * ChecksumStep));
  }

  /// From an offset in the segment to its end.
  template <typename Bits>
  DELTA_DEVICE_COLD static void copyOthers(TileTurn turn, uint32_t from) {
    DiffStorage &storage = diffStorage();
    const DiffArguments &arguments = storage.arguments;
    const TileSlot &slot = storage.slots[turn.slot];
    const Segment segment = Segment::of(slot.tile.numElements, warpOf());
    SegmentRuns &runs = storage.runs[warpOf()];
    using Tile = TileElements<Elements, Bits>;
    if (!Tile::isOnePiece(arguments, slot.tile))
      keepRuns(runs, arguments, slot, segment);
    Bits *values = reinterpret_cast<Bits *>(
        arguments.values + storage.before[turn.held].valueBytes);
    for (uint32_t offset = segment.first + from + laneOf();
         offset < segment.end(); offset += WarpThreads)
      values[offset] = Tile::value(arguments, slot.tile, &runs, offset);
  }

  StageRing</*IsCopy=*/true> ring;
  ValueSums sums;
};

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_WHOLECOPY_CUH
