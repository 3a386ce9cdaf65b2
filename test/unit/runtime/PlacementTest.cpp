//===- PlacementTest.cpp - Experts that move while an engine runs ---------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EngineCluster.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace delta::test;
using namespace delta::runtime;

namespace {

using Map = std::vector<std::vector<uint32_t>>;

class PlacementTest : public testing::Test {
protected:
  PlacementTest() { cluster.fill(0); }

  static std::vector<uint32_t> flat(const Map &map) {
    std::vector<uint32_t> out;
    for (const std::vector<uint32_t> &table : map)
      out.insert(out.end(), table.begin(), table.end());
    return out;
  }
  template <typename Handle>
  static Status setOf(Handle &handle, const Map &map) {
    return handle.setPlacement(flat(map).data(), uint32_t(map.size()),
                               uint32_t(map[0].size()));
  }
  void setPlacement(const Map &map) {
    for (auto &sender : cluster.senders)
      expectOk(setOf(*sender, map));
    for (auto &receiver : cluster.receivers)
      expectOk(setOf(*receiver, map));
    cluster.placement = map;
  }
  static void expectOk(const Status &status) {
    EXPECT_FALSE(status.failed()) << status.getText();
  }

  void seed(uint64_t version) {
    for (auto &sender : cluster.senders)
      expectOk(sender->seed(version, nullptr));
    cluster.deliver();
    cluster.acknowledge(version);
  }
  /// Packs what moved; returns the elements in all messages.
  uint64_t beginMoved() {
    uint64_t elements = 0;
    for (auto &sender : cluster.senders) {
      delta_sync_stats_t stats = {};
      expectOk(sender->beginMoved(&stats));
      elements += stats.changed;
    }
    return elements;
  }
  void delta(uint64_t version) {
    for (auto &sender : cluster.senders)
      expectOk(sender->diff(version, nullptr));
    cluster.deliver();
    cluster.acknowledge(version);
  }
  void expectHolds(const char *when) {
    std::string first;
    EXPECT_EQ(cluster.countMismatches(first), 0u) << when << ": " << first;
  }

  /// Expert 5 goes to rank 0 beside 4 and 1, expert 1 to rank 3, ...
  const Map Other = {{5, 4, 1, 2, 3, 0, 5, 1}};
  const Map ByLayer = {{0, 1, 1, 2, 3, 4, 5, 0}, {5, 4, 3, 2, 1, 0, 0, 0}};

  EnginePlan plan;
  EngineCluster cluster{plan};
};

} // namespace

TEST_F(PlacementTest, MovedExpertsComeAtTheSameVersion) {
  seed(1);
  for (const Map &map : {Other, ByLayer, Other}) {
    setPlacement(map);
    std::string first;
    EXPECT_NE(cluster.countMismatches(first), 0u);
    beginMoved();
    cluster.deliver();
    cluster.acknowledge(1);
    for (auto &receiver : cluster.receivers)
      EXPECT_EQ(receiver->getVersion(), 1u);
    expectHolds("moved");
  }
  cluster.fill(2, 0.5);
  delta(2);
  expectHolds("delta");
  for (auto &memory : cluster.memory)
    EXPECT_TRUE(memory->guardsIntact());
}

/// What moved has the values that the receivers hold elsewhere, not those that
/// training has reached by now.
TEST_F(PlacementTest, MovedExpertsAreThoseOfTheSnapshot) {
  seed(1);
  setPlacement(Other);
  cluster.fill(2, 0.7);
  beginMoved();
  cluster.deliver();
  cluster.acknowledge(1);
  std::string first;
  EXPECT_NE(cluster.countMismatches(first), 0u);
  cluster.fill(0);
  expectHolds("version 1");
  cluster.fill(2, 0.7);
  delta(2);
  expectHolds("version 2");
}

