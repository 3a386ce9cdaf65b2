//===- SegmentWrite.cuh - A worker writes its part of a tile ----*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Tiles that are sent whole, or that change more than a list holds, are read
/// again when their place is known, and written by all workers.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_SEGMENTWRITE_CUH
#define DELTA_CODEGEN_DEVICE_SEGMENTWRITE_CUH

#include "codegen/device/PieceRanks.cuh"
#include "codegen/device/SegmentCompare.cuh"

namespace delta::device {

/// Vectors of a lane that are loaded before the first is stored.
constexpr uint32_t CopiesInFlight = 4;

template <typename Elements, typename Bits>
class SegmentWrite : TileElements<Elements, Bits> {
  using Base = TileElements<Elements, Bits>;
  using Base::PerVector;

public:
  /// Writes the warp's segment of a tile that is sent whole.
  DELTA_DEVICE_COLD static void writeWhole(TileTurn turn) {
    const Segment segment =
        Segment::of(diffStorage().slots[turn.slot].tile.numElements, warpOf());
    const Work work(turn, segment, 0, 0);
    copy(work);
  }

  /// Writes the warp's changes, which are more than its list holds.
  DELTA_DEVICE_COLD static void writeChanges(TileTurn turn) {
    const Pieces pieces = diffStorage().slots[turn.slot].pieces();
    const PieceRanks ranks = PieceRanks::of(turn);
    for (uint32_t i = 0; i < Pieces::MaxOfWarp; ++i) {
      const uint32_t piece = i * NumWorkerWarps + warpOf();
      if (piece < pieces.count())
        compare(Work(turn, pieces[piece], ranks.before[i],
                     ranks.begin[i + 1] - ranks.begin[i]));
    }
  }

  /// The same of changes that are listed without their values.
  DELTA_DEVICE_COLD static void writeListed(TileTurn turn, SharedAddress list) {
    const Pieces pieces = diffStorage().slots[turn.slot].pieces();
    const PieceRanks ranks = PieceRanks::of(turn);
    const Work work(turn, pieces[warpOf()], ranks.before[0], ranks.count());
    for (uint32_t i = laneOf(); i < ranks.count(); i += WarpThreads) {
      const uint32_t offset = loadShared<uint32_t>(list + i * 4) & 0xffff;
      work.sink.put(ranks.of(i), offset,
                    Base::value(work.arguments, work.tile, &work.runs, offset));
    }
  }

private:
  /// A segment and where it goes.
  struct Work {
    __device__ Work(TileTurn turn, Segment segment, uint32_t rank,
                    uint32_t count)
        : arguments(diffStorage().arguments),
          tile(diffStorage().slots[turn.slot].tile),
          runs(diffStorage().runs[warpOf()]), segment(segment), rank(rank) {
      const TileSums &before = diffStorage().before[turn.held];
      sink = {arguments.offsets + before.numOffsets,
              reinterpret_cast<Bits *>(arguments.values + before.valueBytes),
              rank + count};
      if (!Base::isOnePiece(arguments, tile))
        keepRuns(diffStorage().runs[warpOf()], arguments,
                 diffStorage().slots[turn.slot], segment);
    }

    const DiffArguments &arguments;
    const SourceTile &tile;
    const SegmentRuns &runs;
    Segment segment;
    uint32_t rank; ///< changes of the tile before the segment
    StreamSink<Bits> sink;
  };

  __device__ static void compare(const Work &work) {
    using Compare = SegmentCompare<Elements, Bits, StreamSink<Bits>>;
    const Segment segment = work.segment;
    if (work.arguments.mode == DiffBits) {
      Compare::marked(work.arguments, work.tile, work.runs, segment, work.rank,
                      work.sink);
      return;
    }
    const uint32_t numVectors =
        work.tile.path == GeneralPath ? 0 : segment.count / PerVector;
    const uint32_t rank =
        Compare::vectors(work.arguments, work.tile, work.runs, segment,
                         numVectors, work.rank, work.sink);
    Compare::elements(work.arguments, work.tile, work.runs,
                      segment.first + numVectors * PerVector, segment.end(),
                      rank, work.sink);
  }

  __device__ static void copy(const Work &work) {
    Bits *values = work.sink.values;
    uint32_t numVectors = 0;
    // Segments begin at whole vectors of their tile.
    if (reinterpret_cast<uintptr_t>(values) % 16 == 0 &&
        work.tile.path != GeneralPath)
      numVectors = work.segment.count / PerVector;
    auto offsetOf = [&](uint32_t vector) {
      return work.segment.first + vector * PerVector;
    };
    auto load = [&](uint32_t vector) {
      return __ldcs(Base::vectorAt(work.arguments, work.tile, &work.runs,
                                   offsetOf(vector)));
    };
    uint32_t vector = laneOf();
    for (; vector + (CopiesInFlight - 1) * WarpThreads < numVectors;
         vector += CopiesInFlight * WarpThreads) {
      uint4 loaded[CopiesInFlight];
#pragma unroll
      for (uint32_t i = 0; i < CopiesInFlight; ++i)
        loaded[i] = load(vector + i * WarpThreads);
#pragma unroll
      for (uint32_t i = 0; i < CopiesInFlight; ++i)
        store(loaded[i], values + offsetOf(vector + i * WarpThreads));
    }
    for (; vector < numVectors; vector += WarpThreads)
      store(load(vector), values + offsetOf(vector));
    for (uint32_t offset = offsetOf(numVectors) + laneOf();
         offset < work.segment.end(); offset += WarpThreads)
      values[offset] =
          Base::value(work.arguments, work.tile, &work.runs, offset);
  }
  __device__ static void store(const uint4 &vector, Bits *to) {
    __stcs(reinterpret_cast<uint4 *>(to), vector);
  }
};

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_SEGMENTWRITE_CUH
