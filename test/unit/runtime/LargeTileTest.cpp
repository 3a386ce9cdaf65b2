//===- LargeTileTest.cpp - Tiles of 65,536 elements -----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Cluster.h"

#include <gtest/gtest.h>

using namespace delta::test;
using namespace delta::runtime;

namespace {

/// One rank to one rank, a matrix of 40 full tiles and a rest.
class LargeTileTest : public testing::Test {
protected:
  LargeTileTest() : plan(Geometry(), Geometry(), false, 1, 4, model()) {
    cluster = std::make_unique<Cluster>(plan, ClusterOptions{2, false, 77});
    cluster->fill();
    cluster->seed(1);
    cluster->deliver(1);
  }
  static std::vector<Matrix> model() {
    Matrix matrix;
    matrix.name = "w";
    matrix.rows = 1281;
    matrix.columns = 2048;
    matrix.tile = 65536;
    return {matrix};
  }
  RankMemory &source() { return *cluster->sourceMemory[0]; }
  RankMemory &destination() { return *cluster->destinationMemory[0]; }

  void sync(uint64_t version) {
    cluster->diff(version);
    cluster->deliver(version);
    for (int64_t i = 0; i < source().getNumElements(0); ++i)
      if (source().get(0, i) != destination().get(0, i)) {
        ADD_FAILURE() << "element " << i;
        return;
      }
  }
  double bytesOfElement(double share, uint64_t version) {
    cluster->update(share, version, [](uint64_t bits) { return bits ^ 1; });
    sync(version);
    const delta_sync_stats_t &stats = cluster->stats[0];
    EXPECT_NEAR(double(stats.changed), share * 1281 * 2048,
                0.2 * share * 1281 * 2048);
    return double(stats.message_bytes) / double(stats.changed);
  }

  TestPlan plan;
  std::unique_ptr<Cluster> cluster;
};

} // namespace

TEST_F(LargeTileTest, CostsLittleMoreThanOffsetAndValue) {
  EXPECT_LE(bytesOfElement(0.01, 2), 4.1);
  // 4.3 on a real shard; here the frame of 144 bytes is shared by 790 elements.
  EXPECT_LE(bytesOfElement(0.0003, 3), 4.32);
  EXPECT_LE(bytesOfElement(1.0, 4), 2.01);
}

TEST_F(LargeTileTest, ReachesTheLastOffset) {
  for (int64_t element : {int64_t(0), int64_t(65535), int64_t(65536),
                          int64_t(131071), int64_t(1281 * 2048 - 1)})
    source().set(0, element, source().get(0, element) ^ 0x8000);
  sync(2);
  EXPECT_EQ(cluster->stats[0].changed, 5u);
}

TEST_F(LargeTileTest, SendsHalfOfATileSparselyAndMoreDensely) {
  auto change = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      source().set(0, 2 * i < 65536 ? 2 * i : 1,
                   source().get(0, 2 * i < 65536 ? 2 * i : 1) ^ 3);
  };
  change(32768);
  sync(2);
  EXPECT_EQ(cluster->stats[0].changed, 32768u);
  EXPECT_EQ(cluster->stats[0].dense_tiles, 0u);
  change(32769);
  sync(3);
  EXPECT_EQ(cluster->stats[0].changed, 32769u);
  EXPECT_EQ(cluster->stats[0].dense_tiles, 1u);
}
