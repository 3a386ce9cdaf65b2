//===- DeviceSenderTest.cpp - Bytes of a device, and of the host ----------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RoundCases.h"
#include "Twins.h"

#include <gtest/gtest.h>

using namespace delta::test;
using namespace delta::runtime;

namespace {

enum Model { Mixed, Wide, Large };

struct Case {
  const char *name;
  Geometry source, destination;
  bool toHf;
  Model model;
  TwinOptions options;
};

TwinOptions with(delta_snapshot_t snapshot, bool unaligned = false,
                 uint64_t chunkBytes = DefaultChunkBytes) {
  TwinOptions options;
  options.snapshot = snapshot;
  options.unaligned = unaligned;
  options.chunkBytes = chunkBytes;
  return options;
}

void PrintTo(const Case &test, std::ostream *out) { *out << test.name; }

const Geometry One = geometryOf(1, 1, 1, 1, 1);
const Case Cases[] = {
    {"one_to_one", One, One, false, Mixed, with(DELTA_SNAPSHOT_DEVICE)},
    {"tp2_pp2_to_hf", geometryOf(2, 1, 2, 1, 2), One, true, Mixed,
     with(DELTA_SNAPSHOT_DEVICE)},
    {"ep4_to_ep2_etp2_unaligned", geometryOf(2, 2, 4, 1, 1),
     geometryOf(2, 2, 2, 2, 1), false, Mixed,
     with(DELTA_SNAPSHOT_DEVICE, true)},
    {"wide", One, geometryOf(4, 1, 1, 1, 1), false, Wide,
     with(DELTA_SNAPSHOT_DEVICE)},
    {"wide_tp2_unaligned", geometryOf(2, 1, 1, 1, 1), geometryOf(4, 1, 1, 1, 1),
     false, Wide, with(DELTA_SNAPSHOT_DEVICE, true)},
    {"pinned", geometryOf(2, 1, 2, 1, 2), One, true, Mixed,
     with(DELTA_SNAPSHOT_PINNED)},
    {"wide_pinned", One, geometryOf(4, 1, 1, 1, 1), false, Wide,
     with(DELTA_SNAPSHOT_PINNED)},
    {"pageable", geometryOf(2, 1, 1, 1, 1), One, false, Mixed,
     with(DELTA_SNAPSHOT_PAGEABLE)},
    {"pageable_in_chunks", geometryOf(2, 2, 1, 1, 1), One, true, Mixed,
     with(DELTA_SNAPSHOT_PAGEABLE, false, 1024)},
    {"large", One, geometryOf(2, 1, 1, 1, 1), false, Large,
     with(DELTA_SNAPSHOT_DEVICE)},
    {"wide_pageable_in_chunks", One, geometryOf(4, 1, 1, 1, 1), false, Wide,
     with(DELTA_SNAPSHOT_PAGEABLE, false, 20000)},
};

uint64_t flip(uint64_t bits) { return bits ^ 1; }

class DeviceSenderTest : public testing::TestWithParam<Case> {
protected:
  DeviceSenderTest() {
    cluster.fill();
    twins.setCapacity(1);
  }
  void change(double share) {
    cluster.update(share, ++numChanges * 977, flip);
    twins.refresh();
  }

  static std::vector<Matrix> modelOf(const Case &test) {
    switch (test.model) {
    case Mixed:
      return mixedModel(test.source, test.destination);
    case Wide:
      return wideModel(test.source, test.destination);
    case Large:
      return largeModel(test.destination);
    }
    return {};
  }

  const Case &test = GetParam();
  TestPlan plan{test.source,
                test.destination,
                test.toHf,
                test.model == Mixed ? 2u : 1u,
                test.model == Mixed ? 4u : 1u,
                modelOf(test)};
  Cluster cluster{plan};
  Twins twins{plan.getTables(), cluster.sourceMemory, cluster.senders,
              test.options};
  uint64_t numChanges = 0;
};

} // namespace

/// More replicas than tiles: some own none.
TEST(DeviceSenderWithoutTilesTest, TakesPartInASync) {
  Matrix matrix;
  matrix.name = "w";
  matrix.rows = matrix.columns = 8;
  TestPlan plan(geometryOf(1, 4, 1, 1, 1), One, false, 1, 1, {matrix});
  Cluster cluster(plan);
  cluster.fill();
  Twins twins(plan.getTables(), cluster.sourceMemory, cluster.senders);
  size_t numEmpty = 0;
  for (const auto &sender : twins.senders)
    numEmpty += sender->getShard().getNumElements() == 0;
  EXPECT_EQ(numEmpty, 3u);
  twins.sync(1, /*isSeed=*/true);
  cluster.update(1, 977, flip);
  twins.refresh();
  twins.sync(2, /*isSeed=*/false);
  EXPECT_EQ(twins.numChanged, 64u);
}

