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
/// Rounds. With a capacity of C elements, the tiles of a sync are cut into
/// ranges that send at most C each: a range ends before the tile that would
/// exceed it. Two neighboring ranges send more than C together, so there are
/// less than 2 * elements / C + 1.
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
  /// For whole tiles as the snapshot has them, with a message for each of
  /// `destinations`.
  Packer(const Shard &shard, Pool &pool,
         const std::vector<uint32_t> &destinations);

  /// Allocates all that rounds of `elements` need, which is at least the
  /// largest tile; 0: back to memory that grows.
  void setCapacity(uint64_t elements);

  /// Cuts the sync into rounds, sums up what they will send, and starts with
  /// the first one.
  void plan(const Diff &diff);
  uint32_t getNumRounds() const { return uint32_t(rounds.size()); }
  /// Tiles of a round.
  std::pair<int64_t, int64_t> getRange(uint32_t round) const;
  /// Elements that a round sends.
  uint64_t getNumSent(uint32_t round) const { return rounds[round].numSent; }
  /// Elements that the changes in the tiles of a round amount to now.
  uint64_t countSent(const Diff &diff, uint32_t round) const;

  /// Packs the changes of a round; `header` holds all but what a message
  /// decides itself.
  void pack(const Diff &diff, uint32_t round, const MessageHeader &header);
  /// Writes the packed values to the snapshot; `onMove(tile)` is told, by any
  /// thread, of tiles whose snapshot that changed.
  template <typename OnMove> void advanceSnapshot(const OnMove &onMove);
  void advanceSnapshot() {
    advanceSnapshot([](int64_t) {});
  }
  /// Drops what is packed; `release` gives its memory back too.
  void clear(bool release);

  /// Destination ranks, ascending.
  const std::vector<uint32_t> &getDestinations() const { return destinations; }
  /// The message of destination number `index`, in parts; valid until the next
  /// call.
  const std::vector<delta_bytes_t> &message(uint32_t index) const;

  /// Of all rounds.
  uint64_t getMessageBytes() const { return messageBytes; }
  uint64_t getNumTiles() const { return numTiles; }
  uint64_t getNumDenseTiles() const { return numDense; }
  /// Bytes of the packed buffer.
  uint64_t getPackedBytes() const { return packed.getCapacity(); }

private:
  /// Tiles from the end of the round before to `endTile`.
  struct Round {
    int64_t endTile;
    uint64_t numSent;
  };
  /// A section of the packed buffer; empty when `numBytes` is 0.
  struct Section {
    int64_t firstTile = 0, endTile = 0; ///< tiles of the set
    size_t firstPacked = 0, endPacked = 0;
    uint64_t begin = 0, numBytes = 0;
    device::SectionShape shape = {};
    uint64_t checksum = 0;
  };
  void cutRounds(const Diff &diff);
  uint64_t placeTiles(const Diff &diff, uint32_t round);
  void placeSection(const Diff &diff, Section &section, uint32_t round,
                    uint64_t begin);
  void writeHead(const Section &section);
  void copyTile(const PackedTile &packed, const Diff &diff);
  void writeHeaders(const MessageHeader &common);
  bool advanceTile(const PackedTile &packed);
  void sumMessages();

  /// Present tiles that a thread copies at a time.
  static constexpr int64_t CopyGrain = 16;

  const Shard &shard;
  Pool &pool;
  const bool fromSnapshot;
  uint64_t capacity = 0;
  Buffer packed;
  std::vector<Round> rounds;
  std::vector<Section> sections; ///< one for each set
  std::vector<PackedTile> tiles;
  std::vector<uint32_t> destinations;
  /// Sets that contain a destination, ascending.
  std::vector<std::vector<uint32_t>> setsOf;
  std::vector<uint8_t> headers;
  std::vector<uint64_t> checksums; ///< of the sections of one message
  mutable std::vector<delta_bytes_t> parts;
  uint64_t messageBytes = 0, numTiles = 0, numDense = 0;
};

template <typename OnMove> void Packer::advanceSnapshot(const OnMove &onMove) {
  pool.run(int64_t(tiles.size()), CopyGrain,
           [&](int64_t begin, int64_t end, uint32_t) {
             for (int64_t i = begin; i < end; ++i)
               if (advanceTile(tiles[size_t(i)]))
                 onMove(tiles[size_t(i)].tile);
           });
}

} // namespace delta::runtime

#endif // DELTA_RUNTIME_PACK_H
