//===- StageKernel.cuh - Checking messages on the device --------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Three kernels read the sections of the messages of a batch, however many
/// there are, and leave a list of tiles that can be written without another
/// check; FrameKernel.cuh was before them, see DestinationArguments.h. What a
/// section says is bounded twice: by its bytes, before they are read, and by
/// the tiles that the plan has, before they are listed.
///
/// The places of a tile follow from the counts of those before it. A section
/// with 80,000 tiles has 40 segments of 2,048: `sections` sums each on its own,
/// and `heads` adds up the sums of those before, so no block waits for another.
/// Device only.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_STAGEKERNEL_CUH
#define DELTA_CODEGEN_DEVICE_STAGEKERNEL_CUH

#include "codegen/device/BlockSums.cuh"
#include "codegen/device/DestinationArguments.h"
#include "codegen/device/SealKernel.cuh"

namespace delta::device {

//===----------------------------------------------------------------------===//
// Sections
//===----------------------------------------------------------------------===//

/// Adds the terms of a chunk of a section to its sum.
__device__ inline void sumChunk(StagedPart &part, uint64_t chunk) {
  uint64_t at = chunk * ChunkBytes;
  uint64_t left = part.numBytes - at;
  uint64_t sum =
      sumOfTerms(part.section + at, left < ChunkBytes ? left : ChunkBytes, at,
                 threadIdx.x, BlockThreads);
  // The first word is the checksum itself.
  if (at == 0 && threadIdx.x == 0)
    sum -= checksumTerm(*reinterpret_cast<const uint64_t *>(part.section),
                        sectionWord(0));
  sum = warpSum(sum);
  if (laneOf() == 0)
    atomicAdd(&part.sum, static_cast<unsigned long long>(sum));
}

/// The codes of up to eight tiles, which one byte of the bitmap marks.
class SegmentReader {
public:
  __device__ SegmentReader(const StagedPart &part, uint64_t segment)
      : part(part), body(part.section + SectionHeaderBytes),
        bodyBytes(part.numBytes - SectionHeaderBytes),
        codesBegin(alignPart((uint64_t(part.numTiles) + 7) / 8)),
        byteAt(segment * BlockThreads + threadIdx.x), tiles(part.tiles) {
    if (bodyBytes < codesBegin) {
      isBad = true;
      return;
    }
    uint64_t numTiles = uint64_t(part.numTiles);
    if (byteAt >= (numTiles + 7) / 8)
      return;
    bits = body[byteAt];
    uint32_t last = numTiles % 8;
    if (byteAt == numTiles / 8 && last && bits >> last) {
      isBad = true;
      bits &= (1u << last) - 1;
    }
  }

  /// Tiles that are present in the segments before; one part of them, summed
  /// over the threads of the block.
  __device__ uint64_t countBefore(uint64_t segment) const {
    const uint4 *units = reinterpret_cast<const uint4 *>(body);
    uint64_t end = segment * (BlockThreads / 16);
    uint64_t count = 0;
    for (uint64_t i = threadIdx.x; i < end && !isBad; i += BlockThreads) {
      uint4 unit = units[i];
      count += uint64_t(__popc(unit.x) + __popc(unit.y) + __popc(unit.z) +
                        __popc(unit.w));
    }
    return count;
  }

  __device__ uint32_t numPresent() const { return uint32_t(__popc(bits)); }
  __device__ bool wasBad() const { return isBad; }

