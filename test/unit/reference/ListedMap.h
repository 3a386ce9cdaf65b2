//===- ListedMap.h - A map written out --------------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// For tests that write the map of a plan by hand, element by element.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_REFERENCE_LISTEDMAP_H
#define DELTA_TEST_UNIT_REFERENCE_LISTEDMAP_H

#include "tools/reference/MapSource.h"

#include <gtest/gtest.h>

namespace delta::reference::example {

/// Parameters and elements as plain lists; each source parameter is one tile.
class ListedMap : public MapSource {
public:
  struct Tile {
    uint32_t param;
    std::vector<ElementPlaces> elements;
  };

  bool destinationIsHf() override { return hfDestination; }
  uint32_t numRanks(delta_side_id_t side) override {
    return uint32_t(params[side].size());
  }
  uint32_t numParams(delta_side_id_t side, uint32_t rank) override {
    return uint32_t(params[side][rank].size());
  }
  bool param(delta_side_id_t side, uint32_t rank, uint32_t index,
             delta_param_info_t &out) override {
    out = params[side][rank][index];
    return true;
  }
  uint64_t numTiles(uint32_t rank) override { return tiles[rank].size(); }
  bool tile(uint32_t rank, uint64_t tile, delta_tile_info_t &out) override {
    out = {};
    out.param = tiles[rank][tile].param;
    out.box = uint32_t(tile);
    out.row = uint32_t(tile);
    out.num_elements = uint32_t(tiles[rank][tile].elements.size());
    return true;
  }
  bool element(uint32_t rank, uint64_t tile, uint32_t offset,
               ElementPlaces &out) override {
    out = tiles[rank][tile].elements[offset];
    return true;
  }

  uint32_t find(delta_side_id_t side, uint32_t rank, const std::string &name) {
    for (uint32_t p = 0; p < params[side][rank].size(); ++p)
      if (namesOf(params[side][rank][p]).front() == name)
        return p;
    ADD_FAILURE() << "no parameter " << name;
    return 0;
  }

  bool hfDestination = true;
  std::vector<std::vector<delta_param_info_t>> params[3];
  std::vector<std::vector<Tile>> tiles;
};

inline delta_param_info_t info(const std::string &names, delta_dtype_t dtype,
                               std::vector<int64_t> shape,
                               uint32_t layer = DELTA_NONE,
                               uint32_t expert = DELTA_NONE,
                               bool copy = false) {
  delta_param_info_t info = {};
  std::snprintf(info.name, sizeof(info.name), "%s", names.c_str());
  info.dtype = dtype;
  info.rank = uint32_t(shape.size());
  info.num_elements = 1;
  for (size_t i = 0; i < DELTA_MAX_RANK; ++i)
    info.shape[i] = i < shape.size() ? shape[i] : 1;
  for (size_t i = shape.size(); i-- > 0; info.num_elements *= info.shape[i])
    info.stride[i] = info.num_elements;
  info.layer = layer;
  info.expert = expert;
  info.is_copy = copy;
  return info;
}

} // namespace delta::reference::example

#endif // DELTA_TEST_UNIT_REFERENCE_LISTEDMAP_H
