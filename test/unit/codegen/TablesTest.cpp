//===- TablesTest.cpp - The flat tables say what the plan said ------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/Tables.h"
#include "SamplePlan.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace delta;
using delta::test::enginePlan;
using delta::test::samplePlan;

/// A class read back from flat tables.
static void expectClass(const delta_side_t &side, uint32_t index,
                        const LoweredClass &expected) {
  SCOPED_TRACE(expected.names.front());
  const delta_class_t &cls = side.classes[index];
  std::vector<std::string> names(side.names + cls.first_name,
                                 side.names + cls.first_name + cls.num_names);
  EXPECT_EQ(names, expected.names);
  delta_class_t row = expected.row;
  row.first_name = cls.first_name;
  row.num_names = cls.num_names;
  EXPECT_EQ(std::memcmp(&row, &cls, sizeof(row)), 0);
}

static void expectSide(const delta_side_t &side, const LoweredSide &expected) {
  ASSERT_EQ(side.num_classes, expected.classes.size());
  for (uint32_t i = 0; i < side.num_classes; ++i)
    expectClass(side, i, expected.classes[i]);
  ASSERT_EQ(side.num_layers, expected.layers.size());
  for (uint32_t i = 0; i < side.num_layers; ++i) {
    EXPECT_EQ(side.layers[i].local, expected.layers[i].local);
    EXPECT_EQ(side.layers[i].number, expected.layers[i].number);
  }
  ASSERT_EQ(side.num_experts, expected.experts.size());
  for (uint32_t i = 0; i < side.num_experts; ++i)
    EXPECT_EQ(side.experts[i].ep, expected.experts[i].ep);
  EXPECT_EQ(side.ranks_per_replica, expected.row.ranks_per_replica);
}

static void expectBoxes(const delta_tables_t &tables,
                        const std::vector<LoweredBox> &expected) {
  ASSERT_EQ(tables.num_boxes, expected.size());
  for (uint32_t i = 0; i < tables.num_boxes; ++i) {
    SCOPED_TRACE(expected[i].formula);
    const delta_box_t &box = tables.boxes[i];
    delta_box_t row = expected[i].row;
    row.first_image = box.first_image;
    row.num_images = static_cast<uint32_t>(expected[i].images.size());
    row.hf_image = box.hf_image;
    EXPECT_EQ(std::memcmp(&row, &box, sizeof(row)), 0);
    ASSERT_LE(box.first_image + box.num_images, tables.num_images);
    for (uint32_t k = 0; k < box.num_images; ++k)
      EXPECT_EQ(std::memcmp(&tables.images[box.first_image + k],
                            &expected[i].images[k], sizeof(delta_image_t)),
                0);
    ASSERT_LT(box.hf_image, tables.num_images);
    EXPECT_EQ(std::memcmp(&tables.images[box.hf_image], &expected[i].hfImage,
                          sizeof(delta_image_t)),
              0);
  }
}

TEST(TablesTest, WholeTensorsRoundTrip) {
  LoweredPlan plan = samplePlan();
  plan.source.classes[0].names.push_back("decoder.layers.{layer}.w.other");
  plan.destination.row.replicas = 3;
  TableStorage storage(plan);
  const delta_tables_t &tables = storage.tables();
  EXPECT_EQ(tables.size, sizeof(delta_tables_t));
  EXPECT_EQ(tables.abi_version, DELTA_ABI_VERSION);
  EXPECT_EQ(tables.fingerprint[0], plan.fingerprint[0]);
  EXPECT_EQ(tables.fingerprint[1], plan.fingerprint[1]);
  EXPECT_STREQ(tables.model, plan.model.c_str());
  EXPECT_STREQ(tables.compiler, plan.compiler.c_str());
  expectSide(tables.source, plan.source);
  expectSide(tables.hf, plan.hf);
  expectSide(tables.destination, plan.hf);
  EXPECT_EQ(tables.destination_is_hf, 1u);
  EXPECT_EQ(tables.destination.replicas, 3u);
  EXPECT_EQ(tables.hf.replicas, 1u);
  expectBoxes(tables, plan.boxes);
  ASSERT_EQ(tables.num_layer_kinds, 1u);
  EXPECT_EQ(tables.layer_kinds[0].count, 2u);
  EXPECT_EQ(tables.layer_ids[tables.layer_kinds[0].first + 1], 1u);
}

