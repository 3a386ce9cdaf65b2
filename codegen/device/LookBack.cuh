//===- LookBack.cuh - Prefix sums across tiles in one pass ------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Decoupled look-back: a tile publishes its own counts at once, then walks
/// back over its predecessors until one of them knows the sum of all before.
/// The sums depend on the order of tiles alone, so the packed bytes do too.
///
/// Tiles are taken from a counter in ascending order. Hence every predecessor
/// is done or is being worked on by a resident block, and waiting ends.
/// Device only.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_LOOKBACK_CUH
#define DELTA_CODEGEN_DEVICE_LOOKBACK_CUH

#include "codegen/device/TileAccess.cuh"

namespace delta::device {

/// What is summed: elements listed with an offset, and elements with a value.
struct TileSums {
  uint64_t numOffsets;
  uint64_t numValues;
};

/// State of a tile; zeroed before the launch.
struct LookBackTile {
  uint32_t status;
  uint32_t reserved;
  TileSums own;       ///< valid from status HasOwn
  TileSums inclusive; ///< of this tile and all before; valid at HasInclusive
};

enum LookBackStatus : uint32_t { HasNothing = 0, HasOwn = 1, HasInclusive = 2 };

/// Stores sums first, then, behind a fence, the status that declares them.
__device__ inline void publish(LookBackTile &tile, TileSums LookBackTile::*slot,
                               const TileSums &sums, LookBackStatus status) {
  volatile TileSums &to = tile.*slot;
  to.numOffsets = sums.numOffsets;
  to.numValues = sums.numValues;
  __threadfence();
  *const_cast<volatile uint32_t *>(&tile.status) = status;
}

/// Waits until a tile has published something. Reads past the L1 cache.
__device__ inline uint32_t waitFor(const LookBackTile &tile) {
  uint32_t status;
  do
    status = *const_cast<const volatile uint32_t *>(&tile.status);
  while (status == HasNothing);
  __threadfence();
  return status;
}

__device__ inline TileSums readSums(const TileSums &from) {
  const volatile TileSums &sums = from;
  return {sums.numOffsets, sums.numValues};
}

__device__ inline uint64_t sumOfWarp(uint64_t value) {
  for (uint32_t step = WarpThreads / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(FullWarp, value, step);
  return value;
}

/// Publishes the sums of `tile` and returns those of all tiles before it.
/// Called by all 32 lanes of one warp.
__device__ inline TileSums lookBack(LookBackTile *tiles, int64_t tile,
                                    const TileSums &own) {
  uint32_t lane = threadIdx.x % WarpThreads;
  if (tile > 0 && lane == 0)
    publish(tiles[tile], &LookBackTile::own, own, HasOwn);
  TileSums before = {0, 0};
  for (int64_t end = tile; end > 0; end -= WarpThreads) {
    // Lane 0 looks at the nearest predecessor.
    int64_t at = end - 1 - lane;
    uint32_t status = at >= 0 ? waitFor(tiles[at]) : HasInclusive;
    uint32_t inclusive = __ballot_sync(FullWarp, status == HasInclusive);
    uint32_t nearest = inclusive ? __ffs(inclusive) - 1 : WarpThreads;
    TileSums part = {0, 0};
    if (at >= 0 && lane <= nearest)
      part = readSums(lane == nearest ? tiles[at].inclusive : tiles[at].own);
    before.numOffsets += sumOfWarp(part.numOffsets);
    before.numValues += sumOfWarp(part.numValues);
    if (inclusive)
      break;
  }
  if (lane == 0)
    publish(
        tiles[tile], &LookBackTile::inclusive,
        {before.numOffsets + own.numOffsets, before.numValues + own.numValues},
        HasInclusive);
  return before;
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_LOOKBACK_CUH
