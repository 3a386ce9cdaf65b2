//===- Replicas.h - What several trainer ranks hold -------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A plan sends each tile from one of its holders and trusts the others to hold
/// the same. A row is what they have in common: the box of a class and way, the
/// layer and the expert; of a class that copies another, the box is the
/// other's. Each rank sums its rows, and whoever has the sums of all compares.
///
/// Worked rows. TP 2, PP 2, tied: the table has a shard on stage 0 and a copy
/// on stage 1. Box 0 belongs to (table, way 0), box 1 to (table, way 1); ranks
/// 0 and 2 have row {box 0}, ranks 1 and 3 row {box 1}. A norm of layer 3, box
/// 9, on stage 1: ranks 2 and 3 have row {box 9, layer 3}.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_REPLICAS_H
#define DELTA_RUNTIME_REPLICAS_H

#include "runtime/Expand.h"

#include <functional>
#include <optional>

namespace delta::runtime {

/// A row of one rank that has another holder.
struct ReplicaRow {
  uint32_t box;
  uint32_t layer; ///< of the class that has the box
  uint32_t expert;
  uint32_t param;       ///< position in the parameters of the rank
  int64_t expertOffset; ///< where the expert's slice begins in the parameter
};

/// The rows of a rank that another rank, or another of its parameters, holds
/// too, by (box, layer, expert, param).
std::vector<ReplicaRow> replicaRows(const Expander &expander, uint32_t rank);

/// Who holds a row, and the sum of it.
struct ReplicaHolder {
  uint32_t rank;
  uint32_t param;
  uint64_t sum;
};

/// A row of which not all sums are equal.
struct ReplicaDifference {
  uint32_t box;
  uint32_t layer;
  uint32_t expert;
  std::vector<ReplicaHolder> holders; ///< all of them, by rank
};

/// Compares what sender_replica_sums gave on several ranks; `sums[i]` is of
/// rank i, and may be empty. Returns the first row that differs. `outCompared`
/// is the number of rows that have two holders or more here.
std::optional<ReplicaDifference>
findReplicaDifference(const std::vector<std::vector<delta_replica_sum_t>> &sums,
                      uint64_t &outCompared);

/// Says which tensor and parameters differ, and on which ranks. Where `dataOf`
/// gives the data of the parameter of two holders that differ, the first
/// element that does is named too, with both values.
std::string
describe(const delta_tables_t &tables, const ReplicaDifference &difference,
         const std::function<const void *(const ReplicaHolder &)> &dataOf = {});

} // namespace delta::runtime

#endif // DELTA_RUNTIME_REPLICAS_H
