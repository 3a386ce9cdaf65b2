//===- DeviceMarksTest.cpp - No mark is lost, and none comes back ---------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Compares that nobody packs, syncs that are aborted, broken or refused, full
/// ones and replays, in a random order and with casts in between: whatever was,
/// a sync that succeeds leaves receivers with the values of the sources, and
/// nothing to be sent. Replicas cast a flat range each, or all of them
/// everything.
///
//===----------------------------------------------------------------------===//

#include "Casts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

using namespace delta::test;
using namespace delta::runtime;

namespace {

struct MarksCase {
  const char *name;
  uint32_t tp, dp, ep;
  bool isDistributed; ///< each replica casts a range, and gathers the others
  bool unaligned;
};

const MarksCase MarksCases[] = {
    {"tp2_ep2", 2, 1, 2, false, false},
    {"dp2_unaligned", 1, 2, 1, false, true},
    {"dp3_distributed", 1, 3, 1, true, false},
    {"tp2_dp2_ep2_distributed", 2, 2, 2, true, true},
};

class DeviceMarksTest : public testing::TestWithParam<MarksCase> {
protected:
  DeviceMarksTest() {
    cluster.fill();
    cluster.update(1, 0, [](uint64_t bits) { return bits & 0x3fff; });
    twins.refresh();
    for (auto &sender : twins.senders)
      expectOk(sender->seed(1, nullptr));
    version = 1;
    EXPECT_TRUE(deliver());
  }
  static void expectOk(const Status &status) {
    EXPECT_FALSE(status.failed()) << status.getText();
  }
  static TwinOptions options() {
    TwinOptions options;
    options.snapshot = DELTA_SNAPSHOT_BITMAP;
    options.unaligned = GetParam().unaligned;
    return options;
  }

  bool isOfExperts(uint32_t rank, uint32_t param) const {
    const Param &of = cluster.sourceMemory[rank]->getParams()[param];
    return side.getClass(of.classIndex).num_experts != 0;
  }
  /// The ranks that hold the same parameters, ascending.
  std::vector<uint32_t> groupOf(uint32_t rank, bool ofExperts) const {
    auto key = [&](uint32_t of) {
      const Coordinates at = side.coordinates(of);
      return ofExperts ? std::make_tuple(at.pp, at.etp, at.ep)
                       : std::make_tuple(at.pp, at.tp, uint32_t(0));
    };
    std::vector<uint32_t> group;
    for (uint32_t other = 0; other < side.getNumRanks(); ++other)
      if (key(other) == key(rank))
        group.push_back(other);
    return group;
  }

  /// Changes a share of the values on all ranks.
  void step(double share) {
    cluster.update(share, ++numSteps, [](uint64_t bits) {
      return (bits & 0x3fff) + 1; // no NaN, no infinity
    });
    for (uint32_t rank = 0; rank < twins.senders.size(); ++rank)
      for (uint32_t i = 0; i < cluster.sourceMemory[rank]->getParams().size();
           ++i)
        cast(rank, i);
    twins.refresh(); // the gather
  }
  void cast(uint32_t rank, uint32_t param) {
    const RankMemory &host = *cluster.sourceMemory[rank];
    int64_t begin = 0, end = host.getNumElements(param);
    if (GetParam().isDistributed) {
      auto group = groupOf(rank, isOfExperts(rank, param));
      int64_t own = std::find(group.begin(), group.end(), rank) - group.begin();
      begin = end * own / int64_t(group.size());
      end = end * (own + 1) / int64_t(group.size());
    }
    castElements(twins, host, rank, param, begin, end - begin);
  }

  /// What the caller's communicator does.
  void shareMarks() {
    if (!GetParam().isDistributed)
      return;
    for (bool ofExperts : {false, true})
      for (uint32_t rank = 0; rank < twins.senders.size(); ++rank)
        if (auto group = groupOf(rank, ofExperts); group.front() == rank)
          combine(group, ofExperts);
    for (auto &sender : twins.senders)
      expectOk(sender->dropMarks());
  }
  void combine(const std::vector<uint32_t> &group, bool ofExperts) {
    std::vector<uint8_t> sum;
    for (bool writes : {false, true})
      for (uint32_t rank : group) {
        void *marks = nullptr;
        uint64_t numBytes = 0;
        expectOk(twins.senders[rank]->marks(ofExperts, marks, numBytes));
        if (rank == group.front() && !writes)
          sum.resize(numBytes);
        ASSERT_EQ(numBytes, sum.size());
        for (uint64_t i = 0; i < numBytes; ++i)
          if (uint8_t *byte = static_cast<uint8_t *>(marks) + i; writes)
            *byte = sum[i];
          else
            sum[i] |= *byte;
      }
  }

  bool diff() {
    shareMarks();
    ++version;
    bool ok = true;
    for (auto &sender : twins.senders)
      ok &= !sender->diff(version, nullptr).failed();
    return ok;
  }
  void seed(uint64_t next) {
    shareMarks();
    version = next;
    for (auto &sender : twins.senders)
      expectOk(sender->seed(version, nullptr));
  }
  void captureCompare() {
    twins.device->beginCapture(nullptr);
    for (auto &sender : twins.senders)
      expectOk(sender->compare());
    captured = twins.device->endCapture();
  }
  void abort() {
    for (auto &sender : twins.senders)
      sender->abort();
    version = received;
  }

