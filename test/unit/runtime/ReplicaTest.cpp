//===- ReplicaTest.cpp - Every holder of an element must agree ------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Who holds an element is counted here by the coordinates of the matrices, in
/// which the tables and their boxes take no part.
///
//===----------------------------------------------------------------------===//

#include "Cluster.h"

#include "runtime/Replicas.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

using namespace delta::test;
using namespace delta::runtime;

namespace {

struct Sides {
  Geometry source, destination;
  bool toHf;
};

class ReplicaTest : public testing::TestWithParam<Sides> {
protected:
  using Lists = std::vector<std::vector<delta_replica_sum_t>>;
  /// Matrix, layer, expert, row, column.
  using Key = std::tuple<const Matrix *, uint32_t, uint32_t, int64_t, int64_t>;

  ReplicaTest()
      : plan(GetParam().source, GetParam().destination, GetParam().toHf, 4, 4,
             mixedModel(GetParam().source, GetParam().destination)),
        cluster(plan, {2}) {
    cluster.fill();
    for (uint32_t rank = 0; rank < cluster.senders.size(); ++rank)
      sums.push_back(sumsOf(rank));
  }

  std::vector<delta_replica_sum_t> sumsOf(uint32_t rank, uint64_t key = 5) {
    uint64_t count = 0;
    Sender &sender = *cluster.senders[rank];
    EXPECT_FALSE(sender.replicaSums(key, nullptr, 0, count).failed());
    std::vector<delta_replica_sum_t> out(count);
    EXPECT_FALSE(sender.replicaSums(key, out.data(), count, count).failed());
    return out;
  }

  /// Calls visit(rank, param, element, key) for all that is no padding.
  template <typename Visit> void eachElement(const Visit &visit) {
    for (uint32_t rank = 0; rank < cluster.sourceMemory.size(); ++rank) {
      const auto &params = cluster.sourceMemory[rank]->getParams();
      for (uint32_t i = 0; i < params.size(); ++i) {
        const Matrix &matrix =
            plan.getMatrix(params[i].classIndex, DELTA_SOURCE);
        for (auto &[element, place] :
             plan.coordinates(DELTA_SOURCE, rank, params[i]))
          if (place.row < matrix.rows)
            visit(rank, i, element,
                  Key(&matrix, params[i].layer, place.expert, place.row,
                      place.column));
      }
    }
  }

  TestPlan plan;
  Cluster cluster;
  Lists sums; ///< of the values that Cluster::fill gives
};

Geometry sizes(uint32_t tp, uint32_t cp, uint32_t dp, uint32_t ep, uint32_t etp,
               uint32_t pp, uint32_t vpp = 1) {
  return {tp, cp, dp, ep, etp, pp, vpp, 1};
}

const Sides geometries[] = {
    {sizes(2, 1, 2, 2, 1, 2), sizes(4, 1, 1, 2, 2, 1), false},
    {sizes(2, 1, 1, 1, 2, 2, 2), Geometry(), true},
    {sizes(1, 2, 2, 1, 1, 1), Geometry(), true},
    {sizes(4, 1, 2, 4, 1, 1), sizes(2, 1, 1, 1, 1, 2), false}};

} // namespace

TEST_P(ReplicaTest, EqualHoldersAgree) {
  uint64_t compared = 0;
  EXPECT_FALSE(findReplicaDifference(sums, compared));
  EXPECT_GT(compared, 4u);
  // Other keys give other sums.
  EXPECT_NE(sums[0].front().sum, sumsOf(0, 6).front().sum);
}

