//===- Twins.h - Senders of both targets, side by side ----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Gives each sender of a host cluster a twin on an emulated device, with the
/// same values in memory of the device. Both are told the same; refusals,
/// counts and every byte of every message have to be the same too.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_DEVICE_TWINS_H
#define DELTA_TEST_UNIT_DEVICE_TWINS_H

#include "EmulatedDevice.h"
#include "Recorder.h"

#include "runtime/device/DevicePacking.h"

namespace delta::test {

struct TwinOptions {
  delta_snapshot_t snapshot = DELTA_SNAPSHOT_DEVICE;
  /// Parameters begin one element behind a multiple of 256 bytes.
  bool unaligned = false;
  uint32_t numThreads = 1;
  uint64_t run = 77;
  uint64_t chunkBytes = runtime::DefaultChunkBytes;
};

class Twins {
public:
  using Memories = std::vector<std::unique_ptr<RankMemory>>;
  using Senders = std::vector<std::unique_ptr<runtime::Sender>>;

  /// Twins of `senders`, whose parameters are `memory`. Borrows all.
  Twins(const delta_tables_t &tables, Memories &memory, Senders &senders,
        TwinOptions options = {});
  ~Twins();

  /// Copies the values of the host to the device.
  void refresh();
  /// Binds the twin of a sender at other addresses.
  runtime::Status rebind(uint32_t rank);

  /// Room for `share` of each shard, at least for its largest tile; share 1:
  /// one round.
  void setCapacity(double share);
  /// Calls each sender and its twin; both have to answer alike.
  template <typename Call> void both(const Call &call) {
    for (size_t rank = 0; rank < hosts.size(); ++rank)
      expectAlike(call(*hosts[rank]), call(*senders[rank]));
  }
  /// Packs a full sync or a delta on all.
  void seed(uint64_t version) { pack(version, /*isSeed=*/true); }
  void diff(uint64_t version) { pack(version, /*isSeed=*/false); }
  /// Packs what moved.
  void beginMoved();
  /// Sends what is packed on both sides, up to message `failAt` of each; the
  /// number of messages that were sent.
  size_t send(uint64_t failAt = UINT64_MAX);
  void acknowledge(uint64_t version) {
    both([&](runtime::Sender &one) { return one.acknowledge(version); });
  }
  void abort();
  /// A whole sync.
  void sync(uint64_t version, bool isSeed);

  /// Most rounds of what is packed.
  uint32_t mostRounds() const;

  delta_tables_t tables; ///< with the snapshot of the options
  std::shared_ptr<EmulatedDevice> device;
  Senders &hosts;
  Senders senders;
  uint64_t numChanged = 0; ///< of the last pack, by all
  /// A bitmap forgets which elements of a whole tile have changed.
  bool areCountsEqual = true;

private:
  static void expectAlike(const runtime::Status &host,
                          const runtime::Status &twin);
  void pack(uint64_t version, bool isSeed);
  void compareStats(const delta_sync_stats_t &host,
                    const delta_sync_stats_t &twin);
  void allocate(uint32_t rank);

  /// The parameters of a rank in memory of the device.
  struct Bound {
    std::vector<runtime::DeviceBuffer> data;
    std::vector<delta_param_t> params;
  };
  Memories &memory;
  TwinOptions options;
  std::vector<Bound> bound;
};

/// A plan with tiles of all paths of the compare: contiguous, runs and neither,
/// some larger than what a block lists.
std::vector<Matrix> wideModel(const Geometry &source,
                              const Geometry &destination);

/// Tiles of which a warp has several pieces or stages, more of them than a
/// block keeps in mind: whole ones, and such as end in the middle of a piece,
/// of a stage and of a vector; contiguous and in runs, of all sizes of
/// elements. For a source of one rank.
std::vector<Matrix> largeModel(const Geometry &destination);

} // namespace delta::test

#endif // DELTA_TEST_UNIT_DEVICE_TWINS_H