  /// Calls body(tile, count, isDense, numElements, elementSize) for each tile
  /// that is present; `codeAt` is the number of its code.
  template <typename Body>
  __device__ void forEach(uint64_t codeAt, const Body &visit) {
    for (uint32_t left = bits; left; left &= left - 1, ++codeAt) {
      uint64_t tile = byteAt * 8 + uint32_t(__ffs(int(left))) - 1;
      uint32_t numElements = tiles[tile].numElements;
      uint16_t code = 0;
      if (codesBegin + (codeAt + 1) * 2 <= bodyBytes)
        code = reinterpret_cast<const uint16_t *>(body + codesBegin)[codeAt];
      bool dense = code == DenseCode;
      bool fits =
          dense || (!part.isWhole && code != 0 && !isDense(code, numElements));
      isBad |= !fits;
      uint32_t count = !fits ? 0 : dense ? numElements : code;
      visit(tile, count, dense || !fits, numElements, tiles[tile].elementSize);
    }
  }

private:
  const StagedPart &part;
  const uint8_t *body;
  const uint64_t bodyBytes;
  const uint64_t codesBegin;
  const uint64_t byteAt;
  const DestinationTile *tiles;
  uint32_t bits = 0;
  bool isBad = false;
};

/// Says that the message of a part does not fit.
__device__ inline void refuse(const StageArguments &arguments,
                              uint32_t message) {
  atomicOr(&arguments.reports[message].flags, uint32_t(RefusedMessage));
}

/// Sums what the tiles of segment `at` of the batch have.
__device__ inline void sumSegment(const StageArguments &arguments,
                                  const StagedPart &part, uint64_t at,
                                  BlockScan &scan, BlockSums<3> &sums) {
  uint64_t segment = at - part.segmentBegin;
  SegmentReader reader(part, segment);
  uint64_t ignored, counted[3] = {reader.countBefore(segment), 0, 0};
  sums.add(counted);
  uint64_t codeAt = counted[0] + scan.before(reader.numPresent(), ignored);
  uint64_t own[3] = {0, 0, reader.numPresent()};
  reader.forEach(codeAt, [&](uint64_t, uint32_t count, bool dense, uint32_t,
                             uint32_t size) {
    own[0] += uint64_t(count) * size;
    own[1] += dense ? 0 : count;
  });
  sums.add(own);
  if (threadIdx.x == 0)
    arguments.segments[at] = {own[0], uint32_t(own[1]), uint32_t(own[2])};
  if (reader.wasBad())
    refuse(arguments, part.message);
}

/// Body of the first of the three.
template <typename Elements>
__device__ inline void sumSections(const StageArguments &arguments) {
  __shared__ BlockScan scan;
  __shared__ BlockSums<3> sums;
  const StageTotals &totals = *arguments.totals;
  uint64_t numParts =
      uint64_t(arguments.numMessages) * arguments.partsOfMessage;
  uint64_t numItems = totals.numSegments + totals.numChunks;
  for (uint64_t item = blockIdx.x; item < numItems; item += gridDim.x) {
    if (item < totals.numSegments) {
      uint64_t part =
          findLast(arguments.parts, numParts, &StagedPart::segmentBegin, item);
      sumSegment(arguments, arguments.parts[part], item, scan, sums);
    } else {
      uint64_t chunk = item - totals.numSegments;
      uint64_t part =
          findLast(arguments.parts, numParts, &StagedPart::chunkBegin, chunk);
      sumChunk(arguments.parts[part], chunk - arguments.parts[part].chunkBegin);
    }
  }
}

//===----------------------------------------------------------------------===//
// Heads
//===----------------------------------------------------------------------===//

/// Lists the tiles of one segment.
class SegmentListing {
public:
  struct Storage {
    BlockScan scan;
    BlockSums<7> sums;
  };

  __device__ SegmentListing(const StageArguments &arguments,
                            const StagedPart &part, uint64_t at,
                            Storage &storage)
      : arguments(arguments), part(part), at(at), storage(storage),
        reader(part, at - part.segmentBegin) {}

  __device__ void run() {
    sumOthers();
    uint64_t numPresent;
    uint64_t own = storage.scan.before(reader.numPresent(), numPresent);
    uint64_t numOffsets = 0, numBytes = 0;
    reader.forEach(
        presentBefore + own,
        [&](uint64_t, uint32_t count, bool dense, uint32_t, uint32_t size) {
          numOffsets += dense ? 0 : count;
          numBytes += uint64_t(count) * size;
        });
    uint64_t ignored;
    uint64_t offsetAt =
        offsetsBefore + storage.scan.before(numOffsets, ignored);
    uint64_t valueAt = bytesBefore + storage.scan.before(numBytes, ignored);
    bool fits = shape.numBytes() == part.numBytes - SectionHeaderBytes;
    list(stagedBefore + own, presentBefore + own, offsetAt, valueAt, fits);
    finish(fits, numPresent);
  }

private:
  /// Sums over the segments before this one, and over its section.
  __device__ void sumOthers() {
    uint64_t begin = part.segmentBegin;
    uint64_t end = begin + segmentsOf(part.numTiles);
    uint64_t sums[7] = {};
    for (uint64_t i = threadIdx.x; i < arguments.totals->numSegments;
         i += BlockThreads) {
      const SegmentSums other = arguments.segments[i];
      if (i < at)
        sums[0] += other.numPresent;
      if (i < begin || i >= end)
        continue;
      sums[1] += other.numPresent;
      sums[2] += other.numOffsets;
      sums[3] += other.valueBytes;
      if (i >= at)
        continue;
      sums[4] += other.numPresent;
      sums[5] += other.numOffsets;
      sums[6] += other.valueBytes;
    }
    storage.sums.add(sums);
    stagedBefore = sums[0];
    shape = {uint64_t(part.numTiles), sums[1], sums[2], sums[3]};
    presentBefore = sums[4];
    offsetsBefore = sums[5];
    bytesBefore = sums[6];
  }