/// Sections whose checksums are added up while their values are copied.
TEST(DeviceSenderEvenSectionsTest, SealsAFullSync) {
  const Geometry four = geometryOf(4, 1, 1, 1, 1);
  std::vector<Matrix> model(2);
  for (Matrix &matrix : model) {
    matrix.rows = 160; // 40,960 elements for each of four: stages and a part
    matrix.columns = 1024;
    matrix.tile = DELTA_MAX_TILE;
  }
  model[0].name = "cut"; // a section for each rank
  model[0].destination = {DELTA_AXIS_TP, 4, 0};
  model[1].name = "copied"; // one for all
  TestPlan plan(One, four, false, 1, 1, model);
  Cluster cluster(plan);
  cluster.fill();
  Twins twins(plan.getTables(), cluster.sourceMemory, cluster.senders);
  twins.refresh();
  for (double share : {1.0, 0.3}) { // one round, and several
    twins.setCapacity(share);
    twins.seed(1);
    EXPECT_EQ(twins.mostRounds() > 1, share < 1);
    EXPECT_EQ(twins.send(), 4u * twins.mostRounds());
    twins.abort();
  }
}

TEST_P(DeviceSenderTest, FollowsEveryShareOfChanges) {
  twins.sync(1, /*isSeed=*/true);
  uint64_t version = 1;
  // 0.02: some warps list all of a large tile's changes, some do not.
  for (double share : {0.0, 0.01, 0.3, 0.5, 1.0, 0.03, 0.02}) {
    change(share);
    twins.sync(++version, /*isSeed=*/false);
    EXPECT_EQ(twins.numChanged != 0, share >= 0.01);
  }
}

/// Sums over the parameters of both, in one launch a list; nothing is allocated
/// for the same list again.
TEST_P(DeviceSenderTest, FingerprintsAreThoseOfTheHost) {
  change(0.5);
  uint64_t numSums = 0;
  for (size_t rank = 0; rank < twins.hosts.size(); ++rank)
    for (uint32_t to = 0; to < cluster.receivers.size(); ++to) {
      std::vector<std::vector<uint64_t>> lists;
      auto add = [&](Sender &sender, uint64_t key) {
        lists.emplace_back(1000);
        uint64_t count = 0;
        Status status = sender.fingerprints(to, key, lists.back().data(),
                                            lists.back().size(), count);
        EXPECT_FALSE(status.failed()) << status.getText();
        lists.back().resize(count);
      };
      add(*twins.hosts[rank], 99);
      const uint64_t launches = twins.device->getNumLaunches();
      add(*twins.senders[rank], 99);
      EXPECT_EQ(lists[0], lists[1]);
      EXPECT_EQ(twins.device->getNumLaunches(),
                launches + (lists[0].empty() ? 0 : 1));
      const uint64_t allocations = twins.device->numAllocations;
      add(*twins.senders[rank], 100);
      EXPECT_EQ(twins.device->numAllocations, allocations);
      add(*twins.hosts[rank], 100);
      EXPECT_EQ(lists[2], lists[3]);
      EXPECT_TRUE(lists[0].empty() || lists[0] != lists[2]);
      numSums += lists[0].size();
    }
  EXPECT_GT(numSums, 0u);
}

TEST_P(DeviceSenderTest, SumsOfReplicasAreThoseOfTheHost) {
  change(0.5);
  auto sums = [](Sender &sender) {
    std::vector<delta_replica_sum_t> out(1000);
    uint64_t count = 0;
    Status status = sender.replicaSums(7, out.data(), out.size(), count);
    EXPECT_FALSE(status.failed()) << status.getText();
    std::vector<uint64_t> found;
    for (uint64_t i = 0; i < count; ++i)
      found.push_back(out[i].sum);
    return found;
  };
  for (size_t rank = 0; rank < twins.hosts.size(); ++rank)
    EXPECT_EQ(sums(*twins.hosts[rank]), sums(*twins.senders[rank]));
}

TEST_P(DeviceSenderTest, CarriesEveryBitPattern) {
  twins.sync(1, /*isSeed=*/true);
  const uint64_t patterns[] = {0x7fc17fc17fc17fc1, 0xffa0ffa0ffa0ffa0,
                               0x7f8000007f807f80, 0x8000000080008000,
                               0x0001000100010001, 0};
  uint64_t version = 1;
  for (uint64_t pattern : patterns) {
    cluster.update(0.3, pattern, [&](uint64_t) { return pattern; });
    twins.sync(++version, /*isSeed=*/false);
  }
}

