//===- IndexTest.cpp - Introspection of a plan ----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Cluster.h"

#include "runtime/Index.h"

#include <gtest/gtest.h>

#include <set>

using namespace delta::test;
using namespace delta::runtime;

namespace {

class IndexTest : public testing::TestWithParam<bool> {
protected:
  IndexTest()
      : plan(source(), destination(), GetParam(), 2, 4,
             mixedModel(source(), destination())),
        index(plan.getTables()) {}
  static Geometry source() {
    Geometry geometry;
    geometry.tp = 2;
    geometry.dp = 2;
    geometry.ep = 2;
    return geometry;
  }
  static Geometry destination() {
    Geometry geometry;
    geometry.replicas = 2;
    if (GetParam())
      return geometry;
    geometry.tp = 2;
    geometry.pp = 2;
    return geometry;
  }

  /// (matrix, layer, expert, row, column) of an element.
  using Coordinate =
      std::tuple<const Matrix *, uint32_t, uint32_t, int64_t, int64_t>;
  Coordinate coordinateOf(delta_side_id_t side, const delta_place_t &place) {
    const Param &param = index.getParams(side, place.rank)[place.param];
    auto key = std::make_tuple(side, place.rank, place.param);
    auto [entry, isNew] = known.try_emplace(key);
    if (isNew)
      entry->second = plan.coordinates(side, place.rank, param);
    TestPlan::Place at = entry->second.at(size_t(place.element)).second;
    bool neutral = index.getSide(side).isNeutral();
    return {&plan.getMatrix(param.classIndex, neutral ? DELTA_HF : side),
            param.layer, at.expert, at.row, at.column};
  }

  TestPlan plan;
  Index index;
  std::map<std::tuple<delta_side_id_t, uint32_t, uint32_t>,
           std::vector<std::pair<int64_t, TestPlan::Place>>>
      known;
};

} // namespace

TEST_P(IndexTest, EveryElementGoesToItsOwnCoordinates) {
  using Place = std::tuple<uint32_t, uint32_t, int64_t>;
  std::set<Place> neutral, written;
  uint64_t padding = 0, all = 0;
  for (uint32_t rank = 0; rank < index.getNumRanks(DELTA_SOURCE); ++rank)
    for (int64_t tile = 0; tile < index.getExpansion(rank).numTiles; ++tile) {
      delta_tile_info_t info;
      ASSERT_FALSE(index.tileInfo(rank, uint64_t(tile), info).failed());
      for (uint32_t offset = 0; offset < info.num_elements; ++offset) {
        delta_place_t from, hf, to[16];
        uint32_t count;
        ASSERT_FALSE(index
                         .tileElement(rank, uint64_t(tile), offset, from, hf,
                                      to, 16, count)
                         .failed());
        ASSERT_LE(count, 16u);
        EXPECT_EQ(from.rank, rank);
        EXPECT_EQ(from.param, info.param);
        auto coordinate = coordinateOf(DELTA_SOURCE, from);
        EXPECT_EQ(coordinateOf(DELTA_HF, hf), coordinate);
        EXPECT_EQ(hf.value_op, std::get<0>(coordinate)->op);
        EXPECT_TRUE(neutral.insert({hf.rank, hf.param, hf.element}).second);
        EXPECT_GE(count, info.num_destinations);
        for (uint32_t i = 0; i < count; ++i) {
          EXPECT_EQ(coordinateOf(DELTA_DESTINATION, to[i]), coordinate);
          EXPECT_EQ(to[i].value_op, std::get<0>(coordinate)->op);
          EXPECT_TRUE(
              written.insert({to[i].rank, to[i].param, to[i].element}).second);
        }
      }
    }
  // All neutral elements, and all of the receivers but their padding.
  uint64_t tensors = 0;
  for (const Param &param : index.getParams(DELTA_HF, 0))
    tensors += uint64_t(
        numElements(index.getSide(DELTA_HF).getClass(param.classIndex)));
  EXPECT_EQ(neutral.size(), tensors);
  for (uint32_t rank = 0; rank < index.getNumRanks(DELTA_DESTINATION); ++rank)
    for (const Param &param : index.getParams(DELTA_DESTINATION, rank))
      for (auto &[element, place] :
           plan.coordinates(DELTA_DESTINATION, rank, param)) {
        const Matrix &matrix = plan.getMatrix(
            param.classIndex, GetParam() ? DELTA_HF : DELTA_DESTINATION);
        padding += place.row >= matrix.rows;
        ++all;
      }
  EXPECT_EQ(written.size(), all - padding);
}

