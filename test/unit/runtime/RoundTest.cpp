//===- RoundTest.cpp - Syncs that exceed a capacity -----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Recorder.h"
#include "RoundCases.h"

#include <gtest/gtest.h>

using namespace delta::test;
using namespace delta::runtime;

namespace {

uint64_t flip(uint64_t bits) { return bits ^ 1; }

class RoundTest : public testing::TestWithParam<RoundCase> {
protected:
  /// Sets the capacity of every sender to `share` of its shard, but not less
  /// than what is required.
  static void limit(Cluster &cluster, double share) {
    for (auto &sender : cluster.senders) {
      const Shard &shard = sender->getShard();
      Status status = sender->setCapacity(
          std::max(uint64_t(share * double(shard.getNumElements())),
                   uint64_t(shard.getLargestTile())));
      EXPECT_FALSE(status.failed()) << status.getText();
    }
  }
  static uint32_t mostRounds(const Cluster &cluster) {
    uint32_t most = 0;
    for (const auto &sender : cluster.senders)
      most = std::max(most, sender->getNumRounds());
    return most;
  }
  static uint64_t bufferBytes(const Cluster &cluster) {
    uint64_t total = 0;
    for (const auto &sender : cluster.senders)
      total += sender->getBufferBytes();
    return total;
  }

  TestPlan plan{GetParam().source,
                GetParam().destination,
                GetParam().toHf,
                4,
                4,
                mixedModel(GetParam().source, GetParam().destination)};
};

} // namespace

TEST_P(RoundTest, IsExactForEveryShareOfChanges) {
  for (double capacity : {0.0, 0.1, 1.0}) {
    Cluster cluster(plan, {2, true});
    limit(cluster, capacity);
    uint64_t bytes = bufferBytes(cluster);
    cluster.fill();
    cluster.seed(1);
    EXPECT_EQ(mostRounds(cluster) > 1, capacity < 1);
    cluster.deliver(1);
    EXPECT_EQ(cluster.countMismatches(), 0u);
    uint64_t version = 1;
    for (double share : {0.0, 0.01, 0.03, 0.5, 1.0, 0.01}) {
      cluster.update(share, version * 977, flip);
      cluster.diff(++version);
      if (share == 0) {
        EXPECT_EQ(mostRounds(cluster), 1u);
      }
      if (share == 1) {
        EXPECT_EQ(mostRounds(cluster) > 1, capacity < 1);
      }
      cluster.deliver(version);
      EXPECT_EQ(cluster.countMismatches(), 0u)
          << "share " << share << ", capacity " << capacity;
      EXPECT_EQ(mostRounds(cluster), 0u);
    }
    EXPECT_TRUE(cluster.guardsIntact());
    EXPECT_EQ(bufferBytes(cluster), bytes);
  }
}

TEST_P(RoundTest, SendsTheSameBytesWithAnyNumberOfThreads) {
  std::vector<Recorder::Message> sent[2];
  for (uint32_t threads : {1u, 4u}) {
    Cluster cluster(plan, {threads});
    limit(cluster, 0.05);
    Recorder recorder(cluster.inproc.transport());
    cluster.fill();
    cluster.seed(1);
    cluster.deliver(1, recorder.transport());
    for (uint64_t version = 2; version < 5; ++version) {
      cluster.update(0.4, version, flip);
      cluster.diff(version);
      cluster.deliver(version, recorder.transport());
      uint64_t bytes = 0, expected = 0;
      for (const Recorder::Message &message : recorder.messages)
        if (readHeader(message.bytes.data()).version == version)
          bytes += message.bytes.size();
      for (const delta_sync_stats_t &stats : cluster.stats)
        expected += stats.message_bytes;
      EXPECT_EQ(bytes, expected);
    }
    sent[threads == 4] = std::move(recorder.messages);
  }
  EXPECT_TRUE(sent[0] == sent[1]);
}

TEST_P(RoundTest, SendsTheSameBytesWhereOneRoundIsEnough) {
  Cluster free(plan), limited(plan);
  limit(limited, 1.0);
  for (Cluster *cluster : {&free, &limited}) {
    cluster->fill();
    cluster->seed(1);
  }
  EXPECT_TRUE(free.allMessages() == limited.allMessages());
  for (Cluster *cluster : {&free, &limited}) {
    cluster->deliver(1);
    cluster->update(0.3, 5, flip);
    cluster->diff(2);
  }
  EXPECT_TRUE(free.allMessages() == limited.allMessages());
}

TEST_P(RoundTest, AFailedSyncLosesNothing) {
  // Whatever message of a sync of many rounds is the first that fails.
  for (uint64_t failing : {0u, 1u, 3u, 7u, 12u}) {
    Cluster cluster(plan);
    limit(cluster, 0.05);
    cluster.fill();
    cluster.seed(1);
    cluster.deliver(1);
    cluster.update(0.6, 5, flip);
    cluster.diff(2);
    Recorder recorder;
    recorder.failAt = failing;
    delta_transport_t transport = recorder.transport();
    for (auto &sender : cluster.senders) {
      (void)sender->send(transport);
      sender->abort();
    }
    for (const Recorder::Message &message : recorder.messages)
      (void)cluster.receivers[message.destination]->stage(
          {message.bytes.data(), message.bytes.size()});
    for (auto &receiver : cluster.receivers)
      receiver->discard();
    // Some elements go back to what the receivers hold.
    cluster.update(0.3, 5, flip);
    cluster.diff(3);
    cluster.deliver(3);
    EXPECT_EQ(cluster.countMismatches(), 0u) << "failed at " << failing;
    cluster.diff(4);
    for (const delta_sync_stats_t &stats : cluster.stats)
      EXPECT_EQ(stats.changed, 0u);
  }
}

TEST_P(RoundTest, AReplayLeavesNothingToSend) {
  Cluster cluster(plan);
  limit(cluster, 0.05);
  cluster.fill();
  cluster.seed(1);
  cluster.deliver(1);
  cluster.seed(1);
  EXPECT_GT(mostRounds(cluster), 1u);
  delta_transport_t transport = cluster.inproc.transport();
  for (auto &sender : cluster.senders) {
    EXPECT_FALSE(sender->send(transport).failed());
    sender->abort();
  }
  for (auto &receiver : cluster.receivers) {
    EXPECT_FALSE(receiver->receive(transport).failed());
    uint64_t mismatches = 1;
    Status first;
    EXPECT_FALSE(receiver->compare(mismatches, first).failed());
    EXPECT_EQ(mismatches, 0u);
  }
  cluster.diff(2);
  for (const delta_sync_stats_t &stats : cluster.stats)
    EXPECT_EQ(stats.changed, 0u);
}

INSTANTIATE_TEST_SUITE_P(Geometries, RoundTest, testing::ValuesIn(RoundCases),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });
