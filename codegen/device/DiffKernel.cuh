//===- DiffKernel.cuh - Compare and pack on the device ----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// One pass over all tiles of one element type: compare with the snapshot and
/// pack what changed. One launch for each type that a plan has, whatever the
/// number of parameters. A plan instantiates it as
///
///   extern "C" __global__ void
///   __launch_bounds__(delta::device::BlockThreads,
///                     delta::device::BlocksOfProcessor)
///   delta_diff_bf16(const delta::device::DiffArguments arguments) {
///     delta::device::diffTiles<delta::device::Bf16>(arguments);
///   }
///
/// A block of 256 threads takes a tile from a counter. Both buffers are read
/// once, 16 bytes a load, four loads of each in flight; loads are streaming,
/// for nothing is read twice. For each unit of 16 bytes one byte of a mask in
/// shared memory says which elements changed (1 << element), and the elements
/// go to a list in whatever order the threads find them. A block scan over the
/// mask gives each element its rank, the look-back (LookBack.cuh) gives the
/// tile its place, and the list is written in order: packed bytes depend on the
/// data alone. A tile whose list is full is read again; a dense tile is copied.
///
/// The output is three streams in tile order: counts, offsets, values. A
/// destination set is a range of tiles, so its part of each is contiguous.
/// Device only.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_DIFFKERNEL_CUH
#define DELTA_CODEGEN_DEVICE_DIFFKERNEL_CUH

#include "codegen/device/LookBack.cuh"
#include "codegen/device/PackFormat.h"
#include "codegen/device/ValueOps.h"

namespace delta::device {

/// A bound row of one element type. Pointers are to device memory.
struct DiffRow {
  const delta_box_t *box;
  const void *source;     ///< element 0 of the parameter or the expert's slice
  const void *snapshot;   ///< of the first tile that this rank owns
  int64_t firstTile;      ///< among the tiles of this type
  int64_t tileBegin;      ///< of the box
  int64_t elementsBefore; ///< in tiles of the box that others own
  delta_value_op_t op;
  uint32_t reserved;
};

struct DiffArguments {
  const DiffRow *rows; ///< by ascending firstTile
  uint32_t numRows;
  uint32_t reserved;
  int64_t numTiles;
  unsigned long long *nextTile; ///< zeroed before the launch
  LookBackTile *lookBack;       ///< numTiles, zeroed before the launch
  uint32_t *counts;             ///< numTiles: changed elements
  TileSums *begins;             ///< numTiles: places in the streams
  uint16_t *offsets;
  void *values;
  uint64_t capacity;  ///< elements that fit in each stream
  uint32_t *overflow; ///< set to 1 when they did not; nothing is cut then
};

/// The changes of a tile in shared memory. The list holds 4,096 elements of two
/// bytes, 6 % of a tile; 48 KiB are all there is without asking for more.
template <typename Element> struct DiffStorage {
  using Bits = typename Element::Bits;
  /// Elements of a unit of 16 bytes.
  static constexpr uint32_t Width = 16 / sizeof(Bits);
  static constexpr uint32_t NumUnits = DELTA_MAX_TILE / Width;
  /// Units whose mask one thread scans: they are neighbors.
  static constexpr uint32_t UnitsOfThread = NumUnits / BlockThreads;
  static constexpr uint32_t ListBytes = sizeof(Bits) < 8 ? 16384 : 4096;
  static constexpr uint32_t ListSize = ListBytes / (2 + sizeof(Bits));

  TileAccessStorage access;
  alignas(16) uint8_t mask[NumUnits];
  Bits listValues[ListSize];
  uint16_t listOffsets[ListSize];
  uint32_t threadBegin[BlockThreads]; ///< changes before a thread's units
  uint32_t warpSums[BlockThreads / WarpThreads];
  uint32_t listCount;
  uint32_t rowIndex;
  int64_t tile;
  TileSums before;
};

/// Works on one tile; constructed by all threads of a block.
template <typename Element> class TileDiff {
public:
  using Source = typename Element::Source;
  using Bits = typename Element::Bits;
  using Storage = DiffStorage<Element>;
  static constexpr uint32_t Width = Storage::Width;

  __device__ TileDiff(Storage &storage, const DiffArguments &arguments,
                      const DiffRow &row, int64_t index)
      : storage(storage), arguments(arguments), row(row), index(index),
        boxTile(row.tileBegin + index - row.firstTile),
        tile(tileOf(*row.box, boxTile)), numElements(tile.numElements()),
        access(storage.access, *row.box, tile, Layout::source(*row.box)),
        source(static_cast<const Source *>(row.source)),
        snapshot(static_cast<const Bits *>(row.snapshot) +
                 (elementsBefore(*row.box, boxTile) - row.elementsBefore)) {}

  __device__ void run() {
    clearMask();
    compare();
    __syncthreads();
    uint32_t changed = scanMask();
    bool dense = isDense(changed, numElements);
    if (threadIdx.x < WarpThreads)
      place(changed, dense);
    __syncthreads();
    write(changed, dense);
    __syncthreads(); // the storage is used again for the next tile
  }

private:
  /// 16 bytes as elements.
  union Unit {
    uint4 words;
    Bits elements[Width];
  };

  /// Units beyond a small tile have no changes.
  __device__ void clearMask() {
    uint4 *mask = reinterpret_cast<uint4 *>(storage.mask);
    for (uint32_t i = threadIdx.x; i < Storage::NumUnits / 16;
         i += BlockThreads)
      mask[i] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x == 0)
      storage.listCount = 0;
    __syncthreads();
  }