/// Every third element of every rank: a change is seen if and only if someone
/// else holds the element, and the difference has exactly its holders.
TEST_P(ReplicaTest, AChangeIsSeenWhereSomeoneElseHoldsTheElement) {
  std::map<Key, std::set<uint32_t>> holders;
  eachElement([&](uint32_t rank, uint32_t, int64_t, const Key &key) {
    holders[key].insert(rank);
  });
  int64_t number = 0, seen = 0, alone = 0;
  eachElement(
      [&](uint32_t rank, uint32_t param, int64_t element, const Key &key) {
        if (number++ % 3)
          return;
        RankMemory &memory = *cluster.sourceMemory[rank];
        const uint64_t bits = memory.get(param, element);
        memory.set(param, element, bits ^ 1);
        Lists now = sums;
        now[rank] = sumsOf(rank);
        memory.set(param, element, bits);
        uint64_t compared = 0;
        auto difference = findReplicaDifference(now, compared);
        ASSERT_EQ(bool(difference), holders[key].size() > 1)
            << "rank " << rank << " " << memory.getBound()[param].name << " "
            << element;
        ++(difference ? seen : alone);
        if (!difference)
          return;
        std::set<uint32_t> found;
        std::set<uint64_t> ofRank, ofOthers;
        for (const ReplicaHolder &holder : difference->holders) {
          found.insert(holder.rank);
          (holder.rank == rank ? ofRank : ofOthers).insert(holder.sum);
        }
        EXPECT_EQ(ofRank.size(), 1u);
        EXPECT_EQ(ofOthers.size(), 1u);
        EXPECT_NE(ofRank, ofOthers);
        EXPECT_EQ(found, holders[key]);
      });
  EXPECT_GT(seen, 50);
  if (GetParam().source.tp * GetParam().source.etp > 1 &&
      GetParam().source.dp == 1) {
    EXPECT_GT(alone, 50);
  }
}

/// The reason for the sums: a diff sees what a rank owns, and no more.
TEST_P(ReplicaTest, NobodySendsWhatDiffersAtANonOwner) {
  cluster.seed(1);
  cluster.deliver(1);
  Expander expander(plan.getTables());
  int64_t tried = 0;
  for (uint32_t rank = 0; rank < cluster.senders.size(); ++rank) {
    std::set<std::tuple<uint32_t, uint32_t>> owned; // box, param
    for (const Row &row : expander.expand(rank).rows)
      owned.insert({row.box, row.param});
    for (const ReplicaRow &row : replicaRows(expander, rank)) {
      if (owned.count({row.box, row.param}))
        continue;
      RankMemory &memory = *cluster.sourceMemory[rank];
      const int64_t element =
          row.expertOffset + plan.getTables().boxes[row.box].source_offset;
      const uint64_t bits = memory.get(row.param, element);
      memory.set(row.param, element, bits ^ 1);
      cluster.diff(2);
      for (size_t i = 0; i < cluster.senders.size(); ++i) {
        EXPECT_EQ(cluster.stats[i].changed, 0u);
        cluster.senders[i]->abort();
      }
      Lists now = sums;
      now[rank] = sumsOf(rank);
      uint64_t compared = 0;
      EXPECT_TRUE(findReplicaDifference(now, compared));
      memory.set(row.param, element, bits);
      ++tried;
    }
  }
  EXPECT_GT(tried, 0);
}

TEST_P(ReplicaTest, RefusesTooLittleRoom) {
  uint64_t count = 0;
  std::vector<delta_replica_sum_t> out(sums[0].size());
  Status status =
      cluster.senders[0]->replicaSums(5, out.data(), out.size() - 1, count);
  EXPECT_EQ(status.getCode(), DELTA_INVALID_ARGUMENT);
  EXPECT_EQ(status.getText(), "rank 0: replica_sums: room for " +
                                  std::to_string(out.size() - 1) + " of " +
                                  std::to_string(out.size()));
  EXPECT_EQ(count, out.size());
}

/// A copy is summed by the boxes of its class: it must have its shape.
TEST(ReplicaTablesTest, RefusesACopyThatIsUnlikeItsClass) {
  Geometry source = sizes(1, 1, 1, 1, 1, 2);
  TestPlan plan(source, Geometry(), true, 4, 4, mixedModel(source, Geometry()));
  delta_tables_t tables = plan.getTables();
  std::vector<delta_class_t> classes(
      tables.source.classes, tables.source.classes + tables.source.num_classes);
  tables.source.classes = classes.data();
  ASSERT_FALSE(checkTables(tables).failed());
  uint32_t copy = 0;
  while (classes[copy].copy_of == DELTA_NONE)
    ++copy;
  classes[copy].shape[0] -= 1;
  Status status = checkTables(tables);
  EXPECT_EQ(status.getCode(), DELTA_INTERNAL);
  EXPECT_NE(status.getText().find("unlike class 0, which it copies"),
            std::string::npos)
      << status.getText();
}

INSTANTIATE_TEST_SUITE_P(Geometries, ReplicaTest,
                         testing::ValuesIn(geometries));
