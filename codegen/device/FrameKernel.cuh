//===- FrameKernel.cuh - Walking messages on the device ---------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The first kernel of a batch: a thread a message walks its frame from section
/// to section, within the bytes that it has, and finds the tables of each. The
/// block then sums up what there is to do, which the kernels after it share
/// out. Device only.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_FRAMEKERNEL_CUH
#define DELTA_CODEGEN_DEVICE_FRAMEKERNEL_CUH

#include "codegen/device/BlockSums.cuh"
#include "codegen/device/DestinationArguments.h"

namespace delta::device {

/// Walks one message; one thread.
class MessageWalk {
public:
  __device__ MessageWalk(const StageArguments &arguments, uint32_t index)
      : from(arguments.messages[index]), landing(arguments.landing),
        moved(arguments.moved), report(arguments.reports[index]),
        parts(arguments.parts + uint64_t(index) * arguments.partsOfMessage),
        room(arguments.partsOfMessage), index(index) {}

  __device__ void run() {
    report.header = MessageHeader();
    report.header.magic = 0;
    report.seal = 0;
    report.flags = 0;
    report.firstTile = ~0u;
    report.lastTile = 0;
    report.reserved = 0;
    report.numTiles = 0;
    bool fits = from.numBytes >= HeaderBytes && readHeader() && walk();
    if (!fits)
      report.flags = RefusedMessage;
    else if (isMoved() && !moved.sources)
      report.flags = UnlandedMessage;
    else if (!land(isMoved() ? moved : landing))
      report.flags = RefusedMessage;
    for (uint32_t i = report.flags ? 0 : numParts; i < room; ++i)
      parts[i] = StagedPart();
  }

private:
  __device__ bool isMoved() const { return report.header.flags & MovedFlag; }

  __device__ bool readHeader() {
    const uint64_t *words = reinterpret_cast<const uint64_t *>(from.bytes);
    uint64_t *to = reinterpret_cast<uint64_t *>(&report.header);
    for (uint32_t i = 0; i < HeaderWords; ++i) {
      to[i] = words[i];
      sum += checksumTerm(to[i], i);
    }
    report.seal = words[HeaderWords];
    const MessageHeader &header = report.header;
    return header.magic == WireMagic && header.wireVersion == WireVersion &&
           !(header.flags & ~(SeedFlag | MovedFlag)) &&
           header.flags != (SeedFlag | MovedFlag) &&
           header.round < header.numRounds &&
           header.payloadBytes == from.numBytes - HeaderBytes;
  }

  /// Sizes of the sections, and the checksum of the header.
  __device__ bool walk() {
    const uint8_t *at = from.bytes + HeaderBytes;
    for (uint64_t left = from.numBytes - HeaderBytes; left;) {
      if (left < SectionHeaderBytes || numParts == room)
        return false;
      SectionHeader section = *reinterpret_cast<const SectionHeader *>(at);
      if (section.numBytes < SectionHeaderBytes || section.numBytes > left ||
          section.numBytes % PartAlignment != 0 || section.reserved ||
          section.reserved2)
        return false;
      StagedPart part = {};
      part.section = at;
      part.numBytes = section.numBytes;
      part.message = index;
      part.isWhole = (report.header.flags & (SeedFlag | MovedFlag)) != 0;
      parts[numParts] = part;
      sum += checksumTerm(section.checksum, HeaderWords + numParts);
      ++numParts;
      at += section.numBytes;
      left -= section.numBytes;
    }
    return numParts == report.header.numSections &&
           checksumOf(sum, (HeaderWords + numParts) * 8) == report.seal;
  }

  /// Finds the tables of each section. Both ascend by set.
  __device__ bool land(const DestinationTables &tables) {
    uint32_t rank = report.header.source;
    if (from.expectedSource != DELTA_NONE && from.expectedSource != rank)
      return false;
    uint32_t source = 0;
    while (source < tables.numSources && tables.sources[source].rank < rank)
      ++source;
    if (source == tables.numSources || tables.sources[source].rank != rank)
      return numParts == 0;
    uint32_t next = tables.sources[source].firstSection;
    uint32_t end = tables.sources[source].endSection;
    for (uint32_t i = 0; i < numParts; ++i) {
      uint32_t set =
          reinterpret_cast<const SectionHeader *>(parts[i].section)->set;
      while (next < end && tables.sections[next].set < set)
        ++next;
      if (next == end || tables.sections[next].set != set)
        return false;
      parts[i].firstTile = tables.sections[next].firstTile;
      parts[i].tiles = tables.tiles + parts[i].firstTile;
      parts[i].numTiles = tables.sections[next].numTiles;
      ++next; // no set twice
    }
    return true;
  }

  const MessagePlace from;
  const DestinationTables &landing, &moved;
  MessageReport &report;
  StagedPart *parts;
  const uint32_t room;
  const uint32_t index;
  uint32_t numParts = 0;
  uint64_t sum = 0;
};

/// Sums up the work of the parts, in their order.
__device__ inline void layOutParts(const StageArguments &arguments,
                                   BlockScan &scan) {
  uint64_t count = uint64_t(arguments.numMessages) * arguments.partsOfMessage;
  uint64_t chunks = 0, segments = 0;
  for (uint64_t base = 0; base < count; base += BlockThreads) {
    uint64_t at = base + threadIdx.x;
    bool isPart = at < count && arguments.parts[at].section;
    uint64_t ownChunks = isPart ? chunksOf(arguments.parts[at].numBytes) : 0;
    uint64_t ownSegments =
        isPart ? segmentsOf(arguments.parts[at].numTiles) : 0;
    uint64_t total;
    uint64_t chunkBegin = chunks + scan.before(ownChunks, total);
    chunks += total;
    uint64_t segmentBegin = segments + scan.before(ownSegments, total);
    segments += total;
    if (at >= count)
      continue;
    arguments.parts[at].chunkBegin = chunkBegin;
    arguments.parts[at].segmentBegin = segmentBegin;
    if (isPart && segmentBegin + ownSegments > arguments.segmentRoom)
      atomicOr(&arguments.reports[arguments.parts[at].message].flags,
               uint32_t(RefusedMessage));
  }
  if (threadIdx.x == 0) {
    StageTotals totals = {};
    totals.numChunks = chunks;
    totals.numSegments =
        segments < arguments.segmentRoom ? segments : arguments.segmentRoom;
    totals.firstDiffer = ~0ull;
    *arguments.totals = totals;
  }
}

/// Body of the kernel; one block.
template <typename Elements>
__device__ inline void walkFrames(const StageArguments &arguments) {
  __shared__ BlockScan scan;
  for (uint32_t i = threadIdx.x; i < arguments.numMessages; i += BlockThreads)
    MessageWalk(arguments, i).run();
  __syncthreads();
  layOutParts(arguments, scan);
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_FRAMEKERNEL_CUH
