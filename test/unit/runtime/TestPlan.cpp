//===- TestPlan.cpp - Small plans built in memory -------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestPlan.h"

#include "codegen/device/IndexFunctions.h"

#include <algorithm>

using namespace delta::test;
namespace device = delta::device;
namespace runtime = delta::runtime;

static const Cut WholeCut;

static const Cut &cutOf(const Matrix &matrix, delta_side_id_t side) {
  return side == DELTA_SOURCE        ? matrix.source
         : side == DELTA_DESTINATION ? matrix.destination
                                     : WholeCut;
}

ShardView delta::test::shardOf(const Matrix &matrix, const Cut &cut,
                               uint32_t way) {
  int64_t rows = cut.paddedRows ? cut.paddedRows : matrix.rows;
  ShardView view = {rows, matrix.columns, 0, 0};
  if (cut.dim == 0) {
    view.rows = rows / cut.ways;
    view.firstRow = way * view.rows;
  } else {
    view.columns = matrix.columns / cut.ways;
    view.firstColumn = way * view.columns;
  }
  return view;
}

TestPlan::TestPlan(Geometry source, Geometry destination, bool destinationIsHf,
                   uint32_t numLayers, uint32_t numExperts,
                   std::vector<Matrix> matrixList)
    : numExperts(numExperts), matrices(std::move(matrixList)) {
  kinds.push_back({0, numLayers});
  for (uint32_t i = 0; i < numLayers; ++i)
    layerIds.push_back(i);
  tables.destination_is_hf = destinationIsHf;
  for (uint32_t i = 0; i < matrices.size(); ++i) {
    addClass(DELTA_SOURCE, i, false);
    addClass(DELTA_HF, i, false);
    if (!destinationIsHf)
      addClass(DELTA_DESTINATION, i, false);
  }
  for (uint32_t i = 0; i < matrices.size(); ++i) {
    if (matrices[i].source.copy)
      addClass(DELTA_SOURCE, i, true);
    if (matrices[i].destination.copy && !destinationIsHf)
      addClass(DELTA_DESTINATION, i, true);
  }
  for (auto &type : classes[DELTA_SOURCE])
    if (type.copy_of != DELTA_NONE)
      type.stage = source.pp - 1;
  for (auto &type : classes[DELTA_DESTINATION])
    if (type.copy_of != DELTA_NONE)
      type.stage = destination.pp - 1;
  // The boxes need the classes of all sides; the sides point to them.
  fillSide(tables.source, source, DELTA_SOURCE, numLayers);
  fillSide(tables.hf, Geometry(), DELTA_HF, numLayers);
  if (!destinationIsHf)
    fillSide(tables.destination, destination, DELTA_DESTINATION, numLayers);
  tables.destination.replicas = destination.replicas;
  for (uint32_t i = 0; i < matrices.size(); ++i)
    for (uint32_t way = 0; way < matrices[i].source.ways; ++way)
      addBoxes(i, way);
  tables.size = sizeof(tables);
  tables.abi_version = DELTA_ABI_VERSION;
  tables.fingerprint[0] = 0x1234567890abcdef;
  tables.fingerprint[1] = 0xfedcba0987654321;
  tables.model = "test";
  tables.compiler = "by hand";
  tables.num_layer_kinds = 1;
  tables.num_layer_ids = numLayers;
  tables.num_boxes = uint32_t(boxes.size());
  tables.num_images = uint32_t(images.size());
  tables.layer_kinds = kinds.data();
  tables.layer_ids = layerIds.data();
  tables.boxes = boxes.data();
  tables.images = images.data();
}

