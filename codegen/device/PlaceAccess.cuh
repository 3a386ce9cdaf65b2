//===- PlaceAccess.cuh - A block's view of a tile in an image ---*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// From an offset of a tile to its element in one image, for each way in which
/// the elements lie there. What is even needs no table; of what is mapped the
/// begins of runs are formed once a tile, in shared memory, a window of them at
/// a time. Device only.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_PLACEACCESS_CUH
#define DELTA_CODEGEN_DEVICE_PLACEACCESS_CUH

#include "codegen/device/DestinationArguments.h"
#include "codegen/device/Threads.cuh"

namespace delta::device {

/// Begins of runs of a mapped tile, those of a window of MaxKeptRuns.
struct PlaceStorage {
  int64_t runBegin[MaxKeptRuns];
  uint64_t multiplier; ///< SmallDivisor of the columns
};

/// Forms the begins of the runs from `firstRun` of a tile. Divides, so it is
/// kept out of what calls it. All threads of the block call it.
DELTA_DEVICE_COLD void keepMappedRuns(PlaceStorage &storage,
                                      const DestinationTile &from,
                                      uint32_t firstRun) {
  const delta_box_t &box = *from.box;
  const Layout layout = Layout::image(*from.image);
  const Tile tile = tileOf(box, from.boxTile);
  const int64_t skipped = tile.firstColumn * layout.step(box);
  __syncthreads(); // those of the window before are done with
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < MaxKeptRuns; i += BlockThreads)
    if (firstRun + i < tile.numRuns)
      storage.runBegin[i] =
          RunCursor(box, tile.firstRun + firstRun + i).begin(layout) + skipped;
  if (threadIdx.x == 0)
    storage.multiplier = SmallDivisor::of(tile.numColumns).multiplier;
  __syncthreads();
}

template <typename Bits> struct ContiguousAccess {
  Bits *to;

  __device__ explicit ContiguousAccess(const DestinationTile &tile)
      : to(reinterpret_cast<Bits *>(tile.to)) {}
  __device__ bool holds(uint32_t) const { return true; }
  __device__ Bits *at(uint32_t offset) const { return to + offset; }
};

template <typename Bits> struct EvenAccess {
  Bits *to;
  int64_t pitch, step;
  SmallDivisor columns;

  __device__ explicit EvenAccess(const DestinationTile &tile)
      : to(reinterpret_cast<Bits *>(tile.to)), pitch(tile.pitch),
        step(tile.step), columns{tile.numColumns, tile.multiplier} {}
  __device__ bool holds(uint32_t) const { return true; }
  __device__ Bits *at(uint32_t offset) const {
    uint32_t run = columns.divide(offset);
    return to + run * pitch + (offset - run * columns.divisor) * step;
  }
};

/// The runs of a window of a mapped tile, which are kept.
template <typename Bits> struct MappedAccess {
  Bits *to;
  const PlaceStorage &storage;
  SmallDivisor columns;
  int64_t step;
  uint32_t firstRun;

  __device__ MappedAccess(const PlaceStorage &storage,
                          const DestinationTile &tile, uint32_t firstRun)
      : to(reinterpret_cast<Bits *>(tile.to)), storage(storage),
        columns{tile.numColumns, storage.multiplier}, step(tile.step),
        firstRun(firstRun) {}
  /// Unsigned, so that runs before the window are out of it too.
  __device__ bool holds(uint32_t offset) const {
    return columns.divide(offset) - firstRun < MaxKeptRuns;
  }
  __device__ Bits *at(uint32_t offset) const {
    uint32_t run = columns.divide(offset);
    return to + storage.runBegin[run - firstRun] +
           (offset - run * columns.divisor) * step;
  }
};

/// Returns visitor.visit<Bits>(staged, access) with what fits a tile that is
/// not mapped.
template <typename Bits, typename Visitor>
__device__ inline uint32_t visitEven(const StagedTile &staged,
                                     const DestinationTile &tile,
                                     const Visitor &visitor) {
  if (tile.path == ContiguousPlace)
    return visitor.template visit<Bits>(staged, ContiguousAccess<Bits>(tile));
  return visitor.template visit<Bits>(staged, EvenAccess<Bits>(tile));
}

/// The same for elements of any size.
template <typename Visitor>
__device__ inline uint32_t visitUnmapped(const StagedTile &staged,
                                         const DestinationTile &tile,
                                         const Visitor &visitor) {
  if (tile.elementSize == 2)
    return visitEven<uint16_t>(staged, tile, visitor);
  if (tile.elementSize == 4)
    return visitEven<uint32_t>(staged, tile, visitor);
  return visitEven<uint64_t>(staged, tile, visitor);
}

/// And for any tile: summed over the windows of runs of a mapped one, for which
/// all threads of the block call it.
template <typename Visitor>
__device__ inline uint32_t
visitElements(PlaceStorage &storage, const StagedTile &staged,
              const DestinationTile &tile, const Visitor &visitor) {
  if (tile.path != MappedPlace)
    return visitUnmapped(staged, tile, visitor);
  uint32_t sum = 0;
  for (uint32_t run = 0; run * tile.numColumns < tile.numElements;
       run += MaxKeptRuns) {
    keepMappedRuns(storage, tile, run);
    if (tile.elementSize == 2)
      sum += visitor.template visit<uint16_t>(
          staged, MappedAccess<uint16_t>(storage, tile, run));
    else if (tile.elementSize == 4)
      sum += visitor.template visit<uint32_t>(
          staged, MappedAccess<uint32_t>(storage, tile, run));
    else
      sum += visitor.template visit<uint64_t>(
          staged, MappedAccess<uint64_t>(storage, tile, run));
  }
  return sum;
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_PLACEACCESS_CUH
