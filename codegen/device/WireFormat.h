//===- WireFormat.h - The frame of a message --------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Headers and checksums of a message as they lie in memory, the same text for
/// nvcc and for the host compiler. runtime/Wire.h says what they mean. Numbers
/// are little-endian, as the machines of both targets are.
///
/// The checksum is a sum over 8-byte words, each mixed with its place, so that
/// any number of threads forms it in any order: with words w(0), w(1), ...
///
///   checksum = mix(sum of mix(w(i) + (i + 1) * golden) + number of bytes)
///
/// A word elsewhere or changed gives another summand, one of 2^64. A hash that
/// goes through its bytes in order, such as XXH3, would take one thread of a
/// GPU for each section.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_WIREFORMAT_H
#define DELTA_CODEGEN_DEVICE_WIREFORMAT_H

#include "codegen/device/PackFormat.h"

namespace delta::device {

constexpr uint32_t WireMagic = 0x41544c44; // "DLTA"
constexpr uint32_t WireVersion = 4;
constexpr uint32_t SeedFlag = 1;
constexpr uint32_t MovedFlag = 2;

/// The first bytes of a message, but for the checksum behind them.
struct MessageHeader {
  uint32_t magic = WireMagic;
  uint32_t wireVersion = WireVersion;
  uint64_t run = 0;
  uint64_t plan[2] = {0, 0};
  uint64_t base = 0;
  uint64_t version = 0;
  uint32_t source = 0;
  uint32_t destination = 0;
  uint32_t numSections = 0;
  uint32_t flags = 0;
  uint64_t payloadBytes = 0;
  uint32_t round = 0;
  uint32_t numRounds = 1;
  uint64_t placement = 0;
  uint64_t previous = 0;
  uint64_t reserved = 0;

  bool isSeed() const { return flags & SeedFlag; }
  bool isMoved() const { return flags & MovedFlag; }
  const char *kind() const {
    return isSeed() ? "full sync" : isMoved() ? "move of experts" : "delta";
  }
};
static_assert(sizeof(MessageHeader) == 104, "as in runtime/Wire.h");

/// The first bytes of a section.
struct SectionHeader {
  uint64_t checksum = 0; ///< of all words of the section behind this one
  uint64_t numBytes = 0; ///< of the section, this header included
  uint32_t set = 0;
  uint32_t reserved = 0;
  uint64_t reserved2 = 0;
};

constexpr uint64_t HeaderBytes = sizeof(MessageHeader) + 8;
constexpr uint64_t SectionHeaderBytes = sizeof(SectionHeader);
static_assert(SectionHeaderBytes == 32, "as in runtime/Wire.h");
static_assert(HeaderBytes % PartAlignment == 0 &&
                  SectionHeaderBytes % PartAlignment == 0,
              "parts of a section are aligned in their message");

/// The "golden" of the sum above.
constexpr uint64_t ChecksumStep = 0x9e3779b97f4a7c15u;

/// The summand of one word of a checksum.
DELTA_HD uint64_t checksumTerm(uint64_t word, uint64_t index) {
  return mix(word + (index + 1) * ChecksumStep);
}

/// The checksum of `numBytes` bytes whose terms sum up to `sum`.
DELTA_HD uint64_t checksumOf(uint64_t sum, uint64_t numBytes) {
  return mix(sum + numBytes);
}

/// Number of the word of a section, as its checksum counts it, that begins at
/// byte `at` of the section; its first word is the checksum itself.
DELTA_HD constexpr uint64_t sectionWord(uint64_t at) { return at / 8 - 1; }

/// Words of a message header before its checksum. Those of the checksums of its
/// sections follow them.
constexpr uint64_t HeaderWords = sizeof(MessageHeader) / 8;

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_WIREFORMAT_H