void TestPlan::fillSide(delta_side_t &side, const Geometry &geometry,
                        delta_side_id_t id, uint32_t numLayers) {
  side.tp = geometry.tp;
  side.cp = geometry.cp;
  side.dp = geometry.dp;
  side.ep = geometry.ep;
  side.etp = geometry.etp;
  side.pp = geometry.pp;
  side.vpp = geometry.vpp;
  uint32_t perStage = side.tp * side.cp * side.dp;
  side.edp = perStage / (side.ep * side.etp);
  side.replicas = geometry.replicas;
  side.ranks_per_replica = perStage * side.pp;
  // Layers are dealt to (chunk 0, stage 0), (chunk 0, stage 1), ...
  uint32_t perChunk = numLayers / (geometry.pp * geometry.vpp);
  for (uint32_t i = 0; i < numLayers; ++i) {
    uint32_t part = i / perChunk;
    layers[id].push_back({part % geometry.pp, part / geometry.pp, i % perChunk,
                          id == DELTA_HF ? i : DELTA_NONE});
  }
  uint32_t perEp = std::max(numExperts / geometry.ep, 1u);
  for (uint32_t i = 0; i < numExperts; ++i)
    experts[id].push_back({i / perEp, i % perEp});
  for (delta_class_t &type : classes[id])
    if (type.expert_stride)
      type.shape[0] = perEp;
  side.num_classes = uint32_t(classes[id].size());
  side.num_layers = numLayers;
  side.num_experts = numExperts;
  side.num_names = uint32_t(names[id].size());
  side.classes = classes[id].data();
  side.layers = layers[id].data();
  side.experts = experts[id].data();
  side.names = names[id].data();
}

void TestPlan::addClass(delta_side_id_t id, uint32_t index, bool isCopy) {
  const Matrix &matrix = matrices[index];
  const Cut &cut = cutOf(matrix, id);
  ShardView shard = shardOf(matrix, cut, 0);
  delta_class_t type = {};
  type.first_name = uint32_t(names[id].size());
  type.num_names = id == DELTA_SOURCE ? 2 : 1;
  std::string name = id == DELTA_HF ? "model." : "";
  if (matrix.layered)
    name += "layers.{layer}.";
  if (matrix.expert && !cut.stacked)
    name += "experts.{expert}.";
  name += matrix.name + (isCopy ? ".copy" : "");
  texts.push_back(name);
  names[id].push_back(texts.back().c_str());
  if (type.num_names == 2) {
    texts.push_back("old." + name);
    names[id].push_back(texts.back().c_str());
  }
  type.dtype = matrix.dtype;
  std::fill(type.shape, type.shape + DELTA_MAX_RANK, 1);
  if (cut.stacked)
    type.shape[type.rank++] = 1; // experts of a rank, set by fillSide
  int64_t rows = shard.rows, columns = shard.columns;
  if (id == DELTA_HF && matrix.transposed)
    std::swap(rows, columns);
  type.shape[type.rank++] = rows;
  type.shape[type.rank++] = columns;
  type.layer_kind = matrix.layered ? 0 : DELTA_NONE;
  type.stage = cut.stage;
  type.num_experts = matrix.expert ? numExperts : 0;
  type.expert_stride = cut.stacked ? shard.rows * shard.columns : 0;
  type.axis = cut.axis;
  type.ways = cut.ways;
  type.copy_of = isCopy ? index : DELTA_NONE;
  type.part_of = DELTA_NONE;
  classes[id].push_back(type);
  matrixOf[id].push_back(index);
}