/// Expert 4 alone moves, in layer 1 alone, to rank 3.
TEST_F(PlacementTest, NothingElseIsSent) {
  seed(1);
  const std::vector<uint32_t> usual = plan.slotExperts;
  std::vector<uint32_t> changed = usual;
  changed[7] = 4;
  setPlacement({usual, changed});
  EXPECT_EQ(beginMoved(), 12u);
  for (uint32_t rank = 0; rank < EngineCluster::NumSources; ++rank) {
    const Packing &packer = cluster.senders[rank]->getPacking();
    EXPECT_EQ(packer.getDestinations().size(), EngineCluster::NumReceivers);
    for (uint32_t i = 0; i < packer.getDestinations().size(); ++i) {
      // Experts 3 to 5 are trained by ranks 1 and 3, which share their tiles.
      bool isSent = rank % 2 == 1 && packer.getDestinations()[i] % 4 == 3;
      EXPECT_EQ(Cluster::bytesOf(*cluster.senders[rank], i).size() >
                    HeaderBytes,
                isSent)
          << rank << " to " << packer.getDestinations()[i];
    }
  }
  cluster.deliver();
  cluster.acknowledge(1);
  expectHolds("moved");
}

TEST_F(PlacementTest, MovesInRounds) {
  for (auto &sender : cluster.senders)
    expectOk(sender->setCapacity(sender->getShard().getLargestTile()));
  seed(1);
  setPlacement(Other);
  beginMoved();
  EXPECT_GT(cluster.senders[0]->getNumRounds(), 3u);
  cluster.deliver();
  cluster.acknowledge(1);
  expectHolds("moved");
  cluster.fill(2);
  delta(2);
  expectHolds("delta");
}

TEST_F(PlacementTest, ADeltaIsRefusedUntilTheyCame) {
  seed(1);
  std::vector<uint8_t> message;
  cluster.fill(2);
  EngineCluster same(plan);
  same.fill(0);
  for (auto &sender : same.senders)
    expectOk(sender->seed(1, nullptr));
  same.deliver();
  same.acknowledge(1);
  setPlacement(Other);
  Status status = cluster.senders[1]->diff(2, nullptr);
  EXPECT_EQ(status.getText(),
            "rank 1: diff: experts moved since version 1; they, or a full "
            "sync, have to be sent before");
  // Senders that moved before, or were restarted, do not know better.
  for (auto &sender : same.senders)
    expectOk(setOf(*sender, Other));
  for (auto &sender : same.senders)
    expectOk(sender->beginMoved(nullptr));
  delta_transport_t nowhere = {};
  nowhere.send = [](void *, uint32_t, uint32_t, const delta_bytes_t *, uint32_t,
                    delta_error_t) { return delta_status_t(DELTA_OK); };
  same.fill(2);
  for (auto &sender : same.senders) {
    expectOk(sender->send(nowhere));
    expectOk(sender->acknowledge(1));
    expectOk(sender->diff(2, nullptr));
  }
  message = Cluster::bytesOf(*same.senders[0], 0);
  status = cluster.receivers[0]->stage({message.data(), message.size()});
  EXPECT_EQ(status.getCode(), DELTA_REFUSED);
  EXPECT_EQ(status.getText(),
            "rank 0: source 0: stage: delta to version 2, but experts that "
            "moved here are missing; they, or a full sync, are required");
}

TEST_F(PlacementTest, ARankThatMissesNothingTakesTheDelta) {
  seed(1);
  std::vector<uint32_t> changed = plan.slotExperts;
  changed[7] = 4; // of rank 3
  EngineCluster same(plan);
  same.fill(0);
  for (auto &sender : same.senders)
    expectOk(sender->seed(1, nullptr));
  same.deliver();
  same.acknowledge(1);
  for (auto &sender : same.senders)
    expectOk(setOf(*sender, {changed}));
  for (auto &receiver : same.receivers)
    expectOk(setOf(*receiver, {changed}));
  same.placement = {changed};
  delta_transport_t nowhere = {};
  nowhere.send = [](void *, uint32_t, uint32_t, const delta_bytes_t *, uint32_t,
                    delta_error_t) { return delta_status_t(DELTA_OK); };
  for (auto &sender : same.senders) {
    expectOk(sender->beginMoved(nullptr));
    expectOk(sender->send(nowhere)); // lost
    expectOk(sender->acknowledge(1));
  }
  same.fill(2, 0.3);
  delta_transport_t transport = same.inproc.transport();
  for (auto &sender : same.senders) {
    expectOk(sender->diff(2, nullptr));
    expectOk(sender->send(transport));
  }
  for (uint32_t rank = 0; rank < EngineCluster::NumReceivers; ++rank)
    EXPECT_EQ(same.receivers[rank]->receive(transport).failed(), rank % 4 == 3)
        << rank;
}