  /// Sends what is packed to somewhere, up to message `failAt` of each sender;
  /// casts before message `castAt`, and launches what was captured.
  void sendNowhere(uint64_t failAt, uint64_t castAt) {
    for (auto &sender : twins.senders) {
      Trap trap = {this, 0, failAt, castAt};
      delta_transport_t transport = {};
      transport.context = &trap;
      transport.send = [](void *context, uint32_t, uint32_t,
                          const delta_bytes_t *, uint32_t, delta_error_t) {
        return static_cast<Trap *>(context)->send();
      };
      (void)sender->send(transport);
    }
  }
  struct Trap {
    DeviceMarksTest *test;
    uint64_t count, failAt, castAt;
    delta_status_t send() {
      if (count == castAt) {
        test->step(0.05);
        test->twins.device->replay(test->captured);
      }
      return count++ >= failAt ? delta_status_t(DELTA_REFUSED) : DELTA_OK;
    }
  };

  /// A whole sync of what is packed. Refused where parameters have changed
  /// between rounds: then it is aborted.
  bool deliver() {
    Inproc inproc(std::chrono::seconds(5));
    bool ok = true;
    for (auto &sender : twins.senders)
      ok = ok && !sender->send(inproc.transport()).failed();
    if (!ok) {
      abort();
      return false;
    }
    for (auto &receiver : cluster.receivers) {
      expectOk(receiver->receive(inproc.transport()));
      expectOk(receiver->commit());
    }
    for (auto &sender : twins.senders)
      expectOk(sender->acknowledge(version));
    received = version;
    return true;
  }

  void check() {
    ASSERT_TRUE(diff());
    ASSERT_TRUE(deliver());
    EXPECT_EQ(cluster.countMismatches(), 0u);
    shareMarks();
    for (auto &sender : twins.senders) {
      delta_sync_stats_t stats = {};
      expectOk(sender->diff(version + 1, &stats));
      EXPECT_EQ(stats.changed, 0u);
    }
    abort();
  }

  void doAnything(std::mt19937_64 &random);

  Geometry source = geometryOf(GetParam().tp, GetParam().dp, GetParam().ep);
  Geometry destination;
  TestPlan plan{source, destination, true,
                2,      4,           bitmapModel(source, destination, true)};
  Side side{plan.getTables(), DELTA_SOURCE};
  Cluster cluster{plan};
  Twins twins{plan.getTables(), cluster.sourceMemory, cluster.senders,
              options()};
  EmulatedDevice::Graph captured;
  uint64_t numSteps = 0, version = 0, received = 0;
};

void DeviceMarksTest::doAnything(std::mt19937_64 &random) {
  const double shares[] = {0.01, 0.1, 0.7};
  switch (random() % 8) {
  case 0:
    step(shares[random() % 3]);
    break;
  case 1: // nobody packs it
    shareMarks();
    for (auto &sender : twins.senders)
      if (random() % 2)
        expectOk(sender->compare());
    break;
  case 2:
    diff();
    abort();
    break;
  case 3: // fails on its way, also by a compare that comes too early
    if (random() % 2)
      captureCompare();
    diff();
    sendNowhere(random() % 20, random() % 20);
    abort();
    captured.clear();
    break;
  case 4:
    if (random() % 2)
      captureCompare();
    seed(received + 1);
    sendNowhere(random() % 20, random() % 20);
    abort();
    captured.clear();
    break;
  case 5:
    seed(received);
    sendNowhere(UINT64_MAX, UINT64_MAX);
    abort();
    break;
  case 6:
    for (auto &sender : twins.senders) {
      const Shard &shard = sender->getShard();
      expectOk(sender->setCapacity(
          std::max<uint64_t>(shard.getNumElements() / (1 + random() % 12),
                             shard.getLargestTile())));
    }
    break;
  case 7: // casts while it is on its way
    if (diff())
      step(0.05);
    deliver();
    break;
  }
}

} // namespace

TEST_P(DeviceMarksTest, WhateverWasBeforeASyncDeliversAll) {
  std::mt19937_64 random(GetParam().tp + 10 * GetParam().dp);
  for (int turn = 0; turn < 6 && !testing::Test::HasFailure(); ++turn) {
    step(0.02);
    for (int i = 0; i < 6; ++i)
      doAnything(random);
    check();
  }
}

/// A cast after the exchange is handed over by the next one.
TEST_P(DeviceMarksTest, ACastBehindTheExchangeIsOfTheNextSync) {
  step(0.1);
  shareMarks();
  step(0.1);
  ++version;
  for (auto &sender : twins.senders)
    expectOk(sender->diff(version, nullptr));
  ASSERT_TRUE(deliver());
  check();
}

INSTANTIATE_TEST_SUITE_P(Geometries, DeviceMarksTest,
                         testing::ValuesIn(MarksCases), [](const auto &info) {
                           return std::string(info.param.name);
                         });
