//===- IndexFunctions.h - From a tile to its elements -----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The index functions of a plan, the same text for nvcc and for the host
/// compiler: which runs and columns a tile holds, and where a run begins on
/// either side. Sizes and offsets count elements.
///
/// Worked tile. Box: loops {64, 2048}, tile_runs 32, tile_columns 2048. Tile 1
/// holds runs 32..63, columns 0..2047. Element 5000 of the tile is run
/// 32 + 5000 / 2048 = 34, column 5000 % 2048 = 904; its source element is
/// source_offset + 34 * source_stride[0] + 904.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_INDEXFUNCTIONS_H
#define DELTA_CODEGEN_DEVICE_INDEXFUNCTIONS_H

#include "runtime/delta_abi.h"

/// DELTA_HD_COLD and DELTA_DEVICE_COLD: what hot loops call for few elements;
/// it takes no registers of theirs.
#ifdef __CUDACC__
#define DELTA_HD __host__ __device__ inline
#define DELTA_HD_COLD __host__ __device__ __noinline__ inline
#define DELTA_DEVICE_COLD __device__ __noinline__ inline
#else
#define DELTA_HD inline
#define DELTA_HD_COLD __attribute__((noinline)) inline
#define DELTA_DEVICE_COLD __attribute__((noinline)) inline
#endif

namespace delta::device {

/// Division by a constant of at most 65536 of a number below 65536, by one
/// multiplication. With m = ceil(2^32 / d) the error n * (m - 2^32 / d) stays
/// below 2^16 <= 2^32 / d, so the quotient is exact.
struct SmallDivisor {
  uint32_t divisor;
  uint64_t multiplier;

  DELTA_HD static SmallDivisor of(uint32_t divisor) {
    return {divisor, ((uint64_t(1) << 32) + divisor - 1) / divisor};
  }
  DELTA_HD uint32_t divide(uint32_t value) const {
    return uint32_t((value * multiplier) >> 32);
  }
};

/// The part of a box that one tile holds. Runs count over the outer loops of
/// the box, last one fastest; columns count inside a run.
struct Tile {
  int64_t firstRun;
  int64_t firstColumn;
  uint32_t numRuns;
  uint32_t numColumns;

  DELTA_HD uint32_t numElements() const { return numRuns * numColumns; }
};

/// Number of runs of a box: the product of its outer loops.
DELTA_HD int64_t numRuns(const delta_box_t &box) {
  int64_t runs = 1;
  for (uint32_t loop = 0; loop + 1 < box.num_loops; ++loop)
    runs *= box.extent[loop];
  return runs;
}

/// Length of a run of a box: its innermost loop.
DELTA_HD int64_t numColumns(const delta_box_t &box) {
  return box.extent[box.num_loops - 1];
}

/// The runs and columns of tile `index`; `index` is below box.num_tiles.
DELTA_HD Tile tileOf(const delta_box_t &box, int64_t index) {
  int64_t columns = numColumns(box);
  int64_t tilesAcross = (columns + box.tile_columns - 1) / box.tile_columns;
  int64_t band = index / tilesAcross;
  Tile tile;
  tile.firstRun = band * box.tile_runs;
  tile.firstColumn = (index - band * tilesAcross) * box.tile_columns;
  int64_t runsLeft = numRuns(box) - tile.firstRun;
  int64_t columnsLeft = columns - tile.firstColumn;
  tile.numRuns = uint32_t(runsLeft < box.tile_runs ? runsLeft : box.tile_runs);
  tile.numColumns =
      uint32_t(columnsLeft < box.tile_columns ? columnsLeft : box.tile_columns);
  return tile;
}

/// Number of elements in the tiles before `index`. Tiles lie band by band, so
/// that is all runs of the bands above plus the columns to the left.
DELTA_HD int64_t elementsBefore(const delta_box_t &box, int64_t index) {
  if (index >= box.num_tiles)
    return numRuns(box) * numColumns(box);
  Tile tile = tileOf(box, index);
  return tile.firstRun * numColumns(box) + tile.numRuns * tile.firstColumn;
}

/// Where the elements of a box lie in one parameter: an offset and a stride for
/// each loop of the box.
struct Layout {
  int64_t offset;
  const int64_t *stride;

  DELTA_HD static Layout source(const delta_box_t &box) {
    return {box.source_offset, box.source_stride};
  }
  DELTA_HD static Layout image(const delta_image_t &image) {
    return {image.offset, image.stride};
  }
  /// Distance of two neighbors of a run.
  DELTA_HD int64_t step(const delta_box_t &box) const {
    return stride[box.num_loops - 1];
  }
};

/// Walks the runs of a box in order. Divides once, when it is placed; a box of
/// two loops needs no divide at all.
class RunCursor {
public:
  DELTA_HD RunCursor(const delta_box_t &box, int64_t run) : box(box) {
    place(run);
  }

  DELTA_HD void place(int64_t newRun) {
    run = newRun;
    int64_t rest = newRun;
    for (int loop = int(box.num_loops) - 2; loop > 0; --loop) {
      int64_t above = rest / box.extent[loop];
      index[loop] = rest - above * box.extent[loop];
      rest = above;
    }
    index[0] = box.num_loops > 1 ? rest : 0;
  }

  /// Moves to a later run: step by step when near, else by dividing.
  DELTA_HD void advanceTo(int64_t newRun) {
    if (newRun - run > 4) {
      place(newRun);
      return;
    }
    while (run < newRun)
      next();
  }

  DELTA_HD void next() {
    ++run;
    for (int loop = int(box.num_loops) - 2; loop >= 0; --loop) {
      if (++index[loop] < box.extent[loop] || loop == 0)
        return;
      index[loop] = 0;
    }
  }

  /// Element at which the current run begins.
  DELTA_HD int64_t begin(const Layout &layout) const {
    int64_t element = layout.offset;
    for (uint32_t loop = 0; loop + 1 < box.num_loops; ++loop)
      element += index[loop] * layout.stride[loop];
    return element;
  }

private:
  const delta_box_t &box;
  int64_t run = 0;
  int64_t index[DELTA_MAX_LOOPS] = {};
};

/// Element of one tile offset in a layout; for single elements, not for loops.
DELTA_HD int64_t elementAt(const delta_box_t &box, const Tile &tile,
                           uint32_t offset, const Layout &layout) {
  RunCursor cursor(box, tile.firstRun + offset / tile.numColumns);
  int64_t column = tile.firstColumn + offset % tile.numColumns;
  return cursor.begin(layout) + column * layout.step(box);
}

/// A bijective mixer of 64 bits (the finalizer of splitmix64).
DELTA_HD uint64_t mix(uint64_t value) {
  value ^= value >> 30;
  value *= 0xbf58476d1ce4e5b9u;
  value ^= value >> 27;
  value *= 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

/// Weight of one row or column of a fingerprint. Odd, so that a change of one
/// element always changes the sum.
DELTA_HD uint64_t weight(uint64_t key, int64_t index) {
  return mix(key + uint64_t(index) * 0x9e3779b97f4a7c15u) | 1;
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_INDEXFUNCTIONS_H
