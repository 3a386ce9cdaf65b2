//===- ExpandTest.cpp - Rows against a naive enumeration ------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The oracle walks all tuples (rank, class, layer, expert, box, destination
/// rank, image) and tests each against the rules in words; it shares no code
/// with the expansion.
///
//===----------------------------------------------------------------------===//

#include "Cluster.h"

#include "runtime/Expand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <tuple>

using namespace delta::test;
using namespace delta::runtime;

namespace {

/// (box, layer, expert) to (destination ranks, first tile, end tile).
using Key = std::tuple<uint32_t, uint32_t, uint32_t>;
struct OracleRow {
  std::vector<uint32_t> ranks;
  int64_t begin, end;
};

class Oracle {
public:
  explicit Oracle(const delta_tables_t &tables) : tables(tables) {
    to = tables.destination_is_hf ? &tables.hf : &tables.destination;
  }

  std::map<Key, OracleRow> rowsOf(uint32_t rank) const {
    std::map<Key, OracleRow> rows;
    for (uint32_t b = 0; b < tables.num_boxes; ++b)
      for (uint32_t layer : instances(tables.source.num_layers))
        for (uint32_t expert : instances(tables.source.num_experts)) {
          const delta_box_t &box = tables.boxes[b];
          const delta_class_t &type = tables.source.classes[box.source_class];
          if (!holds(tables.source, rank, type, layer, expert) ||
              wayOf(tables.source, rank, type) != box.source_way)
            continue;
          int64_t before = 0, all = 0;
          // Holders take turns in who has the first part.
          uint64_t turn = b + (layer == DELTA_NONE ? 0 : layer) +
                          (expert == DELTA_NONE ? 0 : expert);
          for (uint32_t r = 0; r < tables.source.ranks_per_replica; ++r)
            if (holds(tables.source, r, type, layer, expert) &&
                wayOf(tables.source, r, type) == box.source_way) {
              before += r < rank;
              ++all;
            }
          int64_t part = (before + int64_t(turn)) % all;
          OracleRow row = {destinations(box, layer, expert),
                           part * box.num_tiles / all,
                           (part + 1) * box.num_tiles / all};
          if (row.begin < row.end && !row.ranks.empty())
            rows[Key(b, layer, expert)] = row;
        }
    return rows;
  }

private:
  static std::vector<uint32_t> instances(uint32_t count) {
    std::vector<uint32_t> all = {DELTA_NONE};
    for (uint32_t i = 0; i < count; ++i)
      all.push_back(i);
    return all;
  }
  static uint32_t stageOf(const delta_side_t &side, uint32_t rank) {
    return rank / (side.tp * side.cp * side.dp);
  }
  static uint32_t epOf(const delta_side_t &side, uint32_t rank) {
    return rank / side.etp % side.ep; // a stage is whole multiples of etp*ep
  }
  static uint32_t wayOf(const delta_side_t &side, uint32_t rank,
                        const delta_class_t &type) {
    if (type.axis == DELTA_AXIS_TP)
      return rank % side.tp * type.ways / side.tp;
    if (type.axis == DELTA_AXIS_ETP)
      return rank % side.etp * type.ways / side.etp;
    return 0;
  }
  bool holds(const delta_side_t &side, uint32_t rank, const delta_class_t &type,
             uint32_t layer, uint32_t expert) const {
    if ((type.layer_kind == DELTA_NONE) != (layer == DELTA_NONE))
      return false;
    if ((type.num_experts == 0) != (expert == DELTA_NONE))
      return false;
    uint32_t stage =
        layer == DELTA_NONE ? type.stage : side.layers[layer].stage;
    if (stage != stageOf(side, rank))
      return false;
    return expert == DELTA_NONE || side.experts[expert].ep == epOf(side, rank);
  }
  std::vector<uint32_t> destinations(const delta_box_t &box, uint32_t layer,
                                     uint32_t expert) const {
    std::vector<uint32_t> ranks;
    uint32_t replicas = tables.destination.replicas;
    for (uint32_t rank = 0; rank < replicas * to->ranks_per_replica; ++rank) {
      uint32_t local = rank % to->ranks_per_replica;
      bool found = false;
      for (uint32_t i = 0; i < box.num_images; ++i) {
        const delta_image_t &image = tables.images[box.first_image + i];
        const delta_class_t &type = to->classes[image.class_index];
        uint32_t way = wayOf(*to, local, type);
        found |= holds(*to, local, type, layer, expert) &&
                 way >= image.way_begin && way < image.way_end;
      }
      if (found)
        ranks.push_back(rank);
    }
    return ranks;
  }

