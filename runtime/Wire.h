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
///   header, 112 bytes                     section, 32 bytes + body
///   at  size what                         at  size what
///    0  u32  magic, "DLTA"                 0  u64  checksum of the rest
///    4  u32  version of this layout        8  u64  bytes, these 32 included
///    8  u64  run                          16  u32  number of the set
///   16  u64  plan fingerprint, first      20  u32  0
///   24  u64  plan fingerprint, second     24  u64  0
///   32  u64  base version, 0 in a seed    32       body: PackFormat.h
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
///   96  u64  0
///  104  u64  checksum of bytes 0-103 and of the checksums of all sections
///
/// Checksums are those of codegen/device/WireFormat.h, over 8-byte words.
///
/// A set is numbered by its place among the sets of its source rank, which both
/// ends know in the same order (Expand.h).
///
/// Experts that moved are sent at the version that the receivers hold: base and
/// version are the same. Sets are numbered among those of the rows that move.
///
/// Headers, sections and their parts are padded to 16 bytes. Nothing changed:
/// the header alone. Version 1 of this layout had no rounds, version 2 no
/// placement, and version 3 a hash that no GPU could form.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_WIRE_H
#define DELTA_RUNTIME_WIRE_H

#include "codegen/device/WireFormat.h"

#include <cstdint>

namespace delta::runtime {

using device::HeaderBytes;
using device::MessageHeader;
using device::MovedFlag;
using device::SectionHeader;
using device::SectionHeaderBytes;
using device::SeedFlag;
using device::WireMagic;
using device::WireVersion;

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
