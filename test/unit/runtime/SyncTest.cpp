//===- SyncTest.cpp - Whole syncs between all ranks -----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Cluster.h"

#include <gtest/gtest.h>

using namespace delta::test;

namespace {

struct Case {
  const char *name;
  Geometry source, destination;
  bool toHf;
};

Geometry make(uint32_t tp, uint32_t dp, uint32_t ep, uint32_t etp, uint32_t pp,
              uint32_t vpp = 1, uint32_t replicas = 1) {
  return {tp, /*cp=*/1, dp, ep, etp, pp, vpp, replicas};
}

const Case Cases[] = {
    {"one_to_one", make(1, 1, 1, 1, 1), make(1, 1, 1, 1, 1), false},
    {"tp2_pp2_to_hf_twice", make(2, 1, 2, 1, 2), make(1, 1, 1, 1, 1, 1, 2),
     true},
    {"tp2_pp2_to_tp4", make(2, 1, 1, 2, 2), make(4, 1, 2, 2, 1), false},
    {"ep4_to_ep2_etp2", make(2, 2, 4, 1, 1), make(2, 2, 2, 2, 1), false},
    {"dp2_replicas_share", make(2, 2, 1, 1, 1), make(1, 2, 2, 1, 1, 1, 2),
     false},
    {"pp_vpp_to_pp", make(4, 1, 2, 2, 2, 2), make(2, 1, 1, 2, 4), false},
};

class SyncTest : public testing::TestWithParam<Case> {
protected:
  TestPlan plan{GetParam().source,
                GetParam().destination,
                GetParam().toHf,
                4,
                4,
                mixedModel(GetParam().source, GetParam().destination)};

  static uint64_t flip(uint64_t bits) { return bits ^ 1; }
};

} // namespace

TEST_P(SyncTest, SeedsEveryElement) {
  Cluster cluster(plan);
  cluster.fill();
  EXPECT_NE(cluster.countMismatches(), 0u);
  cluster.seed(1);
  cluster.deliver(1);
  EXPECT_EQ(cluster.countMismatches(), 0u);
  EXPECT_TRUE(cluster.guardsIntact());
}

TEST_P(SyncTest, FollowsEveryShareOfChanges) {
  Cluster cluster(plan, {2, true});
  cluster.fill();
  cluster.seed(1);
  cluster.deliver(1);
  uint64_t version = 1;
  for (double share : {0.0, 0.0003, 0.01, 0.5, 1.0, 0.01}) {
    cluster.update(share, version * 977, flip);
    ++version;
    cluster.diff(version);
    uint64_t changed = 0;
    for (const delta_sync_stats_t &stats : cluster.stats)
      changed += stats.changed;
    EXPECT_EQ(changed == 0, cluster.countMismatches() == 0);
    cluster.deliver(version);
    EXPECT_EQ(cluster.countMismatches(), 0u) << "share " << share;
  }
  EXPECT_TRUE(cluster.guardsIntact());
}

TEST_P(SyncTest, CarriesEveryBitPattern) {
  Cluster cluster(plan);
  cluster.fill();
  cluster.seed(1);
  cluster.deliver(1);
  // NaN with payloads, infinities, -0.0, subnormals: truncated to the type.
  const uint64_t patterns[] = {0x7fc17fc17fc17fc1, 0xffa0ffa0ffa0ffa0,
                               0x7f8000007f807f80, 0x8000000080008000,
                               0x7c017c017c017c01, 0x0001000100010001,
                               0xff80ff80ff80ff80, 0};
  uint64_t version = 1;
  for (uint64_t pattern : patterns) {
    cluster.update(0.3, pattern, [&](uint64_t) { return pattern; });
    cluster.diff(++version);
    cluster.deliver(version);
    EXPECT_EQ(cluster.countMismatches(), 0u) << std::hex << pattern;
  }
}

TEST_P(SyncTest, SendsHeadersAloneWhenNothingChanged) {
  Cluster cluster(plan);
  cluster.fill();
  cluster.seed(1);
  cluster.deliver(1);
  cluster.diff(2);
  for (const auto &message : cluster.allMessages())
    EXPECT_EQ(message.size(), delta::runtime::HeaderBytes);
  cluster.deliver(2);
  EXPECT_EQ(cluster.countMismatches(), 0u);
}