TEST_F(PlacementTest, AFullSyncBringsThemToo) {
  seed(1);
  setPlacement(Other);
  cluster.fill(2);
  seed(2);
  expectHolds("seed");
  cluster.fill(3, 0.2);
  delta(3);
  expectHolds("delta");
}

TEST_F(PlacementTest, NothingHasMovedBeforeTheFirstFullSync) {
  setPlacement(ByLayer);
  EXPECT_EQ(cluster.senders[0]->beginMoved(nullptr).getCode(),
            DELTA_NOT_SEEDED);
  seed(1);
  expectHolds("seed");
  cluster.fill(2);
  delta(2);
  expectHolds("delta");
}

TEST_F(PlacementTest, BackToWhereTheyWereNothingHasMoved) {
  seed(1);
  setPlacement(Other);
  setPlacement({plan.slotExperts});
  cluster.fill(2, 0.4);
  delta(2);
  expectHolds("delta");
}

TEST_F(PlacementTest, TwoMovesInARowAreOne) {
  seed(1);
  setPlacement(Other);
  setPlacement(ByLayer);
  beginMoved();
  cluster.deliver();
  cluster.acknowledge(1);
  expectHolds("moved");
}

/// A move that some ranks have committed is sent again to all.
TEST_F(PlacementTest, AnAbortedMoveIsSentAgain) {
  seed(1);
  setPlacement(Other);
  beginMoved();
  delta_transport_t transport = cluster.inproc.transport();
  for (auto &sender : cluster.senders)
    expectOk(sender->send(transport));
  for (uint32_t rank = 0; rank < EngineCluster::NumReceivers; ++rank) {
    expectOk(cluster.receivers[rank]->receive(transport));
    if (rank < 3)
      expectOk(cluster.receivers[rank]->commit());
    else
      cluster.receivers[rank]->discard();
  }
  for (auto &sender : cluster.senders)
    sender->abort();
  beginMoved();
  cluster.deliver();
  cluster.acknowledge(1);
  expectHolds("moved");
}

/// Where nothing moved, messages are empty, and all go on.
TEST_F(PlacementTest, AMoveOfNothingIsTaken) {
  seed(1);
  EXPECT_EQ(beginMoved(), 0u);
  cluster.deliver();
  cluster.acknowledge(1);
  cluster.fill(2, 0.4);
  delta(2);
  expectHolds("delta");
}

TEST_F(PlacementTest, AMoveFromAnotherPlacementIsRefused) {
  seed(1);
  setPlacement(ByLayer);
  beginMoved();
  cluster.deliver();
  cluster.acknowledge(1);
  // This receiver is told of the next placement only after one in between.
  expectOk(setOf(*cluster.senders[0], Other));
  expectOk(cluster.senders[0]->beginMoved(nullptr));
  EngineCluster other(plan);
  other.fill(0);
  for (auto &sender : other.senders)
    expectOk(sender->seed(1, nullptr));
  other.deliver();
  expectOk(setOf(*other.receivers[0], Other));
  std::vector<uint8_t> message = Cluster::bytesOf(*cluster.senders[0], 0);
  Status status = other.receivers[0]->stage({message.data(), message.size()});
  EXPECT_EQ(status.getCode(), DELTA_REFUSED);
  EXPECT_NE(status.getText().find("; a full sync is required"),
            std::string::npos)
      << status.getText();
}

