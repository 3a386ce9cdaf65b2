//===- SourceTables.h - The rows of a sender on a device --------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The tables that the kernels of a sender read (SourceArguments.h), and what
/// they write but for the streams, in one piece of memory of the device. Made
/// when rows are bound; a rebind writes them again at the same addresses.
///
///   read      rows, tiles, sections, messages, sections of messages, pointers
///             to bits
///   cleared   at the begin of a round, with one fill: words and sums of the
///             look-back, counters, the tiles of taken marks, totals and places
///             of sections, checksums, heads
///   written   places of tiles, headers of messages
///
/// In pinned memory: what the host tells the kernels of a sync (SyncOrders),
/// and what it reads of it.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_DEVICE_SOURCETABLES_H
#define DELTA_RUNTIME_DEVICE_SOURCETABLES_H

#include "codegen/device/BitmapArguments.h"
#include "runtime/Shard.h"
#include "runtime/device/Device.h"
#include "runtime/device/Snapshot.h"

namespace delta::runtime {

class SourceTables {
public:
  /// Lays out the rows of `shard`, which is borrowed, and allocates. The
  /// snapshots of the tiles are those of `like`, which has them all, or lie one
  /// after the other where it is null. Messages go to the destinations of the
  /// rows, and to all of `alsoTo`.
  Status create(std::shared_ptr<Device> on, const Shard &shard,
                const Snapshot &snapshot, const SourceTables *like,
                const std::vector<uint32_t> &alsoTo);
  /// Writes what kernels read, as the shard is bound now; `bits[i]` are those
  /// of the parameter of row i, or all is empty. Waits.
  Status upload(std::vector<const uint32_t *> bits, Stream stream);

  const Shard &getShard() const { return *shard; }
  int64_t getNumTiles() const { return int64_t(tiles.size()); }
  uint32_t getNumSections() const { return uint32_t(sections.size()); }
  const device::SourceTile &tile(int64_t index) const {
    return tiles[size_t(index)];
  }
  /// Tiles of a section.
  const device::SectionPlan &section(uint32_t index) const {
    return sections[index];
  }
  /// Number of messages that a section is part of.
  uint32_t fanOut(uint32_t section) const { return fanOuts[section]; }
  const std::vector<uint32_t> &getDestinations() const { return destinations; }
  /// Sections of the message for destination number `index`.
  const std::vector<uint32_t> &sectionsOf(uint32_t index) const {
    return setsOf[index];
  }

  /// Where the values that the receivers hold of a tile are kept, in whichever
  /// memory that is.
  uint8_t *snapshotOf(int64_t tile) const { return snapshots[size_t(tile)]; }
  /// Chunks that the compare takes one after the other: their last tiles.
  const std::vector<int64_t> &getChunkEnds() const { return chunkEnds; }
  /// Where a tile of the parameters lies in `into`, by box, layer and expert;
  /// all tiles of this one are there.
  std::vector<int64_t> tilesIn(const SourceTables &into) const;

  /// Zeroes what a round begins with.
  Status clear(Stream stream);
  /// Arguments that point into these tables; the rest is zero.
  device::DiffArguments diffArguments(device::DiffMode mode,
                                      uint32_t chunk) const;
  device::SealArguments sealArguments() const;
  /// `asks`: whether it may, when it runs.
  device::AdvanceArguments advanceArguments(bool asks) const;
  /// What marks hand to their kernels, but for `ones`.
  device::MarkedTiles markedTiles() const;
  device::TakenTiles *taken() const {
    return memory.as<device::TakenTiles>(takenAt);
  }
  uint64_t *numTaken() const { return memory.as<uint64_t>(numTakenAt); }
  const device::DiffTotals *totalsOfDevice() const {
    return memory.as<const device::DiffTotals>(totalsAt);
  }

  device::SyncOrders &orders() const {
    return *pinned.as<device::SyncOrders>();
  }
  /// Copies `orders().mayAdvance` to where an advance reads it that asks.
  Status sendOrders(Stream stream);
  /// Copies taken tiles, totals and places of sections down, into pinned
  /// memory.
  Status readBack(Stream stream);
  /// What was read back; `totals().reserved` is 1 until then.
  const device::TakenTiles &takenBack() const {
    return *pinned.as<const device::TakenTiles>(OrdersBytes);
  }
  device::DiffTotals &totals() const {
    return *pinned.as<device::DiffTotals>(OrdersBytes + TakenBytes);
  }
  const device::SectionPlace &place(uint32_t section) const {
    return pinned.as<device::SectionPlace>(OrdersBytes + TakenBytes +
                                           TotalsBytes)[section];
  }
  /// Copies the places of tiles [begin, end) down; waits.
  Status readPlaces(int64_t begin, int64_t end, Stream stream);
  const device::TilePlace &placeOf(int64_t tile) const {
    return hostPlaces[size_t(tile)];
  }

  const uint8_t *header(uint32_t message) const {
    return memory.as<const uint8_t>(headersAt + message * device::HeaderBytes);
  }
  uint8_t *heads() const { return memory.as(headsAt); }
  /// That all sections take.
  uint64_t getHeadBytes() const { return headBytes; }
  uint64_t getNumBytes() const { return memory.getNumBytes(); }

private:
  static constexpr uint64_t TakenBytes = sizeof(device::TakenTiles);
  static constexpr uint64_t TotalsBytes = 32;
  static constexpr uint64_t OrdersBytes = sizeof(device::SyncOrders);

  void makeSections(const std::vector<uint32_t> &alsoTo);
  void makeTiles(const Snapshot &snapshot);
  void layOut();
  void bindRows();

  std::shared_ptr<Device> owner;
  const Shard *shard = nullptr;
  std::vector<device::SourceRow> rows;
  std::vector<device::SourceTile> tiles;
  std::vector<uint8_t *> snapshots;
  std::vector<device::SectionPlan> sections;
  std::vector<device::SealMessage> messages;
  std::vector<uint32_t> messageSections;
  std::vector<uint32_t> fanOuts;
  std::vector<uint32_t> destinations;
  std::vector<std::vector<uint32_t>> setsOf;
  std::vector<int64_t> chunkEnds;
  std::vector<const uint32_t *> rowBits;
  std::vector<device::TilePlace> hostPlaces;

  DeviceBuffer memory, pinned;
  // Places in `memory`.
  uint64_t rowsAt = 0, tilesAt = 0, sectionsAt = 0, messagesAt = 0;
  uint64_t messageSectionsAt = 0, bitsAt = 0;
  uint64_t clearedAt = 0, countersAt = 0, takenAt = 0, totalsAt = 0, sumsAt = 0;
  uint64_t lookBackAt = 0, headsAt = 0, clearedEnd = 0;
  uint64_t inclusiveAt = 0, placesAt = 0, headersAt = 0, mayAdvanceAt = 0;
  uint64_t numTakenAt = 0;
  uint64_t headBytes = 0, memoryBytes = 0;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_DEVICE_SOURCETABLES_H
