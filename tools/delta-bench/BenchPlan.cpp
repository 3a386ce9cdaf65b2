//===- BenchPlan.cpp - A shard of a given size ----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BenchPlan.h"

#include <algorithm>

using namespace delta::bench;
namespace runtime = delta::runtime;

static constexpr int64_t Hidden = 2048;
static constexpr int64_t TileElements = DELTA_MAX_TILE;

BenchPlan::BenchPlan(uint64_t numBytes) {
  addClass("layers.{layer}.fc1", 6 * Hidden, Hidden);
  addClass("layers.{layer}.fc2", Hidden, 3 * Hidden);
  addClass("layers.{layer}.qkv", 2 * Hidden, Hidden);
  uint64_t layerBytes = 0;
  for (const delta_class_t &type : classes)
    layerBytes += uint64_t(runtime::numElements(type)) * 2;
  numLayers = uint32_t(std::max<uint64_t>(numBytes / layerBytes, 1));
  kind = {0, numLayers};
  for (uint32_t i = 0; i < numLayers; ++i) {
    layerIds.push_back(i);
    layers.push_back({0, 0, i, i});
  }
  addSide(tables.source);
  addSide(tables.hf);
  tables.destination.replicas = 1;
  tables.destination_is_hf = 1;
  tables.size = sizeof(tables);
  tables.abi_version = DELTA_ABI_VERSION;
  tables.model = "bench";
  tables.compiler = "delta-bench";
  tables.num_layer_kinds = 1;
  tables.num_layer_ids = numLayers;
  tables.num_boxes = uint32_t(boxes.size());
  tables.num_images = uint32_t(images.size());
  tables.layer_kinds = &kind;
  tables.layer_ids = layerIds.data();
  tables.boxes = boxes.data();
  tables.images = images.data();
}

uint64_t BenchPlan::getNumBytes() const {
  uint64_t numBytes = 0;
  for (const delta_class_t &type : classes)
    numBytes += uint64_t(runtime::numElements(type)) * 2 * numLayers;
  return numBytes;
}

/// The rows of a class are two halves at the source, and alternate in groups
/// of 64 at the receiver, as a fused projection and its parts do.
void BenchPlan::addClass(const char *name, int64_t rows, int64_t columns) {
  constexpr int64_t Group = 64;
  uint32_t index = uint32_t(classes.size());
  delta_class_t type = {};
  type.first_name = index;
  type.num_names = 1;
  type.dtype = DELTA_BF16;
  type.rank = 2;
  std::fill(type.shape, type.shape + DELTA_MAX_RANK, 1);
  type.shape[0] = rows;
  type.shape[1] = columns;
  type.ways = 1;
  type.copy_of = DELTA_NONE;
  type.part_of = DELTA_NONE;
  classes.push_back(type);
  names.push_back(name);

  delta_box_t box = {};
  box.source_class = index;
  box.num_loops = 4;
  const int64_t extent[] = {2, rows / 2 / Group, Group, columns};
  const int64_t source[] = {rows / 2 * columns, Group * columns, columns, 1};
  const int64_t image[] = {Group * columns, 2 * Group * columns, columns, 1};
  delta_image_t to = {};
  to.class_index = index;
  to.way_end = 1;
  for (int loop = 0; loop < 4; ++loop) {
    box.extent[loop] = extent[loop];
    box.source_stride[loop] = source[loop];
    to.stride[loop] = image[loop];
  }
  box.first_image = box.hf_image = uint32_t(images.size());
  box.num_images = 1;
  box.tile_columns = uint32_t(columns);
  box.tile_runs = uint32_t(TileElements / columns);
  box.num_tiles = (rows + box.tile_runs - 1) / box.tile_runs;
  images.push_back(to);
  boxes.push_back(box);
}

void BenchPlan::addSide(delta_side_t &side) {
  side.tp = side.cp = side.dp = side.ep = side.etp = side.edp = 1;
  side.pp = side.vpp = side.replicas = side.ranks_per_replica = 1;
  side.num_classes = side.num_names = uint32_t(classes.size());
  side.num_layers = numLayers;
  side.classes = classes.data();
  side.layers = layers.data();
  side.names = names.data();
}

BenchMemory::BenchMemory(const runtime::Side &side, uint8_t *block) {
  for (const runtime::Param &param : side.params(0)) {
    const delta_class_t &type = side.getClass(param.classIndex);
    names.push_back(side.name(param));
    delta_param_t bound = {};
    bound.dtype = type.dtype;
    bound.rank = type.rank;
    bound.shape[0] = type.shape[0];
    bound.shape[1] = bound.stride[0] = type.shape[1];
    bound.stride[1] = 1;
    bound.data = block;
    block += runtime::numElements(type) * 2;
    params.push_back(bound);
  }
  for (size_t i = 0; i < params.size(); ++i)
    params[i].name = names[i].c_str();
}
