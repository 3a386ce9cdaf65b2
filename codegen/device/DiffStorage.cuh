//===- DiffStorage.cuh - What a block of the diff shares --------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Shared memory of DiffKernel.cuh, and how its warps share a tile out.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_DIFFSTORAGE_CUH
#define DELTA_CODEGEN_DEVICE_DIFFSTORAGE_CUH

#include "codegen/device/AsyncCopy.cuh"
#include "codegen/device/LookBack.cuh"
#include "codegen/device/SharedBarrier.cuh"

namespace delta::device {

/// Warps that compare; the scribe and the taker follow them.
constexpr uint32_t NumWorkerWarps = 16;
constexpr uint32_t DiffThreads = (NumWorkerWarps + 2) * WarpThreads;
/// Tiles of which the scribe may be behind the workers, and one more.
constexpr uint32_t NumHeld = 3;
/// Tiles that are taken before all workers load the one before. Not more: those
/// of a slow block would be waited for by all others.
constexpr uint32_t NumAhead = 1;
/// Descriptions of tiles that are kept: of those taken, and of those that a
/// slow worker has yet to write.
constexpr uint32_t NumSlots = 16;
static_assert(2 * NumHeld + NumAhead + 2 < NumSlots, "none is in use");

/// A warp's ring: stages of 16-byte vectors of either buffer, so many a lane.
constexpr uint32_t NumStages = 2;
constexpr uint32_t LaneVectors = 4;
constexpr uint32_t StageVectors = LaneVectors * WarpThreads;
constexpr uint32_t StageBytes = StageVectors * 16;
constexpr uint32_t RingBytesOfWarp = NumStages * 2 * StageBytes;
/// Bytes that the rings of a block take of its dynamic shared memory; the lists
/// have the rest.
constexpr uint32_t RingBytes = NumWorkerWarps * RingBytesOfWarp;

/// Elements of a tile are shared out in multiples of this: whole stages of any
/// element size.
constexpr uint32_t SegmentStep = StageBytes / 2;
/// Runs of a segment whose begins are kept: MaxDiffRuns of them in a tile, of
/// MinDiffColumns at least.
constexpr uint32_t MaxSegmentRuns =
    MaxDiffRuns / NumWorkerWarps + SegmentStep / MinDiffColumns + 2;

/// Elements of a tile that follow each other: the part of one warp where a tile
/// is shared out in blocks, one of its pieces where it is striped.
struct Segment {
  uint32_t first;
  uint32_t count;

  DELTA_HD static Segment of(uint32_t numElements, uint32_t warp) {
    constexpr uint32_t Step = NumWorkerWarps * SegmentStep;
    uint32_t most = (numElements + Step - 1) / Step * SegmentStep;
    uint32_t first = warp * most;
    if (first > numElements)
      first = numElements;
    uint32_t left = numElements - first;
    return {first, left < most ? left : most};
  }
  DELTA_HD uint32_t end() const { return first + count; }
};

/// Elements of a piece of a striped tile: what a warp's ring has of it.
constexpr uint32_t StripeStep = NumStages * SegmentStep;

/// How a tile is shared out among the workers: in blocks, one for each, or in
/// stripes that are dealt out in turn, so that what all of them load at a time
/// lies together. The memory answers 2 % faster then.
struct Pieces {
  static constexpr uint32_t MaxOfTile = DELTA_MAX_TILE / StripeStep;
  static constexpr uint32_t MaxOfWarp = MaxOfTile / NumWorkerWarps;

  uint32_t numElements;
  bool isStriped;

  /// Piece `i` is that of warp i % NumWorkerWarps.
  DELTA_HD uint32_t count() const {
    return isStriped ? (numElements + StripeStep - 1) / StripeStep
                     : NumWorkerWarps;
  }
  DELTA_HD Segment operator[](uint32_t piece) const {
    if (!isStriped)
      return Segment::of(numElements, piece);
    const uint32_t first = piece * StripeStep, left = numElements - first;
    return {first, left < StripeStep ? left : StripeStep};
  }
};
static_assert(Pieces::MaxOfTile == NumWorkerWarps * Pieces::MaxOfWarp, "whole");

/// A tile that was taken from the counter.
struct TileSlot {
  SourceTile tile;
  SectionPlan section;
  int64_t index;
  bool isEnd;     ///< there is no tile
  bool isWhole;   ///< sent whole without a look at it
  bool begins;    ///< the section begins with it, or its part in the round
  bool isStriped; ///< see Pieces

