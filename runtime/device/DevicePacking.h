//===- DevicePacking.h - A sender's memory on a device ----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Enqueues the kernels of a sender on the caller's stream. All memory is taken
/// when it is made, and by setCapacity, replace and begin; a sync takes none.
///
///   compare   one fill, then Diff (for each chunk of a pageable snapshot);
///             totals and places of sections are copied to pinned memory.
///             With a bitmap, Restore before it and Take behind it
///   wait      the one time that a sync waits before it sends
///   seal      Seal: checksums and headers; finish waits
///   advance   Advance, or threads of the host for a pageable snapshot
///
/// No argument of a compare changes from sync to sync, nor of a seal, nor of an
/// advance by advanceIfMay; nor does any address. What changes lies in pinned
/// memory (SyncOrders). So a caller may capture each in a graph and launch
/// that: it leaves no other trace than what it writes there. setCapacity,
/// replace and begin make other addresses.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_DEVICE_DEVICEPACKING_H
#define DELTA_RUNTIME_DEVICE_DEVICEPACKING_H

#include "runtime/Sender.h"
#include "runtime/device/Bitmap.h"
#include "runtime/device/DeviceFingerprint.h"
#include "runtime/device/RoundPlan.h"
#include "runtime/device/SourceTables.h"

namespace delta::runtime {

class DevicePacking : public Packing {
public:
  /// Borrows shard and pool. `snapshot` says where it is kept.
  static Status create(std::shared_ptr<Device> device,
                       const delta_tables_t &tables, Shard &shard, Pool &pool,
                       std::unique_ptr<Packing> &out,
                       uint64_t chunkBytes = DefaultChunkBytes);

  Status checkMemory(const delta_tables_t &tables,
                     const Shard &shard) const override;
  Status replace(Shard &next) override;
  Status begin(const Shard &moved) override;
  Status rebind() override;
  Status setStream(void *newStream) override;
  Status setCapacity(uint64_t elements) override;
  Status compare() override;
  Status wait() override;
  Status plan(Extent extent) override;
  Status compareRound(uint32_t round, uint64_t &outSent) override;
  Status order(uint32_t round, const MessageHeader &header) override;
  Status seal() override;
  Status finish() override;
  Status advance(bool isUnsure) override;
  Status letAdvance() override;
  Status advanceIfMay() override;
  Status settle() override;
  void clear(bool release) override;
  uint32_t getNumRounds() const override { return rounds.getNumRounds(); }
  uint64_t getNumSent(uint32_t round) const override {
    return rounds.getNumSent(round);
  }
  PackCounts getCounts() const override;
  const std::vector<uint32_t> &getDestinations() const override {
    return active().getDestinations();
  }
  /// Parts lie in memory of the device; complete after `finish`.
  const std::vector<delta_bytes_t> &message(uint32_t index) const override;
  uint64_t getBufferBytes() const override;
  bool hasValues() const override { return snapshot.hasValues(); }
  Status cast(uint32_t param, const float *values, int64_t first,
              int64_t count) override;
  Status mark(uint32_t param) override;
  Status marks(bool ofExperts, void *&out, uint64_t &outBytes) override;
  Status dropMarks() override;
  Status sumTerms(const delta_kernels_t &kernels,
                  const std::vector<FingerprintTerm> &terms,
                  std::vector<uint64_t> &out) override;

private:
  DevicePacking(std::shared_ptr<Device> device, const delta_tables_t &tables,
                Pool &pool)
      : device(std::move(device)), tables(tables), pool(pool) {}
  const SourceTables &active() const {
    return extent == Extent::Moved ? *moved : *work;
  }
  SourceTables &active() { return extent == Extent::Moved ? *moved : *work; }
  static const char *textOf(MemoryKind kind);
  device::DiffMode modeOf(Extent of) const;
  bool isChunked(Extent of) const;
  template <typename Body>
  void forEachChunk(const SourceTables &rows, Extent of, int64_t begin,
                    int64_t end, const Body &body) const;
  uint64_t countDiffs(int64_t begin, int64_t end) const;

  Status allocate(uint64_t chunkBytes);
  Status makeTables(const Shard &of, const SourceTables *like,
                    const std::vector<uint32_t> &alsoTo,
                    std::unique_ptr<SourceTables> &out);
  Status moveUnsure(const std::vector<int64_t> &from);
  Status allocateStreams(uint64_t elements, uint64_t numSections);
  Status reserveStreams(uint64_t numSections);

  Status launch(DeviceKernel kernel, uint64_t numBlocks, const void *arguments);
  Status launchWarps(DeviceKernel kernel, int64_t numTiles,
                     const void *arguments);
  bool takesMarks(Extent of) const;
  device::MarkedTiles markedTiles() const;
  Status takeMarks(Extent of, int64_t begin, int64_t end);
  Status enqueueRestore(bool isSent);
  Status restoreMarks();
  Status forgetTaken();
  Status enqueueDiff(SourceTables &rows, Extent of, int64_t begin, int64_t end);
  Status enqueueChunk(const SourceTables &rows, Extent of, uint32_t chunk,
                      const device::DiffArguments &arguments);
  device::SectionShape sectionShape(uint32_t section) const;
  Status readStreams();
  Status uploadUnsure();
  Status advanceOnHost(bool isUnsure);
  bool advancesByKernel() const {
    return snapshot.hasValues() && !snapshot.isUploaded();
  }
  device::AdvanceArguments advanceArguments(bool asks) const;
  Status requireSame(const SourceTables &rows) const;
  void noteRead(SourceTables &rows);
  Status requireAdvanced() const;

  std::shared_ptr<Device> device;
  const delta_tables_t &tables;
  Pool &pool;
  Stream stream = nullptr; ///< of the caller; may be one that is captured
  Stream worked = nullptr; ///< the last one that was not
  std::unique_ptr<DeviceFingerprint> sums; ///< made when it is asked for
  Snapshot snapshot;
  Bitmap bitmap;
  Shard *shard = nullptr; ///< of `work`
  std::unique_ptr<SourceTables> work, moved;
  Extent extent = Extent::Changed;
  RoundPlan rounds;
  uint32_t round = 0;           ///< of the last order
  uint64_t takenNumber = 0;     ///< of the tiles that are packed
  uint64_t capacity = 0;        ///< elements in the streams
  uint64_t streamSections = 0;  ///< that these have room for
  DeviceBuffer offsets, values; ///< the streams
  /// Of the work's tiles: not 0: counts as changed in all elements.
  DeviceBuffer unsure;
  bool hasUnsure = false;          ///< some may not be 0; with a bitmap, always
  Buffer hostOffsets, hostValues;  ///< for a pageable snapshot
  std::vector<uint8_t> hostUnsure; ///< likewise
  bool isUnsureStale = false;      ///< the device has not got all of it
  uint64_t numLaunches = 0;
  uint64_t compareLaunches = 0; ///< of a compare of all tiles
  uint64_t wholeLaunches = 0;   ///< of the last that took all elements
  mutable std::vector<delta_bytes_t> parts;
};

/// For Sender::create: packs on `device`, where the parameters lie.
Sender::PackingMaker onDevice(std::shared_ptr<Device> device,
                              const delta_tables_t &tables,
                              uint64_t chunkBytes = DefaultChunkBytes);

} // namespace delta::runtime

#endif // DELTA_RUNTIME_DEVICE_DEVICEPACKING_H
