//===- Wire.h - Bytes of a message ------------------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// One message goes from a source rank to a destination rank in each round of a
/// sync: a header, then one section for each destination set that contains the
/// destination and has changes. A section is the same bytes for all ranks of
/// its set, so it is packed and hashed once. All numbers are little-endian.
///
/// A sync has one round, unless its sender has a capacity that is exceeded:
/// then each round carries the changes of a range of the sender's tiles, in
/// ascending order. Each message says which round it is and how many there are;
/// a receiver takes them in this order, all of them or none.
///
///   header, 104 bytes                     section, 24 bytes + body
///   at  size what                         at  size what
///    0  u32  magic, "DLTA"                 0  u64  XXH3 of the rest
///    4  u32  version of this layout        8  u64  bytes, these 24 included
///    8  u64  run                          16  u32  number of the set
///   16  u64  plan fingerprint, first      20  u32  0
///   24  u64  plan fingerprint, second     24       body: PackFormat.h
///   32  u64  base version, 0 in a seed
///   40  u64  version
///   48  u32  source rank
///   52  u32  destination rank
///   56  u32  number of sections
///   60  u32  flags: 1 = seed, 2 = experts that moved
///   64  u64  bytes of all sections
///   72  u32  round, from 0
///   76  u32  number of rounds of this sync, at least 1
///   80  u64  fingerprint of the placement of experts (Slots.h), 0 without
///   88  u64  that of the one before it, in a message of experts that moved
///   96  u64  XXH3 of bytes 0-95 and the checksums of all sections
///
/// A set is numbered by its place among the sets of its source rank, which both
/// ends know in the same order (Expand.h).
///
/// Experts that moved are sent at the version that the receivers hold: base and
/// version are the same. Sets are numbered among those of the rows that move.
///
/// Sections and their parts are padded to 8 bytes. Nothing changed: the header
/// alone. Version 1 of this layout had no rounds, version 2 no placement.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_WIRE_H
#define DELTA_RUNTIME_WIRE_H

#include <cstdint>

namespace delta::runtime {

constexpr uint32_t WireMagic = 0x41544c44; // "DLTA"
constexpr uint32_t WireVersion = 3;
constexpr uint64_t HeaderBytes = 104;
constexpr uint64_t SectionHeaderBytes = 24;
constexpr uint32_t SeedFlag = 1;
constexpr uint32_t MovedFlag = 2;

/// The fields of a header, without checksum.
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

  bool isSeed() const { return flags & SeedFlag; }
  bool isMoved() const { return flags & MovedFlag; }
  const char *kind() const {
    return isSeed() ? "full sync" : isMoved() ? "move of experts" : "delta";
  }
};

struct SectionHeader {
  uint64_t checksum = 0;
  uint64_t numBytes = 0;
  uint32_t set = 0;
  uint32_t reserved = 0;
};

/// Writes all but the checksum; see sealHeader.
void writeHeader(const MessageHeader &header, uint8_t *out);
MessageHeader readHeader(const uint8_t *in);

/// The checksum of a written header and of its sections' checksums.
uint64_t headerChecksum(const uint8_t *header, const uint64_t *sectionChecksums,
                        uint32_t count);
void sealHeader(uint8_t *header, uint64_t checksum);
uint64_t readSeal(const uint8_t *header);

/// Writes the header of a section, whose body is in place behind it, with the
/// checksum of both; returns that.
uint64_t sealSection(const SectionHeader &header, uint8_t *section);
SectionHeader readSectionHeader(const uint8_t *in);
/// The checksum that the section should have.
uint64_t sectionChecksum(const uint8_t *section, uint64_t numBytes);

} // namespace delta::runtime

#endif // DELTA_RUNTIME_WIRE_H
