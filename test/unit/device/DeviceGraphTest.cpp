//===- DeviceGraphTest.cpp - Syncs from graphs ----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The parts of a sync are captured once. From then on senders of the device
/// are told no more than what the host does, their kernels run from the bytes
/// of the first time, and each message still has to be the host target's.
///
//===----------------------------------------------------------------------===//

#include "Casts.h"

#include <gtest/gtest.h>

using namespace delta::test;
using namespace delta::runtime;

namespace {

uint64_t flip(uint64_t bits) { return bits ^ 1; }

class DeviceGraphTest : public testing::TestWithParam<delta_snapshot_t> {
protected:
  DeviceGraphTest() {
    cluster.fill();
    if (isBitmap()) // what no cast gives: a NaN that is not quiet
      cluster.update(1, 0, [](uint64_t bits) { return bits & 0x3fff; });
    twins.setCapacity(1);
    twins.sync(1, /*isSeed=*/true);
  }
  static TwinOptions options() {
    TwinOptions options;
    options.snapshot = GetParam();
    options.chunkBytes = 1024;
    return options;
  }
  static Geometry source() {
    Geometry geometry;
    geometry.tp = 2;
    return geometry;
  }
  static bool isBitmap() { return GetParam() == DELTA_SNAPSHOT_BITMAP; }
  static std::vector<Matrix> model(const Geometry &destination) {
    return isBitmap() ? bitmapModel(source(), destination, /*only16=*/true)
                      : mixedModel(source(), destination);
  }
  bool advancesByKernel() const {
    return GetParam() == DELTA_SNAPSHOT_DEVICE ||
           GetParam() == DELTA_SNAPSHOT_PINNED;
  }

  /// What `call` enqueues for all senders of the device.
  template <typename Call> EmulatedDevice::Graph capture(const Call &call) {
    twins.device->beginCapture(nullptr);
    for (auto &sender : twins.senders) {
      Status status = call(*sender);
      EXPECT_FALSE(status.failed()) << status.getText();
    }
    return twins.device->endCapture();
  }
  void captureAll() {
    compare = capture([](Sender &one) { return one.compare(); });
    seal = capture([](Sender &one) { return one.seal(); });
    advance = capture([](Sender &one) { return one.advance(); });
  }
  template <typename Call> void hosts(const Call &call) {
    for (auto &sender : twins.hosts) {
      Status status = call(*sender);
      EXPECT_FALSE(status.failed()) << status.getText();
    }
  }

  void change(double share) {
    ++numChanges;
    if (isBitmap())
      return castSome(share);
    cluster.update(share, numChanges * 811, flip);
    twins.refresh();
  }
  void castSome(double share) {
    cluster.update(share, numChanges * 811, [](uint64_t bits) {
      return (bits & 0x3fff) + 1; // no NaN, no infinity
    });
    for (uint32_t rank = 0; rank < twins.senders.size(); ++rank) {
      RankMemory &host = *cluster.sourceMemory[rank];
      for (uint32_t i = 0; i < host.getBound().size(); ++i)
        castElements(twins, host, rank, i, 0, host.getNumElements(i));
    }
  }
  void replayCompare() {
    hosts([](Sender &one) { return one.compare(); });
    twins.device->replay(compare);
  }
  void read(uint64_t version) {
    twins.both([&](Sender &one) { return one.read(version, nullptr); });
  }
  void replaySeal() {
    hosts([](Sender &one) { return one.seal(); });
    twins.device->replay(seal);
  }
  void confirmAndReplay(uint64_t version) {
    twins.both([&](Sender &one) { return one.confirm(version); });
    hosts([](Sender &one) { return one.advance(); });
    twins.device->replay(advance);
  }
  /// A whole sync; returns the number of messages, which were compared.
  size_t sync(uint64_t version) {
    replayCompare();
    read(version);
    replaySeal();
    size_t numSent = twins.send();
    confirmAndReplay(version);
    return numSent;
  }

  Geometry destination;
  TestPlan plan{source(), destination, false, 2, 2, model(destination)};
  Cluster cluster{plan};
  Twins twins{plan.getTables(), cluster.sourceMemory, cluster.senders,
              options()};
  EmulatedDevice::Graph compare, seal, advance;
  uint64_t numChanges = 0;
};

class BitmapGraphTest : public DeviceGraphTest {};

std::string nameOf(const testing::TestParamInfo<delta_snapshot_t> &info) {
  const char *const names[] = {"device", "pinned", "pageable", "bitmap"};
  return names[info.param];
}

} // namespace

