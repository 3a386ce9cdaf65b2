//===- DiffKernel.cuh - Compare and pack on the device ----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// One pass over all tiles of a rank: compare with the snapshot and pack what
/// changed, in one launch, whatever the number of parameters and types.
///
/// A block takes tiles from a counter. Its workers share each out, and compare
/// their pieces on their own: both buffers come through a ring in shared
/// memory (StageRing.cuh) that is filled beyond the end of a tile, so that no
/// wait for another warp stops the loads. Each leaves its changes in a list, in
/// order; the last one publishes how many there are.
///
/// One more warp, the scribe, finds the places of tiles in the streams
/// (LookBack.cuh). A place is known when the slowest block has compared what
/// comes before: so the scribe may be two tiles behind. Workers write their
/// lists when they come to need the room again. Pieces with more changes than
/// the list holds, or of a tile that is sent whole, are read once more for
/// that. Packed bytes depend on the data alone.
///
/// One more thread takes the tiles, so that nobody waits for the counter.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_DIFFKERNEL_CUH
#define DELTA_CODEGEN_DEVICE_DIFFKERNEL_CUH

#include "codegen/device/SegmentWrite.cuh"
#include "codegen/device/TilePlacing.cuh"
#include "codegen/device/WholeCopy.cuh"

namespace delta::device {

/// What the workers have added up of a tile, in one word.
struct Arrival {
  static constexpr uint32_t One = 1u << 20;
  uint32_t bits;

