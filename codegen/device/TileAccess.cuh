//===- TileAccess.cuh - A block's view of one tile --------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What the device kernels share: how a block finds the row of a tile, and how
/// its threads turn an offset in the tile into an element of a parameter.
/// Begins of runs are formed once a tile, in shared memory, so that no thread
/// divides by an extent while it streams. Device only.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_TILEACCESS_CUH
#define DELTA_CODEGEN_DEVICE_TILEACCESS_CUH

#include "codegen/device/IndexFunctions.h"

namespace delta::device {

/// Threads of a block of all kernels, and blocks that shall fit on a
/// multiprocessor: 64 registers a thread.
constexpr uint32_t BlockThreads = 256;
constexpr uint32_t BlocksOfProcessor = 4;
constexpr uint32_t WarpThreads = 32;
constexpr uint32_t FullWarp = 0xffffffffu;

/// Waits for `numThreads` threads of the block at barrier `id`, of 1 to 15.
__device__ inline void syncThreads(uint32_t id, uint32_t numThreads) {
#ifdef DELTA_DEVICE_TEXT
  delta::simt::syncNamed(id, numThreads);
#else
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(numThreads) : "memory");
#endif
}

/// Counts as arrived at a barrier where others wait, and goes on.
__device__ inline void arriveThreads(uint32_t id, uint32_t numThreads) {
#ifdef DELTA_DEVICE_TEXT
  delta::simt::arriveNamed(id, numThreads);
#else
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(numThreads) : "memory");
#endif
}

/// Runs whose begins fit in shared memory: 8 KiB. A tile with more of them has
/// runs of less than 64 elements; its begins are computed where needed.
constexpr uint32_t MaxKeptRuns = 1024;

/// Shared memory of a TileAccess.
struct TileAccessStorage {
  int64_t runBegin[MaxKeptRuns];
};

/// Element at which a run begins. Divides, so it is kept out of the loops that
/// call it.
DELTA_DEVICE_COLD int64_t beginOfRun(const delta_box_t &box,
                                     const Layout &layout, int64_t run) {
  return RunCursor(box, run).begin(layout);
}

/// Places of the elements of one tile in one parameter. Constructed by all
/// threads of a block together.
class TileAccess {
public:
  __device__ TileAccess(TileAccessStorage &storage, const delta_box_t &box,
                        const Tile &tile, const Layout &layout)
      : storage(storage), box(box), tile(tile), layout(layout),
        columns(SmallDivisor::of(tile.numColumns)), step(layout.step(box)),
        keepsRuns(tile.numRuns <= MaxKeptRuns) {
    bool follows = keepsRuns && step == 1;
    if (keepsRuns) {
      for (uint32_t run = threadIdx.x; run < tile.numRuns; run += BlockThreads)
        storage.runBegin[run] = beginOf(run);
      __syncthreads();
      for (uint32_t run = threadIdx.x; run < tile.numRuns; run += BlockThreads)
        follows &= storage.runBegin[run] ==
                   storage.runBegin[0] + int64_t(run) * tile.numColumns;
    }
    contiguous = __syncthreads_and(follows);
  }

  /// True if all elements lie behind each other.
  __device__ bool isContiguous() const { return contiguous; }
  /// Element of the first one.
  __device__ int64_t begin() const {
    return keepsRuns ? storage.runBegin[0] : beginOf(0);
  }

  /// Element at an offset of the tile.
  __device__ int64_t element(uint32_t offset) const {
    uint32_t run = columns.divide(offset);
    int64_t first = keepsRuns ? storage.runBegin[run] : beginOf(run);
    return first + int64_t(offset - run * tile.numColumns) * step;
  }

  /// True if `width` elements from any multiple of `width` lie behind each
  /// other, at multiples of `width` from the parameter's begin.
  __device__ bool hasWideRuns(uint32_t width) const {
    if (contiguous)
      return begin() % width == 0;
    bool wide = keepsRuns && step == 1 && tile.numColumns % width == 0;
    for (uint32_t run = threadIdx.x; wide && run < tile.numRuns;
         run += BlockThreads)
      wide = storage.runBegin[run] % width == 0;
    return __syncthreads_and(wide);
  }

private:
  __device__ int64_t beginOf(uint32_t run) const {
    return beginOfRun(box, layout, tile.firstRun + run) +
           tile.firstColumn * step;
  }

  TileAccessStorage &storage;
  const delta_box_t &box;
  const Tile tile;
  const Layout layout;
  const SmallDivisor columns;
  const int64_t step;
  const bool keepsRuns;
  bool contiguous;
};

/// The last row whose `firstTile` is at most `tile`, found by one warp in steps
/// of 32 rows; all 32 lanes call it and get the same answer. `numRows` > 0.
template <typename RowType>
__device__ inline uint32_t findRow(const RowType *__restrict__ rows,
                                   uint32_t numRows, int64_t tile) {
  uint32_t lane = threadIdx.x % WarpThreads;
  uint32_t begin = 0, size = numRows;
  while (size > 1) {
    uint32_t stride = (size + WarpThreads - 1) / WarpThreads;
    uint32_t probe = begin + lane * stride;
    bool starts = probe < begin + size && rows[probe].firstTile <= tile;
    // Lanes are ascending, so those that start at or before `tile` come first.
    uint32_t last = __popc(__ballot_sync(FullWarp, starts)) - 1;
    uint32_t end = begin + size;
    begin += last * stride;
    size = end - begin < stride ? end - begin : stride;
  }
  return begin;
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_TILEACCESS_CUH