TEST_P(SyncTest, PacksTheSameBytesWithAnyNumberOfThreads) {
  Cluster one(plan, {1}), four(plan, {4});
  for (Cluster *cluster : {&one, &four}) {
    cluster->fill();
    cluster->seed(1);
  }
  EXPECT_TRUE(one.allMessages() == four.allMessages());
  uint64_t version = 1;
  for (double share : {0.003, 0.2, 0.9}) {
    for (Cluster *cluster : {&one, &four}) {
      cluster->deliver(version);
      cluster->update(share, version, flip);
      cluster->diff(version + 1);
    }
    EXPECT_TRUE(one.allMessages() == four.allMessages());
    ++version;
  }
}

TEST_P(SyncTest, AbortKeepsTheSnapshot) {
  Cluster cluster(plan);
  cluster.fill();
  cluster.seed(1);
  cluster.deliver(1);
  cluster.update(0.1, 5, flip);
  cluster.diff(2);
  auto before = cluster.stats;
  for (auto &sender : cluster.senders)
    sender->abort();
  cluster.diff(3);
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(cluster.stats[i].changed, before[i].changed);
  cluster.deliver(3);
  EXPECT_EQ(cluster.countMismatches(), 0u);
  cluster.diff(4);
  for (const delta_sync_stats_t &stats : cluster.stats)
    EXPECT_EQ(stats.changed, 0u);
}

TEST_P(SyncTest, AbortedSecondSeedKeepsTheChain) {
  Cluster cluster(plan);
  cluster.fill();
  cluster.seed(1);
  cluster.deliver(1);
  cluster.update(0.1, 5, flip);
  cluster.seed(2);
  for (auto &sender : cluster.senders)
    sender->abort();
  cluster.diff(2);
  cluster.deliver(2);
  EXPECT_EQ(cluster.countMismatches(), 0u);
}

TEST_P(SyncTest, OwnsEachElementOnce) {
  Cluster cluster(plan);
  cluster.fill();
  cluster.seed(1);
  uint64_t owned = 0, tensors = 0;
  for (const delta_sync_stats_t &stats : cluster.stats)
    owned += stats.elements;
  // Every neutral element has one owner; padding has none.
  delta::runtime::Side hf(plan.getTables(), DELTA_HF);
  for (const delta::runtime::Param &param : hf.params(0))
    tensors +=
        uint64_t(delta::runtime::numElements(hf.getClass(param.classIndex)));
  EXPECT_EQ(owned, tensors);
}

TEST_P(SyncTest, ReplayFindsOnePlantedElement) {
  Cluster cluster(plan);
  cluster.fill();
  cluster.seed(1);
  cluster.deliver(1);
  auto &memory = *cluster.destinationMemory.back();
  auto replay = [&](uint64_t expected, const std::string &text) {
    cluster.seed(1);
    delta_transport_t transport = cluster.inproc.transport();
    for (auto &sender : cluster.senders) {
      EXPECT_FALSE(sender->send(transport).failed());
      sender->abort();
    }
    uint64_t total = 0;
    std::string found;
    for (auto &receiver : cluster.receivers) {
      auto status = receiver->receive(transport);
      EXPECT_FALSE(status.failed()) << status.getText();
      uint64_t mismatches;
      delta::runtime::Status first;
      status = receiver->compare(mismatches, first);
      EXPECT_FALSE(status.failed()) << status.getText();
      total += mismatches;
      found += first.getText();
    }
    EXPECT_EQ(total, expected);
    EXPECT_NE(found.find(text), std::string::npos) << found;
  };
  replay(0, "");
  uint64_t bits = memory.get(1, 0);
  memory.set(1, 0, bits ^ 4);
  std::string name = memory.getBound()[1].name;
  replay(1, "rank " + std::to_string(cluster.receivers.size() - 1) + ": \"" +
                name + "\": compare: element 0 is 0x");
}

INSTANTIATE_TEST_SUITE_P(Geometries, SyncTest, testing::ValuesIn(Cases),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });
