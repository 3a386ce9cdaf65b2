//===- MapSource.cpp - An index map, element by element -------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The map of a compiled plan, read through its ABI.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/MapSource.h"

namespace delta::reference {

uint64_t MapSource::nextRow(uint32_t sourceRank, uint64_t first) {
  delta_tile_info_t here = {}, there = {};
  const uint64_t end = numTiles(sourceRank);
  if (!tile(sourceRank, first, here))
    return end;
  auto inRow = [&](uint64_t t) {
    return t < end && tile(sourceRank, t, there) && there.row == here.row;
  };
  uint64_t last = first, step = 1;
  for (; inRow(last + step); step *= 2)
    last += step;
  for (; step; step /= 2)
    if (inRow(last + step))
      last += step;
  return last + 1;
}

namespace {

class PlanMap : public MapSource {
public:
  PlanMap(const delta_plan_api_t &api, delta_index_t *index)
      : api(api), index(index) {}
  ~PlanMap() override { api.index_destroy(index); }

  bool destinationIsHf() override { return api.tables->destination_is_hf != 0; }
  uint32_t numRanks(delta_side_id_t side) override {
    return api.num_ranks(side);
  }
  uint32_t numParams(delta_side_id_t side, uint32_t rank) override {
    return api.param_count(index, side, rank);
  }
  bool param(delta_side_id_t side, uint32_t rank, uint32_t param,
             delta_param_info_t &out) override {
    return api.param_info(index, side, rank, param, &out) == DELTA_OK;
  }
  uint64_t numTiles(uint32_t sourceRank) override {
    return api.tile_count(index, sourceRank);
  }
  bool tile(uint32_t sourceRank, uint64_t tile,
            delta_tile_info_t &out) override {
    return api.tile_info(index, sourceRank, tile, &out) == DELTA_OK;
  }
  bool element(uint32_t sourceRank, uint64_t tile, uint32_t offset,
               ElementPlaces &out) override {
    out.destinations.resize(out.destinations.capacity());
    uint32_t found = 0;
    for (;;) {
      const auto capacity = uint32_t(out.destinations.size());
      if (api.tile_element(index, sourceRank, tile, offset, &out.source,
                           &out.hf, out.destinations.data(), capacity,
                           &found) != DELTA_OK)
        return false;
      out.destinations.resize(found);
      if (found <= capacity)
        return true;
    }
  }

private:
  const delta_plan_api_t &api;
  delta_index_t *index;
};

} // namespace

std::unique_ptr<MapSource> mapOfPlan(const delta_plan_api_t &api,
                                     std::string &error) {
  char text[512] = "";
  delta_index_t *index = nullptr;
  if (api.index_create(&index, {text, sizeof(text)}) != DELTA_OK) {
    error = std::string("index of the plan: ") + text;
    return nullptr;
  }
  return std::make_unique<PlanMap>(api, index);
}

std::string dtypeName(delta_dtype_t dtype) {
  switch (dtype) {
  case DELTA_BF16:
    return "bf16";
  case DELTA_FP16:
    return "fp16";
  case DELTA_FP32:
    return "fp32";
  case DELTA_INT64:
    return "i64";
  default:
    return "dtype " + std::to_string(dtype);
  }
}

std::vector<std::string> namesOf(const delta_param_info_t &info) {
  std::vector<std::string> names(1);
  for (const char *at = info.name; *at; ++at)
    if (*at == '\n')
      names.emplace_back();
    else
      names.back() += *at;
  return names;
}

std::vector<int64_t> shapeOf(const delta_param_info_t &info) {
  return {info.shape, info.shape + info.rank};
}

} // namespace delta::reference
