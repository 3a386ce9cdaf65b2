//===- SealKernel.cuh - Checksums and headers of messages -------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Makes messages of what was packed, in one launch: headers of the sections,
/// the checksum of each over its three pieces, and the header of each message.
/// The block that is done last writes what needs all sums.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_SEALKERNEL_CUH
#define DELTA_CODEGEN_DEVICE_SEALKERNEL_CUH

#include "codegen/device/BlockSums.cuh"
#include "codegen/device/SourceArguments.h"

namespace delta::device {

/// The three pieces of a packed section.
struct SectionPieces {
  const uint8_t *head;
  uint64_t headBytes; ///< header, bitmap and codes
  const uint8_t *offsets;
  uint64_t offsetBytes;
  const uint8_t *values;
  uint64_t valueBytes;

  DELTA_HD uint64_t numBytes() const {
    return headBytes + offsetBytes + valueBytes;
  }
};

/// Pieces of section `index`; it is not empty.
DELTA_HD SectionPieces piecesOf(const SealArguments &arguments,
                                uint32_t index) {
  const SectionPlan &plan = arguments.sections[index];
  const SectionPlace &place = arguments.sectionPlaces[index];
  uint64_t numTiles = uint64_t(plan.endTile - plan.firstTile);
  return {
      arguments.heads + plan.headAt,
      SectionHeaderBytes + alignPart((numTiles + 7) / 8) +
          alignPart(place.numPresent * 2),
      reinterpret_cast<const uint8_t *>(arguments.offsets + place.offsetsBegin),
      alignPart((place.offsetsEnd - place.offsetsBegin) * 2),
      arguments.values + place.valuesBegin,
      alignPart(place.valuesEnd - place.valuesBegin)};
}

/// The sum of the checksum's terms of `numBytes` bytes at `from`, a multiple of
/// 16, which begin at byte `at` of their section. The part of one thread of
/// `numThreads`, 16 bytes a load, four in flight.
__device__ inline uint64_t sumOfTerms(const uint8_t *from, uint64_t numBytes,
                                      uint64_t at, uint64_t thread,
                                      uint64_t numThreads) {
  constexpr uint32_t InFlight = 4;
  const ulonglong2 *pairs = reinterpret_cast<const ulonglong2 *>(from);
  const uint64_t numPairs = numBytes / 16, first = sectionWord(at);
  uint64_t sum = 0, i = thread;
  auto add = [&](const ulonglong2 &pair, uint64_t index) {
    sum += checksumTerm(pair.x, first + index * 2) +
           checksumTerm(pair.y, first + index * 2 + 1);
  };
  for (; i + (InFlight - 1) * numThreads < numPairs;
       i += InFlight * numThreads) {
    ulonglong2 loaded[InFlight];
#pragma unroll
    for (uint32_t j = 0; j < InFlight; ++j)
      loaded[j] = __ldcs(pairs + i + j * numThreads);
#pragma unroll
    for (uint32_t j = 0; j < InFlight; ++j)
      add(loaded[j], i + j * numThreads);
  }
  for (; i < numPairs; i += numThreads)
    add(__ldcs(pairs + i), i);
  return sum;
}

/// Words 1 to 3 of a section: what its header says but for the checksum.
DELTA_HD uint64_t sumOfHeader(uint64_t numBytes, uint32_t set) {
  return checksumTerm(numBytes, sectionWord(8)) +
         checksumTerm(set, sectionWord(16)) + checksumTerm(0, sectionWord(24));
}

/// Headers of sections and messages, by one block, when all sums are there.
__device__ inline void writeSeals(const SealArguments &arguments) {
  for (uint32_t i = threadIdx.x; i < arguments.numSections; i += BlockThreads) {
    if (arguments.sectionPlaces[i].numPresent == 0)
      continue;
    uint64_t numBytes = piecesOf(arguments, i).numBytes();
    SectionHeader header;
    // Other blocks have added to it: past the L1 cache.
    header.checksum = checksumOf(
        __ldcg(arguments.sums + i) + sumOfHeader(numBytes, i), numBytes - 8);
    header.numBytes = numBytes;
    header.set = i;
    *reinterpret_cast<SectionHeader *>(arguments.heads +
                                       arguments.sections[i].headAt) = header;
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < arguments.numMessages; i += BlockThreads) {
    const SealMessage &message = arguments.messages[i];
    MessageHeader header = arguments.orders->header;
    header.destination = message.destination;
    uint64_t sum = 0;
    for (uint32_t j = message.firstSection; j < message.endSection; ++j) {
      uint32_t section = arguments.messageSections[j];
      if (arguments.sectionPlaces[section].numPresent == 0)
        continue;
      const SectionHeader &part = *reinterpret_cast<const SectionHeader *>(
          arguments.heads + arguments.sections[section].headAt);
      sum += checksumTerm(part.checksum, HeaderWords + header.numSections);
      header.payloadBytes += part.numBytes;
      ++header.numSections;
    }
    uint64_t *out =
        reinterpret_cast<uint64_t *>(arguments.headers + i * HeaderBytes);
    *reinterpret_cast<MessageHeader *>(out) = header;
    for (uint64_t word = 0; word < HeaderWords; ++word)
      sum += checksumTerm(out[word], word);
    out[HeaderWords] = checksumOf(sum, (HeaderWords + header.numSections) * 8);
  }
  if (threadIdx.x == 0)
    arguments.orders->isSealed = 1;
}

/// Body of the kernel; any number of blocks.
template <typename Elements>
__device__ inline void sealMessages(const SealArguments &arguments) {
  if (arguments.totals->overflowed)
    return;
  __shared__ BlockSums<1> blockSums;
  const uint64_t thread = uint64_t(blockIdx.x) * BlockThreads + threadIdx.x;
  const uint64_t numThreads = uint64_t(gridDim.x) * BlockThreads;
  for (uint32_t i = 0; i < arguments.numSections; ++i) {
    if (arguments.sectionPlaces[i].numPresent == 0)
      continue;
    SectionPieces pieces = piecesOf(arguments, i);
    // A small section is summed by one block, another one for each.
    uint64_t first = thread, all = numThreads;
    if (pieces.numBytes() < BlockThreads * 64) {
      if (i % gridDim.x != blockIdx.x)
        continue;
      first = threadIdx.x;
      all = BlockThreads;
    }
    // What the diff has copied whole it has summed as well.
    const bool isSummed =
        arguments.totals->hasValueSums && arguments.sections[i].isEven;
    uint64_t sum[] = {
        sumOfTerms(pieces.head + SectionHeaderBytes,
                   pieces.headBytes - SectionHeaderBytes, SectionHeaderBytes,
                   first, all) +
        sumOfTerms(pieces.offsets, pieces.offsetBytes, pieces.headBytes, first,
                   all) +
        sumOfTerms(pieces.values, isSummed ? 0 : pieces.valueBytes,
                   pieces.headBytes + pieces.offsetBytes, first, all)};
    blockSums.add(sum);
    if (threadIdx.x == 0)
      atomicAdd(reinterpret_cast<unsigned long long *>(arguments.sums + i),
                (unsigned long long)(sum[0]));
  }
  __shared__ bool isLast;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0)
    isLast = atomicAdd(arguments.numDone, 1u) + 1 == gridDim.x;
  __syncthreads();
  if (!isLast)
    return;
  __threadfence(); // what the others added is read after they were counted
  writeSeals(arguments);
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_SEALKERNEL_CUH
