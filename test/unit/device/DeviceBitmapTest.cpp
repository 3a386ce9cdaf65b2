//===- DeviceBitmapTest.cpp - A sender without a snapshot -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Where each change goes through the cast, the bits say what a host sender
/// finds by comparing, so the bytes are the same.
///
//===----------------------------------------------------------------------===//

#include "Casts.h"

#include <gtest/gtest.h>

using namespace delta::test;
using namespace delta::runtime;

namespace {

class DeviceBitmapTest : public testing::Test {
protected:
  explicit DeviceBitmapTest(bool only16 = true,
                            Geometry from = geometryOf(2, 1, 2),
                            bool unaligned = false)
      : source(from), plan(source, destination, true, 2, 4,
                           bitmapModel(source, destination, only16)),
        cluster(plan), twins(plan.getTables(), cluster.sourceMemory,
                             cluster.senders, options(unaligned)) {
    cluster.fill();
    // What no cast gives: a NaN that is not quiet.
    cluster.update(1, 0, [](uint64_t bits) { return bits & 0x3fff; });
    twins.setCapacity(1);
    twins.sync(1, /*isSeed=*/true);
  }
  /// Ends the sync to a version; nothing is left to be sent.
  void deliver(uint64_t version) {
    twins.send();
    twins.acknowledge(version);
    twins.diff(version + 1);
    EXPECT_EQ(twins.numChanged, 0u);
  }
  static TwinOptions options(bool unaligned) {
    TwinOptions options;
    options.snapshot = DELTA_SNAPSHOT_BITMAP;
    options.unaligned = unaligned;
    return options;
  }

  /// Changes a share of the values, by the cast on the device.
  void step(double share) {
    cluster.update(share, ++numSteps * 31, [](uint64_t bits) {
      return (bits & 0x3fff) + 1; // no NaN, no infinity
    });
    for (uint32_t rank = 0; rank < twins.senders.size(); ++rank)
      for (uint32_t i = 0; i < cluster.sourceMemory[rank]->getBound().size();
           ++i)
        cast(rank, i);
  }

  /// In three pieces that begin anywhere.
  void cast(uint32_t rank, uint32_t param) {
    const int64_t count = cluster.sourceMemory[rank]->getNumElements(param);
    const int64_t cuts[] = {0, std::min<int64_t>(count, 5),
                            std::max<int64_t>(count - 13, count / 2), count};
    for (int piece = 0; piece < 3; ++piece)
      castElements(twins, *cluster.sourceMemory[rank], rank, param, cuts[piece],
                   std::max<int64_t>(cuts[piece + 1] - cuts[piece], 0));
  }

  uint64_t numSteps = 0;
  Geometry source, destination;
  TestPlan plan;
  Cluster cluster;
  Twins twins;
};

class UnalignedBitmapTest : public DeviceBitmapTest {
protected:
  UnalignedBitmapTest() : DeviceBitmapTest(true, geometryOf(1, 1, 1), true) {}
};

class MixedBitmapTest : public DeviceBitmapTest {
protected:
  MixedBitmapTest() : DeviceBitmapTest(false, geometryOf(1, 1, 1)) {}
  uint64_t numOf(uint32_t param) const {
    return uint64_t(cluster.sourceMemory[0]->getNumElements(param));
  }
  /// Elements of the parameters that are not cast.
  uint64_t numOthers() {
    uint64_t total = 0;
    auto &bound = cluster.sourceMemory[0]->getBound();
    for (uint32_t i = 0; i < bound.size(); ++i)
      if (bound[i].dtype != DELTA_BF16 && bound[i].dtype != DELTA_FP16)
        total += numOf(i);
    return total;
  }
  uint64_t numChanged(uint64_t version) {
    delta_sync_stats_t stats = {};
    Status status = twins.senders[0]->diff(version, &stats);
    EXPECT_FALSE(status.failed()) << status.getText();
    return stats.changed;
  }
};

} // namespace

TEST_F(DeviceBitmapTest, BitsSayWhatACompareFinds) {
  uint64_t version = 1;
  for (double share : {0.02, 0.0, 0.3, 1.0, 0.02}) {
    step(share);
    twins.diff(++version);
    EXPECT_EQ(twins.numChanged != 0, share != 0);
    twins.send();
    twins.acknowledge(version);
  }
}

TEST_F(UnalignedBitmapTest, BitsSayWhatACompareFinds) {
  uint64_t version = 1;
  for (double share : {0.02, 0.3, 1.0}) {
    step(share);
    twins.diff(++version);
    twins.send();
    twins.acknowledge(version);
  }
}

TEST_F(DeviceBitmapTest, SendsInTheSameRounds) {
  twins.setCapacity(0.1);
  step(0.4);
  twins.diff(2);
  EXPECT_GT(twins.mostRounds(), 2u);
  deliver(2);
}