  const delta_tables_t &tables;
  const delta_side_t *to;
};

Geometry make(uint32_t tp, uint32_t cp, uint32_t dp, uint32_t ep, uint32_t etp,
              uint32_t pp, uint32_t replicas = 1) {
  return {tp, cp, dp, ep, etp, pp, /*vpp=*/1, replicas};
}

void expectSameRows(const Geometry &source, const Geometry &destination,
                    bool toHf) {
  TestPlan plan(source, destination, toHf, 4, 4,
                mixedModel(source, destination));
  const delta_tables_t &tables = plan.getTables();
  ASSERT_FALSE(checkTables(tables).failed()) << checkTables(tables).getText();
  Oracle oracle(tables);
  Expander expander(tables);
  for (uint32_t rank = 0; rank < tables.source.ranks_per_replica; ++rank) {
    Expansion expansion = expander.expand(rank);
    auto wanted = oracle.rowsOf(rank);
    EXPECT_EQ(expansion.rows.size(), wanted.size()) << "rank " << rank;
    int64_t tiles = 0;
    for (const Row &row : expansion.rows) {
      auto it = wanted.find(Key(row.box, row.layer, row.expert));
      ASSERT_NE(it, wanted.end()) << "rank " << rank << " box " << row.box;
      EXPECT_EQ(expansion.sets[row.set], it->second.ranks);
      EXPECT_EQ(row.tileBegin, it->second.begin);
      EXPECT_EQ(row.tileEnd, it->second.end);
      EXPECT_EQ(row.firstTile, tiles);
      const Param &param = expansion.params[row.param];
      EXPECT_EQ(param.classIndex, tables.boxes[row.box].source_class);
      EXPECT_EQ(param.layer, row.layer);
      bool isStacked =
          tables.source.classes[param.classIndex].expert_stride != 0;
      EXPECT_EQ(param.expert, isStacked ? DELTA_NONE : row.expert);
      for (int64_t tile = 0; tile < row.numTiles(); ++tile)
        EXPECT_EQ(&expansion.rowOf(tiles + tile), &row);
      tiles += row.numTiles();
    }
    EXPECT_EQ(expansion.numTiles, tiles);
  }
}

/// (set, element size descending, class, box, layer, expert) of a row.
auto orderOf(const delta_tables_t &tables, const Expansion &expansion,
             const Row &row) {
  uint32_t classIndex = tables.boxes[row.box].source_class;
  return std::make_tuple(
      expansion.sets[row.set],
      -int(elementSize(tables.source.classes[classIndex].dtype)), classIndex,
      row.box, row.layer, row.expert);
}

} // namespace

TEST(ExpandTest, AgreesWithTheOracleForReplicasOfEveryKind) {
  expectSameRows(make(2, 2, 2, 2, 2, 2), make(4, 1, 1, 2, 2, 1, 2), false);
}

TEST(ExpandTest, AgreesWithTheOracleForFewerWaysThanRanks) {
  expectSameRows(make(4, 1, 2, 4, 1, 1), make(2, 1, 4, 2, 4, 2), false);
}

TEST(ExpandTest, AgreesWithTheOracleForNeutralReplicas) {
  expectSameRows(make(2, 1, 2, 4, 1, 4), make(1, 1, 1, 1, 1, 1, 3), true);
}

TEST(ExpandTest, SortsRowsAndSets) {
  Geometry source = make(2, 1, 2, 2, 2, 2), to = make(4, 1, 1, 4, 1, 1);
  TestPlan plan(source, to, false, 4, 4, mixedModel(source, to));
  Expander expander(plan.getTables());
  for (uint32_t rank = 0; rank < 8; ++rank) {
    Expansion expansion = expander.expand(rank);
    EXPECT_TRUE(std::is_sorted(expansion.sets.begin(), expansion.sets.end()));
    for (size_t i = 1; i < expansion.rows.size(); ++i)
      EXPECT_LT(orderOf(plan.getTables(), expansion, expansion.rows[i - 1]),
                orderOf(plan.getTables(), expansion, expansion.rows[i]));
  }
}