TEST_P(DeviceSenderTest, SendsInTheSameRounds) {
  twins.setCapacity(0.1);
  twins.refresh();
  twins.seed(1);
  EXPECT_GT(twins.mostRounds(), 3u);
  twins.send();
  twins.acknowledge(1);
  uint64_t version = 1;
  for (double share : {0.01, 0.3, 1.0, 0.0, 0.05}) {
    change(share);
    twins.diff(++version);
    EXPECT_EQ(twins.mostRounds() > 1, share >= 0.3);
    twins.send();
    twins.acknowledge(version);
  }
}

/// Some rounds are sent, then one fails: what the receivers hold of them is
/// unsure.
TEST_P(DeviceSenderTest, SendsUnsureTilesWholeAfterABrokenSync) {
  twins.setCapacity(0.1);
  twins.sync(1, /*isSeed=*/true);
  change(0.4);
  twins.diff(2);
  uint64_t perRound = cluster.senders[0]->getPacking().getDestinations().size();
  EXPECT_GT(twins.send(perRound + 1), 0u);
  twins.both([](Sender &one) { return one.acknowledge(2); });
  twins.abort();
  change(0.01);
  twins.diff(2);
  EXPECT_GT(twins.numChanged, 0u);
  twins.send();
  twins.acknowledge(2);
  // Nothing is unsure any more.
  twins.diff(3);
  EXPECT_EQ(twins.numChanged, 0u);
  twins.send();
  twins.acknowledge(3);
}

TEST_P(DeviceSenderTest, AnAbortedSyncLeavesTheSnapshot) {
  twins.sync(1, /*isSeed=*/true);
  change(0.2);
  twins.diff(2);
  twins.abort();
  change(0.1);
  twins.diff(2);
  twins.send();
  twins.abort();
  // The replay sweep sends the current version again.
  twins.seed(1);
  twins.send();
  twins.abort();
  twins.sync(2, /*isSeed=*/false);
  twins.diff(3);
  EXPECT_EQ(twins.numChanged, 0u);
  twins.send();
  twins.acknowledge(3);
}

TEST_P(DeviceSenderTest, RefusesWhatTheHostRefuses) {
  delta_transport_t nowhere = Recorder().transport();
  auto refused = [&](const auto &call) { twins.both(call); };
  refused([](Sender &one) { return one.diff(1, nullptr); });
  refused([](Sender &one) { return one.compare(); });
  refused([](Sender &one) { return one.pack(1, nullptr); });
  refused([&](Sender &one) { return one.send(nowhere); });
  refused([](Sender &one) { return one.acknowledge(1); });
  refused([](Sender &one) { return one.setCapacity(1); });
  twins.sync(1, /*isSeed=*/true);
  refused([](Sender &one) { return one.pack(2, nullptr); });
  refused([](Sender &one) { return one.diff(1, nullptr); });
  refused([](Sender &one) { return one.seed(0, nullptr); });
  twins.diff(2);
  refused([](Sender &one) { return one.diff(3, nullptr); });
  refused([](Sender &one) { return one.compare(); });
  refused([](Sender &one) { return one.setCapacity(1 << 20); });
  refused([](Sender &one) { return one.acknowledge(3); });
}

TEST_P(DeviceSenderTest, ComparesAndPacksInTwoCalls) {
  twins.sync(1, /*isSeed=*/true);
  change(0.05);
  twins.both([](Sender &one) { return one.compare(); });
  change(0.05);
  twins.both([](Sender &one) { return one.compare(); });
  twins.both([](Sender &one) { return one.pack(2, nullptr); });
  twins.send();
  twins.acknowledge(2);
  // A full sync in between forgets what was compared.
  change(0.05);
  twins.both([](Sender &one) { return one.compare(); });
  twins.sync(3, /*isSeed=*/true);
  twins.both([](Sender &one) { return one.pack(4, nullptr); });
}

TEST_P(DeviceSenderTest, ParametersThatChangeBetweenRoundsAreRefused) {
  twins.setCapacity(0.1);
  twins.sync(1, /*isSeed=*/true);
  change(0.4);
  twins.diff(2);
  change(0.4);
  twins.send();
  twins.abort();
  twins.sync(2, /*isSeed=*/false);
}

TEST_P(DeviceSenderTest, FollowsParametersThatLieElsewhere) {
  twins.sync(1, /*isSeed=*/true);
  change(0.1);
  for (uint32_t rank = 0; rank < twins.senders.size(); ++rank) {
    Status status = twins.rebind(rank);
    EXPECT_FALSE(status.failed()) << status.getText();
  }
  twins.sync(2, /*isSeed=*/false);
  EXPECT_GT(twins.numChanged, 0u);
}

INSTANTIATE_TEST_SUITE_P(Plans, DeviceSenderTest, testing::ValuesIn(Cases),
                         [](const auto &info) { return info.param.name; });