void TestPlan::addImages(delta_box_t &box, uint32_t index, int64_t row,
                         int64_t column, int64_t numRows, int64_t numColumns) {
  const Matrix &matrix = matrices[index];
  auto add = [&](uint32_t classIndex, uint32_t way, int64_t offset,
                 int64_t rowStride, int64_t columnStride) {
    delta_image_t image = {};
    image.class_index = classIndex;
    image.way_begin = way;
    image.way_end = way + 1;
    image.value_op = matrix.op;
    image.offset = offset;
    if (matrix.interleaved) {
      image.stride[0] = rowStride;
      image.stride[1] = 2 * rowStride;
      image.stride[2] = columnStride;
    } else {
      image.stride[0] = rowStride;
      image.stride[1] = columnStride;
    }
    images.push_back(image);
  };
  int64_t hfRow = matrix.transposed ? 1 : matrix.columns;
  int64_t hfColumn = matrix.transposed ? matrix.rows : 1;
  box.hf_image = uint32_t(images.size());
  add(index, 0, row * hfRow + column * hfColumn, hfRow, hfColumn);
  box.first_image = uint32_t(images.size());
  if (tables.destination_is_hf) {
    box.first_image = box.hf_image;
    box.num_images = 1;
    return;
  }
  for (uint32_t c = 0; c < classes[DELTA_DESTINATION].size(); ++c) {
    if (matrixOf[DELTA_DESTINATION][c] != index)
      continue;
    for (uint32_t way = 0; way < matrix.destination.ways; ++way) {
      ShardView to = shardOf(matrix, matrix.destination, way);
      bool inside = row >= to.firstRow && column >= to.firstColumn &&
                    row + numRows <= to.firstRow + to.rows &&
                    column + numColumns <= to.firstColumn + to.columns;
      if (inside)
        add(c, way, (row - to.firstRow) * to.columns + column - to.firstColumn,
            to.columns, 1);
    }
  }
  box.num_images = uint32_t(images.size()) - box.first_image;
}

/// One box for each rectangle in which a source shard meets a destination
/// shard; interleaved matrices are whole on both sides and have one box.
void TestPlan::addBoxes(uint32_t index, uint32_t way) {
  const Matrix &matrix = matrices[index];
  ShardView from = shardOf(matrix, matrix.source, way);
  uint32_t ways = tables.destination_is_hf ? 1 : matrix.destination.ways;
  for (uint32_t toWay = 0; toWay < ways; ++toWay) {
    ShardView to = shardOf(
        matrix, tables.destination_is_hf ? WholeCut : matrix.destination,
        toWay);
    int64_t row = std::max(from.firstRow, to.firstRow);
    int64_t column = std::max(from.firstColumn, to.firstColumn);
    int64_t endRow = std::min(
        {from.firstRow + from.rows, to.firstRow + to.rows, matrix.rows});
    int64_t endColumn =
        std::min(from.firstColumn + from.columns, to.firstColumn + to.columns);
    if (row >= endRow || column >= endColumn)
      continue;
    int64_t numRows = endRow - row, numColumns = endColumn - column;
    delta_box_t box = {};
    box.source_class = index;
    box.source_way = way;
    box.source_offset =
        (row - from.firstRow) * from.columns + column - from.firstColumn;
    if (matrix.interleaved) {
      box.num_loops = 3;
      box.extent[0] = 2;
      box.extent[1] = numRows / 2;
      box.source_stride[0] = numRows / 2 * from.columns;
    } else {
      box.num_loops = 2;
      box.extent[0] = numRows;
    }
    box.source_stride[box.num_loops - 2] = from.columns;
    box.extent[box.num_loops - 1] = numColumns;
    box.source_stride[box.num_loops - 1] = 1;
    box.tile_columns = uint32_t(std::min(numColumns, matrix.tile));
    box.tile_runs = uint32_t(std::min(
        numRows, std::max<int64_t>(matrix.tile / box.tile_columns, 1)));
    box.num_tiles = (numRows + box.tile_runs - 1) / box.tile_runs *
                    ((numColumns + box.tile_columns - 1) / box.tile_columns);
    addImages(box, index, row, column, numRows, numColumns);
    boxes.push_back(box);
  }
}

uint64_t TestPlan::value(const Matrix &matrix, uint32_t layer, uint32_t expert,
                         int64_t row, int64_t column) const {
  uint64_t seed = uint64_t(&matrix - matrices.data()) * 1000003 +
                  uint64_t(layer + 1) * 8191 + uint64_t(expert + 1) * 131071;
  uint64_t bits =
      device::mix(seed * 1000000007 + uint64_t(row) * 65537 + uint64_t(column));
  uint32_t size = runtime::elementSize(matrix.dtype);
  return size == 8 ? bits : bits & ((uint64_t(1) << size * 8) - 1);
}

