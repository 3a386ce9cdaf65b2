//===- MarkKernel.cuh - Marks that are taken and given back -----*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Clears the marks of what was packed, sets them again where it did not
/// arrive, and clears those of other ranks' tiles. A warp works on a tile at a
/// time; two tiles may share a word, so what does not own all of it changes it
/// atomically.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_MARKKERNEL_CUH
#define DELTA_CODEGEN_DEVICE_MARKKERNEL_CUH

#include "codegen/device/BitmapArguments.h"
#include "codegen/device/Threads.cuh"

namespace delta::device {

constexpr uint32_t WordBits = 32;
/// Marks that are read and cleared at a time.
constexpr uint32_t VectorBits = 128;

/// Bits of word `word` that lie in [begin, end).
__device__ inline uint32_t maskOfWord(int64_t word, int64_t begin,
                                      int64_t end) {
  int64_t first = begin - word * WordBits, last = end - word * WordBits;
  if (last <= 0 || first >= int64_t(WordBits))
    return 0;
  uint32_t mask = first > 0 ? ~0u << first : ~0u;
  return last < int64_t(WordBits) ? mask & ((1u << last) - 1) : mask;
}

/// Clears some bits of a word that others may own too; whether one was set.
__device__ inline bool clearBits(uint32_t *word, uint32_t mask) {
  if (!(*word & mask))
    return false;
  atomicAnd(word, ~mask);
  return true;
}

/// Vectors that a thread has in flight.
constexpr uint32_t VectorsInFlight = 4;

/// Clears vectors of marks, by a warp; whether the thread found one set.
__device__ inline bool clearVectors(uint4 *vectors, int64_t count) {
  bool any = false;
  for (int64_t base = laneOf(); base < count;
       base += VectorsInFlight * WarpThreads) {
    uint4 old[VectorsInFlight];
#pragma unroll
    for (uint32_t i = 0; i < VectorsInFlight; ++i)
      old[i] = base + i * WarpThreads < count ? vectors[base + i * WarpThreads]
                                              : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (uint32_t i = 0; i < VectorsInFlight; ++i) {
      if (!(old[i].x | old[i].y | old[i].z | old[i].w))
        continue;
      vectors[base + i * WarpThreads] = make_uint4(0, 0, 0, 0);
      any = true;
    }
  }
  return any;
}

/// Clears marks [begin, end), by a warp; whether the thread found one set.
__device__ inline bool clearSpan(uint32_t *marks, int64_t begin, int64_t end) {
  constexpr int64_t Words = VectorBits / WordBits;
  // Whole vectors [first, last); none where these meet or cross.
  const int64_t first = (begin + VectorBits - 1) / VectorBits;
  const int64_t last = end / VectorBits;
  bool any = false;
  if (first < last)
    any = clearVectors(reinterpret_cast<uint4 *>(marks + first * Words),
                       last - first);
  // The words before and behind, of two vectors at most.
  const int64_t firstWord = begin / WordBits;
  const int64_t endWord = (end + WordBits - 1) / WordBits;
  const int64_t skipped = first < last ? (last - first) * Words : 0;
  int64_t word = firstWord + laneOf();
  if (first < last && word >= first * Words)
    word += skipped;
  if (word < endWord)
    any |= clearBits(marks + word, maskOfWord(word, begin, end));
  return any;
}

/// Clears the marks of a tile run by run, by a warp; whether the thread found
/// one set.
DELTA_DEVICE_COLD bool clearRuns(uint32_t *marks, const delta_box_t &box,
                                 int64_t firstBit, int64_t boxTile) {
  const Tile tile = tileOf(box, boxTile);
  const Layout layout = Layout::source(box);
  const int64_t step = layout.step(box);
  bool any = false;
  for (uint32_t run = 0; run < tile.numRuns; ++run) {
    int64_t begin = firstBit + beginOfRun(box, layout, tile.firstRun + run) +
                    tile.firstColumn * step;
    if (step == 1) {
      any |= clearSpan(marks, begin, begin + tile.numColumns);
      continue;
    }
    for (uint32_t i = laneOf(); i < tile.numColumns; i += WarpThreads) {
      int64_t bit = begin + i * step;
      any |= clearBits(marks + bit / WordBits, 1u << bit % WordBits);
    }
  }
  return any;
}

/// Calls body(index) for the numbers in [begin, end) that are the warp's.
template <typename Body>
__device__ inline void forEachOfWarp(int64_t begin, int64_t end,
                                     const Body &body) {
  constexpr uint32_t WarpsOfBlock = BlockThreads / WarpThreads;
  for (int64_t index = begin + int64_t(blockIdx.x) * WarpsOfBlock + warpOf();
       index < end; index += int64_t(gridDim.x) * WarpsOfBlock)
    body(index);
}

/// The mark of the first element of a contiguous tile.
__device__ inline int64_t firstMark(const SourceTile &tile,
                                    const SourceRow &row) {
  return row.firstBit + (tile.source - row.source) / tile.elementSize;
}

/// Body of the kernel; any number of blocks.
template <typename Elements>
__device__ inline void takeMarks(const TakeArguments &arguments) {
  if (arguments.totals->overflowed)
    return;
  if (!arguments.unsure && blockIdx.x == 0 && threadIdx.x == 0)
    *arguments.taken = {arguments.tileBegin, arguments.tileEnd,
                        ++*arguments.numTaken, 0};
  const MarkedTiles &of = arguments.of;
  forEachOfWarp(arguments.tileBegin, arguments.tileEnd, [&](int64_t index) {
    if (!of.places[index].changed)
      return;
    const SourceTile tile = of.tiles[index];
    uint32_t *marks = of.marks[tile.row];
    if (marks == of.ones)
      return;
    const SourceRow &row = of.rows[tile.row];
    bool any;
    if (tile.path == ContiguousPath) {
      int64_t first = firstMark(tile, row);
      any = clearSpan(marks, first, first + tile.numElements);
    } else {
      any = clearRuns(marks, *row.box, row.firstBit,
                      row.tileBegin + index - row.firstTile);
    }
    if (arguments.unsure && any)
      arguments.unsure[index] = 1; // by all that found one
  });
}

/// Marks the elements of a sparse tile.
__device__ inline void restoreTile(const RestoreArguments &arguments,
                                   int64_t index, const SourceTile &tile,
                                   const TilePlace &place) {
  const SourceRow &row = arguments.of.rows[tile.row];
  uint32_t *marks = arguments.of.marks[tile.row];
  const uint16_t *offsets = arguments.offsets + place.offsetsAt;
  const bool follow = tile.path == ContiguousPath;
  Tile part = {};
  if (!follow)
    part = tileOf(*row.box, row.tileBegin + index - row.firstTile);
  for (uint32_t i = laneOf(); i < place.changed; i += WarpThreads) {
    int64_t bit = follow ? firstMark(tile, row) + offsets[i]
                         : row.firstBit + elementAt(*row.box, part, offsets[i],
                                                    Layout::source(*row.box));
    atomicOr(marks + bit / WordBits, 1u << bit % WordBits);
  }
}

/// Body of the kernel; any number of blocks.
template <typename Elements>
__device__ inline void restoreMarks(const RestoreArguments &arguments) {
  const TakenTiles taken = *arguments.taken;
  __shared__ bool isConfirmed; // memory of the host: read once a block
  if (threadIdx.x == 0)
    isConfirmed = taken.number == arguments.orders->confirmed;
  __syncthreads();
  if (isConfirmed)
    return;
  forEachOfWarp(taken.begin, taken.end, [&](int64_t index) {
    const TilePlace place = arguments.of.places[index];
    if (!place.changed)
      return;
    const SourceTile tile = arguments.of.tiles[index];
    if (arguments.of.marks[tile.row] == arguments.of.ones)
      return;
    if (arguments.offsets && !place.isDense)
      restoreTile(arguments, index, tile, place);
    else
      arguments.unsure[index] = 1; // by all threads
  });
}

/// Body of the kernel; any number of blocks.
template <typename Elements>
__device__ inline void dropMarks(const DropArguments &arguments) {
  forEachOfWarp(0, arguments.numTiles, [&](int64_t index) {
    int64_t low = 0; // the last row that begins at `index` or before
    for (int64_t end = arguments.numRows; end - low > 1;) {
      int64_t middle = low + (end - low) / 2;
      (arguments.rows[middle].firstIndex <= index ? low : end) = middle;
    }
    const OtherRow row = arguments.rows[low];
    clearRuns(row.marks, *row.box, row.firstBit,
              row.tileBegin + index - row.firstIndex);
  });
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_MARKKERNEL_CUH
