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
/// their segments on their own: both buffers come through a ring in shared
/// memory (StageRing.cuh) that is filled beyond the end of a tile, so that no
/// wait for another warp stops the loads. Each leaves its changes in a list, in
/// order; the last one publishes how many there are.
///
/// One more warp, the scribe, finds the places of tiles in the streams
/// (LookBack.cuh). A place is known when the slowest block has compared what
/// comes before: so the scribe may be two tiles behind. Workers write their
/// lists when they come to need the room again. A segment with more
/// changes than its list holds, or of a tile that is sent whole, is read once
/// more for that. Packed bytes depend on the data alone.
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

  /// Waits until the place of a tile is known, and writes the warp's segment.
  __device__ void finish(TileTurn turn) const {
    DiffStorage &storage = diffStorage();
    storage.free[turn.held].wait(turn.heldPhase);
    const FoundChanges found = storage.found[turn.held];
    if (!found.isSent)
      return;
    const uint32_t count = storage.counts[turn.held][warpOf()];
    if (!found.whole && count == 0)
      return;
    const SourceTile &tile = storage.slots[turn.slot].tile;
    const bool isListed = !found.whole && count <= room;
    if (isListed && tile.elementSize == 2)
      return writeList(turn, count);
    forElementsOf<Elements>(tile, [&](auto bits) {
      using Write = SegmentWrite<Elements, decltype(bits)>;
      if (isListed)
        Write::writeListed(turn, listOf(turn.held, warpOf(), room), count);
      else
        Write::write(turn);
    });
  }

  /// Two neighbors a lane, in words where both streams allow it.
  __device__ void writeList(TileTurn turn, uint32_t count) const {
    DiffStorage &storage = diffStorage();
    const uint32_t rank = storage.ranks[turn.held][warpOf()];
    const uint64_t offsetsAt = storage.before[turn.held].numOffsets + rank;
    const uint64_t valuesAt = storage.before[turn.held].valueBytes / 2 + rank;
    uint16_t *offsets = storage.arguments.offsets + offsetsAt;
    uint16_t *values =
        reinterpret_cast<uint16_t *>(storage.arguments.values) + valuesAt;
    const uint32_t shift = uint32_t(offsetsAt) % 2;
    const bool isPaired = uint32_t(valuesAt) % 2 == shift;
    const SharedAddress list = listOf(turn.held, warpOf(), room);
#pragma unroll 2
    for (uint32_t i = 2 * laneOf(); i < count + shift; i += 2 * WarpThreads) {
      const uint32_t first = i - shift; // -1: there is none
      const bool hasFirst = first < count, hasSecond = first + 1 < count;
      const uint32_t one =
          hasFirst ? loadShared<uint32_t>(list + first * 4) : 0;
      const uint32_t two =
          hasSecond ? loadShared<uint32_t>(list + (first + 1) * 4) : 0;
      if (isPaired && hasFirst && hasSecond) {
        *reinterpret_cast<uint32_t *>(offsets + first) =
            (one & 0xffff) | two << 16;
        *reinterpret_cast<uint32_t *>(values + first) =
            one >> 16 | (two & 0xffff0000u);
        continue;
      }
      if (hasFirst) {
        offsets[first] = uint16_t(one);
        values[first] = uint16_t(one >> 16);
      }
      if (hasSecond) {
        offsets[first + 1] = uint16_t(two);
        values[first + 1] = uint16_t(two >> 16);
      }
    }
  }

  __device__ void compare(TileTurn turn) {
    DiffStorage &storage = diffStorage();
    const TileSlot &slot = storage.slots[turn.slot];
    const Segment segment = Segment::of(slot.tile.numElements, warpOf());
    const ListSink sink = {listOf(turn.held, warpOf(), room), room};
    uint32_t count = 0;
    if (!slot.isWhole && segment.count)
      forElementsOf<Elements>(slot.tile, [&](auto bits) {
        count = compareSegment<decltype(bits)>(turn, slot, segment, sink);
      });
    __syncwarp();
    if (laneOf() == 0) {
      storage.counts[turn.held][warpOf()] = count;
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

  template <typename Bits>
  __device__ uint32_t compareSegment(TileTurn turn, const TileSlot &slot,
                                     Segment segment, const ListSink &sink) {
    constexpr uint32_t PerVector = 16 / sizeof(Bits);
    const TileTurn next = turn.next();
    const uint32_t numVectors =
        ringVectors(diffStorage().arguments, slot, segment);
    uint32_t count = 0, left = numVectors;
    uint32_t offset = segment.first + laneOf() * LaneVectors * PerVector;
    for (; left >= StageVectors; left -= StageVectors) {
      takeStage<Bits>(offset, ~0u, count, sink);
      offset += StageVectors * PerVector;
      ring.fill(next);
    }
    if (left) {
      const uint32_t own = laneOf() * LaneVectors;
      const uint32_t vectors = left > own ? left - own : 0;
      takeStage<Bits>(
          offset, vectors < LaneVectors ? (1u << vectors * PerVector) - 1 : ~0u,
          count, sink);
      ring.fill(next);
    }
    offset = segment.first + numVectors * PerVector;
    return offset == segment.end()
               ? count
               : compareOthers<Bits>(turn, offset, count, sink);
  }

  /// `exists`: bits of the lane's elements.
  template <typename Bits>
  __device__ void takeStage(uint32_t offset, uint32_t exists, uint32_t &count,
                            const ListSink &sink) {
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
        mask |= maskOf<Bits>(now[i], old[i]) << i * (16 / sizeof(Bits));
      takeMask(mask & exists, offset, count, sink,
               [&](uint32_t bit) { return stage.template element<Bits>(bit); });
    }
    ring.release();
  }

  /// What does not go through the ring: from `offset` to the segment's end.
  template <typename Bits>
  DELTA_DEVICE_COLD static uint32_t
  compareOthers(TileTurn turn, uint32_t offset, uint32_t count, ListSink sink) {
    DiffStorage &storage = diffStorage();
    using Compare = SegmentCompare<Elements, Bits, ListSink>;
    const DiffArguments &arguments = storage.arguments;
    const TileSlot &slot = storage.slots[turn.slot];
    const Segment segment = Segment::of(slot.tile.numElements, warpOf());
    SegmentRuns &runs = storage.runs[warpOf()];
    if (slot.tile.path != ContiguousPath)
      keepRuns(runs, arguments, slot, segment);
    if (arguments.mode == DiffBits)
      return Compare::marked(arguments, slot.tile, runs, segment, count, sink);
    return Compare::elements(arguments, slot.tile, runs, offset, segment.end(),
                             count, sink);
  }

  const uint32_t room = listRoom();
  StageRing ring;
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
    uint32_t rank = 0;
#pragma unroll
    for (uint32_t warp = 0; warp < NumWorkerWarps; ++warp) {
      storage.ranks[turn.held][warp] = rank;
      rank += storage.counts[turn.held][warp];
    }
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
