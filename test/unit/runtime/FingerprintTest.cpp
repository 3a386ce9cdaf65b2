//===- FingerprintTest.cpp - Sums that both ends must share ---------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Cluster.h"

#include <gtest/gtest.h>

#include <map>

using namespace delta::test;
using namespace delta::runtime;

namespace {

using Pair = std::pair<uint32_t, uint32_t>; // source, destination
using Sums = std::map<Pair, std::vector<uint64_t>>;

class FingerprintTest : public testing::TestWithParam<bool> {
protected:
  FingerprintTest()
      : plan(source(), destination(), GetParam(), 4, 4,
             mixedModel(source(), destination())),
        cluster(plan, {2}) {
    cluster.fill();
    cluster.seed(1);
    cluster.deliver(1);
  }
  static Geometry source() {
    Geometry geometry;
    geometry.tp = 2;
    geometry.dp = 2;
    geometry.ep = 2;
    geometry.pp = 2;
    return geometry;
  }
  static Geometry destination() {
    Geometry geometry;
    geometry.replicas = 2;
    if (GetParam())
      return geometry;
    geometry.tp = 4;
    geometry.ep = geometry.etp = 2;
    return geometry;
  }

  template <typename Call> static std::vector<uint64_t> get(const Call &call) {
    uint64_t count = 0;
    EXPECT_FALSE(call(nullptr, 0, count).failed());
    std::vector<uint64_t> sums(count);
    if (count) {
      EXPECT_TRUE(call(sums.data(), count - 1, count).failed());
    }
    EXPECT_FALSE(call(sums.data(), sums.size(), count).failed());
    return sums;
  }
  Sums sent(uint64_t key) {
    Sums all;
    for (uint32_t s = 0; s < cluster.senders.size(); ++s)
      for (uint32_t d = 0; d < cluster.receivers.size(); ++d)
        all[{s, d}] = get([&](uint64_t *out, uint64_t room, uint64_t &count) {
          return cluster.senders[s]->fingerprints(d, key, out, room, count);
        });
    return all;
  }
  /// Of one receiver.
  Sums heldBy(uint32_t d, uint64_t key) {
    Sums all;
    for (uint32_t s = 0; s < cluster.senders.size(); ++s)
      all[{s, d}] = get([&](uint64_t *out, uint64_t room, uint64_t &count) {
        return cluster.receivers[d]->fingerprints(s, key, out, room, count);
      });
    return all;
  }
  Sums held(uint64_t key) {
    Sums all;
    for (uint32_t d = 0; d < cluster.receivers.size(); ++d)
      all.merge(heldBy(d, key));
    return all;
  }

  TestPlan plan;
  Cluster cluster;
};

} // namespace

TEST_P(FingerprintTest, BothEndsAgree) {
  Sums first = sent(99);
  EXPECT_TRUE(first == held(99));
  uint64_t sums = 0;
  for (auto &entry : first)
    sums += entry.second.size();
  EXPECT_GT(sums, 50u);
  EXPECT_FALSE(first == sent(100));
}

TEST_P(FingerprintTest, KeysComeAndGo) {
  const Sums first = sent(99), other = sent(100);
  EXPECT_TRUE(other == held(100));
  EXPECT_TRUE(first == held(99));
  EXPECT_TRUE(first == sent(99));
}

TEST_P(FingerprintTest, KeptPositionsAreThoseOfTheirRow) {
  const delta_tables_t &tables = plan.getTables();
  const Side hf(tables, DELTA_HF);
  Positions positions(tables);
  for (uint32_t rank : {0u, 1u, 0u}) { // the same numbers, other rows
    const Expansion expansion = Expander(tables).expand(rank);
    for (uint64_t key : {3, 3, 4})
      for (size_t i = 0; i < expansion.rows.size(); ++i) {
        const Row &row = expansion.rows[i];
        const delta_box_t &box = tables.boxes[row.box];
        const delta_position_t wanted =
            positionOf(tables, hf, box, row.layer, row.expert, key);
        const delta_position_t &kept =
            positions.get(i, box, row.layer, row.expert, key);
        EXPECT_EQ(kept.row_key, wanted.row_key);
        EXPECT_EQ(kept.column_key, wanted.column_key);
        EXPECT_EQ(kept.offset, wanted.offset);
        EXPECT_EQ(kept.stride, wanted.stride);
        EXPECT_EQ(kept.num_columns, wanted.num_columns);
      }
  }
}

TEST_P(FingerprintTest, AnyChangedElementShows) {
  Sums before = sent(99);
  EXPECT_TRUE(before == held(99));
  // A list takes milliseconds on an emulated device.
  const uint32_t step = cluster.device ? 7 : 1;
  for (auto &memory : cluster.destinationMemory) {
    const uint32_t rank = uint32_t(&memory - cluster.destinationMemory.data());
    const Sums own = heldBy(rank, 99);
    for (uint32_t i = rank % step; i < memory->getParams().size(); i += step) {
      int64_t last = -1;
      // Padding has no sum: take the last element that is no padding.
      Side side(plan.getTables(), DELTA_DESTINATION);
      const Param &param = memory->getParams()[i];
      const Matrix &matrix = plan.getMatrix(
          param.classIndex, GetParam() ? DELTA_HF : DELTA_DESTINATION);
      for (auto &[element, place] :
           plan.coordinates(DELTA_DESTINATION, rank, param))
        if (place.row < matrix.rows)
          last = element;
      if (last < 0)
        continue;
      uint64_t bits = memory->get(i, last);
      memory->set(i, last, bits ^ 0x100);
      EXPECT_FALSE(own == heldBy(rank, 99)) << memory->getBound()[i].name;
      memory->set(i, last, bits);
    }
  }
  EXPECT_TRUE(before == held(99));
}

TEST_P(FingerprintTest, SwappedElementsShow) {
  auto &memory = *cluster.destinationMemory[0];
  uint64_t a = memory.get(1, 0), b = memory.get(1, 1);
  ASSERT_NE(a, b);
  memory.set(1, 0, b);
  memory.set(1, 1, a);
  EXPECT_FALSE(sent(99) == held(99));
}

INSTANTIATE_TEST_SUITE_P(Destinations, FingerprintTest, testing::Bool(),
                         [](const auto &info) {
                           return std::string(info.param ? "hf" : "megatron");
                         });
