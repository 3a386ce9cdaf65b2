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
/// A block takes a tile from a counter. Eight warps read both buffers once, 16
/// bytes a load, four loads of each in flight; loads are streaming, for nothing
/// is read twice. Each thread works on units of 8 elements: one byte of a mask
/// in shared memory says which of them changed, and they go to a list in
/// whatever order the threads find them. A scan over the mask gives each its
/// rank, by which the list is sorted.
///
/// A ninth warp, the scribe, then finds the tile's place in the streams
/// (LookBack.cuh) and writes the sorted list there, while the others compare
/// the next tiles. Blocks are not equally fast, and a place is known when the
/// slowest has compared what comes before: so the scribe may be two tiles
/// behind. Packed bytes depend on the data alone. A tile with more changes than
/// the list holds, or a whole one, is read again and written by all, once its
/// place is known.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_DIFFKERNEL_CUH
#define DELTA_CODEGEN_DEVICE_DIFFKERNEL_CUH

#include "codegen/device/BlockSums.cuh"
#include "codegen/device/ElementList.h"
#include "codegen/device/LookBack.cuh"

namespace delta::device {

/// Threads that compare; the scribe's follow them.
constexpr uint32_t NumWorkers = 256;
constexpr uint32_t NumWorkerWarps = NumWorkers / WarpThreads;
constexpr uint32_t DiffThreads = NumWorkers + WarpThreads;
/// Tiles whose lists are kept, and places known ahead.
constexpr uint32_t NumHeld = 3;
/// Barriers: of the workers alone; of a held tile that the scribe may write;
/// of one that it has written. The other way round where tiles are copied.
constexpr uint32_t WorkerBarrier = 1;
constexpr uint32_t FullBarrier = 2;
constexpr uint32_t FreeBarrier = FullBarrier + NumHeld;

/// Units of a tile; each has a byte of the mask.
constexpr uint32_t MaxUnits = DELTA_MAX_TILE / UnitSize;
/// Units whose mask one thread scans: they are neighbors.
constexpr uint32_t UnitsOfThread = MaxUnits / NumWorkers;
/// Changes of a tile that are listed; 3.5 % of a full one.
constexpr uint32_t MaxListed = 2304;
/// Where the unsorted list begins in DiffStorage::lists.
constexpr uint32_t UnsortedList = NumHeld * MaxListed;

/// How the elements of a tile that is not contiguous are found.
struct RunAccess {
  SmallDivisor columns;
  int64_t step, firstRun, firstColumn;
  bool keepsRuns; ///< their begins are in DiffStorage::runBegin
};

/// What the workers found in a tile.
struct FoundChanges {
  uint32_t changed;
  bool whole;
  bool byAll; ///< the workers write it, when its place is known
  bool isEnd; ///< there is no tile
};

/// Descriptions of tiles that are kept: of those that the scribe has yet to
/// write, of that which the workers compare, and of the next two.
constexpr uint32_t NumSlots = 8;

/// What a block knows of its tiles, in shared memory.
struct DiffStorage {
  /// A copy: what cold functions are given has an address, and a kernel's
  /// parameters have none.
  DiffArguments arguments;
  union {
    alignas(16) uint8_t mask[MaxUnits];
    uint32_t words[MaxUnits / 4];
    uint4 vectors[MaxUnits / 16];
  };
  SourceTile tiles[NumSlots];
  int64_t indices[NumSlots];
  FoundChanges found[NumHeld];
  /// An element that changed: offset in the low 16 bits, a value of 16 bits in
  /// the high ones; larger values are read again.
  /// Sorted lists of the held tiles, and one as the threads found them.
  uint32_t lists[(NumHeld + 1) * MaxListed];
  int64_t runBegin[MaxDiffRuns];
  RunAccess runs;
  uint32_t
      threadBegin[NumWorkers]; ///< changes before a thread's units, in warp
  uint32_t warpSums[NumWorkerWarps];
  uint32_t listCount;
  TileSums before[NumHeld]; ///< of the tiles that all write
};

/// Which parts of the storage a tile of a block has.
struct TileTurn {
  uint32_t slot; ///< of tiles and indices
  uint32_t held; ///< of found, before and lists

