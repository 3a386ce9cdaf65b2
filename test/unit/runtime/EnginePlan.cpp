//===- EnginePlan.cpp - A small plan into an engine -----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EnginePlan.h"

#include <utility>

using namespace delta::test;

static constexpr uint32_t NumLayers = 2, NumExperts = 6;

void EnginePlan::addClass(std::vector<delta_class_t> &classes,
                          std::vector<const char *> &names, const char *name,
                          delta_dtype_t dtype, std::vector<int64_t> shape,
                          delta_axis_t axis, uint32_t ways) {
  delta_class_t type = {};
  type.first_name = uint32_t(names.size());
  type.num_names = 1;
  type.dtype = dtype;
  type.rank = uint32_t(shape.size());
  for (size_t dim = 0; dim < DELTA_MAX_RANK; ++dim)
    type.shape[dim] = dim < shape.size() ? shape[dim] : 1;
  type.axis = axis;
  type.ways = ways;
  type.copy_of = type.part_of = DELTA_NONE;
  classes.push_back(type);
  names.push_back(name);
}

static delta_image_t imageOf(uint32_t classIndex, uint32_t wayBegin,
                             uint32_t wayEnd, int64_t offset, int64_t rowStride,
                             int64_t columnStride,
                             delta_value_op_t op = DELTA_VALUE_ID) {
  delta_image_t image = {};
  image.class_index = classIndex;
  image.way_begin = wayBegin;
  image.way_end = wayEnd;
  image.value_op = op;
  image.offset = offset;
  image.stride[0] = rowStride;
  image.stride[1] = columnStride;
  return image;
}

/// A box of whole rows of a shard, row-major in the source and in the tensor.
void EnginePlan::addBox(uint32_t tensor, uint32_t way, int64_t rows,
                        int64_t columns, int64_t sourceOffset,
                        int64_t neutralOffset,
                        std::vector<delta_image_t> destinations) {
  delta_box_t box = {};
  box.source_class = tensor;
  box.source_way = way;
  box.num_loops = 2;
  box.extent[0] = rows;
  box.extent[1] = columns;
  box.source_offset = sourceOffset;
  box.source_stride[0] = columns;
  box.source_stride[1] = 1;
  box.tile_runs = 1;
  box.tile_columns = uint32_t(columns);
  box.num_tiles = rows;
  box.first_image = uint32_t(images.size());
  box.num_images = uint32_t(destinations.size());
  images.insert(images.end(), destinations.begin(), destinations.end());
  box.hf_image = uint32_t(images.size());
  images.push_back(imageOf(tensor, 0, 1, neutralOffset, columns, 1));
  boxes.push_back(box);
}

