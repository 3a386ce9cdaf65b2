//===- DeviceIntake.h - Messages and parameters of a GPU --------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The intake of a CUDA plan. A batch of messages is read by four launches,
/// whatever their number, and the host waits once; a commit is one launch, two
/// for a full sync into padded parameters. What comes in memory of the host is
/// uploaded first; what a transport lends in memory of the device is read where
/// it lies. Memory is allocated when a landing is bound, and for copies of
/// messages when one is larger than those before.
///
/// A kernel only says whether a message fits. Of one that does not, the bytes
/// are copied to the host and read by its code, which says why.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_DEVICE_DEVICEINTAKE_H
#define DELTA_RUNTIME_DEVICE_DEVICEINTAKE_H

#include "runtime/Intake.h"
#include "runtime/device/DeviceFingerprint.h"
#include "runtime/device/DeviceLanding.h"

namespace delta::runtime {

class DeviceIntake : public Intake {
public:
  /// Borrows the tables of the plan.
  DeviceIntake(std::shared_ptr<Device> device, const delta_tables_t &tables)
      : device(std::move(device)), tables(tables), pool(1) {}
  ~DeviceIntake() override;

  Status checkMemory(const Landing &landing) override;
  Status land(const Landing &landing, const Landing *moved) override;
  Status setStream(void *stream) override;
  bool readsTogether() const override { return true; }
  Status add(Message &message) override;
  Status read(Message *const *messages, size_t count) override;
  bool peek(const Message &message, MessageHeader &outHeader) override;
  Status readFrame(Message &message, MessageHeader &outHeader) override;
  Status readSections(Message &message, const MessageHeader &header,
                      const Landing &to, StagedSpan &out) override;
  Status accept(Message &message) override;
  void drop(Message &message) override;
  void clear() override;
  Status commit(const Landing &to, bool isSeed, bool listsRows) override;
  Status finish() override { return device->wait(stream); }
  Status getReached(std::vector<uint8_t> &outRows) override;
  Status compare(const Landing &to, uint64_t &outMismatches,
                 Difference &outFirst) override;
  Status listTiles(const Landing &to,
                   const std::vector<StagedTile> *&out) override;
  Status compareElements(const std::vector<ElementPair> &pairs,
                         std::vector<uint8_t> &outDiffer) override;
  Status sumTerms(const delta_kernels_t &kernels,
                  const std::vector<FingerprintTerm> &terms,
                  std::vector<uint64_t> &out) override;

private:
  /// A message that was added.
  struct Record {
    DeviceBuffer copy; ///< kept for later messages
    const uint8_t *bytes = nullptr;
    uint64_t numBytes = 0;
    bool isUsed = false;
    device::MessageReport report = {};
    std::vector<SectionView> views; ///< of its copy on the host
  };
  /// Memory that depends on the landing.
  struct Room {
    DeviceLanding landing, moved;
    bool hasMoved = false;
    uint32_t numMessages = 0; ///< of a batch, at most
    uint32_t partsOfMessage = 0;
    uint64_t numSegments = 0;
    uint64_t numTiles = 0;
    DeviceBuffer results; ///< totals and reports
    DeviceBuffer parts, segments, staged, reached;
    DeviceBuffer pinned; ///< messages of a batch, then what `results` has
  };

  Status allocate(Room &room) const;
  uint32_t findRecord(uint64_t numBytes, bool isCopied);
  Status launchStage(Message *const *messages, size_t count);
  Status fetchResults(size_t count);
  Status fetch(const void *from, void *to, uint64_t numBytes);
  Status explain(Message &message);
  bool isRefused(const Message &message) const {
    return records[message.number].report.flags & device::RefusedMessage;
  }
  const DeviceLanding &landingOf(bool isMoved) const {
    return isMoved ? room.moved : room.landing;
  }
  Status describe(const Landing &to, uint64_t number, Difference &out);
  Status launch(DeviceKernel kernel, uint64_t numItems, const void *arguments);
  device::StageTotals *totals() const {
    return room.results.as<device::StageTotals>();
  }

  std::shared_ptr<Device> device;
  const delta_tables_t &tables;
  Pool pool; ///< of one thread, for messages that are read on the host
  Stream stream = nullptr;
  std::unique_ptr<DeviceFingerprint> sums; ///< made when it is asked for
  Room room;
  std::vector<Record> records;
  size_t batchSize = 0, numBatchAccepted = 0;
  uint64_t batchTiles = 0;
  uint64_t numAccepted = 0; ///< staged tiles
  bool isMoved = false;     ///< they are of experts that moved
  bool hasReached = false;
  bool wasMoved = false; ///< the last commit was
  std::vector<StagedTile> listed;
  std::vector<StagedTile> explained; ///< tiles found by the host, not staged
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_DEVICE_DEVICEINTAKE_H
