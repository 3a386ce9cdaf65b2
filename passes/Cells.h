//===- Cells.h - What the ways of a split hold alike ------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Ways of an engine's parameter may repeat each other in part: heads or groups
/// of which there are fewer than ranks. A cell is what some ways hold alike, at
/// the same places, and nothing else holds.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_PASSES_CELLS_H
#define DELTA_PASSES_CELLS_H

#include "dialect/IndexMap.h"

namespace delta {

/// A piece, from a way to the whole, and the ranges of ways that have it.
struct Cell {
  Piece piece;
  std::vector<std::pair<int64_t, int64_t>> ways;
};

/// The cells of a map, in the order of their first ways. Pieces of few runs are
/// cut where runs of other ways begin or end: what two ways hold alike may be
/// one run with a way's own elements in one of them and not in the other.
std::vector<Cell> cellsOf(const ShardedMap &map);

} // namespace delta

#endif // DELTA_PASSES_CELLS_H
