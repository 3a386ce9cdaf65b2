//===- RebindTest.cpp - Parameters that move ------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// An engine allocates parameters anew between two syncs, as offloading does.
/// The memory before is kept and poisoned, so that a stale pointer is seen.
///
//===----------------------------------------------------------------------===//

#include "Recorder.h"

#include <gtest/gtest.h>

using namespace delta::test;
using namespace delta::runtime;

namespace {

uint64_t flip(uint64_t bits) { return bits ^ 1; }

class RebindTest : public testing::Test {
protected:
  RebindTest()
      : plan(source(), destination(), false, 4, 4,
             mixedModel(source(), destination())),
        cluster(plan) {
    cluster.fill();
    cluster.seed(1);
    cluster.deliver(1);
  }
  static Geometry source() {
    Geometry geometry;
    geometry.tp = geometry.pp = 2;
    return geometry;
  }
  static Geometry destination() {
    Geometry geometry;
    geometry.tp = 4;
    return geometry;
  }

  /// Moves the values of a rank to new memory and destroys the old ones, which
  /// stay allocated.
  void move(std::unique_ptr<RankMemory> &memory, delta_side_id_t id,
            uint32_t rank) {
    Side side(plan.getTables(), id);
    auto moved = std::make_unique<RankMemory>(
        side, rank, /*unaligned=*/true,
        id == DELTA_DESTINATION ? cluster.device : nullptr);
    for (uint32_t i = 0; i < moved->getParams().size(); ++i)
      for (int64_t at = 0; at < moved->getNumElements(i); ++at) {
        moved->set(i, at, memory->get(i, at));
        memory->set(i, at, 0xdeaddeaddeaddead);
      }
    old.push_back(std::move(memory));
    memory = std::move(moved);
  }
  template <typename End>
  void rebind(End &end, std::unique_ptr<RankMemory> &memory) {
    auto &bound = memory->getBound();
    Status status = end.rebind(bound.data(), uint32_t(bound.size()));
    EXPECT_FALSE(status.failed()) << status.getText();
  }
  void moveAll() {
    for (uint32_t rank = 0; rank < cluster.senders.size(); ++rank) {
      move(cluster.sourceMemory[rank], DELTA_SOURCE, rank);
      rebind(*cluster.senders[rank], cluster.sourceMemory[rank]);
    }
    for (uint32_t rank = 0; rank < cluster.receivers.size(); ++rank) {
      move(cluster.destinationMemory[rank], DELTA_DESTINATION, rank);
      rebind(*cluster.receivers[rank], cluster.destinationMemory[rank]);
    }
  }
  /// True if nothing wrote to memory that was left.
  bool oldIsUntouched() const {
    for (const auto &memory : old)
      for (uint32_t i = 0; i < memory->getParams().size(); ++i)
        for (int64_t at = 0; at < memory->getNumElements(i); ++at) {
          uint64_t bits = memory->get(i, at);
          if (bits != 0xdead && bits != 0xdeaddead &&
              bits != 0xdeaddeaddeaddead)
            return false;
        }
    return true;
  }

  TestPlan plan;
  Cluster cluster;
  std::vector<std::unique_ptr<RankMemory>> old;
};

} // namespace

TEST_F(RebindTest, FollowsParametersThatMove) {
  for (uint64_t version = 2; version < 5; ++version) {
    moveAll();
    cluster.update(0.2, version, flip);
    cluster.diff(version);
    cluster.deliver(version);
    EXPECT_EQ(cluster.countMismatches(), 0u);
  }
  moveAll();
  cluster.seed(5);
  cluster.deliver(5);
  EXPECT_EQ(cluster.countMismatches(), 0u);
  EXPECT_TRUE(cluster.guardsIntact());
  EXPECT_TRUE(oldIsUntouched());
}

TEST_F(RebindTest, KeepsTheSnapshot) {
  moveAll();
  cluster.diff(2);
  for (const delta_sync_stats_t &stats : cluster.stats)
    EXPECT_EQ(stats.changed, 0u);
}