  __device__ static bool isAligned(const void *pointer) {
    return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
  }

  __device__ void compare() {
    // Shifted and cast values are rare and small (norms): only plain ones are
    // read wide.
    bool wide = access.hasWideRuns(Width) && isAligned(source) &&
                isAligned(snapshot) && isPlain<Element>(row.op);
    uint32_t fullUnits = wide ? numElements / Width : 0;
    compareWide(fullUnits);
    // The rest of a wide tile, or all of an unaligned one.
    uint32_t numUnits = (numElements + Width - 1) / Width;
    for (uint32_t unit = fullUnits + threadIdx.x; unit < numUnits;
         unit += BlockThreads) {
      Unit now = {}, before = {};
      for (uint32_t i = 0; i < Width; ++i) {
        uint32_t offset = unit * Width + i;
        if (offset >= numElements)
          continue; // zero on both sides: equal
        now.elements[i] =
            applyOp<Element>(source[access.element(offset)], row.op);
        before.elements[i] = snapshot[offset];
      }
      note(unit, now, before);
    }
  }

  /// Four loads of each buffer are issued before the first is used.
  __device__ void compareWide(uint32_t numUnits) {
    constexpr uint32_t InFlight = 4;
    bool contiguous = access.isContiguous();
    const Source *begin = source + access.begin();
    uint32_t unit = threadIdx.x;
    for (; unit + (InFlight - 1) * BlockThreads < numUnits;
         unit += InFlight * BlockThreads) {
      Unit now[InFlight], before[InFlight];
#pragma unroll
      for (uint32_t i = 0; i < InFlight; ++i) {
        uint32_t at = unit + i * BlockThreads;
        const Source *from = contiguous ? begin + at * Width
                                        : source + access.element(at * Width);
        now[i].words = __ldcs(reinterpret_cast<const uint4 *>(from));
        before[i].words =
            __ldcs(reinterpret_cast<const uint4 *>(snapshot + at * Width));
      }
#pragma unroll
      for (uint32_t i = 0; i < InFlight; ++i)
        note(unit + i * BlockThreads, now[i], before[i]);
    }
    for (; unit < numUnits; unit += BlockThreads) {
      Unit now, before;
      now.words = __ldcs(reinterpret_cast<const uint4 *>(
          source + access.element(unit * Width)));
      before.words =
          __ldcs(reinterpret_cast<const uint4 *>(snapshot + unit * Width));
      note(unit, now, before);
    }
  }

  /// Marks and lists what differs in a unit; nearly always nothing does.
  __device__ void note(uint32_t unit, const Unit &now, const Unit &before) {
    uint32_t differ =
        (now.words.x ^ before.words.x) | (now.words.y ^ before.words.y) |
        (now.words.z ^ before.words.z) | (now.words.w ^ before.words.w);
    if (!differ)
      return;
    uint32_t bits = 0;
#pragma unroll
    for (uint32_t i = 0; i < Width; ++i)
      bits |= uint32_t(now.elements[i] != before.elements[i]) << i;
    storage.mask[unit] = uint8_t(bits);
    uint32_t at = atomicAdd(&storage.listCount, __popc(bits));
#pragma unroll
    for (uint32_t i = 0; i < Width; ++i) {
      if (!(bits >> i & 1))
        continue;
      if (at < Storage::ListSize) {
        storage.listOffsets[at] = uint16_t(unit * Width + i);
        storage.listValues[at] = now.elements[i];
      }
      ++at;
    }
  }

  /// Changed elements in the words [begin, end) of the mask.
  __device__ uint32_t countWords(uint32_t begin, uint32_t end) const {
    const uint32_t *words = reinterpret_cast<const uint32_t *>(storage.mask);
    uint32_t count = 0;
    for (uint32_t i = begin; i < end; ++i)
      count += __popc(words[i]);
    return count;
  }

