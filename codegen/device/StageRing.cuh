//===- StageRing.cuh - Both buffers on their way to a warp ------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The stages of a warp's ring in shared memory. They are filled in the order
/// of tiles, beyond the end of the present one: so that loads never stop.
///
/// Vectors come in the order of the lanes, and each lane reads LaneVectors
/// neighbors. For neither to meet a bank twice, vector v lies at v with its two
/// low bits exchanged by bits 3 and 4 of v.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_STAGERING_CUH
#define DELTA_CODEGEN_DEVICE_STAGERING_CUH

#include "codegen/device/TileElements.cuh"

namespace delta::device {

/// Vectors that come through the ring of a warp of a tile; of the last piece,
/// those that are whole.
DELTA_HD uint32_t ringVectors(const DiffArguments &arguments,
                              const TileSlot &slot, uint32_t warp) {
  const SourceTile &tile = slot.tile;
  bool isElsewhere =
      isCopy(arguments.mode)
          ? tile.path == GeneralPath && arguments.mode != DiffSnapshot
          : slot.isWhole || arguments.mode == DiffBits ||
                tile.path == GeneralPath;
  if (isElsewhere)
    return 0;
  if (!slot.isStriped)
    return Segment::of(tile.numElements, warp).count * tile.elementSize / 16;
  constexpr uint32_t OfPiece = NumStages * StageVectors;
  const uint32_t all = tile.numElements * tile.elementSize / 16;
  const uint32_t last = all / OfPiece % NumWorkerWarps;
  const uint32_t rest = warp < last    ? OfPiece
                        : warp == last ? all % OfPiece
                                       : 0;
  return all / (NumWorkerWarps * OfPiece) * OfPiece + rest;
}

/// What a lane reads of a stage.
struct Stage {
  SharedAddress lane; ///< of the lane's vectors of the parameter

