//===- DevicePlacementTest.cpp - Experts that move, from a device ---------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// An engine's plan has casts, value ops and slots of experts: the bytes of a
/// device and of the host, before experts move, while they do, and after.
///
//===----------------------------------------------------------------------===//

#include "EngineCluster.h"
#include "Twins.h"

#include <gtest/gtest.h>

using namespace delta::test;
using namespace delta::runtime;

namespace {

using Map = std::vector<uint32_t>;

TwinOptions with(delta_snapshot_t snapshot, uint64_t chunkBytes) {
  TwinOptions options;
  options.snapshot = snapshot;
  options.chunkBytes = chunkBytes;
  options.run = 5;
  return options;
}

class DevicePlacementTest : public testing::TestWithParam<delta_snapshot_t> {
protected:
  DevicePlacementTest() {
    cluster.fill(0);
    twins.setCapacity(1);
  }
  void place(const Map &map) {
    twins.both([&](Sender &one) {
      return one.setPlacement(map.data(), 1, uint32_t(map.size()));
    });
  }
  void fill(uint64_t generation, double share = 1) {
    cluster.fill(generation, share);
    twins.refresh();
  }
  void move() {
    twins.beginMoved();
    EXPECT_GT(twins.numChanged, 0u);
    twins.send();
    twins.acknowledge(version);
  }

  const Map Other = {5, 4, 1, 2, 3, 0, 5, 1};
  const Map Third = {0, 1, 2, 3, 4, 5, 0, 1};
  uint64_t version = 1;
  EnginePlan plan;
  EngineCluster cluster{plan};
  Twins twins{plan.tables, cluster.sourceMemory, cluster.senders,
              with(GetParam(), /*chunkBytes=*/64)};
};

std::string nameOf(const testing::TestParamInfo<delta_snapshot_t> &info) {
  const char *const names[] = {"device", "pinned", "pageable"};
  return names[info.param];
}

} // namespace

TEST_P(DevicePlacementTest, CastsAndOpsAreThoseOfTheHost) {
  twins.sync(1, /*isSeed=*/true);
  for (double share : {1.0, 0.0, 0.1, 0.6}) {
    fill(version + 1, share);
    twins.sync(++version, /*isSeed=*/false);
  }
}

TEST_P(DevicePlacementTest, MovesWhatTheReceiversHold) {
  twins.sync(1, /*isSeed=*/true);
  fill(2); // training went on
  for (const Map &map : {Other, Third, plan.slotExperts}) {
    place(map);
    twins.both([](Sender &one) { return one.diff(2, nullptr); });
    move();
  }
  twins.sync(++version, /*isSeed=*/false);
}

TEST_P(DevicePlacementTest, MovesInRounds) {
  twins.setCapacity(0);
  twins.sync(1, /*isSeed=*/true);
  place(Other);
  twins.beginMoved();
  EXPECT_GT(twins.mostRounds(), 3u);
  twins.send();
  twins.acknowledge(1);
  fill(2, 0.3);
  twins.sync(++version, /*isSeed=*/false);
}

/// What is unsure stays so when its tiles are elsewhere in their order.
TEST_P(DevicePlacementTest, UnsureTilesKeepTheirRows) {
  twins.setCapacity(0);
  twins.sync(1, /*isSeed=*/true);
  fill(2, 0.5);
  twins.diff(2);
  EXPECT_GT(twins.mostRounds(), 3u);
  twins.send(/*failAt=*/17);
  twins.abort();
  place(Other);
  move();
  // Others join them, in the new order.
  fill(3, 0.5);
  twins.diff(2);
  twins.send(/*failAt=*/9);
  twins.abort();
  place(Third);
  move();
  fill(4, 0.1);
  twins.sync(++version, /*isSeed=*/false);
  fill(4, 0.1);
  twins.diff(++version);
  EXPECT_EQ(twins.numChanged, 0u);
}

TEST_P(DevicePlacementTest, RefusesWhatTheHostRefuses) {
  const Map tooFew = {0, 1, 2};
  place(tooFew);
  twins.both([](Sender &one) { return one.beginMoved(nullptr); });
  twins.sync(1, /*isSeed=*/true);
  twins.diff(2);
  place(Other);
  twins.both([](Sender &one) { return one.beginMoved(nullptr); });
}

/// Marks that are taken by what was packed are those of rows in an order that
/// another placement changes.
TEST(DevicePlacementBitmapTest, MarksKeepTheirTiles) {
  EnginePlan plan;
  EngineCluster cluster(plan);
  Twins twins(plan.tables, cluster.sourceMemory, cluster.senders,
              with(DELTA_SNAPSHOT_BITMAP, DefaultChunkBytes));
  cluster.fill(0);
  twins.setCapacity(1);
  twins.sync(1, /*isSeed=*/true);
  Sender &sender = *twins.senders[0];
  auto ok = [](const Status &status) {
    EXPECT_FALSE(status.failed()) << status.getText();
  };
  auto changed = [&] {
    delta_sync_stats_t stats = {};
    ok(sender.diff(2, &stats));
    sender.abort();
    return stats.changed;
  };
  const uint64_t always = changed(); // other types
  const Side side(plan.tables, DELTA_SOURCE);
  const std::vector<Param> params = sender.getShard().getExpansion().params;
  DeviceBuffer memory;
  ok(memory.allocate(twins.device, sizeof(float)));
  auto castSome = [&](float value) {
    *memory.as<float>() = value;
    for (uint32_t i = 0; i < params.size(); ++i)
      if (side.getClass(params[i].classIndex).dtype == DELTA_BF16)
        ok(sender.cast(i, memory.as<const float>(), /*first=*/1, /*count=*/1));
  };
  auto place = [&](const std::vector<uint32_t> &map) {
    ok(sender.setPlacement(map.data(), 1, uint32_t(map.size())));
  };
  auto abortSeed = [&] {
    ok(sender.seed(2, nullptr));
    sender.abort();
  };
  const std::vector<uint32_t> other = {5, 4, 1, 2, 3, 0, 5, 1};
  castSome(3);
  EXPECT_GT(changed(), always);
  const uint64_t before = changed(); // whole tiles have all marks by now
  place(other);
  place(plan.slotExperts);
  EXPECT_EQ(changed(), before);
  // A full sync makes the tiles of marks unsure, in the order of its placement.
  place(other);
  abortSeed();
  place(plan.slotExperts);
  const uint64_t whole = changed();
  EXPECT_GT(whole, before);
  castSome(4); // the same tiles
  abortSeed();
  EXPECT_EQ(changed(), whole);
}

INSTANTIATE_TEST_SUITE_P(Snapshots, DevicePlacementTest,
                         testing::Values(DELTA_SNAPSHOT_DEVICE,
                                         DELTA_SNAPSHOT_PINNED,
                                         DELTA_SNAPSHOT_PAGEABLE),
                         nameOf);