  DELTA_HD Pieces pieces() const { return {tile.numElements, isStriped}; }
};

/// What was found in a tile.
struct FoundChanges {
  uint32_t changed;
  bool whole;
  bool isSent; ///< there is something to write, and room for it
};

/// Where the runs of a segment begin.
struct SegmentRuns {
  SmallDivisor columns;
  uint32_t firstRun;   ///< of the tile, in `begin`
  bool keeps;          ///< `begin` is filled
  int64_t tileRun;     ///< run of the box with which the tile begins
  int64_t firstColumn; ///< in elements of the parameter
  int64_t step;
  const uint8_t *source; ///< of the row
  uint32_t size;         ///< bytes of an element
  int64_t begin[MaxSegmentRuns];
};

struct DiffStorage {
  /// A copy: what cold functions are given has an address, and a kernel's
  /// parameters have none.
  DiffArguments arguments;
  SharedBarrier opened[NumSlots]; ///< by all workers
  SharedBarrier taken[NumSlots];  ///< by the taker
  SharedBarrier full[NumHeld];    ///< by all workers
  SharedBarrier free[NumHeld];    ///< by the scribe
  TileSlot slots[NumSlots];
  /// Changes of a warp up to the end of a piece. As long as the tile's slot,
  /// since all workers read all of them.
  uint16_t counts[NumSlots][Pieces::MaxOfTile];
  uint32_t arrivals[NumHeld]; ///< of workers, and what they found: Arrival
  FoundChanges found[NumHeld];
  TileSums before[NumHeld];
  /// Of the segment that is loaded, and of that which is looked at otherwise.
  SegmentRuns loadedRuns[NumWorkerWarps], runs[NumWorkerWarps];
};

/// The storage of the block. A function instead of a reference: whoever holds a
/// reference no longer knows that it is shared memory.
__device__ inline DiffStorage &diffStorage() {
  __shared__ DiffStorage storage;
  return storage;
}

/// The number of a tile of the block as indices and phases of what is kept.
struct TileTurn {
  uint32_t slot = 0, slotPhase = 0;
  uint32_t held = 0, heldPhase = 0;

  __device__ TileTurn next() const {
    TileTurn turn = {slot + 1, slotPhase, held + 1, heldPhase};
    if (turn.slot == NumSlots)
      turn.slot = 0, ++turn.slotPhase;
    if (turn.held == NumHeld)
      turn.held = 0, ++turn.heldPhase;
    return turn;
  }
  /// The tile whose place among the held ones this one takes.
  __device__ TileTurn replaced() const {
    return {(slot + NumSlots - NumHeld) % NumSlots, 0, held, heldPhase - 1};
  }
  __device__ bool operator==(const TileTurn &other) const {
    return slot == other.slot && slotPhase == other.slotPhase;
  }
};

/// Dynamic shared memory: the rings of the warps, then the lists of the
/// segments of the held tiles.
__device__ inline SharedAddress ringOf(uint32_t warp) {
  return dynamicAddress() + warp * RingBytesOfWarp;
}
/// Entries of a segment's list.
__device__ inline uint32_t listRoom() {
  return (dynamicSharedBytes() - RingBytes) /
         uint32_t(NumHeld * NumWorkerWarps * 4);
}
/// Changed elements in order: the offset in the tile in the low 16 bits, a
/// value of 16 bits in the high ones; larger values are read again.
__device__ inline SharedAddress listOf(uint32_t held, uint32_t warp,
                                       uint32_t room) {
  return dynamicAddress() +
         (RingBytes + (held * NumWorkerWarps + warp) * room * 4);
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_DIFFSTORAGE_CUH
