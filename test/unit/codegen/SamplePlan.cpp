//===- SamplePlan.cpp - A small lowered plan, written by hand -------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SamplePlan.h"

using namespace delta;

/// A class inside layers of kind `layerKind`, or outside on stage 0.
static LoweredClass makeClass(const std::string &name, delta_dtype_t dtype,
                              std::vector<int64_t> shape, uint32_t layerKind,
                              delta_axis_t axis, uint32_t ways) {
  LoweredClass cls;
  cls.names = {name};
  cls.row.dtype = dtype;
  cls.row.rank = static_cast<uint32_t>(shape.size());
  for (unsigned i = 0; i < DELTA_MAX_RANK; ++i)
    cls.row.shape[i] = i < shape.size() ? shape[i] : 1;
  cls.row.layer_kind = layerKind;
  cls.row.axis = axis;
  cls.row.ways = ways;
  cls.row.copy_of = DELTA_NONE;
  return cls;
}

static LoweredSide makeSide(uint32_t tp) {
  LoweredSide side;
  side.row.tp = tp;
  side.row.cp = side.row.dp = side.row.ep = side.row.etp = 1;
  side.row.edp = tp;
  side.row.pp = side.row.vpp = side.row.replicas = 1;
  side.row.ranks_per_replica = tp;
  side.layers = {{0, 0, 0, 0}, {0, 0, 1, 1}};
  return side;
}

static delta_image_t makeImage(uint32_t cls, delta_value_op_t op,
                               int64_t offset, std::vector<int64_t> stride) {
  delta_image_t image = {};
  image.class_index = cls;
  image.way_end = 1;
  image.value_op = op;
  image.offset = offset;
  for (size_t i = 0; i < stride.size(); ++i)
    image.stride[i] = stride[i];
  return image;
}

LoweredPlan delta::test::samplePlan() {
  LoweredPlan plan;
  plan.model = "sample, TP2 to hf";
  plan.compiler = "delta-compile test";
  plan.fingerprint = {0x0123456789abcdef, 0xfedcba9876543210};
  plan.source = makeSide(2);
  plan.source.classes = {
      makeClass("decoder.layers.{layer}.w", DELTA_BF16, {4, 6}, 0,
                DELTA_AXIS_TP, 2),
      makeClass("norm", DELTA_FP32, {5}, DELTA_NONE, DELTA_AXIS_NONE, 1)};
  plan.hf = makeSide(1);
  plan.hf.classes = {
      makeClass("layers.{layer}.w", DELTA_BF16, {8, 6}, 0, DELTA_AXIS_NONE, 1),
      makeClass("norm", DELTA_FP32, {5}, DELTA_NONE, DELTA_AXIS_NONE, 1)};
  plan.destination.row.replicas = 1;
  plan.layerKinds = {{0, 1}};

  for (uint32_t way = 0; way < 2; ++way) {
    LoweredBox box;
    box.row.source_way = way;
    box.row.num_loops = 2;
    box.row.tile_runs = 3;
    box.row.tile_columns = 6;
    box.row.num_tiles = 2;
    box.row.extent[0] = 4;
    box.row.extent[1] = 6;
    box.row.source_stride[0] = 6;
    box.row.source_stride[1] = 1;
    box.hfImage = makeImage(0, DELTA_VALUE_ID, 24 * way, {6, 1});
    box.images = {box.hfImage};
    box.formula = "w[r, c] of way " + std::to_string(way) + " = hf[" +
                  std::to_string(4 * way) + " + r, c]";
    plan.boxes.push_back(box);
  }
  LoweredBox norm;
  norm.row.source_class = 1;
  norm.row.num_loops = 1;
  norm.row.tile_runs = 1;
  norm.row.tile_columns = 5;
  norm.row.num_tiles = 1;
  norm.row.extent[0] = 5;
  norm.row.source_stride[0] = 1;
  norm.hfImage = makeImage(1, DELTA_VALUE_ADD_ONE, 0, {1});
  norm.images = {norm.hfImage};
  norm.formula = "norm[i] + 1 = hf[i]";
  plan.boxes.push_back(norm);
  return plan;
}

