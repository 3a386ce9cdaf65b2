//===- Tables.h - The tables of a plan in memory ----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Lays a LoweredPlan out as the tables of delta_abi.h. The compiler checks a
/// plan through them before it emits anything, and the emitted text is printed
/// from the same value: both agree row by row.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_TABLES_H
#define DELTA_CODEGEN_TABLES_H

#include "codegen/LoweredPlan.h"

namespace delta {

/// The flat tables of one plan, with all pointers and counts filled in. Equal
/// tables of different sides are one table, and equal images are one row. The
/// tables live as long as this value; they do not refer to the plan.
class TableStorage {
public:
  explicit TableStorage(const LoweredPlan &plan);
  // The tables point into this value.
  TableStorage(const TableStorage &) = delete;
  TableStorage &operator=(const TableStorage &) = delete;

  const delta_tables_t &tables() const { return flat; }

private:
  /// The rows of one side. `strings` never grows after `names` points into it.
  struct Side {
    std::vector<std::string> strings;
    std::vector<const char *> names;
    std::vector<delta_class_t> classes;
    std::vector<delta_placement_t> layers;
    std::vector<delta_expert_t> experts;
  };

  static delta_side_t layOutSide(const LoweredSide &lowered, Side &storage);
  void layOutBoxes(const std::vector<LoweredBox> &lowered);
  void layOutEngine(const LoweredPlan &plan);

  std::string model;
  std::string compiler;
  Side source, destination, hf, copied;
  std::vector<delta_layer_kind_t> layerKinds;
  std::vector<uint32_t> layerIds;
  std::vector<delta_box_t> boxes;
  std::vector<delta_image_t> images;
  std::string engine, engineVersion;
  std::vector<uint32_t> slotFirst, slotExperts;
  std::vector<std::string> methods;
  std::vector<delta_refresh_t> refreshes;
  delta_tables_t flat = {};
};

} // namespace delta

#endif // DELTA_CODEGEN_TABLES_H