TEST_P(DeviceGraphTest, BytesOfEverySyncAreTheHosts) {
  captureAll();
  EXPECT_EQ(advance.empty(), !advancesByKernel());
  uint64_t version = 1;
  for (double share : {0.1, 0.0, 0.9, 0.02, 0.3}) {
    change(share);
    const uint64_t numLaunches = twins.device->getNumLaunches();
    const uint64_t numAllocations = twins.device->numAllocations;
    EXPECT_GT(sync(++version), 0u);
    EXPECT_EQ(twins.device->getNumLaunches(), numLaunches) << "all from graphs";
    EXPECT_EQ(twins.device->numAllocations, numAllocations);
  }
  // Calls and full syncs in between.
  change(0.2);
  twins.sync(++version, /*isSeed=*/false);
  change(0.2);
  sync(++version);
  change(0.2);
  twins.sync(++version, /*isSeed=*/true);
  change(0.2);
  sync(++version);
  if (isBitmap()) // marks all that is bound
    return;
  // Parameters elsewhere: the tables that kernels read are at the same place.
  for (uint32_t rank = 0; rank < twins.senders.size(); ++rank)
    EXPECT_FALSE(twins.rebind(rank).failed());
  change(0.2);
  sync(++version);
}

/// So one graph may begin with the advance of the sync before.
TEST_P(DeviceGraphTest, AnAbortedSyncDoesNotAdvance) {
  captureAll();
  twins.device->replay(seal);
  twins.device->replay(advance);
  change(0.1);
  replayCompare();
  read(2);
  replaySeal();
  twins.abort();
  twins.device->replay(advance);
  change(0.1);
  sync(2);
  // Nor does one that was confirmed advance twice.
  change(0.1);
  replayCompare();
  twins.device->replay(advance);
  read(3);
  replaySeal();
  twins.send();
  confirmAndReplay(3);
  change(0.1);
  sync(4);
}

TEST_P(DeviceGraphTest, RoundsAreLeftToTheSend) {
  twins.setCapacity(0.2);
  captureAll();
  uint64_t version = 1;
  for (double share : {0.01, 0.9, 0.05, 0.6}) {
    change(share);
    replayCompare();
    read(++version);
    bool hasRounds = share > 0.5;
    EXPECT_EQ(twins.mostRounds() > 1, hasRounds) << share;
    auto before = twins.device->getContents();
    replaySeal();
    EXPECT_EQ(twins.device->getContents() == before, hasRounds) << share;
    twins.send();
    confirmAndReplay(version);
  }
}

TEST_P(DeviceGraphTest, WhatIsNotSealedIsNotSent) {
  captureAll();
  change(0.1);
  replayCompare();
  read(2);
  EXPECT_EQ(twins.send(), 0u); // refused alike
  Recorder none;
  Status status = twins.senders[0]->send(none.transport());
  EXPECT_EQ(status.getCode(), DELTA_REFUSED);
  EXPECT_EQ(status.getText(),
            "rank 0: sender_send: what is packed is not sealed");
  replaySeal();
  EXPECT_GT(twins.send(), 0u);
  confirmAndReplay(2);
  change(0.1);
  sync(3);
}

TEST_P(DeviceGraphTest, AForgottenAdvanceIsFound) {
  captureAll();
  change(0.1);
  replayCompare();
  read(2);
  replaySeal();
  twins.send();
  twins.both([](Sender &one) { return one.confirm(2); });
  change(0.1);
  if (!advancesByKernel()) { // nothing was left to be launched
    sync(3);
    return;
  }
  twins.device->replay(compare);
  for (auto &sender : twins.senders) {
    Status status = sender->read(3, nullptr);
    EXPECT_EQ(status.getCode(), DELTA_REFUSED);
    EXPECT_NE(status.getText().find(": sender_read: the advance of the version "
                                    "before was not launched; a full sync is "
                                    "required"),
              std::string::npos)
        << status.getText();
  }
  twins.sync(3, /*isSeed=*/true);
  change(0.1);
  sync(4);
}