TEST_F(DeviceBitmapTest, ACastBeforeTheAcknowledgementIsOfTheNextSync) {
  step(0.2);
  twins.diff(2);
  step(0.2);
  twins.send();
  step(0.2);
  twins.acknowledge(2);
  twins.diff(3);
  EXPECT_GT(twins.numChanged, 0u);
  twins.send();
  twins.acknowledge(3);
  twins.diff(4);
  EXPECT_EQ(twins.numChanged, 0u);
}

TEST_F(DeviceBitmapTest, AnAbortKeepsTheBits) {
  step(0.1);
  twins.diff(2);
  step(0.1);
  twins.send();
  twins.abort();
  twins.diff(2);
  twins.abort();
  step(0.1);
  twins.diff(2);
  deliver(2);
}

/// What was compared, but not packed, is compared again.
TEST_F(DeviceBitmapTest, ACompareMayBeRepeated) {
  step(0.1);
  for (auto &sender : twins.senders) {
    EXPECT_FALSE(sender->compare().failed());
    EXPECT_FALSE(sender->compare().failed());
  }
  step(0.1);
  twins.diff(2);
  EXPECT_GT(twins.numChanged, 0u);
  deliver(2);
}

/// The memory of what was packed goes, and its marks do not.
TEST_F(DeviceBitmapTest, AnAbortKeepsTheBitsUnderAnotherCapacity) {
  step(0.1);
  twins.diff(2);
  twins.abort();
  twins.setCapacity(0.5);
  step(0.1);
  twins.diff(2);
  deliver(2);
}

/// Tiles of rounds that were sent are unsure; those of the round that failed
/// and of those to come keep their marks.
TEST_F(DeviceBitmapTest, SendsUnsureTilesWholeAfterABrokenSync) {
  twins.setCapacity(0.1);
  step(0.4);
  twins.diff(2);
  uint64_t perRound = cluster.senders[0]->getPacking().getDestinations().size();
  EXPECT_GT(twins.mostRounds(), 3u);
  EXPECT_GT(twins.send(2 * perRound + 1), 0u);
  twins.abort();
  step(0.01);
  twins.areCountsEqual = false;
  twins.diff(2);
  EXPECT_GT(twins.numChanged, 0u);
  deliver(2);
}

TEST_F(DeviceBitmapTest, AFullSyncTakesAllBits) {
  step(0.1);
  twins.seed(2);
  step(0.1);
  twins.send();
  twins.acknowledge(2);
  twins.diff(3);
  EXPECT_GT(twins.numChanged, 0u);
  twins.send();
  twins.acknowledge(3);
  // A replay that is aborted loses none.
  step(0.1);
  twins.seed(3);
  twins.send();
  twins.abort();
  twins.diff(4);
  EXPECT_GT(twins.numChanged, 0u);
  twins.send();
}

/// So that a compare can be captured in a graph.
TEST_F(DeviceBitmapTest, NoArgumentOfACompareChanges) {
  using Launches = std::vector<EmulatedDevice::Launch>;
  Launches first;
  for (uint64_t version = 2; version < 6; ++version) {
    step(0.05 * double(version));
    const uint64_t numWaits = twins.device->numWaits;
    twins.device->launches.clear();
    EXPECT_FALSE(twins.senders[0]->compare().failed());
    EXPECT_EQ(twins.device->numWaits, numWaits);
    const Launches launches = twins.device->launches;
    if (version == 2)
      first = launches;
    EXPECT_TRUE(std::equal(first.begin(), first.end(), launches.begin(),
                           launches.end(), [](const auto &a, const auto &b) {
                             return a.kernel == b.kernel &&
                                    a.numBlocks == b.numBlocks &&
                                    a.arguments == b.arguments;
                           }));
    twins.diff(version);
    twins.send();
    version % 2 ? twins.abort() : twins.acknowledge(version);
    if (version % 2) { // and a full sync changes nothing either
      twins.seed(version);
      twins.send();
      twins.acknowledge(version);
    }
  }
}

TEST_F(DeviceBitmapTest, CountsTheKernelsThatItStarts) {
  uint64_t version = 1;
  for (double capacity : {1.0, 0.1}) {
    twins.setCapacity(capacity);
    for (double share : {0.0, 0.05, 0.9, -1.0}) {
      if (share > 0)
        step(share);
      Recorder recorder;
      delta_sync_stats_t stats = {};
      Sender &sender = *twins.senders[0];
      twins.device->launches.clear();
      Status status = share < 0 ? sender.seed(++version, &stats)
                                : sender.diff(++version, &stats);
      EXPECT_FALSE(status.failed()) << status.getText();
      EXPECT_FALSE(sender.send(recorder.transport()).failed());
      EXPECT_EQ(twins.device->launches.size(), stats.launches);
      if (sender.getNumRounds() == 1) {
        EXPECT_LE(stats.launches, 4u);
      }
      twins.device->launches.clear();
      EXPECT_FALSE(sender.acknowledge(version).failed());
      EXPECT_TRUE(twins.device->launches.empty());
    }
  }
}