TEST_F(RebindTest, CommitsToWhereTheParametersAreNow) {
  cluster.update(0.5, 3, flip);
  cluster.diff(2);
  delta_transport_t transport = cluster.inproc.transport();
  moveAll(); // packed, not sent
  for (auto &sender : cluster.senders)
    ASSERT_FALSE(sender->send(transport).failed());
  for (auto &receiver : cluster.receivers)
    ASSERT_FALSE(receiver->receive(transport).failed());
  moveAll(); // staged, not committed
  for (auto &receiver : cluster.receivers)
    ASSERT_FALSE(receiver->commit().failed());
  for (auto &sender : cluster.senders)
    ASSERT_FALSE(sender->acknowledge(2).failed());
  EXPECT_EQ(cluster.countMismatches(), 0u);
  EXPECT_TRUE(oldIsUntouched());
}

TEST_F(RebindTest, MovesBetweenTheRoundsOfASync) {
  for (auto &sender : cluster.senders)
    ASSERT_FALSE(
        sender->setCapacity(sender->getShard().getLargestTile()).failed());
  cluster.update(0.9, 3, flip);
  cluster.diff(2);
  moveAll();
  cluster.deliver(2);
  EXPECT_EQ(cluster.countMismatches(), 0u);
  EXPECT_TRUE(oldIsUntouched());
}

TEST_F(RebindTest, ChecksLikeABindAndKeepsTheOldOnFailure) {
  auto refusal = [&](auto &end, std::unique_ptr<RankMemory> &memory,
                     auto &&change) {
    std::vector<delta_param_t> params = memory->getBound();
    change(params);
    Status status = end.rebind(params.data(), uint32_t(params.size()));
    EXPECT_EQ(status.getCode(), DELTA_BIND_MISMATCH);
    return status.getText();
  };
  Sender &sender = *cluster.senders[1];
  Receiver &receiver = *cluster.receivers[2];
  auto &from = cluster.sourceMemory[1];
  auto &to = cluster.destinationMemory[2];
  EXPECT_EQ(refusal(sender, from, [](auto &params) { params.pop_back(); }),
            "rank 1: \"" + std::string(from->getBound().back().name) +
                "\" (chunk 0): bind: missing");
  EXPECT_EQ(
      refusal(receiver, to, [](auto &params) { params[0].data = nullptr; }),
      "rank 2: \"" + std::string(to->getBound()[0].name) +
          "\" (chunk 0): bind: data is null");
  EXPECT_EQ(refusal(receiver, to,
                    [](auto &params) {
                      params[1].data =
                          static_cast<uint8_t *>(params[1].data) + 1;
                    }),
            "rank 2: \"" + std::string(to->getBound()[1].name) +
                "\" (chunk 0): bind: data is not aligned to 2 bytes");
  EXPECT_NE(refusal(receiver, to,
                    [](auto &params) { params[1].data = params[2].data; })
                .find("overlaps \""),
            std::string::npos);
  EXPECT_NE(refusal(sender, from, [](auto &params) { params[1].stride[0]++; })
                .find("are not row-major"),
            std::string::npos);
  cluster.update(0.2, 2, flip);
  cluster.diff(2);
  cluster.deliver(2);
  EXPECT_EQ(cluster.countMismatches(), 0u);
}

TEST_F(RebindTest, TellsWhatMoved) {
  Receiver &receiver = *cluster.receivers[2];
  auto bound = cluster.destinationMemory[2]->getBound();
  auto check = [&] {
    return receiver.checkBound(bound.data(), uint32_t(bound.size())).getText();
  };
  EXPECT_EQ(check(), "");
  EXPECT_FALSE(
      cluster.senders[0]
          ->checkBound(cluster.sourceMemory[0]->getBound().data(),
                       uint32_t(cluster.sourceMemory[0]->getBound().size()))
          .failed());
  move(cluster.destinationMemory[2], DELTA_DESTINATION, 2);
  bound = cluster.destinationMemory[2]->getBound();
  EXPECT_EQ(check(), "rank 2: \"" + std::string(bound[0].name) +
                         "\" (chunk 0): check: moved since it was bound");
  rebind(receiver, cluster.destinationMemory[2]);
  EXPECT_EQ(check(), "");
  bound.pop_back();
  EXPECT_EQ(check(), "rank 2: check: " + std::to_string(bound.size()) +
                         " parameters, " + std::to_string(bound.size() + 1) +
                         " are bound");
}