LoweredPlan delta::test::enginePlan() {
  LoweredPlan plan = samplePlan();
  plan.model = "sample, TP2 to an engine";
  plan.engine = "engine";
  plan.engineVersion = "1.2";
  plan.destinationIsHf = false;
  plan.destination = makeSide(2);
  plan.destination.row.ep = 2;
  plan.destination.row.edp = 1;
  plan.destination.classes = {
      makeClass("e.{layer}.w", DELTA_BF16, {8, 6}, 0, DELTA_AXIS_STAGE, 1),
      makeClass("e.norm", DELTA_FP32, {5}, DELTA_NONE, DELTA_AXIS_NONE, 1),
      makeClass("e.{layer}.stack", DELTA_BF16, {3, 2}, 0, DELTA_AXIS_NONE, 1),
      makeClass("e.{layer}.shared", DELTA_BF16, {2}, 0, DELTA_AXIS_NONE, 1)};
  plan.destination.classes[0].row.order = 0x01;
  delta_class_t &stack = plan.destination.classes[2].row;
  stack.num_experts = 3;
  stack.expert_stride = 2;
  stack.extra_slots = 1;
  plan.destination.classes[3].row.part_of = 2;
  plan.slots.first = {0, 2, 4};
  plan.slots.tables = {{0, 1, 2, 0}, {2, 1, 0, 1}};
  plan.refreshes = {{0, "refresh_w"}};
  for (LoweredSide *side : {&plan.source, &plan.hf, &plan.destination})
    side->experts = {{0, 0}, {0, 1}, {0, 2}};
  auto addBox = [&](const std::string &name, uint32_t experts,
                    uint32_t destination) {
    auto index = static_cast<uint32_t>(plan.source.classes.size());
    for (LoweredSide *side : {&plan.source, &plan.hf}) {
      side->classes.push_back(
          makeClass(name, DELTA_BF16, {2}, 0, DELTA_AXIS_NONE, 1));
      side->classes.back().row.num_experts = experts;
    }
    LoweredBox box;
    box.row.source_class = index;
    box.row.num_loops = 1;
    box.row.tile_runs = 1;
    box.row.tile_columns = 2;
    box.row.num_tiles = 1;
    box.row.extent[0] = 2;
    box.row.source_stride[0] = 1;
    box.hfImage = makeImage(index, DELTA_VALUE_ID, 0, {1});
    if (destination != DELTA_NONE)
      box.images = {makeImage(destination, DELTA_VALUE_ID, 0, {1})};
    box.formula = name + "[i]";
    plan.boxes.push_back(box);
  };
  addBox("x.{layer}.{expert}", 3, 2);
  addBox("x.{layer}.shared", 0, 3);
  addBox("x.{layer}.unheld", 0, DELTA_NONE);
  for (uint32_t way = 0; way < 2; ++way)
    plan.boxes[way].images = {makeImage(0, DELTA_VALUE_ID, 4 * way, {1, 8})};
  plan.boxes[2].images = {
      makeImage(1, DELTA_VALUE_VIA(DELTA_BF16) | DELTA_VALUE_NEG_EXP, 0, {1})};
  return plan;
}

LoweredPlan delta::test::widePlan(unsigned numClasses, unsigned numBoxes) {
  LoweredPlan plan = samplePlan();
  for (unsigned i = 0; i < numClasses; ++i) {
    auto index = static_cast<uint32_t>(plan.source.classes.size());
    std::string name = "decoder.layers.{layer}.p" + std::to_string(i);
    plan.source.classes.push_back(
        makeClass(name, DELTA_BF16, {numBoxes, 64}, 0, DELTA_AXIS_NONE, 1));
    plan.hf.classes.push_back(makeClass("layers.{layer}.p" + std::to_string(i),
                                        DELTA_BF16, {numBoxes, 64}, 0,
                                        DELTA_AXIS_NONE, 1));
    for (unsigned k = 0; k < numBoxes; ++k) {
      LoweredBox box = plan.boxes.front();
      box.row.source_class = index;
      box.row.source_way = 0;
      box.row.extent[0] = 1;
      box.row.extent[1] = 64;
      box.row.source_offset = 64 * k;
      box.hfImage = makeImage(index, DELTA_VALUE_ID, 64 * k, {64, 1});
      box.images = {box.hfImage};
      box.formula = name + "[" + std::to_string(k) + ", c]";
      plan.boxes.push_back(box);
    }
  }
  return plan;
}