TEST_F(MixedBitmapTest, OtherTypesAreSentWhole) {
  EXPECT_GT(numOthers(), 0u);
  EXPECT_EQ(numChanged(2), numOthers());
  EXPECT_FALSE(twins.senders[0]->acknowledge(2).failed());
  EXPECT_EQ(numChanged(3), numOthers());
}

TEST_F(MixedBitmapTest, AMarkedParameterIsSentWhole) {
  // Not the embedding, whose padding is nobody's.
  ASSERT_EQ(cluster.sourceMemory[0]->getBound()[1].dtype, DELTA_BF16);
  EXPECT_FALSE(twins.senders[0]->mark(1).failed());
  EXPECT_EQ(numChanged(2), numOthers() + numOf(1));
  twins.senders[0]->abort();
  EXPECT_EQ(numChanged(2), numOthers() + numOf(1));
  EXPECT_FALSE(twins.senders[0]->acknowledge(2).failed());
  EXPECT_EQ(numChanged(3), numOthers());
}

/// Nobody knows what differs in other memory.
TEST_F(MixedBitmapTest, AllIsMarkedWhenItLiesElsewhere) {
  EXPECT_FALSE(twins.rebind(0).failed());
  twins.refresh();
  EXPECT_EQ(numChanged(2), twins.senders[0]->getShard().getNumElements());
}

TEST_F(MixedBitmapTest, RefusesWhatHasNoBits) {
  Sender &sender = *twins.senders[0];
  auto &bound = cluster.sourceMemory[0]->getBound();
  uint32_t norm = 0;
  while (bound[norm].dtype != DELTA_FP32)
    ++norm;
  DeviceBuffer values;
  ASSERT_FALSE(values.allocate(twins.device, 4096).failed());
  const float *from = values.as<const float>();
  auto text = [](const Status &status) {
    EXPECT_EQ(status.getCode(), DELTA_INVALID_ARGUMENT);
    return status.getText();
  };
  EXPECT_EQ(text(sender.cast(norm, from, 0, 1)),
            "rank 0: cast: \"" + std::string(bound[norm].name) +
                "\": dtype fp32, required: bf16 or fp16");
  EXPECT_EQ(text(sender.cast(0, from, 0, int64_t(numOf(0)) + 1)),
            "rank 0: cast: \"embedding\": " + std::to_string(numOf(0) + 1) +
                " elements from 0, the parameter has " +
                std::to_string(numOf(0)));
  EXPECT_EQ(text(sender.cast(0, from, INT64_MAX, 2)),
            "rank 0: cast: \"embedding\": 2 elements from "
            "9223372036854775807, the parameter has " +
                std::to_string(numOf(0)));
  EXPECT_EQ(text(sender.cast(999, from, 0, 1)),
            "rank 0: cast: parameter 999, the rank has " +
                std::to_string(bound.size()));
  float host = 0;
  EXPECT_EQ(text(sender.cast(0, &host, 0, 1)),
            "rank 0: cast: values: memory of the host, required: memory of the "
            "current device");
  EXPECT_FALSE(sender.mark(norm).failed());
  // Of the other plans.
  void *marks = nullptr;
  uint64_t numBytes = 0;
  const std::string needsBitmap = "the plan has values as its snapshot, "
                                  "required: sync.snapshot \"bitmap\"";
  EXPECT_EQ(text(cluster.senders[0]->marks(false, marks, numBytes)),
            "rank 0: marks: the plan is for the host, required: one for CUDA "
            "with sync.snapshot \"bitmap\"");
  EXPECT_EQ(text(cluster.senders[0]->mark(0)),
            "rank 0: mark: the plan is for the host, required: one for CUDA "
            "with sync.snapshot \"bitmap\"");
  TwinOptions others;
  others.snapshot = DELTA_SNAPSHOT_PINNED;
  Twins valued(plan.getTables(), cluster.sourceMemory, cluster.senders, others);
  EXPECT_EQ(text(valued.senders[0]->cast(0, from, 0, 1)),
            "rank 0: cast: " + needsBitmap);
  EXPECT_EQ(text(valued.senders[0]->marks(true, marks, numBytes)),
            "rank 0: marks: " + needsBitmap);
  EXPECT_EQ(text(valued.senders[0]->dropMarks()),
            "rank 0: drop_marks: " + needsBitmap);
}
