//===- Index.h - The expanded rows of every rank ----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What tools ask of a plan: the parameters of a rank, the tiles of a source
/// rank, and the place of each element on every side. It works on tables in
/// memory as well as on those of a loaded plan. Ranks are expanded when they
/// are first asked for. Not for use by two threads at once.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_INDEX_H
#define DELTA_RUNTIME_INDEX_H

#include "runtime/Expand.h"

#include <array>

namespace delta::runtime {

class Index {
public:
  /// Borrows tables that checkTables accepts.
  explicit Index(const delta_tables_t &tables);

  /// Ranks of a side, replicas included.
  uint32_t getNumRanks(delta_side_id_t side) const;
  const Side &getSide(delta_side_id_t side) const { return sides[side]; }

  /// Parameters of a rank by class, layer, expert.
  const std::vector<Param> &getParams(delta_side_id_t side, uint32_t rank);

  /// The rows of a source rank.
  const Expansion &getExpansion(uint32_t sourceRank);

  Status paramInfo(delta_side_id_t side, uint32_t rank, uint32_t param,
                   delta_param_info_t &out);
  Status tileInfo(uint32_t sourceRank, uint64_t tile, delta_tile_info_t &out);

  /// Places of one element. `destinations` gets `capacity` places at most,
  /// `outCount` the whole number. By rank, then in the order of the images.
  Status tileElement(uint32_t sourceRank, uint64_t tile, uint32_t offset,
                     delta_place_t &outSource, delta_place_t &outHf,
                     delta_place_t *destinations, uint32_t capacity,
                     uint32_t &outCount);

private:
  Status findTile(uint32_t sourceRank, uint64_t tile, const Row *&outRow,
                  int64_t &outBoxTile);

  const delta_tables_t &tables;
  Expander expander;
  static constexpr size_t NumSides = 4; ///< delta_side_id_t
  std::array<Side, NumSides> sides;
  std::array<std::vector<std::vector<Param>>, NumSides> params;
  std::array<std::vector<bool>, NumSides> hasParams;
  std::vector<Expansion> expansions;
  std::vector<bool> hasExpansion;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_INDEX_H