TEST_F(PlacementTest, WrongMapsAreRefusedAndTheOldOneStays) {
  auto refusal = [&](const Map &map) {
    Status status = setOf(*cluster.senders[2], map);
    EXPECT_EQ(status.getCode(), DELTA_INVALID_ARGUMENT);
    Status other = setOf(*cluster.receivers[2], map);
    EXPECT_EQ(other.getText(), status.getText());
    return status.getText();
  };
  EXPECT_EQ(refusal({{0, 1, 1, 2, 3, 4, 4, 0}}),
            "rank 2: set_placement: expert 5 is in no slot");
  EXPECT_EQ(refusal({{0, 1, 6, 2, 3, 4, 5, 0}}),
            "rank 2: set_placement: slot 2 holds expert 6 of 6");
  EXPECT_EQ(refusal({{0, 1, 2, 3, 4, 5, 0}}),
            "rank 2: set_placement: 7 slots, required are 8");
  EXPECT_EQ(refusal({ByLayer[0], ByLayer[1], ByLayer[0]}),
            "rank 2: set_placement: 3 tables, required are 1 or 2, one for "
            "each layer");
  EXPECT_EQ(refusal({ByLayer[0], {0, 1, 1, 1, 3, 4, 5, 0}}),
            "rank 2: set_placement: layer 1: expert 2 is in no slot");
  seed(1);
  expectHolds("seed");
}

TEST_F(PlacementTest, ItIsNotChangedInTheMiddleOfASync) {
  for (auto &sender : cluster.senders)
    expectOk(sender->seed(1, nullptr));
  EXPECT_EQ(setOf(*cluster.senders[0], Other).getText(),
            "rank 0: set_placement: version 1 is neither acknowledged nor "
            "aborted");
  delta_transport_t transport = cluster.inproc.transport();
  for (auto &sender : cluster.senders)
    expectOk(sender->send(transport));
  expectOk(cluster.receivers[0]->receive(transport));
  EXPECT_EQ(setOf(*cluster.receivers[0], Other).getText(),
            "rank 0: set_placement: a full sync is staged");
}

TEST_F(PlacementTest, APlanWithoutSlotsHasNoPlacement) {
  Geometry from, to;
  TestPlan other(from, to, false, 2, 4, mixedModel(from, to));
  Cluster none(other);
  EXPECT_EQ(setOf(*none.senders[0], Other).getText(),
            "rank 0: set_placement: the plan has no slots of experts");
  EXPECT_EQ(none.senders[0]->beginMoved(nullptr).getText(),
            "rank 0: begin_moved: the plan has no slots of experts");
}

/// Tiles that are to be sent whole, since a sync broke off, are so after a
/// change of the placement too.
TEST_F(PlacementTest, UnsureTilesStayUnsure) {
  for (auto &sender : cluster.senders)
    expectOk(sender->setCapacity(sender->getShard().getLargestTile()));
  seed(1);
  cluster.fill(2);
  delta_transport_t transport = cluster.inproc.transport();
  for (auto &sender : cluster.senders) {
    expectOk(sender->diff(2, nullptr));
    expectOk(sender->send(transport));
  }
  for (auto &receiver : cluster.receivers) {
    expectOk(receiver->receive(transport));
    receiver->discard();
  }
  for (auto &sender : cluster.senders)
    sender->abort();
  setPlacement(Other);
  beginMoved();
  cluster.deliver();
  cluster.acknowledge(1);
  delta(2);
  expectHolds("delta");
}

//===----------------------------------------------------------------------===//
// What a receiver says before and after a commit
//===----------------------------------------------------------------------===//

namespace {

class LayoutTest : public PlacementTest {
protected:
  /// A full sync of the same values over what the engine has loaded.
  void stageAgain() {
    delta_transport_t transport = cluster.inproc.transport();
    for (auto &sender : cluster.senders) {
      expectOk(sender->seed(2, nullptr));
      expectOk(sender->send(transport));
    }
    for (auto &receiver : cluster.receivers)
      expectOk(receiver->receive(transport));
  }
};

} // namespace

