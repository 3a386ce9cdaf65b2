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

#include "Twins.h"

#include "codegen/device/ValueOps.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace delta::test;
using namespace delta::runtime;
namespace device = delta::device;

namespace {

/// An fp32 value that is rounded to `bits`, as far from it as it may be: a tie
/// where the bits are even, just less where they are odd.
float valueOf(delta_dtype_t dtype, uint64_t bits) {
  bool isOdd = bits & 1;
  if (dtype == DELTA_BF16)
    return device::floatOfBits(device::Bf16::toFp32(uint16_t(bits)) +
                               (isOdd ? 0x7fff : 0x8000));
  uint32_t exponent = bits >> 10 & 31;
  uint32_t more = exponent == 0 || exponent == 31 ? 0 : isOdd ? 0xfff : 0x1000;
  return device::floatOfBits(device::Fp16::toFp32(uint16_t(bits)) + more);
}

Geometry make(uint32_t tp, uint32_t dp, uint32_t ep) {
  Geometry geometry;
  geometry.tp = tp;
  geometry.dp = dp;
  geometry.ep = ep;
  return geometry;
}

/// What mixedModel has of 16 bits, or all of it.
std::vector<Matrix> model(const Geometry &source, const Geometry &destination,
                          bool only16) {
  std::vector<Matrix> out = mixedModel(source, destination);
  std::vector<Matrix> kept;
  for (const Matrix &matrix : out)
    // An op may hide a change from who compares behind it.
    if (!only16 || (matrix.op == DELTA_VALUE_ID &&
                    (matrix.dtype == DELTA_BF16 || matrix.dtype == DELTA_FP16)))
      kept.push_back(matrix);
  return kept;
}

class DeviceBitmapTest : public testing::Test {
protected:
  explicit DeviceBitmapTest(bool only16 = true, Geometry from = make(2, 1, 2),
                            bool unaligned = false)
      : source(from), plan(source, destination, true, 2, 4,
                           model(source, destination, only16)),
        cluster(plan), twins(plan.getTables(), cluster.sourceMemory,
                             cluster.senders, options(unaligned)) {
    cluster.fill();
    // What no cast gives: a NaN that is not quiet.
    cluster.update(1, 0, [](uint64_t bits) { return bits & 0x3fff; });
    twins.setCapacity(1);
    twins.sync(1, /*isSeed=*/true);
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
    const RankMemory &host = *cluster.sourceMemory[rank];
    const int64_t count = host.getNumElements(param);
    delta_dtype_t dtype = cluster.sourceMemory[rank]->getBound()[param].dtype;
    DeviceBuffer values;
    ASSERT_FALSE(values.allocate(twins.device, uint64_t(count) * sizeof(float))
                     .failed());
    for (int64_t i = 0; i < count; ++i)
      values.as<float>()[i] = valueOf(dtype, host.get(param, i));
    const int64_t cuts[] = {0, std::min<int64_t>(count, 5),
                            std::max<int64_t>(count - 13, count / 2), count};
    for (int piece = 0; piece < 3; ++piece) {
      Status status = twins.senders[rank]->cast(
          param, values.as<float>() + cuts[piece], cuts[piece],
          std::max<int64_t>(cuts[piece + 1] - cuts[piece], 0));
      EXPECT_FALSE(status.failed()) << status.getText();
    }
  }

  uint64_t numSteps = 0;
  Geometry source, destination;
  TestPlan plan;
  Cluster cluster;
  Twins twins;
};

class UnalignedBitmapTest : public DeviceBitmapTest {
protected:
  UnalignedBitmapTest() : DeviceBitmapTest(true, make(1, 1, 1), true) {}
};

class MixedBitmapTest : public DeviceBitmapTest {
protected:
  MixedBitmapTest() : DeviceBitmapTest(false, make(1, 1, 1)) {}
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

/// The bits are taken by the graph of the compare, and cleared by the confirm.
TEST_F(DeviceBitmapTest, SendsTheSameFromGraphs) {
  auto capture = [&](Status (Sender::*call)()) {
    twins.device->beginCapture(nullptr);
    for (auto &sender : twins.senders)
      EXPECT_FALSE((sender.get()->*call)().failed());
    return twins.device->endCapture();
  };
  auto compare = capture(&Sender::compare), seal = capture(&Sender::seal);
  EXPECT_TRUE(capture(&Sender::advance).empty());
  uint64_t version = 1;
  for (double share : {0.02, 0.0, 0.5, 0.02}) {
    step(share);
    for (auto &sender : twins.hosts)
      EXPECT_FALSE(sender->compare().failed());
    twins.device->replay(compare);
    ++version;
    twins.both([&](Sender &one) { return one.read(version, nullptr); });
    for (auto &sender : twins.hosts)
      EXPECT_FALSE(sender->seal().failed());
    twins.device->replay(seal);
    EXPECT_GT(twins.send(), 0u);
    twins.both([&](Sender &one) { return one.confirm(version); });
  }
}

TEST_F(DeviceBitmapTest, SendsInTheSameRounds) {
  twins.setCapacity(0.1);
  step(0.4);
  twins.diff(2);
  EXPECT_GT(twins.mostRounds(), 2u);
  twins.send();
  twins.acknowledge(2);
  twins.diff(3);
  EXPECT_EQ(twins.numChanged, 0u);
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
  twins.send();
  twins.acknowledge(2);
  twins.diff(3);
  EXPECT_EQ(twins.numChanged, 0u);
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
  EXPECT_EQ(text(cluster.senders[0]->mark(0)),
            "rank 0: mark: the plan is for the host, required: one for CUDA "
            "with sync.snapshot \"bitmap\"");
  TwinOptions others;
  others.snapshot = DELTA_SNAPSHOT_PINNED;
  Twins valued(plan.getTables(), cluster.sourceMemory, cluster.senders, others);
  EXPECT_EQ(text(valued.senders[0]->cast(0, from, 0, 1)),
            "rank 0: cast: the plan has values as its snapshot, required: "
            "sync.snapshot \"bitmap\"");
}
