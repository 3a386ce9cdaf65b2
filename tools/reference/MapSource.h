//===- MapSource.h - An index map, element by element -----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What a check reads of a plan: the introspection functions of delta_abi.h,
/// whether they come from a compiled plan or from its tables.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REFERENCE_MAPSOURCE_H
#define DELTA_TOOLS_REFERENCE_MAPSOURCE_H

#include "runtime/delta_abi.h"

#include <memory>
#include <string>
#include <vector>

namespace delta::reference {

/// Places of one element.
struct ElementPlaces {
  delta_place_t source;
  delta_place_t hf;
  std::vector<delta_place_t> destinations;
};

/// Functions that may fail return false; see delta_abi.h for what they give.
class MapSource {
public:
  virtual ~MapSource() = default;
  virtual bool destinationIsHf() = 0;
  virtual uint32_t numRanks(delta_side_id_t side) = 0;
  virtual uint32_t numParams(delta_side_id_t side, uint32_t rank) = 0;
  virtual bool param(delta_side_id_t side, uint32_t rank, uint32_t index,
                     delta_param_info_t &out) = 0;
  virtual uint64_t numTiles(uint32_t sourceRank) = 0;
  virtual bool tile(uint32_t sourceRank, uint64_t tile,
                    delta_tile_info_t &out) = 0;
  /// First tile of the row after the one that `tile` is in, or numTiles.
  virtual uint64_t nextRow(uint32_t sourceRank, uint64_t tile);
  virtual bool element(uint32_t sourceRank, uint64_t tile, uint32_t offset,
                       ElementPlaces &out) = 0;
};

/// The map of a compiled plan, which must outlive it. Null on failure, with
/// `error` set.
std::unique_ptr<MapSource> mapOfPlan(const delta_plan_api_t &api,
                                     std::string &error);

/// "bf16", "fp16", "fp32", "i64".
std::string dtypeName(delta_dtype_t dtype);

/// The joined names of a parameter, the usual one first.
std::vector<std::string> namesOf(const delta_param_info_t &info);

/// The dimensions in use.
std::vector<int64_t> shapeOf(const delta_param_info_t &info);

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_MAPSOURCE_H