  __device__ TileTurn next() const {
    return {(slot + 1) % NumSlots, held + 1 < NumHeld ? held + 1 : 0};
  }
};

/// The elements of a unit as they lie in memory.
template <typename Bits> union Unit {
  static constexpr uint32_t NumVectors = UnitSize * sizeof(Bits) / 16;
  uint4 vectors[NumVectors];
  Bits elements[UnitSize];

  __device__ void load(const Bits *from) {
#pragma unroll
    for (uint32_t i = 0; i < NumVectors; ++i)
      vectors[i] = __ldcs(reinterpret_cast<const uint4 *>(from) + i);
  }
  __device__ void store(Bits *to) const {
#pragma unroll
    for (uint32_t i = 0; i < NumVectors; ++i)
      __stcs(reinterpret_cast<uint4 *>(to) + i, vectors[i]);
  }
};

/// A number of units as a type.
template <uint32_t Count> struct InFlightCount {
  static constexpr uint32_t value = Count;
};

/// Bits 0 and 1: the halves of a word that are not zero.
__device__ inline uint32_t halvesSet(uint32_t word) {
  // The top bit of a half: its lower bits carry into it, or it is set itself.
  uint32_t top = ((word & 0x7fff7fffu) + 0x7fff7fffu) | word;
  return (top >> 15 & 1) | (top >> 30 & 2);
}

/// Bit i: element i differs. Without a branch or a predicate for each element,
/// of which there are too few.
template <typename Bits>
__device__ inline uint32_t maskOf(const Unit<Bits> &a, const Unit<Bits> &b) {
  uint32_t mask = 0;
#pragma unroll
  for (uint32_t i = 0; i < Unit<Bits>::NumVectors; ++i) {
    const uint4 x = a.vectors[i], y = b.vectors[i];
    uint32_t differ[4] = {x.x ^ y.x, x.y ^ y.y, x.z ^ y.z, x.w ^ y.w};
    if (sizeof(Bits) == 2)
      mask |= halvesSet(differ[0]) | halvesSet(differ[1]) << 2 |
              halvesSet(differ[2]) << 4 | halvesSet(differ[3]) << 6;
    else if (sizeof(Bits) == 4)
      mask |= (uint32_t(differ[0] != 0) | uint32_t(differ[1] != 0) << 1 |
               uint32_t(differ[2] != 0) << 2 | uint32_t(differ[3] != 0) << 3)
              << i * 4;
    else
      mask |= (uint32_t((differ[0] | differ[1]) != 0) |
               uint32_t((differ[2] | differ[3]) != 0) << 1)
              << i * 2;
  }
  return mask;
}

/// True if any element differs.
template <typename Bits>
__device__ inline bool anyDiffers(const Unit<Bits> &a, const Unit<Bits> &b) {
  uint32_t differ = 0;
#pragma unroll
  for (uint32_t i = 0; i < Unit<Bits>::NumVectors; ++i) {
    const uint4 x = a.vectors[i], y = b.vectors[i];
    differ |= (x.x ^ y.x) | (x.y ^ y.y) | (x.z ^ y.z) | (x.w ^ y.w);
  }
  return differ != 0;
}

/// Works on one tile whose elements are sent as `Bits`. Cold functions are
/// static: they take what they need from shared memory, and no registers of the
/// loops around them.
template <typename Elements, typename Bits> class TileDiff {
public:
  __device__ TileDiff(DiffStorage &storage, TileTurn turn)
      : storage(storage), arguments(storage.arguments),
        tile(storage.tiles[turn.slot]), index(storage.indices[turn.slot]),
        turn(turn) {}

  /// By all workers: finds what changed. `isFree`: the lists of the turn are
  /// not in use; else waits for the scribe before they are written.
  __device__ FoundChanges find(bool isFree) {
    FoundChanges found = {tile.numElements, isUnsure(), false, false};
    if (tile.path != ContiguousPath)
      keepRuns(storage, arguments, turn.slot);
    if (!found.whole) {
      compare();
      syncThreads(WorkerBarrier, NumWorkers);
      found.changed = scanMask();
      found.whole = isDense(found.changed, tile.numElements);
    }
    if (!isFree)
      syncThreads(FreeBarrier + turn.held, DiffThreads);
    if (!found.whole)
      sortList(found.changed);
    found.byAll = found.whole || found.changed > MaxListed ||
                  (sizeof(Bits) != 2 && tile.path != ContiguousPath);
    if (threadIdx.x == 0) {
      storage.listCount = 0; // the list is complete, and sorted by its number
      storage.found[turn.held] = found;
    }
    return found;
  }

  /// What a tile has that is sent whole without a look at it.
  __device__ FoundChanges everything() const {
    return {tile.numElements, /*whole=*/true, /*byAll=*/true, false};
  }

  /// By all workers: copies a tile whose place is known by now.
  __device__ void copy() {
    if (tile.path != ContiguousPath)
      keepRuns(storage, arguments, turn.slot);
    writeByAll(everything());
  }

  /// By all workers: writes a tile at the place that is known by now.
  __device__ void writeByAll(const FoundChanges &found) {
    const TileSums before = storage.before[turn.held];
    if (!fits(before, found))
      return;
    Bits *values =
        reinterpret_cast<Bits *>(arguments.values + before.valueBytes);
    uint16_t *offsets = arguments.offsets + before.numOffsets;
    if (found.whole)
      writeWhole(values);
    else if (found.changed <= MaxListed)
      writeSorted(offsets, values, threadIdx.x, NumWorkers);
    else
      writeMasked(offsets, values);
  }

  __device__ void writeByAll() { coldly<&TileDiff::writeFound>(); }

  /// By the scribe: finds the tile's place, and writes it unless all do.
  __device__ void write() { write(storage.found[turn.held]); }
  __device__ void write(const FoundChanges &found) {
    TileSums before = place(storage, arguments, turn, found);
    if (found.byAll) {
      if (threadIdx.x == NumWorkers)
        storage.before[turn.held] = before;
    } else if (fits(before, found)) {
      writeSorted(
          arguments.offsets + before.numOffsets,
          reinterpret_cast<Bits *>(arguments.values + before.valueBytes),
          threadIdx.x - NumWorkers, WarpThreads);
    }
  }

private:
  __device__ void writeFound() { writeByAll(storage.found[turn.held]); }

  /// Units of a thread that are loaded before the first is used.
  static constexpr uint32_t LoadsInFlight = sizeof(Bits) == 2 ? 4 : 1;
  static constexpr uint32_t CopiesInFlight = sizeof(Bits) == 2 ? 4 : 1;

  /// False also where there is nothing to write.
  __device__ bool fits(const TileSums &before,
                       const FoundChanges &found) const {
    uint32_t sent = found.whole ? tile.numElements : found.changed;
    return sent && before.numSent + sent <= arguments.capacity;
  }
  __device__ bool isUnsure() const {
    return arguments.unsure && arguments.unsure[index];
  }
  __device__ static const SourceRow &rowOf(const DiffArguments &arguments,
                                           const SourceTile &tile) {
    return arguments.rows[tile.row];
  }
  __device__ static const Bits *snapshotOf(const DiffArguments &arguments,
                                           const SourceTile &tile) {
    return reinterpret_cast<const Bits *>(tile.snapshot +
                                          arguments.snapshotShift);
  }
  __device__ static uint32_t numUnits(const SourceTile &tile) {
    return (tile.numElements + UnitSize - 1) / UnitSize;
  }

  /// Prepares the access to a tile that is not contiguous.
  DELTA_DEVICE_COLD static void keepRuns(DiffStorage &storage,
                                         const DiffArguments &arguments,
                                         uint32_t slot) {
    const SourceRow &row = rowOf(arguments, storage.tiles[slot]);
    const delta_box_t &box = *row.box;
    Tile part =
        tileOf(box, row.tileBegin + storage.indices[slot] - row.firstTile);
    Layout layout = Layout::source(box);
    RunAccess runs = {SmallDivisor::of(part.numColumns), layout.step(box),
                      part.firstRun, part.firstColumn * layout.step(box),
                      part.numRuns <= MaxDiffRuns};
    if (threadIdx.x == 0)
      storage.runs = runs;
    for (uint32_t run = threadIdx.x; runs.keepsRuns && run < part.numRuns;
         run += NumWorkers)
      storage.runBegin[run] =
          beginOfRun(box, layout, runs.firstRun + run) + runs.firstColumn;
    syncThreads(WorkerBarrier, NumWorkers);
  }

  /// Element of the parameter at an offset of a tile that is not contiguous.
  __device__ static int64_t placeOf(const DiffStorage &storage,
                                    const delta_box_t *box, uint32_t offset) {
    const RunAccess &runs = storage.runs;
    uint32_t run = runs.columns.divide(offset);
    int64_t begin = runs.keepsRuns ? storage.runBegin[run]
                                   : beginOfRun(*box, Layout::source(*box),
                                                runs.firstRun + run) +
                                         runs.firstColumn;
    return begin + int64_t(offset - run * runs.columns.divisor) * runs.step;
  }

  /// The value that is sent of one element.
  DELTA_DEVICE_COLD static Bits valueAt(const DiffStorage &storage,
                                        const DiffArguments &arguments,
                                        uint32_t slot, uint32_t offset) {
    const SourceTile &tile = storage.tiles[slot];
    if (arguments.mode == DiffSnapshot)
      return snapshotOf(arguments, tile)[offset];
    if (tile.path == ContiguousPath)
      return reinterpret_cast<const Bits *>(tile.source)[offset];
    const SourceRow &row = rowOf(arguments, tile);
    return Bits(Elements::value(row.kernel, row.source,
                                placeOf(storage, row.box, offset), row.op));
  }
  __device__ Bits value(uint32_t offset) const {
    return valueAt(storage, arguments, turn.slot, offset);
  }

  /// Begin of a unit of a tile of runs.
  __device__ const Bits *unitOfRuns(uint32_t unit) const {
    return reinterpret_cast<const Bits *>(rowOf(arguments, tile).source) +
           placeOf(storage, nullptr, unit * UnitSize);
  }

  __device__ void compare() {
    uint32_t numWide = 0;
    if (arguments.mode == DiffBits)
      return coldly<&TileDiff::compareBits>();
    if (tile.path == ContiguousPath) {
      numWide = tile.numElements / UnitSize;
      const Bits *now = reinterpret_cast<const Bits *>(tile.source);
      compareWide(numWide,
                  [now](uint32_t unit) { return now + unit * UnitSize; });
    } else if (tile.path == RunsPath) {
      numWide = numUnits(tile);
      coldly<&TileDiff::compareRuns>();
    }
    // The end of a wide tile, or all of another one.
    for (uint32_t unit = numWide + threadIdx.x; unit < numUnits(tile);
         unit += NumWorkers)
      compareElements(storage, arguments, turn.slot, unit);
  }

  /// Calls a member that is rarely needed, out of line: it takes no registers
  /// of the loops around it.
  template <void (TileDiff::*Member)()> __device__ void coldly() {
    callMember<Member>(storage, turn);
  }
  template <void (TileDiff::*Member)()>
  DELTA_DEVICE_COLD static void callMember(DiffStorage &storage,
                                           TileTurn turn) {
    (TileDiff(storage, turn).*Member)();
  }

  __device__ void compareRuns() {
    compareWide(numUnits(tile),
                [this](uint32_t unit) { return unitOfRuns(unit); });
  }

  /// Calls body(first unit of the thread, number of units, distance) for
  /// batches of units of which all are issued before the first is used. Blocks
  /// begin with another batch each: tiles lie at multiples of their size, and
  /// blocks in step would ask the same channels of the memory.
  template <uint32_t InFlight, typename Body>
  __device__ void forEachBatch(uint32_t numWide, const Body &body) const {
    const uint32_t numBatches = numWide / (InFlight * NumWorkers);
    uint32_t batch = numBatches ? uint32_t(index) % numBatches : 0;
    for (uint32_t i = 0; i < numBatches; ++i) {
      body(batch * InFlight * NumWorkers + threadIdx.x,
           InFlightCount<InFlight>());
      batch = batch + 1 < numBatches ? batch + 1 : 0;
    }
    for (uint32_t unit = numBatches * InFlight * NumWorkers + threadIdx.x;
         unit < numWide; unit += NumWorkers)
      body(unit, InFlightCount<1>());
  }

  /// All loads of a batch are issued before the first is used.
  template <typename UnitAt>
  __device__ void compareWide(uint32_t numWide, const UnitAt &unitAt) {
    const Bits *before = snapshotOf(arguments, tile);
    forEachBatch<LoadsInFlight>(numWide, [&](uint32_t unit, auto inFlight) {
      constexpr uint32_t Count = decltype(inFlight)::value;
      Unit<Bits> a[Count], b[Count];
#pragma unroll
      for (uint32_t i = 0; i < Count; ++i) {
        a[i].load(unitAt(unit + i * NumWorkers));
        b[i].load(before + (unit + i * NumWorkers) * UnitSize);
      }
#pragma unroll
      for (uint32_t i = 0; i < Count; ++i)
        note(storage, unit + i * NumWorkers, a[i], b[i]);
    });
  }

  /// A unit that is not read wide: unaligned, cut, or with an op.
  DELTA_DEVICE_COLD static void compareElements(DiffStorage &storage,
                                                const DiffArguments &arguments,
                                                uint32_t slot, uint32_t unit) {
    const SourceTile &tile = storage.tiles[slot];
    const Bits *before = snapshotOf(arguments, tile);
    uint32_t mask = 0;
    for (uint32_t i = 0; i < UnitSize; ++i) {
      uint32_t offset = unit * UnitSize + i;
      if (offset >= tile.numElements)
        break;
      Bits now = valueAt(storage, arguments, slot, offset);
      if (now == before[offset])
        continue;
      mask |= 1u << i;
      listOne(storage, atomicAdd(&storage.listCount, 1u), offset, now);
    }
    storage.mask[unit] = uint8_t(mask);
  }

  /// What was marked counts as changed, and is read only then.
  __device__ void compareBits() {
    const SourceRow &row = rowOf(arguments, tile);
    const uint32_t *bits = arguments.bits[tile.row];
    int64_t first =
        row.firstBit + (tile.source - row.source) / int64_t(sizeof(Bits));
    const bool isWide = tile.path == ContiguousPath && first % UnitSize == 0;
    for (uint32_t unit = threadIdx.x; unit < numUnits(tile);
         unit += NumWorkers) {
      uint32_t mask =
          isWide
              ? reinterpret_cast<const uint8_t *>(bits)[first / UnitSize + unit]
              : bitsOfUnit(bits, row, first, unit);
      uint32_t left = tile.numElements - unit * UnitSize;
      if (left < UnitSize)
        mask &= (1u << left) - 1;
      storage.mask[unit] = uint8_t(mask);
      if (!mask)
        continue;
      uint32_t at = atomicAdd(&storage.listCount, uint32_t(__popc(int(mask))));
      for (; mask && at < MaxListed; mask &= mask - 1, ++at) {
        uint32_t offset = unit * UnitSize + uint32_t(__ffs(int(mask))) - 1;
        listOne(storage, at, offset,
                isWide ? reinterpret_cast<const Bits *>(tile.source)[offset]
                       : value(offset));
      }
    }
  }

  /// The marks of a unit, one by one.
  __device__ uint32_t bitsOfUnit(const uint32_t *bits, const SourceRow &row,
                                 int64_t first, uint32_t unit) const {
    uint32_t mask = 0;
    for (uint32_t i = 0; i < UnitSize; ++i) {
      uint32_t offset = unit * UnitSize + i;
      if (offset >= tile.numElements)
        break;
      int64_t at = tile.path == ContiguousPath
                       ? first + offset
                       : row.firstBit + placeOf(storage, row.box, offset);
      mask |= (bits[at / 32] >> (at % 32) & 1) << i;
    }
    return mask;
  }

  __device__ static void listOne(DiffStorage &storage, uint32_t at,
                                 uint32_t offset, Bits now) {
    if (at >= MaxListed)
      return;
    storage.lists[UnsortedList + at] =
        sizeof(Bits) == 2 ? offset | uint32_t(now) << 16 : offset;
  }

  /// Marks and lists what changed in a unit; nearly always nothing has.
  __device__ static void note(DiffStorage &storage, uint32_t unit,
                              const Unit<Bits> &now, const Unit<Bits> &before) {
    uint32_t mask = 0;
    if (anyDiffers(now, before))
      mask = maskOf(now, before);
    storage.mask[unit] = uint8_t(mask);
    if (!mask)
      return;
    uint32_t at = atomicAdd(&storage.listCount, uint32_t(__popc(int(mask))));
    if (at >= MaxListed)
      return;
    for (; mask; mask &= mask - 1) {
      uint32_t i = uint32_t(__ffs(int(mask))) - 1;
      listOne(storage, at++, unit * UnitSize + i, elementOf(now, i));
    }
  }

  /// Element `i` of a unit, by selects and a shift: registers have no index.
  __device__ static Bits elementOf(const Unit<Bits> &unit, uint32_t i) {
    if (sizeof(Bits) != 2)
      return 0; // not listed
    const uint4 v = unit.vectors[0];
    uint32_t low = i & 2 ? v.y : v.x, high = i & 2 ? v.w : v.z;
    return Bits((i & 4 ? high : low) >> (i & 1) * 16);
  }

  /// Changed elements in the words [begin, end) of the mask.
  __device__ uint32_t countWords(uint32_t begin, uint32_t end) const {
    uint32_t count = 0;
    for (uint32_t i = begin; i < end; ++i)
      count += uint32_t(__popc(int(storage.words[i])));
    return count;
  }

  /// Units that a thread scans: [first, end).
  __device__ static uint32_t firstUnit() { return threadIdx.x * UnitsOfThread; }
  __device__ uint32_t endUnit() const {
    uint32_t end = firstUnit() + UnitsOfThread;
    return end < numUnits(tile) ? end : numUnits(tile);
  }

  /// Changes in a thread's units.
  __device__ uint32_t countOwn() const {
    uint32_t own = 0;
    if (firstUnit() + UnitsOfThread <= numUnits(tile)) {
#pragma unroll
      for (uint32_t i = 0; i < UnitsOfThread / 16; ++i) {
        uint4 part = storage.vectors[firstUnit() / 16 + i];
        own += uint32_t(__popc(int(part.x)) + __popc(int(part.y)) +
                        __popc(int(part.z)) + __popc(int(part.w)));
      }
      return own;
    }
    for (uint32_t unit = firstUnit(); unit < endUnit(); ++unit)
      own += uint32_t(__popc(int(storage.mask[unit])));
    return own;
  }

  /// Leaves in threadBegin the changes before each thread's units, in its warp,
  /// and in warpSums those of each warp; returns their number in the tile.
  __device__ uint32_t scanMask() {
    uint32_t lane = threadIdx.x % WarpThreads, warp = threadIdx.x / WarpThreads;
    uint32_t own = countOwn(), inclusive = warpInclusive(own);
    if (lane == WarpThreads - 1)
      storage.warpSums[warp] = inclusive;
    storage.threadBegin[threadIdx.x] = inclusive - own;
    syncThreads(WorkerBarrier, NumWorkers);
    return beginOfWarp(NumWorkerWarps);
  }

  /// Changes in the units of the warps before.
  __device__ uint32_t beginOfWarp(uint32_t warp) const {
    uint32_t before = 0;
#pragma unroll
    for (uint32_t i = 0; i < NumWorkerWarps; ++i)
      before += i < warp ? storage.warpSums[i] : 0;
    return before;
  }

  /// Rank of a changed element: changes of the warps and threads before, of the
  /// words before in the thread's units, and of the bits before in the word.
  __device__ uint32_t rankOf(uint32_t offset) const {
    constexpr uint32_t WordsOfThread = UnitsOfThread / 4;
    uint32_t word = offset / 32, thread = word / WordsOfThread;
    uint32_t bits = storage.words[word] & ((1u << offset % 32) - 1);
    return beginOfWarp(thread / WarpThreads) + storage.threadBegin[thread] +
           countWords(thread * WordsOfThread, word) +
           uint32_t(__popc(int(bits)));
  }

  __device__ void sortList(uint32_t changed) {
    if (changed > MaxListed)
      return;
    for (uint32_t i = threadIdx.x; i < changed; i += NumWorkers) {
      uint32_t entry = storage.lists[UnsortedList + i];
      storage.lists[turn.held * MaxListed + rankOf(entry & 0xffff)] = entry;
    }
  }

  /// Finds the tile's place in the streams and writes it down. By one warp.
  DELTA_DEVICE_COLD static TileSums place(DiffStorage &storage,
                                          const DiffArguments &arguments,
                                          TileTurn turn, FoundChanges found) {
    const SourceTile &tile = storage.tiles[turn.slot];
    const int64_t index = storage.indices[turn.slot];
    const SectionPlan section = arguments.sections[tile.section];
    bool begins = index == section.firstTile || index == arguments.roundBegin;
    TileWord own = TileWord::of(found.whole ? 0 : found.changed,
                                found.whole ? tile.numElements : found.changed,
                                sizeof(Bits), begins);
    TileSums before = lookBack(arguments.lookBack, arguments.inclusive,
                               index - arguments.roundBegin, own);
    if (threadIdx.x % WarpThreads == 0)
      writeDown(arguments, tile, index, found, section, begins, before, own);
    return before;
  }

  __device__ static void writeDown(const DiffArguments &arguments,
                                   const SourceTile &tile, int64_t index,
                                   const FoundChanges &found,
                                   const SectionPlan &section, bool begins,
                                   const TileSums &before, TileWord own) {
    arguments.places[index] = {before.numOffsets, before.valueBytes,
                               found.changed, found.whole};
    SectionPlace &out = arguments.sectionPlaces[tile.section];
    if (begins) {
      out.offsetsBegin = before.numOffsets;
      out.valuesBegin = before.valueBytes;
    }
    TileSums end = before + own.sums();
    if (index + 1 == section.endTile || index + 1 == arguments.roundEnd) {
      out.offsetsEnd = end.numOffsets;
      out.valuesEnd = end.valueBytes;
      out.numPresent = uint32_t(end.numPresent);
      fillParts(arguments, section, end);
    }
    if (!found.changed)
      return;
    writeCode(arguments, section, index, before.numPresent,
              found.whole ? DenseCode : uint16_t(found.changed));
    if (found.whole)
      atomicAdd(&out.numDense, 1u);
    addTotals(arguments, found.changed, own.sent(), end.numSent);
  }

  /// Zeros behind the last code, offset and value of a section.
  __device__ static void fillParts(const DiffArguments &arguments,
                                   const SectionPlan &section,
                                   const TileSums &end) {
    uint16_t *codes = codesOf(arguments, section);
    for (uint64_t i = end.numPresent; i * 2 < alignPart(end.numPresent * 2);
         ++i)
      codes[i] = 0;
    if (end.numSent > arguments.capacity)
      return; // there may be no room
    for (uint64_t i = end.numOffsets; i * 2 < alignPart(end.numOffsets * 2);
         ++i)
      arguments.offsets[i] = 0;
    for (uint64_t i = end.valueBytes; i < alignPart(end.valueBytes); ++i)
      arguments.values[i] = 0;
  }

  __device__ static uint8_t *bodyOf(const DiffArguments &arguments,
                                    const SectionPlan &section) {
    return arguments.heads + section.headAt + SectionHeaderBytes;
  }
  __device__ static uint16_t *codesOf(const DiffArguments &arguments,
                                      const SectionPlan &section) {
    uint64_t numTiles = uint64_t(section.endTile - section.firstTile);
    return reinterpret_cast<uint16_t *>(bodyOf(arguments, section) +
                                        alignPart((numTiles + 7) / 8));
  }

  __device__ static void writeCode(const DiffArguments &arguments,
                                   const SectionPlan &section, int64_t index,
                                   uint64_t at, uint16_t code) {
    uint64_t bit = uint64_t(index - section.firstTile);
    atomicOr(reinterpret_cast<uint32_t *>(bodyOf(arguments, section)) +
                 bit / 32,
             1u << bit % 32);
    codesOf(arguments, section)[at] = code;
  }

  __device__ static void addTotals(const DiffArguments &arguments,
                                   uint32_t changed, uint32_t sent,
                                   uint64_t sentSoFar) {
    auto add = [](uint64_t &to, uint32_t amount) {
      atomicAdd(reinterpret_cast<unsigned long long *>(&to),
                (unsigned long long)(amount));
    };
    add(arguments.totals->changed, changed);
    add(arguments.totals->sent, sent);
    if (sentSoFar > arguments.capacity)
      arguments.totals->overflowed = 1;
  }

  /// By threads [0, numThreads).
  __device__ void writeSorted(uint16_t *offsets, Bits *values, uint32_t thread,
                              uint32_t numThreads) const {
    const uint32_t changed = storage.found[turn.held].changed;
    for (uint32_t i = thread; i < changed; i += numThreads) {
      uint32_t entry = storage.lists[turn.held * MaxListed + i];
      offsets[i] = uint16_t(entry);
      values[i] = sizeof(Bits) == 2 ? Bits(entry >> 16) : value(entry & 0xffff);
    }
  }

  /// For a tile with more changes than the list holds: each warp walks its part
  /// of the mask, reads the elements again, and sorts 32 units at a time in its
  /// part of the list.
  __device__ void writeMasked(uint16_t *offsets, Bits *values) const {
    constexpr uint32_t ListOfWarp = UnsortedList / NumWorkerWarps;
    static_assert(ListOfWarp >= WarpThreads * UnitSize, "room for 32 units");
    uint32_t lane = threadIdx.x % WarpThreads, warp = threadIdx.x / WarpThreads;
    // None is in use: the scribe has written the tiles before.
    uint32_t *list = storage.lists + warp * ListOfWarp;
    uint32_t rank = beginOfWarp(warp);
    uint32_t first = warp * UnitsOfThread * WarpThreads;
    uint32_t end = first + UnitsOfThread * WarpThreads;
    if (end > numUnits(tile))
      end = numUnits(tile);
    constexpr uint32_t InFlight = 4;
    for (uint32_t base = first; base < end; base += InFlight * WarpThreads) {
      Unit<Bits> now[InFlight];
#pragma unroll
      for (uint32_t i = 0; i < InFlight; ++i)
        if (isWide(base + i * WarpThreads + lane))
          now[i].load(reinterpret_cast<const Bits *>(tile.source) +
                      (base + i * WarpThreads + lane) * UnitSize);
#pragma unroll
      for (uint32_t i = 0; i < InFlight; ++i) {
        uint32_t count = listUnits(base + i * WarpThreads + lane, now[i], list);
        __syncwarp();
        for (uint32_t j = lane; j < count; j += WarpThreads) {
          uint32_t entry = list[j];
          offsets[rank + j] = uint16_t(entry);
          values[rank + j] =
              sizeof(Bits) == 2 ? Bits(entry >> 16) : value(entry & 0xffff);
        }
        __syncwarp();
        rank += count;
      }
    }
  }

  /// Whether the elements of a unit are read in one piece to be listed.
  __device__ bool isWide(uint32_t unit) const {
    return sizeof(Bits) == 2 && tile.path == ContiguousPath &&
           (unit + 1) * UnitSize <= tile.numElements;
  }

  /// Lists the changes of one unit a lane, sorted; returns their number in the
  /// warp.
  __device__ uint32_t listUnits(uint32_t unit, const Unit<Bits> &now,
                                uint32_t *list) const {
    bool exists = unit < numUnits(tile);
    uint32_t mask = exists ? storage.mask[unit] : 0;
    uint32_t own = uint32_t(__popc(int(mask))), inclusive = warpInclusive(own);
    uint32_t at = inclusive - own;
    const bool wide = isWide(unit);
#pragma unroll
    for (uint32_t i = 0; i < UnitSize; ++i) {
      if (!(mask >> i & 1))
        continue;
      uint32_t entry = unit * UnitSize + i;
      if (sizeof(Bits) == 2)
        entry |= uint32_t(wide ? elementOf(now, i) : value(entry)) << 16;
      list[at++] = entry;
    }
    return __shfl_sync(FullWarp, inclusive, WarpThreads - 1);
  }

  __device__ void writeWhole(Bits *values) const {
    uint32_t numWide = 0;
    if (reinterpret_cast<uintptr_t>(values) % 16 == 0) {
      numWide = tile.numElements / UnitSize;
      const Bits *from = arguments.mode == DiffSnapshot
                             ? snapshotOf(arguments, tile)
                             : reinterpret_cast<const Bits *>(tile.source);
      if (arguments.mode == DiffSnapshot || tile.path == ContiguousPath)
        copyWide(values, numWide,
                 [from](uint32_t unit) { return from + unit * UnitSize; });
      else if (tile.path == RunsPath)
        copyWide(values, numWide,
                 [this](uint32_t unit) { return unitOfRuns(unit); });
      else
        numWide = 0;
    }
    for (uint32_t i = numWide * UnitSize + threadIdx.x; i < tile.numElements;
         i += NumWorkers)
      values[i] = value(i);
  }

  template <typename UnitAt>
  __device__ void copyWide(Bits *values, uint32_t numWide,
                           const UnitAt &unitAt) const {
    forEachBatch<CopiesInFlight>(numWide, [&](uint32_t unit, auto inFlight) {
      constexpr uint32_t Count = decltype(inFlight)::value;
      Unit<Bits> copied[Count];
#pragma unroll
      for (uint32_t i = 0; i < Count; ++i)
        copied[i].load(unitAt(unit + i * NumWorkers));
#pragma unroll
      for (uint32_t i = 0; i < Count; ++i)
        copied[i].store(values + (unit + i * NumWorkers) * UnitSize);
    });
  }

  DiffStorage &storage;
  const DiffArguments &arguments;
  const SourceTile &tile;
  const int64_t index;
  const TileTurn turn;
};

/// Calls body(TileDiff) for the type of the tile in a slot.
template <typename Elements, typename Body>
__device__ inline void withTile(DiffStorage &storage,
                                const DiffArguments &arguments, TileTurn turn,
                                const Body &body) {
  const uint32_t size = storage.tiles[turn.slot].elementSize;
  if constexpr (Elements::hasSize(2))
    if (size == 2)
      body(TileDiff<Elements, uint16_t>(storage, turn));
  if constexpr (Elements::hasSize(4))
    if (size == 4)
      body(TileDiff<Elements, uint32_t>(storage, turn));
  if constexpr (Elements::hasSize(8))
    if (size == 8)
      body(TileDiff<Elements, uint64_t>(storage, turn));
}

/// The number of the next tile, or of what lies behind the last one.
__device__ inline int64_t takeTile(const DiffArguments &arguments) {
  return arguments.tileBegin + int64_t(atomicAdd(arguments.nextTile, 1ull));
}

/// Fetches the description of the tile in a slot, by one thread.
__device__ inline void
fetchTile(DiffStorage &storage, const DiffArguments &arguments, uint32_t slot) {
  if (storage.indices[slot] < arguments.tileEnd)
    storage.tiles[slot] = arguments.tiles[storage.indices[slot]];
}

/// Compares tiles until there are none. What comes next is asked for before a
/// tile is compared, and kept after it.
template <typename Elements>
__device__ inline void workOnTiles(DiffStorage &storage,
                                   const DiffArguments &arguments) {
  uint32_t isFree = (1u << NumHeld) - 1; // bits of held tiles
  TileTurn turn = {0, 0};
  for (; storage.indices[turn.slot] < arguments.tileEnd; turn = turn.next()) {
    const TileTurn next = turn.next();
    const bool fetches = threadIdx.x == 0;
    int64_t afterNext = 0;
    SourceTile nextTile;
    if (fetches) {
      afterNext = takeTile(arguments);
      if (storage.indices[next.slot] < arguments.tileEnd)
        nextTile = arguments.tiles[storage.indices[next.slot]];
    }
    FoundChanges found;
    withTile<Elements>(storage, arguments, turn, [&](auto &&tile) {
      found = tile.find(isFree >> turn.held & 1);
    });
    if (fetches) {
      storage.tiles[next.slot] = nextTile;
      storage.indices[next.next().slot] = afterNext;
    }
    arriveThreads(FullBarrier + turn.held, DiffThreads);
    isFree &= ~(1u << turn.held);
    if (found.byAll) {
      syncThreads(FreeBarrier + turn.held, DiffThreads); // the place is known
      isFree |= 1u << turn.held;
      withTile<Elements>(storage, arguments, turn,
                         [](auto &&tile) { tile.writeByAll(); });
    }
    syncThreads(WorkerBarrier, NumWorkers); // mask and list are done with
  }
  if (!(isFree >> turn.held & 1))
    syncThreads(FreeBarrier + turn.held, DiffThreads);
  if (threadIdx.x == 0)
    storage.found[turn.held].isEnd = true;
  arriveThreads(FullBarrier + turn.held, DiffThreads);
}

/// Writes the tiles that the workers have found.
template <typename Elements>
__device__ inline void writeTiles(DiffStorage &storage,
                                  const DiffArguments &arguments) {
  for (TileTurn turn = {0, 0};; turn = turn.next()) {
    syncThreads(FullBarrier + turn.held, DiffThreads);
    if (storage.found[turn.held].isEnd)
      return;
    withTile<Elements>(storage, arguments, turn,
                       [](auto &&tile) { tile.write(); });
    arriveThreads(FreeBarrier + turn.held, DiffThreads);
  }
}

/// All tiles are sent whole: nothing is compared, and the scribe takes tiles
/// and finds their places ahead of the workers, who copy them.
template <typename Elements>
__device__ inline void placeTiles(DiffStorage &storage,
                                  const DiffArguments &arguments) {
  uint32_t round = 0;
  for (TileTurn turn = {0, 0};; turn = turn.next(), ++round) {
    if (round >= NumHeld)
      syncThreads(FreeBarrier + turn.held, DiffThreads);
    if (round > 0 && threadIdx.x == NumWorkers) {
      storage.indices[turn.slot] = takeTile(arguments);
      fetchTile(storage, arguments, turn.slot);
    }
    __syncwarp();
    bool isEnd = storage.indices[turn.slot] >= arguments.tileEnd;
    if (!isEnd)
      withTile<Elements>(storage, arguments, turn,
                         [](auto &&tile) { tile.write(tile.everything()); });
    arriveThreads(FullBarrier + turn.held, DiffThreads);
    if (isEnd)
      return;
  }
}

template <typename Elements>
__device__ inline void copyTiles(DiffStorage &storage,
                                 const DiffArguments &arguments) {
  for (TileTurn turn = {0, 0};; turn = turn.next()) {
    syncThreads(FullBarrier + turn.held, DiffThreads);
    if (storage.indices[turn.slot] >= arguments.tileEnd)
      return;
    withTile<Elements>(storage, arguments, turn,
                       [](auto &&tile) { tile.copy(); });
    arriveThreads(FreeBarrier + turn.held, DiffThreads);
  }
}

/// Body of the kernel, with DiffThreads threads.
template <typename Elements>
__device__ inline void diffTiles(const DiffArguments &given) {
  __shared__ DiffStorage storage;
  const bool isCopy = given.mode == DiffWhole || given.mode == DiffSnapshot;
  if (threadIdx.x == 0) {
    storage.arguments = given;
    storage.listCount = 0;
    for (FoundChanges &found : storage.found)
      found.isEnd = false;
    storage.indices[0] = takeTile(given);
    if (!isCopy)
      storage.indices[1] = takeTile(given);
    fetchTile(storage, given, 0);
  }
  __syncthreads();
  const DiffArguments &arguments = storage.arguments;
  const bool isScribe = threadIdx.x >= NumWorkers;
  if (isCopy)
    isScribe ? placeTiles<Elements>(storage, arguments)
             : copyTiles<Elements>(storage, arguments);
  else
    isScribe ? writeTiles<Elements>(storage, arguments)
             : workOnTiles<Elements>(storage, arguments);
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_DIFFKERNEL_CUH