  DELTA_HD uint32_t changed() const { return bits & (One - 1); }
  DELTA_HD uint32_t numWorkers() const { return bits / One; }
};
static_assert(DELTA_MAX_TILE < Arrival::One && NumWorkerWarps < 32, "room");

/// A warp that compares.
template <typename Elements> class DiffWorker {
public:
  DELTA_DEVICE_COLD static void run() { DiffWorker().compareAll(); }

private:
  __device__ void compareAll() {
    DiffStorage &storage = diffStorage();
    TileTurn turn;
    uint32_t numTiles = 0;
    for (;; turn = turn.next(), ++numTiles) {
      storage.taken[turn.slot].wait(turn.slotPhase);
      if (storage.slots[turn.slot].isEnd)
        break;
      ring.fill(turn.next());
      if (numTiles >= NumHeld)
        finish(turn.replaced());
      __syncwarp(); // what `finish` has read may be written from here on
      compare(turn);
    }
    // Those that the scribe has yet to place, the oldest first.
    for (uint32_t i = numTiles < NumHeld ? NumHeld - numTiles : 0; i < NumHeld;
         ++i) {
      TileTurn last = turn;
      for (uint32_t j = 0; j < i; ++j)
        last = last.next();
      finish(last.replaced());
    }
  }

  /// Waits until the place of a tile is known, and writes the warp's part.
  __device__ void finish(TileTurn turn) const {
    DiffStorage &storage = diffStorage();
    storage.free[turn.held].wait(turn.heldPhase);
    const FoundChanges found = storage.found[turn.held];
    if (!found.isSent)
      return;
    const TileSlot &slot = storage.slots[turn.slot];
    if (found.whole) {
      forElementsOf<Elements>(slot.tile, [&](auto bits) {
        SegmentWrite<Elements, decltype(bits)>::writeWhole(turn);
      });
      return;
    }
    const PieceRanks ranks = PieceRanks::of(turn);
    if (ranks.count() == 0)
      return;
    const bool isListed = ranks.count() <= room;
    if (isListed && slot.tile.elementSize == 2)
      return writeList(turn, ranks);
    forElementsOf<Elements>(slot.tile, [&](auto bits) {
      using Write = SegmentWrite<Elements, decltype(bits)>;
      if (isListed)
        Write::writeListed(turn, listOf(turn.held, warpOf(), room));
      else
        Write::writeChanges(turn);
    });
  }

  __device__ void writeList(TileTurn turn, const PieceRanks &ranks) const {
    DiffStorage &storage = diffStorage();
    const TileSums &before = storage.before[turn.held];
    uint16_t *offsets = storage.arguments.offsets + before.numOffsets;
    uint16_t *values = reinterpret_cast<uint16_t *>(storage.arguments.values +
                                                    before.valueBytes);
    const SharedAddress list = listOf(turn.held, warpOf(), room);
#pragma unroll 2
    for (uint32_t i = laneOf(); i < ranks.count(); i += WarpThreads) {
      const uint32_t change = loadShared<uint32_t>(list + i * 4);
      const uint32_t rank = ranks.of(i);
      offsets[rank] = uint16_t(change);
      values[rank] = uint16_t(change >> 16);
    }
  }

  __device__ void compare(TileTurn turn) {
    DiffStorage &storage = diffStorage();
    const TileSlot &slot = storage.slots[turn.slot];
    const ListSink sink = {listOf(turn.held, warpOf(), room), room};
    uint32_t count = 0;
    if (!slot.isWhole)
      forElementsOf<Elements>(slot.tile, [&](auto bits) {
        count = comparePieces<decltype(bits)>(turn, slot, sink);
      });
    __syncwarp();
    if (laneOf() == 0) {
      arrive(turn, slot, count);
      storage.full[turn.held].arrive();
    }
  }

  /// The last worker tells the tiles behind this one what was found.
  __device__ void arrive(TileTurn turn, const TileSlot &slot, uint32_t count) {
    DiffStorage &storage = diffStorage();
    const uint32_t own = Arrival::One + count;
    const Arrival all = {atomicAdd(&storage.arrivals[turn.held], own) + own};
    if (all.numWorkers() < NumWorkerWarps)
      return;
    storage.arrivals[turn.held] = 0;
    const SourceTile &tile = slot.tile;
    FoundChanges found;
    found.changed = slot.isWhole ? tile.numElements : all.changed();
    found.whole = slot.isWhole || isDense(found.changed, tile.numElements);
    found.isSent = false; // until the scribe has found a place
    storage.found[turn.held] = found;
    if (!slot.isWhole) // else the taker has
      TilePlacing::publishFound(storage.arguments, slot, found);
  }

  /// Returns how many changes there are, and notes how many in each piece. What
  /// takes and fills a stage is inlined here once, for want of registers.
  template <typename Bits>
  __device__ uint32_t comparePieces(TileTurn turn, const TileSlot &slot,
                                    const ListSink &sink) {
    constexpr uint32_t PerVector = 16 / sizeof(Bits);
    const Pieces pieces = slot.pieces();
    uint32_t at = pieces[warpOf()].first;
    uint32_t left = ringVectors(diffStorage().arguments, slot, warpOf());
    uint32_t count = 0;
    while (left) {
      takeStage<Bits>(at, left, count, sink);
      ring.fill(turn.next());
      if (left < StageVectors)
        break;
      left -= StageVectors;
      at += StageVectors * PerVector;
      if (!pieces.isStriped || at % StripeStep)
        continue;
      noteCount(turn, at / StripeStep - 1, count);
      at += (NumWorkerWarps - 1) * StripeStep;
    }
    const uint32_t piece = pieces.isStriped ? at / StripeStep : warpOf();
    if (piece >= pieces.count())
      return count;
    at += left * PerVector;
    const uint32_t end = pieces[piece].end();
    if (at != end)
      count = compareOthers<Bits>(turn, at, end, count, sink);
    noteCount(turn, piece, count);
    return count;
  }
  /// Up to the end of a piece of the warp.
  __device__ static void noteCount(TileTurn turn, uint32_t piece,
                                   uint32_t count) {
    if (laneOf() == 0)
      diffStorage().counts[turn.slot][piece] = uint16_t(count);
  }

  /// The oldest stage, which begins at an offset and has `numVectors`, or more.
  template <typename Bits>
  __device__ void takeStage(uint32_t offset, uint32_t numVectors,
                            uint32_t &count, const ListSink &sink) {
    constexpr uint32_t PerVector = 16 / sizeof(Bits);
    const Stage stage = ring.wait();
    uint4 now[LaneVectors], old[LaneVectors];
    uint32_t differs = 0;
#pragma unroll
    for (uint32_t i = 0; i < LaneVectors; ++i) {
      now[i] = loadVector(stage.vector(i));
      old[i] = loadVector(stage.vector(i) + StageBytes);
    }
#pragma unroll
    for (uint32_t i = 0; i < LaneVectors; ++i)
      differs |= differing(now[i], old[i]);
    if (__any_sync(FullWarp, differs != 0)) {
      uint32_t mask = 0;
#pragma unroll
      for (uint32_t i = 0; i < LaneVectors; ++i)
        mask |= maskOf<Bits>(now[i], old[i]) << i * PerVector;
      const uint32_t own = laneOf() * LaneVectors;
      if (numVectors < own + LaneVectors) // else all vectors are there
        mask &=
            numVectors > own ? (1u << (numVectors - own) * PerVector) - 1 : 0;
      takeMask(mask, offset + own * PerVector, count, sink,
               [&](uint32_t bit) { return stage.template element<Bits>(bit); });
    }
    ring.release();
  }

  /// What does not go through the ring: offsets [from, end).
  template <typename Bits>
  DELTA_DEVICE_COLD static uint32_t compareOthers(TileTurn turn, uint32_t from,
                                                  uint32_t end, uint32_t count,
                                                  ListSink sink) {
    DiffStorage &storage = diffStorage();
    using Compare = SegmentCompare<Elements, Bits, ListSink>;
    const DiffArguments &arguments = storage.arguments;
    const TileSlot &slot = storage.slots[turn.slot];
    const Segment segment = {from, end - from};
    SegmentRuns &runs = storage.runs[warpOf()];
    if (slot.tile.path != ContiguousPath)
      keepRuns(runs, arguments, slot, segment);
    if (arguments.mode == DiffBits)
      return Compare::marked(arguments, slot.tile, runs, segment, count, sink);
    return Compare::elements(arguments, slot.tile, runs, from, end, count,
                             sink);
  }

  const uint32_t room = listRoom();
  StageRing</*IsCopy=*/false> ring;
};

/// The warp that places what was found in tiles.
class DiffScribe {
public:
  DELTA_DEVICE_COLD static void run() {
    DiffStorage &storage = diffStorage();
    uint32_t numTiles = 0;
    for (TileTurn turn;; turn = turn.next(), ++numTiles) {
      storage.taken[turn.slot].wait(turn.slotPhase);
      if (storage.slots[turn.slot].isEnd)
        return;
      if (!isCopy(storage.arguments.mode))
        storage.full[turn.held].wait(turn.heldPhase);
      else if (numTiles >= NumHeld) // what is held is copied
        storage.full[turn.held].wait(turn.heldPhase - 1);
      place(turn);
      __syncwarp();
      if (laneOf() == 0)
        storage.free[turn.held].arrive();
    }
  }

private:
  __device__ static void place(TileTurn turn) {
    DiffStorage &storage = diffStorage();
    const DiffArguments &arguments = storage.arguments;
    const TileSlot &slot = storage.slots[turn.slot];
    FoundChanges found = storage.found[turn.held];
    if (isCopy(arguments.mode)) // nobody looks
      found = {slot.tile.numElements, true, false};
    const TileSums before = TilePlacing::place(arguments, slot, found);
    const uint32_t sent = found.whole ? slot.tile.numElements : found.changed;
    __syncwarp();      // all have read what was found
    if (laneOf() != 0) // the lane that arrives writes all that is waited for
      return;
    found.isSent = sent && before.numSent + sent <= arguments.capacity;
    storage.found[turn.held] = found;
    storage.before[turn.held] = before;
  }
};

/// The thread that takes tiles from the counter, while others go on.
class TileTaker {
public:
  DELTA_DEVICE_COLD static void run() {
    DiffStorage &storage = diffStorage();
    TileTurn ahead;
    for (uint32_t i = 0; i < NumAhead; ++i, ahead = ahead.next())
      if (!take(ahead))
        return;
    for (TileTurn turn;; turn = turn.next(), ahead = ahead.next()) {
      storage.opened[turn.slot].wait(turn.slotPhase);
      if (!take(ahead))
        return;
    }
  }

private:
  /// False: there was none.
  __device__ static bool take(TileTurn turn) {
    DiffStorage &storage = diffStorage();
    const DiffArguments &arguments = storage.arguments;
    TileSlot &slot = storage.slots[turn.slot];
    slot.index =
        arguments.tileBegin + int64_t(atomicAdd(arguments.nextTile, 1ull));
    slot.isEnd = slot.index >= arguments.tileEnd;
    if (!slot.isEnd)
      describe(arguments, slot);
    storage.taken[turn.slot].arrive();
    return !slot.isEnd;
  }
  __device__ static void describe(const DiffArguments &arguments,
                                  TileSlot &slot) {
    slot.tile = arguments.tiles[slot.index];
    slot.section = arguments.sections[slot.tile.section];
    slot.isWhole = isCopy(arguments.mode) ||
                   (arguments.unsure && arguments.unsure[slot.index]);
    slot.begins = slot.index == slot.section.firstTile ||
                  slot.index == arguments.roundBegin;
    // Nearly all tiles. Of others a warp would have more than two pieces, or
    // would need the begins of runs all over the tile.
    slot.isStriped = arguments.mode == DiffDelta && !slot.isWhole &&
                     slot.tile.path == ContiguousPath &&
                     slot.tile.elementSize == 2;
    if (slot.isWhole)
      TilePlacing::publishFound(arguments, slot,
                                {slot.tile.numElements, true, false});
  }
};

/// Body of the kernel, with DiffThreads threads.
template <typename Elements>
__device__ inline void diffTiles(const DiffArguments &given) {
  DiffStorage &storage = diffStorage();
  if (threadIdx.x == 0) {
    storage.arguments = given;
    for (uint32_t i = 0; i < NumSlots; ++i) {
      storage.opened[i].init(NumWorkerWarps);
      storage.taken[i].init(1);
    }
    for (uint32_t i = 0; i < NumHeld; ++i) {
      storage.full[i].init(NumWorkerWarps);
      storage.free[i].init(1);
      storage.arrivals[i] = 0;
    }
  }
  __syncthreads();
  if (warpOf() < NumWorkerWarps && isCopy(storage.arguments.mode))
    CopyWorker<Elements>::run();
  else if (warpOf() < NumWorkerWarps)
    DiffWorker<Elements>::run();
  else if (warpOf() == NumWorkerWarps)
    DiffScribe::run();
  else if (laneOf() == 0)
    TileTaker::run();
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_DIFFKERNEL_CUH