TEST_F(LayoutTest, AShuffledParameterIsRefusedByName) {
  seed(1);
  // The engine packs the stack of rank 1 in another order, with its shape.
  RankMemory &memory = *cluster.memory[1];
  const uint32_t stack = 2;
  ASSERT_STREQ(memory.getBound()[stack].name, "e.0.stack");
  std::vector<uint64_t> before;
  for (int64_t e = 0; e < memory.getNumElements(stack); ++e)
    before.push_back(memory.get(stack, e));
  for (size_t e = 0; e < before.size(); ++e)
    memory.set(stack, int64_t(e), before[(e * 5 + 7) % before.size()]);
  stageAgain();
  for (uint32_t rank = 0; rank < EngineCluster::NumReceivers; ++rank) {
    Status status = cluster.receivers[rank]->checkLayout(0.25);
    EXPECT_EQ(status.failed(), rank == 1) << status.getText();
    if (rank != 1)
      continue;
    EXPECT_EQ(status.getCode(), DELTA_BIND_MISMATCH);
    EXPECT_EQ(status.getText().find("rank 1: \"e.0.stack\": check_layout: "),
              0u)
        << status.getText();
    // With a share of 1 nothing is refused.
    expectOk(cluster.receivers[rank]->checkLayout(1));
  }
  for (auto &receiver : cluster.receivers)
    expectOk(receiver->commit());
  expectHolds("all the same");
}

/// A checkpoint that training has moved on from is no other layout.
TEST_F(LayoutTest, AFewOtherValuesAreNoOtherLayout) {
  seed(1);
  cluster.fill(2, 0.02);
  stageAgain();
  for (auto &receiver : cluster.receivers)
    expectOk(receiver->checkLayout(0.5));
}

TEST_F(LayoutTest, NeedsAStagedFullSync) {
  EXPECT_EQ(cluster.receivers[0]->checkLayout(0.5).getCode(), DELTA_REFUSED);
  seed(1);
  cluster.fill(2);
  delta_transport_t transport = cluster.inproc.transport();
  for (auto &sender : cluster.senders) {
    expectOk(sender->diff(2, nullptr));
    expectOk(sender->send(transport));
  }
  expectOk(cluster.receivers[0]->receive(transport));
  EXPECT_EQ(cluster.receivers[0]->checkLayout(0.5).getText(),
            "rank 0: check_layout: no full sync is staged");
}

/// (parameter, method) pairs of the last commit of a receiver.
static std::vector<std::string> refreshesOf(const EngineCluster &cluster,
                                            uint32_t rank) {
  std::vector<std::string> out;
  const std::vector<delta_refresh_call_t> *calls = nullptr;
  Status status = cluster.receivers[rank]->getRefreshes(calls);
  EXPECT_FALSE(status.failed()) << status.getText();
  for (const delta_refresh_call_t &call : *calls)
    out.push_back(
        std::string(cluster.memory[rank]->getBound()[call.param].name) + "." +
        cluster.plan.refreshes[call.refresh].method);
  return out;
}

TEST_F(LayoutTest, RefreshesAreThoseOfChangedParameters) {
  EXPECT_TRUE(refreshesOf(cluster, 0).empty());
  seed(1);
  const std::vector<std::string> all = {"e.0.turned.turn", "e.1.turned.turn",
                                        "e.0.stack.share", "e.1.stack.share"};
  for (uint32_t rank : {0u, 3u, 5u})
    EXPECT_EQ(refreshesOf(cluster, rank), all);
  delta(2);
  EXPECT_TRUE(refreshesOf(cluster, 0).empty());
  // One element of `up` of layer 1, which rank 0 and 2 train alike.
  for (uint32_t rank : {0u, 2u}) {
    RankMemory &memory = *cluster.sourceMemory[rank];
    for (uint32_t i = 0; i < memory.getParams().size(); ++i)
      if (std::string(memory.getBound()[i].name) == "layers.1.up")
        memory.set(i, 3, memory.get(i, 3) ^ 1);
  }
  delta(3);
  for (uint32_t rank = 0; rank < EngineCluster::NumReceivers; ++rank)
    EXPECT_EQ(refreshesOf(cluster, rank),
              std::vector<std::string>{"e.1.turned.turn"});
  // An expert that moves is no change of what lies in the slot behind.
  setPlacement(Other);
  beginMoved();
  cluster.deliver();
  cluster.acknowledge(3);
  EXPECT_TRUE(refreshesOf(cluster, 0).empty());
}
