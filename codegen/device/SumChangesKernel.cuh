//===- SumChangesKernel.cuh - Fingerprints follow a delta -------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Adds (new - old) x a(row) x b(column) of each packed element to the sum of
/// its row, so that sums are kept without reading what did not change. A warp
/// takes a tile: at 1 % a tile of 65,536 has 20 elements a lane, and no barrier
/// is needed. Both weights are formed for each element, some 120 instructions,
/// which the reads of the old values hide.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_SUMCHANGESKERNEL_CUH
#define DELTA_CODEGEN_DEVICE_SUMCHANGESKERNEL_CUH

#include "codegen/device/FingerprintKernel.cuh"

namespace delta::device {

/// A tile whose changes a warp sums up; in shared memory, so that it costs no
/// registers.
struct SummedTile {
  const delta_box_t *box;
  const int64_t *neutralStride;
  int64_t firstRun;
  int64_t firstPlace; ///< of run 0 at the first column, in the neutral tensor
  int64_t step;       ///< from column to column there
  int64_t numColumns; ///< there
  FingerprintKeys keys;
  SmallDivisor columns; ///< of the tile

  __device__ void set(const FingerprintRow &row, int64_t tileOfRank) {
    const Tile tile =
        tileOf(*row.box, row.tileBegin + tileOfRank - row.firstTile);
    box = row.box;
    neutralStride = row.neutralStride;
    firstRun = tile.firstRun;
    step = neutralStride[box->num_loops - 1];
    firstPlace = row.neutralOffset + tile.firstColumn * step;
    numColumns = row.numColumns;
    keys = row.keys;
    columns = SmallDivisor::of(tile.numColumns);
  }
};

/// Weight of an element of a tile.
__device__ inline uint64_t weightAt(const SummedTile &tile, uint32_t offset) {
  const uint32_t run = tile.columns.divide(offset);
  const int64_t place =
      tile.firstPlace +
      distanceOfRun(*tile.box, tile.neutralStride, tile.firstRun + run) +
      int64_t(offset - run * tile.columns.divisor) * tile.step;
  const int64_t row = quotient(place, tile.numColumns);
  return weight(tile.keys.row, row) *
         weight(tile.keys.column, place - row * tile.numColumns);
}

/// A lane's part of the changes of a tile; offsets == null: of a whole one;
/// old == null: it was zero. While the weights of an element are formed, the
/// old value of the next one is on its way, and offset and value of the one
/// after.
template <typename Bits>
DELTA_DEVICE_COLD uint64_t sumChangesOfLane(const SummedTile &tile,
                                            const uint16_t *offsets,
                                            const Bits *values, uint32_t count,
                                            const Bits *old) {
  struct Entry {
    uint32_t offset = 0;
    Bits value = 0, before = 0;
  } entry, next, after;
  auto load = [&](Entry &to, uint32_t at) {
    if (at >= count)
      return;
    to.offset = offsets ? offsets[at] : at;
    to.value = values[at];
  };
  auto loadOld = [&](Entry &to, uint32_t at) {
    if (at < count && old)
      to.before = old[to.offset];
  };
  uint64_t sum = 0;
  uint32_t at = threadIdx.x % WarpThreads;
  load(entry, at);
  load(next, at + WarpThreads);
  loadOld(entry, at);
  for (; at < count; at += WarpThreads) {
    loadOld(next, at + WarpThreads);
    load(after, at + 2 * WarpThreads);
    if (uint64_t change = entry.value - uint64_t(entry.before))
      sum += change * weightAt(tile, entry.offset);
    entry = next;
    next = after;
  }
  return sum;
}

/// Adds a lane's part, summed over its warp.
__device__ inline void addOfWarp(unsigned long long *to, uint64_t value) {
  for (uint32_t step = WarpThreads / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(FullWarp, value, int(step));
  if (threadIdx.x % WarpThreads == 0 && value)
    atomicAdd(to, (unsigned long long)(value));
}

template <typename Bits>
__device__ inline uint64_t sumSourceTile(const SummedTile &summed,
                                         const SourceSumArguments &arguments,
                                         int64_t index) {
  const AdvanceArguments &changes = arguments.changes;
  const SourceTile tile = changes.tiles[index];
  const Bits *snapshot =
      reinterpret_cast<const Bits *>(tile.snapshot + changes.snapshotShift);
  const bool isFirst = arguments.isFirst;
  TilePlace place = {};
  if (!isFirst)
    place = changes.places[index];
  const bool isSparse = !isFirst && !place.isDense;
  return sumChangesOfLane(
      summed, isSparse ? changes.offsets + place.offsetsAt : nullptr,
      isFirst ? snapshot
              : reinterpret_cast<const Bits *>(changes.values + place.valuesAt),
      isSparse ? place.changed : tile.numElements,
      isFirst ? nullptr : snapshot);
}

/// Body of the kernel.
template <typename Elements>
__device__ inline void sumSource(const SourceSumArguments &arguments) {
  constexpr uint32_t WarpsOfBlock = FingerprintThreads / WarpThreads;
  __shared__ SummedTile summed[WarpsOfBlock];
  const uint32_t warp = threadIdx.x / WarpThreads;
  const AdvanceArguments &changes = arguments.changes;
  for (int64_t index = changes.tileBegin + blockIdx.x * WarpsOfBlock + warp;
       index < changes.tileEnd; index += gridDim.x * WarpsOfBlock) {
    if (!arguments.isFirst && !changes.places[index].changed)
      continue;
    const uint32_t row = changes.tiles[index].row;
    __syncwarp(); // the tile before is done with
    if (threadIdx.x % WarpThreads == 0)
      summed[warp].set(arguments.rows[row], index);
    __syncwarp();
    const uint32_t size = changes.tiles[index].elementSize;
    uint64_t sum = 0;
    if constexpr (Elements::hasSize(2))
      if (size == 2)
        sum = sumSourceTile<uint16_t>(summed[warp], arguments, index);
    if constexpr (Elements::hasSize(4))
      if (size == 4)
        sum = sumSourceTile<uint32_t>(summed[warp], arguments, index);
    if constexpr (Elements::hasSize(8))
      if (size == 8)
        sum = sumSourceTile<uint64_t>(summed[warp], arguments, index);
    addOfWarp(arguments.sums + row, sum);
  }
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_SUMCHANGESKERNEL_CUH
