//===- ScatterKernel.cuh - The commit of a receiver -------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// One launch writes all staged tiles of all element types into all their
/// images. Everything was checked when it was staged: offsets are inside their
/// tile, and no two tiles write the same element.
///
/// A block of 256 threads takes eight tiles at a time from a counter. A light
/// one, of few elements, is a warp's: offsets and values are read next to each
/// other, and what it costs are the sectors of memory that the writes touch.
/// The others are done by the whole block, one after the other. A dense tile
/// whose runs can be written 16 bytes at a time is copied so, four units of a
/// thread in flight. Its values begin wherever those of the tiles before end,
/// at a multiple of the element alone; then a unit is put together from the two
/// that it overlaps. Device only.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_SCATTERKERNEL_CUH
#define DELTA_CODEGEN_DEVICE_SCATTERKERNEL_CUH

#include "codegen/device/BlockSums.cuh"
#include "codegen/device/PlaceAccess.cuh"

namespace delta::device {

/// Bytes [shift, shift + 16) of two neighboring units; shift is even.
__device__ inline uint4 joinUnits(const uint4 &low, const uint4 &high,
                                  uint32_t shift) {
  uint32_t words[8] = {low.x,  low.y,  low.z,  low.w,
                       high.x, high.y, high.z, high.w};
  if (shift & 8) {
#pragma unroll
    for (uint32_t i = 0; i < 6; ++i)
      words[i] = words[i + 2];
  }
  if (shift & 4) {
#pragma unroll
    for (uint32_t i = 0; i < 5; ++i)
      words[i] = words[i + 1];
  }
  if (shift & 2) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i)
      words[i] = words[i] >> 16 | words[i + 1] << 16;
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

/// Threads that write a tile together, a warp or the whole block: this one, and
/// how many they are.
struct Workers {
  uint32_t thread, count;
};

/// Calls store(unit, value) for units of 16 bytes from `from`, a multiple of 2.
/// What is read besides is of the same 16 bytes as something that is copied.
template <typename Store>
__device__ inline void copyUnits(const Workers &workers, const uint8_t *from,
                                 uint32_t numUnits, const Store &store) {
  const uint32_t shift = uint32_t(reinterpret_cast<uintptr_t>(from) % 16);
  const uint4 *units = reinterpret_cast<const uint4 *>(from - shift);
  uint32_t unit = workers.thread;
  if (shift == 0) {
    constexpr uint32_t InFlight = 4;
#pragma unroll 1
    for (; unit + (InFlight - 1) * workers.count < numUnits;
         unit += InFlight * workers.count) {
      uint4 loaded[InFlight];
#pragma unroll
      for (uint32_t i = 0; i < InFlight; ++i)
        loaded[i] = __ldcs(units + unit + i * workers.count);
#pragma unroll
      for (uint32_t i = 0; i < InFlight; ++i)
        store(unit + i * workers.count, loaded[i]);
    }
#pragma unroll 1
    for (; unit < numUnits; unit += workers.count)
      store(unit, __ldcs(units + unit));
    return;
  }
  // The neighbor reads the other half of a unit, from the L1 cache.
  constexpr uint32_t InFlight = 2;
#pragma unroll 1
  for (; unit + (InFlight - 1) * workers.count < numUnits;
       unit += InFlight * workers.count) {
    uint4 low[InFlight], high[InFlight];
#pragma unroll
    for (uint32_t i = 0; i < InFlight; ++i) {
      low[i] = units[unit + i * workers.count];
      high[i] = units[unit + i * workers.count + 1];
    }
#pragma unroll
    for (uint32_t i = 0; i < InFlight; ++i)
      store(unit + i * workers.count, joinUnits(low[i], high[i], shift));
  }
#pragma unroll 1
  for (; unit < numUnits; unit += workers.count)
    store(unit, joinUnits(units[unit], units[unit + 1], shift));
}

/// Elements [begin, end) of a tile.
struct TileRange {
  uint32_t begin, end;
};

/// Copies what of a dense tile can be written 16 bytes at a time, whatever the
/// size of its elements; returns what that is.
__device__ inline TileRange copyWide(const Workers &workers,
                                     const StagedTile &staged,
                                     const DestinationTile &tile) {
  const uint8_t *values = staged.values;
  const uint32_t count = staged.count;
  const uint32_t size = tile.elementSize, width = 16 / size;
  const uint32_t skew = uint32_t(reinterpret_cast<uintptr_t>(tile.to) % 16);
  if (tile.path == ContiguousPlace) {
    uint32_t head = skew ? (16 - skew) / size : 0;
    head = head < count ? head : count;
    uint32_t numUnits = (count - head) / width;
    uint4 *to = reinterpret_cast<uint4 *>(tile.to + head * size);
    copyUnits(workers, values + head * size, numUnits,
              [=](uint32_t unit, const uint4 &value) { to[unit] = value; });
    return {head, head + numUnits * width};
  }
  // Whole units lie in runs, at multiples of 16 bytes.
  if (tile.path != EvenPlace || tile.step != 1 || skew ||
      tile.pitch % width != 0 || tile.numColumns % width != 0)
    return {0, 0};
  const SmallDivisor columns = {tile.numColumns, tile.multiplier};
  const int64_t pitch = tile.pitch - tile.numColumns;
  uint8_t *to = tile.to;
  copyUnits(workers, values, count / width,
            [=](uint32_t unit, const uint4 &value) {
              uint32_t offset = unit * width;
              int64_t element = columns.divide(offset) * pitch + offset;
              *reinterpret_cast<uint4 *>(to + element * size) = value;
            });
  return {0, count};
}

/// Writes the values of a tile into one image, element by element; those of
/// `written` are there already.
struct ElementWriter {
  Workers workers;
  TileRange written;