TEST(ExpandTest, GivesTheSameRowsInWhateverOrderRanksAreAsked) {
  Geometry source = make(2, 1, 2, 4, 1, 2), to = make(4, 1, 1, 2, 2, 1, 2);
  TestPlan plan(source, to, false, 4, 4, mixedModel(source, to));
  Expander upward(plan.getTables()), downward(plan.getTables());
  std::vector<Expansion> first, second(8);
  for (uint32_t rank = 0; rank < 8; ++rank)
    first.push_back(upward.expand(rank));
  for (uint32_t rank = 8; rank-- > 0;)
    second[rank] = downward.expand(rank);
  for (uint32_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(first[rank].sets, second[rank].sets);
    ASSERT_EQ(first[rank].rows.size(), second[rank].rows.size());
    for (size_t i = 0; i < first[rank].rows.size(); ++i)
      EXPECT_EQ(first[rank].rows[i].box, second[rank].rows[i].box);
  }
}

TEST(ExpandTest, NamesUseLocalNumbersOnTrainersAndGlobalOnesElsewhere) {
  Geometry source = make(1, 1, 2, 2, 1, 2), to = make(1, 1, 1, 1, 1, 1);
  source.vpp = 2;
  TestPlan plan(source, to, true, 4, 4, mixedModel(source, to));
  Side side(plan.getTables(), DELTA_SOURCE), hf(plan.getTables(), DELTA_HF);
  // Layer 3 is the only one of chunk 1 on stage 1; expert 3 is the second of
  // ep 1.
  std::vector<Param> params = side.params(/*rank=*/3);
  uint32_t param = side.find(params, /*classIndex=*/6, 3, 3);
  ASSERT_NE(param, DELTA_NONE);
  EXPECT_EQ(side.chunkOf(side.getClass(6), 3), 1u);
  EXPECT_EQ(side.name(params[param]), "layers.0.experts.1.bias");
  EXPECT_EQ(side.name(params[param], 1), "old.layers.0.experts.1.bias");
  EXPECT_EQ(hf.name({6, 3, 3}), "model.layers.3.experts.3.bias");
}

TEST(ExpandTest, HolesAddAndSubtract) {
  const char *names[] = {"a.{layer+61}.b{expert-1}{layer}"};
  delta_class_t type = {};
  type.num_names = 1;
  delta_placement_t layers[] = {{0, 0, 2, 5}};
  delta_expert_t experts[] = {{0, 0}, {0, 1}};
  delta_tables_t tables = {};
  tables.source.classes = tables.hf.classes = &type;
  tables.source.names = tables.hf.names = names;
  tables.source.layers = tables.hf.layers = layers;
  tables.source.experts = tables.hf.experts = experts;
  EXPECT_EQ(Side(tables, DELTA_SOURCE).name({0, 0, 1}), "a.63.b02");
  EXPECT_EQ(Side(tables, DELTA_HF).name({0, 0, 1}), "a.66.b05");
}

/// The shape of a large mixture of experts: 92 layers, 128 experts, TP 4, EP
/// 16, PP 4.
TEST(ExpandTest, ExpandsARankOfALargeModelInMilliseconds) {
  Geometry source = make(4, 1, 4, 16, 1, 4), to = make(1, 1, 1, 1, 1, 1);
  TestPlan plan(source, to, true, 92, 128, mixedModel(source, to));
  Expander expander(plan.getTables());
  auto begin = std::chrono::steady_clock::now();
  int64_t rows = 0;
  for (uint32_t rank = 0; rank < 64; ++rank)
    rows += int64_t(expander.expand(rank).rows.size());
  std::chrono::duration<double> passed =
      std::chrono::steady_clock::now() - begin;
  RecordProperty("rows", std::to_string(rows));
  RecordProperty("milliseconds", std::to_string(passed.count() * 1000 / 64));
  EXPECT_GT(rows, 64 * 23 * 8 * 2);
  EXPECT_LT(passed.count() / 64, 0.02);
}
