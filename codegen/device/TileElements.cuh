//===- TileElements.cuh - Elements of a tile, one by one --------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// How the diff finds the elements of a tile at the source. Cold functions are
/// static: they take what they need from shared memory, and no registers of the
/// loops around them.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_TILEELEMENTS_CUH
#define DELTA_CODEGEN_DEVICE_TILEELEMENTS_CUH

#include "codegen/device/DiffStorage.cuh"
#include "codegen/device/ElementList.h"

namespace delta::device {

/// By a warp: finds where the runs of a segment begin.
DELTA_DEVICE_COLD void keepRuns(SegmentRuns &runs,
                                const DiffArguments &arguments,
                                const TileSlot &slot, Segment segment) {
  const SourceRow &row = arguments.rows[slot.tile.row];
  const delta_box_t &box = *row.box;
  const Layout layout = Layout::source(box);
  Tile part = tileOf(box, row.tileBegin + slot.index - row.firstTile);
  SmallDivisor columns = SmallDivisor::of(part.numColumns);
  uint32_t firstRun = columns.divide(segment.first);
  uint32_t numRuns =
      segment.count ? columns.divide(segment.end() - 1) - firstRun + 1 : 0;
  const int64_t firstColumn = part.firstColumn * layout.step(box);
  __syncwarp(); // what was kept is no longer read
  if (laneOf() == 0) {
    runs.columns = columns;
    runs.firstRun = firstRun;
    runs.keeps = numRuns <= MaxSegmentRuns;
    runs.tileRun = part.firstRun;
    runs.firstColumn = firstColumn;
    runs.step = layout.step(box);
    runs.source = row.source;
    runs.size = slot.tile.elementSize;
  }
  for (uint32_t run = laneOf(); numRuns <= MaxSegmentRuns && run < numRuns;
       run += WarpThreads)
    runs.begin[run] =
        beginOfRun(box, layout, part.firstRun + firstRun + run) + firstColumn;
  __syncwarp();
}

/// Element of the parameter at an offset of the tile, in a segment whose runs
/// are kept.
__device__ inline int64_t keptPlaceOf(const SegmentRuns &runs,
                                      uint32_t offset) {
  uint32_t run = runs.columns.divide(offset);
  return runs.begin[run - runs.firstRun] +
         int64_t(offset - run * runs.columns.divisor) * runs.step;
}

/// The same in any segment.
__device__ inline int64_t placeOf(const SegmentRuns &runs,
                                  const delta_box_t &box, uint32_t offset) {
  if (runs.keeps)
    return keptPlaceOf(runs, offset);
  uint32_t run = runs.columns.divide(offset);
  return beginOfRun(box, Layout::source(box), runs.tileRun + run) +
         runs.firstColumn +
         int64_t(offset - run * runs.columns.divisor) * runs.step;
}

template <typename Elements, typename Bits> struct TileElements {
  static_assert(sizeof(Bits) >= 2, "a vector has 8 elements at most");
  /// Elements of a vector of 16 bytes.
  static constexpr uint32_t PerVector = 16 / sizeof(Bits);

  __device__ static const Bits *snapshotOf(const SourceTile &tile) {
    return reinterpret_cast<const Bits *>(tile.snapshot);
  }
  /// Whether the elements are one piece of memory, sent as it is.
  __device__ static bool isOnePiece(const DiffArguments &arguments,
                                    const SourceTile &tile) {
    return arguments.mode == DiffSnapshot || tile.path == ContiguousPath;
  }
  __device__ static const Bits *pieceOf(const DiffArguments &arguments,
                                        const SourceTile &tile) {
    return arguments.mode == DiffSnapshot
               ? snapshotOf(tile)
               : reinterpret_cast<const Bits *>(tile.source);
  }

  /// The value that is sent of one element. `runs`: of the segment with it,
  /// where the tile is not one piece.
  DELTA_DEVICE_COLD static Bits value(const DiffArguments &arguments,
                                      const SourceTile &tile,
                                      const SegmentRuns *runs,
                                      uint32_t offset) {
    if (isOnePiece(arguments, tile))
      return pieceOf(arguments, tile)[offset];
    const SourceRow &row = arguments.rows[tile.row];
    return Bits(Elements::value(row.kernel, row.source,
                                placeOf(*runs, *row.box, offset), row.op));
  }

  /// The vector that begins at an offset; the path is not the general one.
  __device__ static const uint4 *vectorAt(const DiffArguments &arguments,
                                          const SourceTile &tile,
                                          const SegmentRuns *runs,
                                          uint32_t offset) {
    const Bits *from =
        isOnePiece(arguments, tile)
            ? pieceOf(arguments, tile) + offset
            : reinterpret_cast<const Bits *>(arguments.rows[tile.row].source) +
                  keptPlaceOf(*runs, offset);
    return reinterpret_cast<const uint4 *>(from);
  }
};

/// Calls body(a value of the type) for the size of the elements of a tile.
template <typename Elements, typename Body>
__device__ inline void forElementsOf(const SourceTile &tile, const Body &body) {
  if constexpr (Elements::hasSize(2))
    if (tile.elementSize == 2)
      body(uint16_t());
  if constexpr (Elements::hasSize(4))
    if (tile.elementSize == 4)
      body(uint32_t());
  if constexpr (Elements::hasSize(8))
    if (tile.elementSize == 8)
      body(uint64_t());
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_TILEELEMENTS_CUH