  template <typename Bits, typename Access>
  __device__ uint32_t visit(const StagedTile &staged,
                            const Access &access) const {
    // Loaded before anything is stored: the compiler cannot know that they do
    // not overlap.
    constexpr uint32_t InFlight = 4;
    const Bits *values = reinterpret_cast<const Bits *>(staged.values);
    const uint16_t *offsets = staged.offsets;
    const uint32_t count = staged.count;
#pragma unroll 1
    for (uint32_t i = workers.thread; i < count;
         i += InFlight * workers.count) {
      uint32_t offset[InFlight];
      Bits value[InFlight];
#pragma unroll
      for (uint32_t j = 0; j < InFlight; ++j) {
        uint32_t at = i + j * workers.count;
        offset[j] = DELTA_MAX_TILE; // none
        if (at >= count || (at >= written.begin && at < written.end))
          continue;
        offset[j] = offsets ? __ldcs(offsets + at) : at;
        value[j] = __ldcs(values + at);
      }
#pragma unroll
      for (uint32_t j = 0; j < InFlight; ++j)
        if (offset[j] < DELTA_MAX_TILE && access.holds(offset[j]))
          *access.at(offset[j]) = value[j];
    }
    return 0;
  }
};

/// Writes a staged tile into all its images. A mapped one takes all threads of
/// the block.
__device__ inline void scatterTile(const Workers &workers,
                                   PlaceStorage &storage,
                                   const DestinationTile *tiles,
                                   const StagedTile &staged) {
  for (uint32_t at = staged.tile;;) {
    const DestinationTile &tile = tiles[at];
    ElementWriter writer = {workers, {0, 0}};
    if (!staged.offsets)
      writer.written = copyWide(workers, staged, tile);
    if (writer.written.end - writer.written.begin < staged.count)
      visitElements(storage, staged, tile, writer);
    if (!tile.next)
      return;
    at = tile.next;
  }
}

/// Elements of a sparse tile that one warp writes at most.
constexpr uint32_t LightCount = 2048;

__device__ inline bool isLight(const ScatterArguments &arguments,
                               const StagedTile &staged) {
  return staged.offsets && staged.count <= LightCount &&
         !arguments.tiles[staged.tile].isMapped;
}

/// Body of the kernel. Of a group, first each warp writes a tile of its own if
/// it is light, then the block the others, in turn.
template <typename Elements>
__device__ inline void scatterTiles(const ScatterArguments &arguments) {
  __shared__ PlaceStorage storage;
  __shared__ TileTickets tickets;
  unsigned long long *counter = &arguments.totals->nextTile;
  const uint32_t warp = warpOf();
  // Few tiles are shared out among all blocks.
  uint32_t groupSize = WarpsOfBlock;
  while (groupSize > 1 && arguments.numStaged < uint64_t(groupSize) * gridDim.x)
    groupSize /= 2;
  tickets.start(counter);
  for (uint32_t turn = 0;; ++turn) {
    const uint64_t first = tickets.take(counter, turn) * groupSize;
    if (first >= arguments.numStaged)
      return;
    const uint64_t left = arguments.numStaged - first;
    const uint32_t count = left < groupSize ? uint32_t(left) : groupSize;
    bool hasHeavy =
        warp < count && !isLight(arguments, arguments.staged[first + warp]);
    hasHeavy = __syncthreads_or(hasHeavy);
    const uint32_t numSteps = hasHeavy ? 1 + count : 1;
#pragma unroll 1
    for (uint32_t step = 0; step < numSteps; ++step) {
      const uint32_t index = step ? step - 1 : warp;
      if (index >= count)
        continue;
      const StagedTile &staged = arguments.staged[first + index];
      if (isLight(arguments, staged) != (step == 0))
        continue;
      const Workers workers = step ? Workers{threadIdx.x, BlockThreads}
                                   : Workers{laneOf(), WarpThreads};
      if (arguments.reached && workers.thread == 0)
        arguments.reached[staged.tile] = 1;
      scatterTile(workers, storage, arguments.tiles, staged);
    }
  }
}

/// Body of the kernel that sets spans to zero.
template <typename Elements>
__device__ inline void zeroSpans(const ZeroArguments &arguments) {
  for (uint64_t piece = blockIdx.x; piece < arguments.numPieces;
       piece += gridDim.x) {
    const ZeroSpan &span = arguments.spans[findLast(
        arguments.spans, arguments.numSpans, &ZeroSpan::firstPiece, piece)];
    uint64_t first = (piece - span.firstPiece) * ZeroBytes;
    uint64_t left = span.numBytes - first;
    uint32_t size = uint32_t(left < ZeroBytes ? left : ZeroBytes);
    uint8_t *begin = span.begin + first;
    uint32_t skew = uint32_t(reinterpret_cast<uintptr_t>(begin) % 16);
    uint32_t head = skew ? 16 - skew : 0;
    head = head < size ? head : size;
    uint32_t numUnits = (size - head) / 16;
    uint4 *units = reinterpret_cast<uint4 *>(begin + head);
    for (uint32_t i = threadIdx.x; i < numUnits; i += BlockThreads)
      units[i] = make_uint4(0, 0, 0, 0);
    uint32_t tail = head + numUnits * 16;
    for (uint32_t i = threadIdx.x; i < head + size - tail; i += BlockThreads)
      begin[i < head ? i : i - head + tail] = 0;
  }
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_SCATTERKERNEL_CUH