TEST_P(IndexTest, DescribesParameters) {
  delta_param_info_t info;
  ASSERT_FALSE(index.paramInfo(DELTA_SOURCE, 1, 1, info).failed());
  EXPECT_STREQ(info.name, "layers.0.fc1\nold.layers.0.fc1");
  EXPECT_EQ(info.rank, 2u);
  EXPECT_EQ(info.shape[0], 8);
  EXPECT_EQ(info.shape[1], 21);
  EXPECT_EQ(info.num_elements, 8 * 21);
  EXPECT_EQ(info.layer, 0u);
  EXPECT_EQ(info.expert, DELTA_NONE);
  EXPECT_EQ(info.is_copy, 0u);
  EXPECT_EQ(index.paramInfo(DELTA_SOURCE, 1, 999, info).getText(),
            "rank 1: param_info: no parameter 999");
  EXPECT_EQ(index.paramInfo(DELTA_SOURCE, 99, 0, info).getCode(),
            DELTA_INVALID_ARGUMENT);
}

TEST_P(IndexTest, RefusesWhatIsNotThere) {
  delta_tile_info_t info;
  delta_place_t place;
  uint32_t count;
  EXPECT_EQ(index.tileInfo(0, UINT64_MAX, info).getCode(),
            DELTA_INVALID_ARGUMENT);
  EXPECT_EQ(index.tileInfo(99, 0, info).getCode(), DELTA_INVALID_ARGUMENT);
  EXPECT_EQ(
      index.tileElement(0, 0, 65535, place, place, nullptr, 0, count).getText(),
      "rank 0: tile 0 has no element 65535");
}

INSTANTIATE_TEST_SUITE_P(Destinations, IndexTest, testing::Bool(),
                         [](const auto &info) {
                           return std::string(info.param ? "hf" : "megatron");
                         });

TEST(CheckTablesTest, RefusesTablesThatDoNotFit) {
  Geometry source, destination;
  TestPlan plan(source, destination, false, 2, 4,
                mixedModel(source, destination));
  const delta_tables_t &good = plan.getTables();
  EXPECT_FALSE(checkTables(good).failed());
  auto refused = [&](auto change) {
    delta_tables_t tables = good;
    std::vector<delta_box_t> boxes(good.boxes, good.boxes + good.num_boxes);
    std::vector<delta_image_t> images(good.images,
                                      good.images + good.num_images);
    tables.boxes = boxes.data();
    tables.images = images.data();
    change(tables, boxes, images);
    Status status = checkTables(tables);
    EXPECT_EQ(status.getCode(), DELTA_INTERNAL);
    return status.getText();
  };
  EXPECT_EQ(refused([](auto &tables, auto &, auto &) { tables.size = 8; }),
            "plan tables: size 8, this is " +
                std::to_string(sizeof(delta_tables_t)));
  EXPECT_EQ(
      refused([](auto &tables, auto &, auto &) { tables.abi_version = 9; }),
      "plan tables: ABI version 9, this is 2");
  EXPECT_EQ(refused([](auto &, auto &boxes, auto &) {
              std::swap(boxes.front(), boxes.back());
            }),
            "plan tables: box 1: out of order");
  EXPECT_EQ(refused([](auto &, auto &boxes, auto &) {
              boxes[0].tile_runs = 70000;
            }).find("plan tables: box 0: tile of 70000 x "),
            0u);
  EXPECT_EQ(refused([](auto &, auto &boxes, auto &) {
              boxes[0].num_tiles += 1;
            }).find("plan tables: box 0: "),
            0u);
  EXPECT_EQ(refused([](auto &, auto &boxes, auto &) {
              boxes[0].source_offset = 1 << 20;
            }),
            "plan tables: box 0: leaves its class");
  EXPECT_EQ(refused([](auto &, auto &boxes, auto &images) {
              images[boxes[0].first_image].offset = 1 << 20;
            }),
            "plan tables: box 0: image leaves class 0");
  EXPECT_EQ(refused([](auto &, auto &boxes, auto &images) {
              images[boxes[0].first_image + 1].value_op = DELTA_VALUE_ADD_ONE;
            }),
            "plan tables: box 0: images differ in value op");
}
