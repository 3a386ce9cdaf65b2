//===- Index.cpp - The expanded rows of every rank ------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Index.h"

#include "codegen/device/IndexFunctions.h"

#include <algorithm>
#include <cstring>

using namespace delta::runtime;

Index::Index(const delta_tables_t &tables)
    : tables(tables), expander(tables),
      sides{Side(tables, DELTA_SOURCE), Side(tables, DELTA_DESTINATION),
            Side(tables, DELTA_HF), Side(tables, DELTA_COPIED)} {
  for (size_t side = 0; side < NumSides; ++side) {
    params[side].resize(sides[side].getNumRanks());
    hasParams[side].resize(sides[side].getNumRanks());
  }
  expansions.resize(sides[DELTA_SOURCE].getNumRanks());
  hasExpansion.resize(expansions.size());
}

uint32_t Index::getNumRanks(delta_side_id_t side) const {
  return sides[side].getNumRanks();
}

const std::vector<Param> &Index::getParams(delta_side_id_t side,
                                           uint32_t rank) {
  if (!hasParams[side][rank]) {
    params[side][rank] = sides[side].params(rank);
    hasParams[side][rank] = true;
  }
  return params[side][rank];
}

const Expansion &Index::getExpansion(uint32_t sourceRank) {
  if (!hasExpansion[sourceRank]) {
    expansions[sourceRank] = expander.expand(sourceRank);
    hasExpansion[sourceRank] = true;
  }
  return expansions[sourceRank];
}

Status Index::paramInfo(delta_side_id_t sideId, uint32_t rank, uint32_t index,
                        delta_param_info_t &out) {
  const Side &side = sides[sideId];
  if (rank >= side.getNumRanks() || index >= getParams(sideId, rank).size())
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: param_info: no parameter %u", rank, index);
  const Param &param = getParams(sideId, rank)[index];
  const delta_class_t &type = side.getClass(param.classIndex);
  out = {};
  std::string names;
  for (uint32_t i = 0; i < type.num_names; ++i)
    names += (i ? "\n" : "") + side.name(param, i);
  if (names.size() >= sizeof(out.name))
    return Status::error(DELTA_INTERNAL, "rank %u: \"%s\": name too long", rank,
                         side.name(param).c_str());
  memcpy(out.name, names.c_str(), names.size() + 1);
  out.chunk = side.chunkOf(type, param.layer);
  out.dtype = type.dtype;
  out.rank = type.rank;
  out.class_index = param.classIndex;
  const ParamShape shape = side.shapeOf(type, side.coordinates(rank));
  std::copy(shape.shape, shape.shape + DELTA_MAX_RANK, out.shape);
  std::copy(shape.stride, shape.stride + DELTA_MAX_RANK, out.stride);
  out.num_elements = shape.numElements;
  out.layer = param.layer;
  out.expert = param.expert;
  out.is_copy = type.copy_of != DELTA_NONE;
  return {};
}

Status Index::findTile(uint32_t sourceRank, uint64_t tile, const Row *&outRow,
                       int64_t &outBoxTile) {
  if (sourceRank >= sides[DELTA_SOURCE].getNumRanks() ||
      tile >= uint64_t(getExpansion(sourceRank).numTiles))
    return Status::error(DELTA_INVALID_ARGUMENT, "rank %u: no tile %llu",
                         sourceRank, static_cast<unsigned long long>(tile));
  outRow = &getExpansion(sourceRank).rowOf(int64_t(tile));
  outBoxTile = outRow->tileBegin + int64_t(tile) - outRow->firstTile;
  return {};
}

Status Index::tileInfo(uint32_t sourceRank, uint64_t tile,
                       delta_tile_info_t &out) {
  const Row *row = nullptr;
  int64_t boxTile = 0;
  if (Status status = findTile(sourceRank, tile, row, boxTile); status.failed())
    return status;
  const Expansion &expansion = getExpansion(sourceRank);
  out = {};
  out.param = row->param;
  out.box = row->box;
  out.row = uint32_t(row - expansion.rows.data());
  out.num_destinations = uint32_t(expansion.sets[row->set].size());
  out.num_elements =
      device::tileOf(tables.boxes[row->box], boxTile).numElements();
  return {};
}

Status Index::tileElement(uint32_t sourceRank, uint64_t tileIndex,
                          uint32_t offset, delta_place_t &outSource,
                          delta_place_t &outHf, delta_place_t *destinations,
                          uint32_t capacity, uint32_t &outCount) {
  const Row *row = nullptr;
  int64_t boxTile = 0;
  if (Status status = findTile(sourceRank, tileIndex, row, boxTile);
      status.failed())
    return status;
  const delta_box_t &box = tables.boxes[row->box];
  device::Tile tile = device::tileOf(box, boxTile);
  if (offset >= tile.numElements())
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: tile %llu has no element %u", sourceRank,
                         static_cast<unsigned long long>(tileIndex), offset);
  auto place = [&](uint32_t rank, uint32_t param, int64_t expertOffset,
                   const device::Layout &layout, delta_value_op_t op) {
    int64_t element = device::elementAt(box, tile, offset, layout);
    return delta_place_t{rank, param, expertOffset + element, op, 0};
  };
  outSource = place(sourceRank, row->param, row->expertOffset,
                    device::Layout::source(box), DELTA_VALUE_ID);

  const Side &hf = sides[DELTA_HF];
  const delta_image_t &hfImage = tables.images[box.hf_image];
  outHf = place(0,
                hf.find(getParams(DELTA_HF, 0), hfImage.class_index, row->layer,
                        row->expert),
                hf.expertOffset(hf.getClass(hfImage.class_index), row->expert),
                device::Layout::image(hfImage), hfImage.value_op);

  outCount = 0;
  for (uint32_t rank : getExpansion(sourceRank).sets[row->set])
    for (const ImagePlace &at :
         expander.imagesOn(*row, rank, getParams(DELTA_DESTINATION, rank))) {
      const delta_image_t &image = tables.images[at.image];
      if (outCount < capacity)
        destinations[outCount] =
            place(rank, at.param, at.expertOffset, device::Layout::image(image),
                  image.value_op);
      ++outCount;
    }
  return {};
}