TEST(TablesTest, AnotherDestinationRoundTrips) {
  LoweredPlan plan = samplePlan();
  plan.destinationIsHf = false;
  plan.destination = plan.source;
  plan.destination.classes[0].names = {"other.{layer}.w"};
  plan.destination.experts = {{0, 0}, {1, 0}};
  plan.layerKinds.push_back({1});
  for (LoweredBox &box : plan.boxes) {
    box.images.push_back(box.images[0]);
    box.images[1].offset += 7;
  }
  TableStorage storage(plan);
  const delta_tables_t &tables = storage.tables();
  EXPECT_EQ(tables.destination_is_hf, 0u);
  expectSide(tables.destination, plan.destination);
  expectSide(tables.hf, plan.hf);
  expectBoxes(tables, plan.boxes);
  EXPECT_EQ(tables.layer_kinds[1].first, 2u);
  EXPECT_EQ(tables.layer_ids[2], 1u);
}

TEST(TablesTest, AnEngineRoundTrips) {
  LoweredPlan plan = enginePlan();
  TableStorage storage(plan);
  const delta_tables_t &tables = storage.tables();
  expectSide(tables.destination, plan.destination);
  expectBoxes(tables, plan.boxes);
  EXPECT_STREQ(tables.engine, "engine");
  EXPECT_STREQ(tables.engine_version, "1.2");
  ASSERT_EQ(tables.slots.num_slots, 4u);
  ASSERT_EQ(tables.slots.num_tables, 2u);
  EXPECT_EQ(tables.slots.first[2], 4u);
  EXPECT_THAT(
      std::vector<uint32_t>(tables.slots.expert, tables.slots.expert + 8),
      testing::ElementsAre(0, 1, 2, 0, 2, 1, 0, 1));
  ASSERT_EQ(tables.num_refreshes, 1u);
  EXPECT_EQ(tables.refreshes[0].class_index, 0u);
  EXPECT_STREQ(tables.refreshes[0].method, "refresh_w");
}

TEST(TablesTest, OtherDestinationsHaveNothingOfAnEngine) {
  TableStorage storage(samplePlan());
  const delta_tables_t &tables = storage.tables();
  EXPECT_EQ(tables.engine, nullptr);
  EXPECT_EQ(tables.engine_version, nullptr);
  EXPECT_EQ(tables.slots.num_slots, 0u);
  EXPECT_EQ(tables.num_refreshes, 0u);
  EXPECT_EQ(tables.source.classes[0].part_of, DELTA_NONE);
}

TEST(TablesTest, EqualTablesAreOne) {
  LoweredPlan plan = samplePlan();
  plan.destinationIsHf = false;
  plan.destination = plan.source;
  TableStorage storage(plan);
  const delta_tables_t &tables = storage.tables();
  EXPECT_EQ(tables.destination.classes, tables.source.classes);
  EXPECT_EQ(tables.destination.names, tables.source.names);
  EXPECT_EQ(tables.destination.layers, tables.source.layers);
  EXPECT_EQ(tables.hf.layers, tables.source.layers);
  EXPECT_NE(tables.hf.classes, tables.source.classes);
  EXPECT_NE(tables.hf.names, tables.source.names);
}

TEST(TablesTest, EqualImagesAreOneRow) {
  LoweredPlan plan = samplePlan();
  // Three boxes whose destination is their neutral place, and a fourth that
  // repeats the images of the first.
  plan.boxes.push_back(plan.boxes[0]);
  TableStorage storage(plan);
  EXPECT_EQ(storage.tables().num_images, 3u);
  expectBoxes(storage.tables(), plan.boxes);
}

TEST(TablesTest, ListOfImagesIsSharedOnlyAsAWhole) {
  LoweredPlan plan = samplePlan();
  LoweredBox swapped = plan.boxes[0];
  swapped.images = {plan.boxes[1].images[0], plan.boxes[0].images[0]};
  plan.boxes.push_back(swapped);
  TableStorage storage(plan);
  expectBoxes(storage.tables(), plan.boxes);
}

TEST(TablesTest, EmptyPlanHasNullTables) {
  LoweredPlan plan;
  TableStorage storage(plan);
  const delta_tables_t &tables = storage.tables();
  EXPECT_EQ(tables.boxes, nullptr);
  EXPECT_EQ(tables.images, nullptr);
  EXPECT_EQ(tables.layer_ids, nullptr);
  EXPECT_EQ(tables.source.classes, nullptr);
  EXPECT_EQ(tables.num_boxes, 0u);
}
