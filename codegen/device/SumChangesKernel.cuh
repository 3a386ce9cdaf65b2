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
/// is needed. Both weights are formed for each element, some 80 instructions,
/// while the old values of four are on their way.
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
  // Where the runs of the tile are equally far from each other, as nearly
  // always: row and column of its first element, and in 32 bits how far the
  // others are from the begin of that row. Else `reciprocal` is 0.
  int64_t row;
  uint32_t column, runStep, columnStep;
  uint32_t reciprocal; ///< 2^32 / numColumns

  __device__ void set(const FingerprintRow &of, int64_t tileOfRank) {
    const Tile tile = tileOf(*of.box, of.tileBegin + tileOfRank - of.firstTile);
    box = of.box;
    neutralStride = of.neutralStride;
    firstRun = tile.firstRun;
    step = neutralStride[box->num_loops - 1];
    firstPlace = of.neutralOffset + tile.firstColumn * step;
    numColumns = of.numColumns;
    keys = of.keys;
    columns = SmallDivisor::of(tile.numColumns);
    setSteps(tile);
  }

private:
  __device__ void setSteps(const Tile &tile) {
    reciprocal = 0;
    int64_t stride = 0;
    if (box->num_loops > 1) {
      const int64_t extent = box->extent[box->num_loops - 2];
      stride = neutralStride[box->num_loops - 2];
      const int64_t run = firstRun - quotient(firstRun, extent) * extent;
      if (run + tile.numRuns > extent)
        return;
    }
    const int64_t first =
        firstPlace + distanceOfRun(*box, neutralStride, firstRun);
    row = quotient(first, numColumns);
    const int64_t rest = first - row * numColumns;
    constexpr int64_t Limit = int64_t(1) << 32;
    if (numColumns < 2 || numColumns >= Limit || stride < 0 || step < 0 ||
        stride >= Limit || step >= Limit ||
        rest + (tile.numRuns - 1) * stride + (tile.numColumns - 1) * step >=
            Limit)
      return;
    column = uint32_t(rest);
    runStep = uint32_t(stride);
    columnStep = uint32_t(step);
    reciprocal = uint32_t(Limit / numColumns);
  }
};

/// Weight of an element of a tile whose runs are not equally far apart.
DELTA_DEVICE_COLD uint64_t weightFar(const SummedTile &tile, uint32_t offset) {
  const uint32_t run = tile.columns.divide(offset);
  const int64_t place =
      tile.firstPlace +
      distanceOfRun(*tile.box, tile.neutralStride, tile.firstRun + run) +
      int64_t(offset - run * tile.columns.divisor) * tile.step;
  const int64_t row = quotient(place, tile.numColumns);
  return weight(tile.keys.row, row) *
         weight(tile.keys.column, place - row * tile.numColumns);
}

/// Weight of an element of a tile.
__device__ inline uint64_t weightAt(const SummedTile &tile, uint32_t offset) {
  if (!tile.reciprocal)
    return weightFar(tile, offset);
  const uint32_t run = tile.columns.divide(offset);
  const uint32_t place =
      tile.column + run * tile.runStep +
      (offset - run * tile.columns.divisor) * tile.columnStep;
  // At most one too small: the reciprocal is by less than 1, `place` < 2^32.
  uint32_t row = __umulhi(place, tile.reciprocal);
  uint32_t column = place - row * uint32_t(tile.numColumns);
  if (column >= uint32_t(tile.numColumns)) {
    ++row;
    column -= uint32_t(tile.numColumns);
  }
  return weight(tile.keys.row, tile.row + row) *
         weight(tile.keys.column, column);
}

/// A lane's part of the changes of a tile; offsets == null: of a whole one;
/// old == null: it was zero. While the weights of some elements are formed,
/// their old values are on their way, and offsets and values of the next ones.
template <typename Bits>
DELTA_DEVICE_COLD uint64_t sumChangesOfLane(const SummedTile &tile,
                                            const uint16_t *offsets,
                                            const Bits *values, uint32_t count,
                                            const Bits *old) {
  constexpr uint32_t AtOnce = 2;
  uint32_t offset[AtOnce];
  Bits value[AtOnce];
  auto load = [&](uint32_t at) {
#pragma unroll
    for (uint32_t i = 0; i < AtOnce; ++i, at += WarpThreads)
      if (at < count) {
        offset[i] = offsets ? offsets[at] : at;
        value[i] = values[at];
      }
  };
  uint64_t sum = 0;
  uint32_t at = laneOf();
  load(at);
  while (at < count) {
    uint32_t places[AtOnce];
    Bits now[AtOnce], before[AtOnce];
#pragma unroll
    for (uint32_t i = 0; i < AtOnce; ++i) {
      const bool isThere = at + i * WarpThreads < count;
      places[i] = isThere ? offset[i] : 0;
      now[i] = isThere ? value[i] : 0;
      before[i] = isThere && old ? old[places[i]] : 0;
    }
    at += AtOnce * WarpThreads;
    load(at);
#pragma unroll
    for (uint32_t i = 0; i < AtOnce; ++i)
      sum += (now[i] - uint64_t(before[i])) * weightAt(tile, places[i]);
  }
  return sum;
}

/// Adds a lane's part, summed over its warp.
__device__ inline void addOfWarp(unsigned long long *to, uint64_t value) {
  for (uint32_t step = WarpThreads / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(FullWarp, value, int(step));
  if (laneOf() == 0 && value)
    atomicAdd(to, (unsigned long long)(value));
}

template <typename Bits>
__device__ inline uint64_t sumSourceTile(const SummedTile &summed,
                                         const SourceSumArguments &arguments,
                                         int64_t index) {
  const AdvanceArguments &changes = arguments.changes;
  const SourceTile tile = changes.tiles[index];
  const Bits *snapshot = reinterpret_cast<const Bits *>(tile.snapshot);
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
  const uint32_t warp = warpOf();
  const AdvanceArguments &changes = arguments.changes;
  for (int64_t index = changes.tileBegin + blockIdx.x * WarpsOfBlock + warp;
       index < changes.tileEnd; index += gridDim.x * WarpsOfBlock) {
    if (!arguments.isFirst && !changes.places[index].changed)
      continue;
    const uint32_t row = changes.tiles[index].row;
    __syncwarp(); // the tile before is done with
    if (laneOf() == 0)
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