TEST_P(DeviceGraphTest, WhatIsOverwrittenIsNotUsed) {
  captureAll();
  change(0.1);
  replayCompare();
  read(2);
  replaySeal();
  change(0.2);
  twins.device->replay(compare);
  Recorder none;
  for (auto &sender : twins.senders) {
    const std::string rank =
        "rank " + std::to_string(sender->getShard().getExpansion().rank);
    const char *why = "what is packed was overwritten by a compare";
    EXPECT_EQ(sender->send(none.transport()).getText(),
              rank + ": sender_send: " + why);
    EXPECT_EQ(sender->acknowledge(2).getText(),
              rank + ": sender_acknowledge: " + why);
    EXPECT_EQ(sender->confirm(2).getText(), rank + ": sender_confirm: " + why);
  }
  EXPECT_TRUE(none.messages.empty());
  twins.abort();
  // The compare of the newer values is there.
  hosts([](Sender &one) { return one.compare(); });
  read(2);
  replaySeal();
  twins.send();
  confirmAndReplay(2);
}

TEST_P(DeviceGraphTest, AStreamThatIsCapturedWaitsForNothing) {
  char streams[2];
  EmulatedDevice &device = *twins.device;
  Sender &sender = *twins.senders[0];
  uint64_t numWaits = device.numWaits;
  device.beginCapture(&streams[0]);
  EXPECT_FALSE(sender.setStream(&streams[0]).failed());
  EXPECT_FALSE(sender.compare().failed());
  EXPECT_EQ(device.numWaits, numWaits);
  EXPECT_FALSE(device.endCapture().empty());
  // Nothing ran on the stream that was captured.
  EXPECT_FALSE(sender.setStream(nullptr).failed());
  EXPECT_EQ(device.numWaits, numWaits);
  EXPECT_FALSE(sender.setStream(&streams[1]).failed());
  EXPECT_EQ(device.numWaits, numWaits + 1);
  // A wait, as of any other call, fails the capture.
  device.beginCapture(&streams[1]);
  EXPECT_EQ(sender.pack(2, nullptr).getText(),
            "rank 0: sender_pack: cuStreamSynchronize: operation not permitted "
            "when stream is capturing");
  EXPECT_EQ(sender.seal().getText(), "");
  device.endCapture();
  EXPECT_EQ(sender.seal().getText(), "rank 0: sender_seal: nothing is packed");
}

/// What was compared, and not packed, is compared again.
TEST_P(DeviceGraphTest, ACompareMayBeLaunchedTwice) {
  captureAll();
  uint64_t version = 1;
  for (double share : {0.1, 0.6}) {
    change(share);
    twins.device->replay(compare);
    change(0.1);
    twins.device->replay(compare);
    sync(++version);
    twins.diff(version + 1);
    EXPECT_EQ(twins.numChanged, 0u);
    twins.abort();
  }
}

/// A confirm that overtakes a compare, launched too early, forgets what it
/// confirms, and not what that compare has taken.
TEST_P(BitmapGraphTest, AConfirmForgetsNoMoreThanItConfirms) {
  captureAll();
  constexpr size_t NumSteps = 5; // Restore, clear, Diff, Take, copy
  ASSERT_EQ(compare.size(), NumSteps * twins.senders.size());
  change(0.1);
  replayCompare();
  read(2);
  replaySeal();
  twins.send();
  change(0.1);
  EmulatedDevice::Graph done, undone;
  for (size_t i = 0; i < compare.size(); ++i)
    (i % NumSteps == NumSteps - 1 ? undone : done).push_back(compare[i]);
  twins.device->replay(done);
  confirmAndReplay(2);
  twins.device->replay(undone);
  auto numChanged = [&] {
    uint64_t sum = 0;
    for (auto &sender : twins.senders) {
      delta_sync_stats_t stats = {};
      EXPECT_FALSE(sender->read(3, &stats).failed());
      sum += stats.changed;
      sender->abort();
    }
    return sum;
  };
  const uint64_t first = numChanged();
  EXPECT_GT(first, 0u);
  twins.device->replay(compare);
  EXPECT_GE(numChanged(), first);
}

INSTANTIATE_TEST_SUITE_P(Snapshots, DeviceGraphTest,
                         testing::Values(DELTA_SNAPSHOT_DEVICE,
                                         DELTA_SNAPSHOT_PINNED,
                                         DELTA_SNAPSHOT_PAGEABLE,
                                         DELTA_SNAPSHOT_BITMAP),
                         nameOf);

INSTANTIATE_TEST_SUITE_P(Snapshots, BitmapGraphTest,
                         testing::Values(DELTA_SNAPSHOT_BITMAP), nameOf);
