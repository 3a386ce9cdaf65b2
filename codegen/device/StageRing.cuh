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

/// Vectors of a segment that come through the ring.
DELTA_HD uint32_t ringVectors(const DiffArguments &arguments,
                              const TileSlot &slot, Segment segment) {
  bool isElsewhere =
      isCopy(arguments.mode)
          ? slot.tile.path == GeneralPath && arguments.mode != DiffSnapshot
          : slot.isWhole || arguments.mode == DiffBits ||
                slot.tile.path == GeneralPath;
  return isElsewhere ? 0 : segment.count * slot.tile.elementSize / 16;
}

/// Vectors of a stage that are copied, instead of compared.
constexpr uint32_t CopyStageVectors = 2 * StageVectors;

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

class StageRing {
public:
  __device__ StageRing()
      : policy(evictFirst()),
        to(ringOf(warpOf()) + (laneOf() ^ laneOf() / 8 % 4) * 16),
        from(ringOf(warpOf()) + laneOf() * LaneVectors * 16) {}

  /// A ring without a snapshot: a stage has CopyStageVectors of the parameters.
  __device__ static StageRing ofCopies() {
    StageRing ring;
    ring.perStage = CopyStageVectors;
    return ring;
  }

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
    if (numVectors < perStage || byRuns)
      return loadOther(last);
    const SharedAddress at = to + loadAt;
#pragma unroll
    for (uint32_t i = 0; i < LaneVectors; ++i)
      copyAsync(at + i * WarpThreads * 16, now + i * WarpThreads * 16, policy);
#pragma unroll
    for (uint32_t i = 0; i < LaneVectors; ++i)
      copyAsync(at + (StageBytes + i * WarpThreads * 16),
                before + i * WarpThreads * 16, policy);
    numVectors -= perStage;
    advance();
    return true;
  }
  __device__ void advance() {
    commitCopies();
    now += perStage * 16;
    before += perStage * 16;
    loadAt = after(loadAt);
    ++inFlight;
  }

  /// The end of a segment, or runs, or the next tile.
  __device__ bool loadOther(TileTurn last) {
    while (numVectors == 0) {
      if (isEnd || (hasTile && turn == last))
        return false;
      turn = hasTile ? turn.next() : TileTurn();
      hasTile = true;
      open();
    }
    if (numVectors >= perStage && !byRuns)
      return load(last);
    const uint32_t count = numVectors < perStage ? numVectors : perStage;
    copyPart(to + loadAt, now, perStage == StageVectors ? before : nullptr,
             byRuns ? offset : NoRuns, count, policy);
    offset += perStage * perVector;
    numVectors -= count;
    advance();
    return true;
  }

  /// Some vectors; what lies behind them stays as it is. `before`: null where
  /// there is no snapshot.
  DELTA_DEVICE_COLD static void copyPart(SharedAddress at, const uint8_t *now,
                                         const uint8_t *before, uint32_t offset,
                                         uint32_t count, uint64_t policy) {
    for (uint32_t i = 0; i * WarpThreads + laneOf() < count; ++i) {
      const uint8_t *source = now + i * WarpThreads * 16;
      if (offset != NoRuns)
        source = ofRuns(offset, i * WarpThreads + laneOf());
      copyAsync(at + i * WarpThreads * 16, source, policy);
      if (before)
        copyAsync(at + (StageBytes + i * WarpThreads * 16),
                  before + i * WarpThreads * 16, policy);
    }
  }
  __device__ static const uint8_t *ofRuns(uint32_t offset, uint32_t vector) {
    const SegmentRuns &runs = diffStorage().loadedRuns[warpOf()];
    return runs.source +
           keptPlaceOf(runs, offset + vector * 16 / runs.size) * runs.size;
  }

  /// Begins with the warp's segment of a tile.
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
    const Segment segment = Segment::of(slot.tile.numElements, warpOf());
    numVectors = ringVectors(arguments, slot, segment);
    byRuns = false;
    if (!numVectors) // it may have no address, either
      return;
    perVector = 16 / slot.tile.elementSize;
    offset = segment.first;
    const bool ofSnapshot = arguments.mode == DiffSnapshot;
    byRuns = slot.tile.path == RunsPath && !ofSnapshot;
    const uint64_t at =
        uint64_t(segment.first) * slot.tile.elementSize + laneOf() * 16;
    if (ofSnapshot)
      now = slot.tile.snapshot + at;
    else if (byRuns) // each vector has its own place
      now = arguments.rows[slot.tile.row].source;
    else
      now = slot.tile.source + at;
    before =
        perStage == StageVectors ? slot.tile.snapshot + at : now + StageBytes;
    if (byRuns)
      keepRuns(storage.loadedRuns[warpOf()], arguments, slot, segment);
  }

  static constexpr uint32_t NoRuns = ~0u;
  uint64_t policy;
  SharedAddress to, from; ///< of the lane in the first stage
  uint32_t perStage = StageVectors;
  uint32_t inFlight = 0, loadAt = 0, readAt = 0;
  /// What is loaded next: so many vectors of a segment, the rest of it.
  uint32_t numVectors = 0;
  const uint8_t *now = nullptr, *before = nullptr;
  TileTurn turn;
  bool hasTile = false, isEnd = false, byRuns = false;
  uint32_t perVector = 8, offset = 0;
};

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_STAGERING_CUH