EnginePlan::EnginePlan() {
  auto source = [&](const char *name, delta_dtype_t dtype,
                    std::vector<int64_t> shape, uint32_t ways) {
    addClass(sourceClasses, sourceNames, name, dtype, std::move(shape),
             ways > 1 ? DELTA_AXIS_TP : DELTA_AXIS_NONE, ways);
  };
  source("layers.{layer}.q", DELTA_BF16, {4, 3}, 2);
  source("layers.{layer}.k", DELTA_BF16, {2, 3}, 2);
  source("layers.{layer}.w{expert}", DELTA_BF16, {4, 3}, 1);
  source("layers.{layer}.shared", DELTA_BF16, {2, 3}, 2);
  source("layers.{layer}.a", DELTA_BF16, {2}, 2);
  source("layers.{layer}.up", DELTA_BF16, {2, 6}, 2);
  source("layers.{layer}.norm", DELTA_FP32, {3}, 1);
  source("words", DELTA_BF16, {3, 3}, 2);
  source("layers.{layer}.unheld", DELTA_BF16, {3}, 1);

  auto neutral = [&](const char *name, std::vector<int64_t> shape) {
    addClass(neutralClasses, neutralNames, name, DELTA_BF16, std::move(shape));
  };
  neutral("model.{layer}.q", {8, 3});
  neutral("model.{layer}.k", {4, 3});
  neutral("model.{layer}.w{expert}", {4, 3});
  neutral("model.{layer}.shared", {4, 3});
  neutral("model.{layer}.a", {4});
  neutral("model.{layer}.up", {4, 6});
  neutral("model.{layer}.norm", {3});
  neutral("words", {6, 3});
  neutral("model.{layer}.unheld", {3});
  for (auto *classes : {&sourceClasses, &neutralClasses}) {
    (*classes)[TensorW].num_experts = NumExperts;
    (*classes)[TensorWords].layer_kind = DELTA_NONE;
  }

  auto engine = [&](const char *name, delta_dtype_t dtype,
                    std::vector<int64_t> shape,
                    delta_axis_t axis = DELTA_AXIS_NONE, uint32_t ways = 1) {
    addClass(engineClasses, engineNames, name, dtype, std::move(shape), axis,
             ways);
  };
  engine("e.{layer}.qkv", DELTA_BF16, {4, 3}, DELTA_AXIS_TP, 4);
  engine("e.{layer}.stack", DELTA_BF16, {4, 4, 3});
  engine("e.{layer}.shared", DELTA_BF16, {4, 3});
  engine("e.{layer}.a", DELTA_FP32, {1}, DELTA_AXIS_TP, 4);
  engine("e.{layer}.turned", DELTA_BF16, {4, 6});
  engine("e.{layer}.norm", DELTA_FP32, {3});
  engine("e.words", DELTA_BF16, {2, 3}, DELTA_AXIS_STAGE, 4);
  engine("e.{layer}.own", DELTA_BF16, {5});
  engineClasses[ClassStack].num_experts = NumExperts;
  engineClasses[ClassStack].expert_stride = 12;
  engineClasses[ClassStack].extra_slots = 1;
  engineClasses[ClassShared].part_of = ClassStack;
  engineClasses[ClassTurned].order = 0x01;
  engineClasses[ClassWords].layer_kind = DELTA_NONE;

  for (int64_t way = 0; way < 2; ++way)
    for (int64_t half = 0; half < 2; ++half) {
      auto to = uint32_t(2 * way + half);
      addBox(TensorQ, uint32_t(way), 2, 3, 6 * half, 12 * way + 6 * half,
             {imageOf(ClassQkv, to, to + 1, 0, 3, 1)});
    }
  for (int64_t way = 0; way < 2; ++way)
    addBox(
        TensorK, uint32_t(way), 2, 3, 0, 6 * way,
        {imageOf(ClassQkv, uint32_t(2 * way), uint32_t(2 * way + 2), 6, 3, 1)});
  addBox(TensorW, 0, 4, 3, 0, 0, {imageOf(ClassStack, 0, 1, 0, 3, 1)});
  for (int64_t way = 0; way < 2; ++way)
    addBox(TensorShared, uint32_t(way), 2, 3, 0, 6 * way,
           {imageOf(ClassShared, 0, 1, 6 * way, 3, 1)});
  for (int64_t way = 0; way < 2; ++way)
    for (int64_t half = 0; half < 2; ++half) {
      auto to = uint32_t(2 * way + half);
      addBox(TensorA, uint32_t(way), 1, 1, half, 2 * way + half,
             {imageOf(ClassA, to, to + 1, 0, 1, 1, DELTA_VALUE_NEG_EXP)});
    }
  for (int64_t way = 0; way < 2; ++way)
    addBox(TensorUp, uint32_t(way), 2, 6, 0, 12 * way,
           {imageOf(ClassTurned, 0, 1, 2 * way, 1, 4)});
  addBox(TensorNorm, 0, 1, 3, 0, 0,
         {imageOf(ClassNorm, 0, 1, 0, 3, 1, DELTA_VALUE_VIA(DELTA_BF16))});
  // Shards of three rows meet shards of two.
  addBox(TensorWords, 0, 2, 3, 0, 0, {imageOf(ClassWords, 0, 1, 0, 3, 1)});
  addBox(TensorWords, 0, 1, 3, 6, 6, {imageOf(ClassWords, 1, 2, 0, 3, 1)});
  addBox(TensorWords, 1, 1, 3, 0, 9, {imageOf(ClassWords, 1, 2, 3, 3, 1)});
  addBox(TensorWords, 1, 2, 3, 3, 12, {imageOf(ClassWords, 2, 3, 0, 3, 1)});
  addBox(TensorUnheld, 0, 1, 3, 0, 0, {});

  layers = {{0, 0, 0, 0}, {0, 0, 1, 1}};
  for (uint32_t expert = 0; expert < NumExperts; ++expert) {
    sourceExperts.push_back({expert / 3, expert % 3});
    engineExperts.push_back({0, expert});
    neutralExperts.push_back({0, expert});
  }
  kinds = {{0, NumLayers}};
  layerIds = {0, 1};
  slotFirst = {0, 3, 5, 7, 8};
  slotExperts = {0, 1, 1, 2, 3, 4, 5, 0};
  refreshes = {{ClassTurned, 0, "turn"}, {ClassShared, 0, "share"}};
  point();
}

void EnginePlan::point() {
  auto fill = [&](delta_side_t &side, std::vector<delta_class_t> &classes,
                  std::vector<delta_expert_t> &experts,
                  std::vector<const char *> &names) {
    side.cp = side.etp = side.pp = side.vpp = side.replicas = 1;
    side.num_classes = uint32_t(classes.size());
    side.num_layers = NumLayers;
    side.num_experts = NumExperts;
    side.num_names = uint32_t(names.size());
    side.classes = classes.data();
    side.layers = layers.data();
    side.experts = experts.data();
    side.names = names.data();
  };
  fill(tables.source, sourceClasses, sourceExperts, sourceNames);
  fill(tables.destination, engineClasses, engineExperts, engineNames);
  fill(tables.hf, neutralClasses, neutralExperts, neutralNames);
  tables.source.tp = tables.source.dp = tables.source.ep = 2;
  tables.source.edp = 2;
  tables.source.ranks_per_replica = 4;
  tables.destination.tp = tables.destination.ep = 4;
  tables.destination.dp = tables.destination.edp = 1;
  tables.destination.ranks_per_replica = 4;
  tables.destination.replicas = 2;
  tables.hf.tp = tables.hf.dp = tables.hf.ep = tables.hf.edp = 1;
  tables.hf.ranks_per_replica = 1;
  tables.size = sizeof(tables);
  tables.abi_version = DELTA_ABI_VERSION;
  tables.fingerprint[0] = 0x656e67696e65;
  tables.model = "engine";
  tables.compiler = "by hand";
  tables.num_layer_kinds = uint32_t(kinds.size());
  tables.num_layer_ids = uint32_t(layerIds.size());
  tables.num_boxes = uint32_t(boxes.size());
  tables.num_images = uint32_t(images.size());
  tables.layer_kinds = kinds.data();
  tables.layer_ids = layerIds.data();
  tables.boxes = boxes.data();
  tables.images = images.data();
  tables.engine = "test";
  tables.engine_version = "1";
  tables.slots = {uint32_t(slotExperts.size()), 1, slotFirst.data(),
                  slotExperts.data()};
  tables.num_refreshes = uint32_t(refreshes.size());
  tables.refreshes = refreshes.data();
}