  /// Leaves in threadBegin the changes before each thread's units; returns
  /// their number in the tile.
  __device__ uint32_t scanMask() {
    constexpr uint32_t WordsOfThread = Storage::UnitsOfThread / 4;
    uint32_t lane = threadIdx.x % WarpThreads, warp = threadIdx.x / WarpThreads;
    uint32_t own = countWords(threadIdx.x * WordsOfThread,
                              (threadIdx.x + 1) * WordsOfThread);
    uint32_t inclusive = own;
    for (uint32_t step = 1; step < WarpThreads; step *= 2) {
      uint32_t other = __shfl_up_sync(FullWarp, inclusive, step);
      inclusive += lane >= step ? other : 0;
    }
    if (lane == WarpThreads - 1)
      storage.warpSums[warp] = inclusive;
    __syncthreads();
    uint32_t before = 0, total = 0;
    for (uint32_t i = 0; i < BlockThreads / WarpThreads; ++i) {
      before += i < warp ? storage.warpSums[i] : 0;
      total += storage.warpSums[i];
    }
    storage.threadBegin[threadIdx.x] = before + inclusive - own;
    return total;
  }

  /// One warp finds the tile's place in the streams and writes it down.
  __device__ void place(uint32_t changed, bool dense) {
    TileSums own = {dense ? 0 : changed, dense ? numElements : changed};
    TileSums before = lookBack(arguments.lookBack, index, own);
    if (threadIdx.x == 0) {
      arguments.counts[index] = changed;
      arguments.begins[index] = before;
      storage.before = before;
    }
  }

  __device__ void write(uint32_t changed, bool dense) {
    if (!changed)
      return;
    TileSums before = storage.before;
    uint64_t count = dense ? numElements : changed;
    if (before.numValues + count > arguments.capacity) {
      if (threadIdx.x == 0)
        *arguments.overflow = 1;
      return;
    }
    Bits *values = static_cast<Bits *>(arguments.values) + before.numValues;
    uint16_t *offsets = arguments.offsets + before.numOffsets;
    if (dense)
      writeDense(values);
    else if (storage.listCount <= Storage::ListSize)
      writeList(changed, offsets, values);
    else
      writeMasked(offsets, values);
  }

  __device__ void writeDense(Bits *values) const {
    for (uint32_t i = threadIdx.x; i < numElements; i += BlockThreads)
      values[i] = applyOp<Element>(source[access.element(i)], row.op);
  }

  /// Rank of a changed element: changes of the threads before, of the words
  /// before in the thread's units, and of the bits before in the word.
  __device__ uint32_t rankOf(uint32_t offset) const {
    constexpr uint32_t WordsOfThread = Storage::UnitsOfThread / 4;
    const uint32_t *words = reinterpret_cast<const uint32_t *>(storage.mask);
    uint32_t unit = offset / Width, word = unit / 4;
    uint32_t thread = unit / Storage::UnitsOfThread;
    uint32_t bit = unit % 4 * 8 + offset % Width;
    return storage.threadBegin[thread] +
           countWords(thread * WordsOfThread, word) +
           __popc(words[word] & ((1u << bit) - 1));
  }

  __device__ void writeList(uint32_t changed, uint16_t *offsets,
                            Bits *values) const {
    for (uint32_t i = threadIdx.x; i < changed; i += BlockThreads) {
      uint32_t offset = storage.listOffsets[i];
      uint32_t rank = rankOf(offset);
      offsets[rank] = uint16_t(offset);
      values[rank] = storage.listValues[i];
    }
  }

  /// For a tile with more changes than the list holds: each thread walks its
  /// part of the mask and reads the values again.
  __device__ void writeMasked(uint16_t *offsets, Bits *values) const {
    uint32_t rank = storage.threadBegin[threadIdx.x];
    uint32_t first = threadIdx.x * Storage::UnitsOfThread;
    for (uint32_t unit = first; unit < first + Storage::UnitsOfThread; ++unit)
      for (uint32_t bits = storage.mask[unit]; bits; bits &= bits - 1) {
        uint32_t offset = unit * Width + __ffs(bits) - 1;
        offsets[rank] = uint16_t(offset);
        values[rank++] =
            applyOp<Element>(source[access.element(offset)], row.op);
      }
  }

  Storage &storage;
  const DiffArguments &arguments;
  const DiffRow &row;
  const int64_t index;
  const int64_t boxTile;
  const Tile tile;
  const uint32_t numElements;
  const TileAccess access;
  const Source *__restrict__ source;
  const Bits *__restrict__ snapshot;
};

/// Body of the kernel: takes tiles until there are none.
template <typename Element>
__device__ inline void diffTiles(const DiffArguments &arguments) {
  __shared__ DiffStorage<Element> storage;
  for (;;) {
    if (threadIdx.x < WarpThreads) {
      int64_t tile = 0;
      if (threadIdx.x == 0)
        tile = int64_t(atomicAdd(arguments.nextTile, 1ull));
      tile = __shfl_sync(FullWarp, tile, 0);
      uint32_t row = 0;
      if (tile < arguments.numTiles)
        row = findRow(arguments.rows, arguments.numRows, tile);
      if (threadIdx.x == 0) {
        storage.tile = tile;
        storage.rowIndex = row;
      }
    }
    __syncthreads();
    int64_t tile = storage.tile;
    if (tile >= arguments.numTiles)
      return;
    TileDiff<Element>(storage, arguments, arguments.rows[storage.rowIndex],
                      tile)
        .run();
  }
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_DIFFKERNEL_CUH