  /// Where vector `i` of the lane's is; the snapshot's StageBytes further.
  __device__ SharedAddress vector(uint32_t i) const {
    return lane + (i ^ laneOf() / 2 % 4) * 16;
  }
  /// Element `i` of the lane's, of the parameter.
  template <typename Bits> __device__ Bits element(uint32_t i) const {
    constexpr uint32_t PerVector = 16 / sizeof(Bits);
    return loadShared<Bits>(vector(i / PerVector) +
                            i % PerVector * uint32_t(sizeof(Bits)));
  }
};

/// The ring of a warp. `IsCopy`: there is no snapshot, and the parameters have
/// its room.
template <bool IsCopy> class StageRing {
public:
  /// Vectors of a stage of the parameters.
  static constexpr uint32_t PerStage = (IsCopy ? 2 : 1) * StageVectors;

  __device__ StageRing()
      : policy(evictFirst()),
        to(ringOf(warpOf()) + (laneOf() ^ laneOf() / 8 % 4) * 16),
        from(ringOf(warpOf()) + laneOf() * LaneVectors * 16) {}

  /// Fills the free stages, with tiles up to `last`.
  __device__ void fill(TileTurn last) {
    while (inFlight < NumStages && load(last)) {
    }
  }

  /// The oldest stage.
  __device__ Stage wait() {
    waitForOldest();
    __syncwarp();
    return {from + readAt};
  }
  /// The oldest stage is done with.
  __device__ void release() {
    __syncwarp();
    releaseOwn();
  }

  /// The same where each lane reads what it copied itself, vectors WarpThreads
  /// apart.
  __device__ Stage waitForOwn() {
    waitForOldest();
    return {to + readAt};
  }
  __device__ void releaseOwn() {
    readAt = after(readAt);
    --inFlight;
  }

private:
  __device__ void waitForOldest() const {
    static_assert(NumStages == 2, "as below");
    if (inFlight == 2)
      waitForCopies<1>();
    else
      waitForCopies<0>();
  }
  __device__ static uint32_t after(uint32_t at) {
    return at + 2 * StageBytes < RingBytesOfWarp ? at + 2 * StageBytes : 0;
  }

  __device__ bool load(TileTurn last) {
    if (numVectors < PerStage || byRuns)
      return loadOther(last);
    const SharedAddress at = to + loadAt;
#pragma unroll
    for (uint32_t i = 0; i < LaneVectors; ++i)
      copy(at + i * WarpThreads * 16, now + position + i * WarpThreads * 16);
    const uint8_t *others = IsCopy ? now + StageBytes : before;
#pragma unroll
    for (uint32_t i = 0; i < LaneVectors; ++i)
      copy(at + (StageBytes + i * WarpThreads * 16),
           others + position + i * WarpThreads * 16);
    numVectors -= PerStage;
    advance();
    return true;
  }
  /// What is compared is not read again soon. What is copied was not faster so.
  __device__ void copy(SharedAddress at, const uint8_t *source) const {
    if (IsCopy)
      copyAsync(at, source);
    else
      copyAsync(at, source, policy);
  }
  __device__ void advance() {
    commitCopies();
    position += PerStage * 16;
    if (!IsCopy && isStriped && position % StripeBytes == 0) // others' follow
      position += (NumWorkerWarps - 1) * StripeBytes;
    loadAt = after(loadAt);
    ++inFlight;
  }

  /// The end of a tile, or runs, or the next tile.
  __device__ bool loadOther(TileTurn last) {
    while (numVectors == 0) {
      if (isEnd || (hasTile && turn == last))
        return false;
      turn = hasTile ? turn.next() : TileTurn();
      hasTile = true;
      open();
    }
    if (numVectors >= PerStage && !byRuns)
      return load(last);
    const uint32_t count = numVectors < PerStage ? numVectors : PerStage;
    copyPart(to + loadAt, now + position, IsCopy ? nullptr : before + position,
             byRuns ? offset : NoRuns, count);
    offset += PerStage * perVector;
    numVectors -= count;
    advance();
    return true;
  }

  /// Some vectors; what lies behind them stays as it is. `before`: null where
  /// there is no snapshot.
  DELTA_DEVICE_COLD static void copyPart(SharedAddress at, const uint8_t *now,
                                         const uint8_t *before, uint32_t offset,
                                         uint32_t count) {
    for (uint32_t i = 0; i * WarpThreads + laneOf() < count; ++i) {
      const uint8_t *source = now + i * WarpThreads * 16;
      if (offset != NoRuns)
        source = ofRuns(offset, i * WarpThreads + laneOf());
      copyAsync(at + i * WarpThreads * 16, source);
      if (before)
        copyAsync(at + (StageBytes + i * WarpThreads * 16),
                  before + i * WarpThreads * 16);
    }
  }
  __device__ static const uint8_t *ofRuns(uint32_t offset, uint32_t vector) {
    const SegmentRuns &runs = diffStorage().loadedRuns[warpOf()];
    return runs.source +
           keptPlaceOf(runs, offset + vector * 16 / runs.size) * runs.size;
  }

  /// Begins with the warp's part of a tile.
  __device__ void open() {
    DiffStorage &storage = diffStorage();
    storage.taken[turn.slot].wait(turn.slotPhase);
    const TileSlot &slot = storage.slots[turn.slot];
    isEnd = slot.isEnd;
    if (isEnd)
      return;
    if (laneOf() == 0)
      storage.opened[turn.slot].arrive();
    const DiffArguments &arguments = storage.arguments;
    const Segment segment = slot.pieces()[warpOf()];
    numVectors = ringVectors(arguments, slot, warpOf());
    byRuns = false;
    if (!numVectors) // it may have no address, either
      return;
    const bool ofSnapshot = IsCopy && arguments.mode == DiffSnapshot;
    isStriped = slot.isStriped;
    byRuns = slot.tile.path == RunsPath && !ofSnapshot;
    position = segment.first * slot.tile.elementSize;
    offset = segment.first;
    if (!IsCopy || ofSnapshot)
      before = slot.tile.snapshot + laneOf() * 16;
    if (ofSnapshot)
      now = before;
    else if (!byRuns) // else each vector has its own place
      now = slot.tile.source + laneOf() * 16;
    if (!byRuns)
      return;
    now = arguments.rows[slot.tile.row].source;
    perVector = 16 / slot.tile.elementSize;
    keepRuns(storage.loadedRuns[warpOf()], arguments, slot, segment);
  }

  static constexpr uint32_t NoRuns = ~0u, StripeBytes = StripeStep * 2;
  uint64_t policy;
  SharedAddress to, from; ///< of the lane in the first stage
  uint32_t inFlight = 0, loadAt = 0, readAt = 0;
  /// What is loaded next: so many vectors of a tile, from a byte of it on.
  uint32_t numVectors = 0, position = 0;
  const uint8_t *now = nullptr, *before = nullptr; ///< of the lane in the tile
  TileTurn turn;
  bool hasTile = false, isEnd = false, byRuns = false, isStriped = false;
  uint32_t perVector = 8, offset = 0;
};

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_STAGERING_CUH
