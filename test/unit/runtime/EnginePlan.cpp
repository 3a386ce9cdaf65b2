//===- EnginePlan.cpp - A small plan into an engine -----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EnginePlan.h"

#include "codegen/device/IndexFunctions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace delta::test;
using namespace delta::runtime;

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

//===----------------------------------------------------------------------===//
// What each rank holds
//===----------------------------------------------------------------------===//

static uint32_t bitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// A value of a few bits, so that it is the same in all types; of the norm one
/// that bf16 rounds.
uint64_t EngineCluster::value(uint32_t tensor, uint32_t layer, uint32_t expert,
                              int64_t element) const {
  uint64_t place =
      delta::device::mix(tensor * 1000003 + layer * 8191 +
                         (expert + 1) * 131071 + uint64_t(element));
  bool moved = double(delta::device::mix(place + 7) >> 11) * 0x1p-53 <= share;
  uint64_t random = delta::device::mix(place + (moved ? generation : 0));
  float value = float(int64_t(random % 255) - 127) / 32;
  if (tensor == TensorNorm)
    return bitsOf(1.0f + float(random % 100001) * 0x1p-20f);
  return bitsOf(value) >> 16;
}

std::optional<uint64_t> EngineCluster::expected(uint32_t receiver,
                                                const Param &param,
                                                int64_t element) const {
  const int64_t rank = receiver % NumRanks;
  const uint32_t layer = param.layer, none = DELTA_NONE;
  const int64_t row = element / 3, column = element % 3;
  switch (param.classIndex) {
  case ClassQkv:
    return row < 2 ? value(TensorQ, layer, none, (rank * 2 + row) * 3 + column)
                   : value(TensorK, layer, none,
                           (rank / 2 * 2 + row - 2) * 3 + column);
  case ClassStack: {
    const std::vector<uint32_t> &first = plan.slotFirst;
    size_t slot = first[size_t(rank)] + size_t(element / 12);
    if (slot == first[size_t(rank) + 1])
      return value(TensorShared, layer, none, element % 12);
    return value(TensorW, layer,
                 placement[placement.size() > 1 ? layer : 0][slot],
                 element % 12);
  }
  case ClassA: {
    uint32_t bits = uint32_t(value(TensorA, layer, none, rank)) << 16;
    float a;
    memcpy(&a, &bits, sizeof(a));
    return bitsOf(float(-std::exp(double(a))));
  }
  case ClassTurned:
    return value(TensorUp, layer, none, element % 4 * 6 + element / 4);
  case ClassNorm: {
    auto bits = uint32_t(value(TensorNorm, layer, none, element));
    return (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  }
  case ClassWords:
    if (rank * 2 + row < 6)
      return value(TensorWords, none, none, (rank * 2 + row) * 3 + column);
    return 0; // padding
  default:
    return std::nullopt;
  }
}

uint64_t EngineCluster::numHeld(uint32_t rank) const {
  uint64_t total = 0;
  for (uint32_t i = 0; i < memory[rank]->getParams().size(); ++i) {
    const Param &param = memory[rank]->getParams()[i];
    bool padding = param.classIndex == ClassWords && rank % NumRanks == 3;
    if (param.classIndex != ClassOwn && !padding)
      total += uint64_t(memory[rank]->getNumElements(i));
  }
  return total;
}

uint64_t EngineCluster::countMismatches(std::string &outFirst) const {
  uint64_t total = 0;
  for (uint32_t rank = 0; rank < NumReceivers; ++rank)
    for (uint32_t i = 0; i < memory[rank]->getParams().size(); ++i) {
      const Param &param = memory[rank]->getParams()[i];
      for (int64_t e = 0; e < memory[rank]->getNumElements(i); ++e) {
        uint64_t wanted = expected(rank, param, e).value_or(Untouched & 0xffff);
        if (memory[rank]->get(i, e) == wanted)
          continue;
        if (!total++)
          outFirst = std::string(memory[rank]->getBound()[i].name) + "[" +
                     std::to_string(e) + "] of rank " + std::to_string(rank);
      }
    }
  return total;
}

EngineCluster::EngineCluster(const EnginePlan &plan)
    : placement({plan.slotExperts}), plan(plan),
      inproc(std::chrono::seconds(5)) {
  Side source(plan.tables, DELTA_SOURCE), to(plan.tables, DELTA_DESTINATION);
  senders.resize(NumSources);
  for (uint32_t rank = 0; rank < NumSources; ++rank) {
    sourceMemory.push_back(std::make_unique<RankMemory>(source, rank, false));
    auto &bound = sourceMemory.back()->getBound();
    Status status =
        Sender::create(plan.tables, testKernels(), rank, bound.data(),
                       uint32_t(bound.size()), 5, 1, senders[rank]);
    EXPECT_FALSE(status.failed()) << status.getText();
  }
  receivers.resize(NumReceivers);
  for (uint32_t rank = 0; rank < NumReceivers; ++rank) {
    memory.push_back(std::make_unique<RankMemory>(to, rank, false));
    RankMemory &own = *memory.back();
    for (uint32_t i = 0; i < own.getParams().size(); ++i)
      for (int64_t e = 0; e < own.getNumElements(i); ++e)
        own.set(i, e, Untouched);
    auto &bound = own.getBound();
    Status status =
        Receiver::create(plan.tables, testKernels(), rank, bound.data(),
                         uint32_t(bound.size()), 5, 1, receivers[rank]);
    EXPECT_FALSE(status.failed()) << status.getText();
  }
}

void EngineCluster::fill(uint64_t newGeneration, double newShare) {
  generation = newGeneration;
  share = newShare;
  for (uint32_t rank = 0; rank < NumSources; ++rank) {
    RankMemory &own = *sourceMemory[rank];
    const int64_t tp = rank % 2;
    for (uint32_t i = 0; i < own.getParams().size(); ++i) {
      const Param &param = own.getParams()[i];
      const int64_t count = own.getNumElements(i);
      bool isCut = plan.sourceClasses[param.classIndex].ways > 1;
      for (int64_t e = 0; e < count; ++e)
        own.set(i, e,
                value(param.classIndex, param.layer, param.expert,
                      isCut ? tp * count + e : e));
    }
  }
}

void EngineCluster::deliver() {
  delta_transport_t transport = inproc.transport();
  for (auto &sender : senders) {
    Status status = sender->send(transport);
    EXPECT_FALSE(status.failed()) << status.getText();
  }
  for (auto &receiver : receivers) {
    Status status = receiver->receive(transport);
    EXPECT_FALSE(status.failed()) << status.getText();
    status = receiver->commit();
    EXPECT_FALSE(status.failed()) << status.getText();
  }
}

void EngineCluster::acknowledge(uint64_t version) {
  for (auto &sender : senders) {
    Status status = sender->acknowledge(version);
    EXPECT_FALSE(status.failed()) << status.getText();
  }
}
