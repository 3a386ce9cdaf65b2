//===- Wire.cpp - Bytes of a message --------------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Wire.h"

#include <cstring>

using namespace delta::runtime;
namespace device = delta::device;

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "messages are little-endian; packing copies values as they lie in memory"
#endif

static constexpr uint64_t SealAt = HeaderBytes - 8;

/// The sum of the terms of `numWords` words, of which the first has number
/// `first`.
static uint64_t sumTerms(const uint8_t *words, uint64_t numWords,
                         uint64_t first) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < numWords; ++i) {
    uint64_t word;
    memcpy(&word, words + i * 8, sizeof(word));
    sum += device::checksumTerm(word, first + i);
  }
  return sum;
}

void delta::runtime::writeHeader(const MessageHeader &header, uint8_t *out) {
  memcpy(out, &header, sizeof(header));
}

MessageHeader delta::runtime::readHeader(const uint8_t *in) {
  MessageHeader header;
  memcpy(&header, in, sizeof(header));
  return header;
}

uint64_t delta::runtime::headerChecksum(const uint8_t *header,
                                        const uint64_t *sectionChecksums,
                                        uint32_t count) {
  auto *checksums = reinterpret_cast<const uint8_t *>(sectionChecksums);
  uint64_t sum = sumTerms(header, device::HeaderWords, 0) +
                 sumTerms(checksums, count, device::HeaderWords);
  return device::checksumOf(sum, (device::HeaderWords + count) * 8);
}

void delta::runtime::sealHeader(uint8_t *header, uint64_t checksum) {
  memcpy(header + SealAt, &checksum, sizeof(checksum));
}

uint64_t delta::runtime::readSeal(const uint8_t *header) {
  uint64_t seal;
  memcpy(&seal, header + SealAt, sizeof(seal));
  return seal;
}

uint64_t delta::runtime::sealSection(const SectionHeader &header,
                                     uint8_t *section) {
  memcpy(section, &header, sizeof(header));
  uint64_t checksum = sectionChecksum(section, header.numBytes);
  memcpy(section, &checksum, sizeof(checksum));
  return checksum;
}

SectionHeader delta::runtime::readSectionHeader(const uint8_t *in) {
  SectionHeader header;
  memcpy(&header, in, sizeof(header));
  return header;
}

uint64_t delta::runtime::sectionChecksum(const uint8_t *section,
                                         uint64_t numBytes) {
  return device::checksumOf(sumTerms(section + 8, numBytes / 8 - 1, 0),
                            numBytes - 8);
}
