//===- Wire.cpp - Bytes of a message --------------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Wire.h"

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace delta::runtime;

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "messages are little-endian; packing copies values as they lie in memory"
#endif

template <typename T> static void put(uint8_t *out, uint64_t at, T value) {
  memcpy(out + at, &value, sizeof(value));
}

template <typename T> static T get(const uint8_t *in, uint64_t at) {
  T value;
  memcpy(&value, in + at, sizeof(value));
  return value;
}

static constexpr uint64_t SealAt = HeaderBytes - 8;

void delta::runtime::writeHeader(const MessageHeader &header, uint8_t *out) {
  put(out, 0, header.magic);
  put(out, 4, header.wireVersion);
  put(out, 8, header.run);
  put(out, 16, header.plan[0]);
  put(out, 24, header.plan[1]);
  put(out, 32, header.base);
  put(out, 40, header.version);
  put(out, 48, header.source);
  put(out, 52, header.destination);
  put(out, 56, header.numSections);
  put(out, 60, header.flags);
  put(out, 64, header.payloadBytes);
  put(out, 72, header.round);
  put(out, 76, header.numRounds);
  put(out, 80, header.placement);
  put(out, 88, header.previous);
}

MessageHeader delta::runtime::readHeader(const uint8_t *in) {
  MessageHeader header;
  header.magic = get<uint32_t>(in, 0);
  header.wireVersion = get<uint32_t>(in, 4);
  header.run = get<uint64_t>(in, 8);
  header.plan[0] = get<uint64_t>(in, 16);
  header.plan[1] = get<uint64_t>(in, 24);
  header.base = get<uint64_t>(in, 32);
  header.version = get<uint64_t>(in, 40);
  header.source = get<uint32_t>(in, 48);
  header.destination = get<uint32_t>(in, 52);
  header.numSections = get<uint32_t>(in, 56);
  header.flags = get<uint32_t>(in, 60);
  header.payloadBytes = get<uint64_t>(in, 64);
  header.round = get<uint32_t>(in, 72);
  header.numRounds = get<uint32_t>(in, 76);
  header.placement = get<uint64_t>(in, 80);
  header.previous = get<uint64_t>(in, 88);
  return header;
}

uint64_t delta::runtime::headerChecksum(const uint8_t *header,
                                        const uint64_t *sectionChecksums,
                                        uint32_t count) {
  uint64_t sections =
      XXH3_64bits(sectionChecksums, count * sizeof(sectionChecksums[0]));
  return XXH3_64bits_withSeed(header, SealAt, sections);
}

void delta::runtime::sealHeader(uint8_t *header, uint64_t checksum) {
  put(header, SealAt, checksum);
}

uint64_t delta::runtime::readSeal(const uint8_t *header) {
  return get<uint64_t>(header, SealAt);
}

uint64_t delta::runtime::sealSection(const SectionHeader &header,
                                     uint8_t *section) {
  put(section, 8, header.numBytes);
  put(section, 16, header.set);
  put(section, 20, header.reserved);
  uint64_t checksum = sectionChecksum(section, header.numBytes);
  put(section, 0, checksum);
  return checksum;
}

SectionHeader delta::runtime::readSectionHeader(const uint8_t *in) {
  SectionHeader header;
  header.checksum = get<uint64_t>(in, 0);
  header.numBytes = get<uint64_t>(in, 8);
  header.set = get<uint32_t>(in, 16);
  header.reserved = get<uint32_t>(in, 20);
  return header;
}

uint64_t delta::runtime::sectionChecksum(const uint8_t *section,
                                         uint64_t numBytes) {
  return XXH3_64bits(section + 8, numBytes - 8);
}