  /// Writes this thread's tiles. Where the sums are not those of the section,
  /// nothing is read from it any more: the tiles are empty.
  __device__ void list(uint64_t stagedAt, uint64_t codeAt, uint64_t offsetAt,
                       uint64_t valueAt, bool fits) {
    const uint8_t *body = part.section + SectionHeaderBytes;
    const uint16_t *offsets =
        reinterpret_cast<const uint16_t *>(body + shape.offsetsBegin());
    const uint8_t *values = body + shape.valuesBegin();
    uint32_t first = ~0u, last = 0;
    reader.forEach(codeAt, [&](uint64_t tile, uint32_t count, bool dense,
                               uint32_t numElements, uint32_t size) {
      StagedTile out = {};
      out.tile = uint32_t(uint64_t(part.firstTile) + tile);
      out.message = part.message;
      out.numElements = numElements;
      if (fits) {
        out.offsets = dense ? nullptr : offsets + offsetAt;
        out.values = values + valueAt;
        out.count = count;
      }
      if (stagedAt < arguments.stagedRoom)
        arguments.staged[stagedAt] = out;
      else
        refuse(arguments, part.message);
      ++stagedAt;
      offsetAt += dense ? 0 : count;
      valueAt += uint64_t(count) * size;
      first = first < out.tile ? first : out.tile;
      last = out.tile;
    });
    if (reader.numPresent()) {
      atomicMin(&arguments.reports[part.message].firstTile, first);
      atomicMax(&arguments.reports[part.message].lastTile, last);
    }
  }

  __device__ void finish(bool fits, uint64_t numPresent) const {
    if (threadIdx.x != 0)
      return;
    atomicAdd(&arguments.reports[part.message].numTiles,
              static_cast<unsigned long long>(numPresent));
    uint64_t end = stagedBefore + numPresent;
    if (at + 1 == arguments.totals->numSegments)
      arguments.totals->numStaged =
          end < arguments.stagedRoom ? end : arguments.stagedRoom;
    // One block a section compares its checksum.
    uint64_t checksum = *reinterpret_cast<const uint64_t *>(part.section);
    if (at == part.segmentBegin)
      fits &= checksumOf(part.sum, part.numBytes - 8) == checksum;
    if (!fits)
      refuse(arguments, part.message);
  }

  const StageArguments &arguments;
  const StagedPart &part;
  const uint64_t at;
  Storage &storage;
  SegmentReader reader;
  SectionShape shape = {};
  uint64_t stagedBefore = 0, presentBefore = 0, offsetsBefore = 0,
           bytesBefore = 0;
};

/// Body of the second.
template <typename Elements>
__device__ inline void listTiles(const StageArguments &arguments) {
  __shared__ SegmentListing::Storage storage;
  uint64_t numParts =
      uint64_t(arguments.numMessages) * arguments.partsOfMessage;
  for (uint64_t at = blockIdx.x; at < arguments.totals->numSegments;
       at += gridDim.x) {
    uint64_t part =
        findLast(arguments.parts, numParts, &StagedPart::segmentBegin, at);
    SegmentListing(arguments, arguments.parts[part], at, storage).run();
  }
}

//===----------------------------------------------------------------------===//
// Offsets
//===----------------------------------------------------------------------===//

/// Body of the third: a warp takes a tile. Strictly ascending, and the
/// last one inside the tile.
template <typename Elements>
__device__ inline void checkOffsets(const StageArguments &arguments) {
  uint32_t lane = laneOf();
  uint64_t numWarps = uint64_t(gridDim.x) * (BlockThreads / WarpThreads);
  uint64_t warp =
      uint64_t(blockIdx.x) * (BlockThreads / WarpThreads) + warpOf();
  for (uint64_t i = warp; i < arguments.totals->numStaged; i += numWarps) {
    const StagedTile tile = arguments.staged[i];
    if (!tile.offsets)
      continue;
    bool fits = tile.offsets[tile.count - 1] < tile.numElements;
#pragma unroll 4
    for (uint32_t at = lane + 1; at < tile.count; at += WarpThreads)
      fits &= tile.offsets[at - 1] < tile.offsets[at];
    if (!fits)
      refuse(arguments, tile.message);
  }
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_STAGEKERNEL_CUH
