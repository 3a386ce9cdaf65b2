//===- Pack.h - From changes to the messages of a sync ----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Packs what a compare found into one section for each destination set, and
/// makes the header of each destination's message. Places follow from prefix
/// sums over the static order of tiles, so the bytes do not depend on threads.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_PACK_H
#define DELTA_RUNTIME_PACK_H

#include "codegen/device/PackFormat.h"
#include "runtime/Diff.h"
#include "runtime/Wire.h"

namespace delta::runtime {

/// A tile that is present in its section. Places are bytes in the packed
/// buffer.
struct PackedTile {
  int64_t tile;
  uint32_t count;
  bool dense;
  uint64_t offsetsAt;
  uint64_t valuesAt;
};

class Packer {
public:
  Packer(const Shard &shard, Pool &pool);

  /// Packs the changes; `header` holds all but what a message decides itself.
  void pack(const Diff &diff, const MessageHeader &header);
  /// Writes the packed values to the snapshot.
  void advanceSnapshot();
  /// Drops what is packed; `release` gives its memory back too.
  void clear(bool release);

  /// Destination ranks, ascending.
  const std::vector<uint32_t> &getDestinations() const { return destinations; }
  /// The message of destination number `index`, in parts.
  std::vector<delta_bytes_t> message(uint32_t index) const;

  uint64_t getMessageBytes() const;
  uint64_t getNumTiles() const { return tiles.size(); }
  uint64_t getNumDenseTiles() const { return numDense; }
  /// Passes over tiles or sections since the last pack began.
  uint32_t getNumLaunches() const { return numLaunches; }

private:
  /// A section of the packed buffer; empty when `numBytes` is 0.
  struct Section {
    int64_t firstTile = 0, endTile = 0; ///< tiles of the set
    size_t firstPacked = 0, endPacked = 0;
    uint64_t begin = 0, numBytes = 0;
    device::SectionShape shape = {};
    uint64_t checksum = 0;
  };
  void placeTiles(const Diff &diff);
  void placeSection(const Diff &diff, Section &section, uint64_t begin);
  void writeHead(const Section &section);
  void copyTile(const PackedTile &packed, const Diff &diff);
  void writeHeaders(const MessageHeader &common);

  const Shard &shard;
  Pool &pool;
  Buffer packed;
  std::vector<Section> sections; ///< one for each set
  std::vector<PackedTile> tiles;
  std::vector<uint32_t> destinations;
  /// Sets that contain a destination, ascending.
  std::vector<std::vector<uint32_t>> setsOf;
  std::vector<uint8_t> headers;
  uint64_t numDense = 0;
  uint32_t numLaunches = 0;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_PACK_H