std::vector<std::pair<int64_t, TestPlan::Place>>
TestPlan::coordinates(delta_side_id_t id, uint32_t rank,
                      const runtime::Param &param) const {
  runtime::Side side(tables, id);
  const Matrix &matrix =
      getMatrix(param.classIndex, side.isNeutral() ? DELTA_HF : id);
  const Cut &cut = side.isNeutral() ? WholeCut : cutOf(matrix, id);
  const delta_class_t &type = side.getClass(param.classIndex);
  runtime::Coordinates at = side.coordinates(rank);
  ShardView view = shardOf(matrix, cut, side.wayOf(type, at));
  std::vector<uint32_t> slices = {param.expert};
  if (cut.stacked)
    slices = side.expertsOf(type, at.ep);
  std::vector<std::pair<int64_t, Place>> out;
  for (uint32_t expert : slices)
    for (int64_t i = 0; i < view.rows * view.columns; ++i) {
      int64_t row = view.firstRow + i / view.columns;
      int64_t column = view.firstColumn + i % view.columns;
      if (side.isNeutral() && matrix.transposed) {
        row = i % view.rows;
        column = i / view.rows;
      }
      if (id != DELTA_SOURCE && matrix.interleaved)
        row = row % 2 * (matrix.rows / 2) + row / 2;
      out.push_back({int64_t(out.size()), {expert, row, column}});
    }
  return out;
}

std::vector<Matrix> delta::test::mixedModel(const Geometry &source,
                                            const Geometry &destination) {
  Cut sourceRows{DELTA_AXIS_TP, source.tp, 0};
  Cut destinationRows{DELTA_AXIS_TP, destination.tp, 0};
  Cut sourceColumns{DELTA_AXIS_TP, source.tp, 1};
  Cut destinationColumns{DELTA_AXIS_TP, destination.tp, 1};
  Cut sourceExperts{DELTA_AXIS_ETP, source.etp, 0};
  Cut destinationExperts{DELTA_AXIS_ETP, destination.etp, 0};
  Cut stacked = destinationExperts;
  stacked.stacked = true;
  Cut halves{DELTA_AXIS_TP, source.tp > 1 ? source.tp / 2 : 1, 0};
  Cut paddedSource = sourceRows, paddedDestination = destinationRows;
  paddedSource.paddedRows = 16;
  paddedSource.copy = source.pp > 1;
  paddedDestination.paddedRows = 24;
  paddedDestination.copy = true;
  Cut last;
  last.stage = source.pp - 1;
  Cut lastTo;
  lastTo.stage = destination.pp - 1;
  std::vector<Matrix> model;
  model.push_back(
      {"embedding", 13, 9, DELTA_BF16, paddedSource, paddedDestination});
  model.push_back(
      {"fc1", 16, 21, DELTA_BF16, sourceRows, destinationRows, true});
  model.push_back(
      {"fc2", 5, 24, DELTA_BF16, sourceColumns, destinationColumns, true});
  model.push_back({"kv", 8, 10, DELTA_FP16, halves, destinationRows, true});
  model.push_back({"norm", 1, 7, DELTA_FP32, Cut(), Cut(), true, false,
                   DELTA_VALUE_ADD_ONE});
  model.push_back(
      {"fc", 8, 11, DELTA_BF16, sourceExperts, stacked, true, true});
  model.push_back({"bias", 4, 3, DELTA_FP32, sourceExperts, destinationExperts,
                   true, true});
  model.push_back({"pairs", 10, 6, DELTA_BF16, Cut(), Cut(), true, false,
                   DELTA_VALUE_ID, false, true});
  model.push_back({"turned", 6, 10, DELTA_BF16, Cut(), Cut(), true, false,
                   DELTA_VALUE_ADD_ONE, true});
  model.push_back({"scale", 1, 1, DELTA_FP32, last, lastTo});
  model.push_back({"ids", 3, 3, DELTA_INT64, Cut(), lastTo});
  Cut stackedSource = sourceExperts;
  stackedSource.stacked = true;
  model.push_back({"stack", 8, 5, DELTA_BF16, stackedSource, destinationExperts,
                   true, true});
  return model;
}
