//===- BenchPlan.h - A shard of a given size --------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A plan in memory for measurements: one source rank with a given number of
/// bytes in bf16 layers of three matrices, as in a dense model of hidden size
/// 2048, and one receiver that holds them in another row order.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_BENCH_BENCHPLAN_H
#define DELTA_TOOLS_DELTA_BENCH_BENCHPLAN_H

#include "runtime/Side.h"

#include <string>
#include <vector>

namespace delta::bench {

class BenchPlan {
public:
  /// Rounds down to whole layers, one at least.
  explicit BenchPlan(uint64_t numBytes);
  BenchPlan(const BenchPlan &) = delete;

  const delta_tables_t &getTables() const { return tables; }
  uint64_t getNumBytes() const;

private:
  void addClass(const char *name, int64_t rows, int64_t columns);
  void addSide(delta_side_t &side);

  delta_tables_t tables = {};
  uint32_t numLayers;
  std::vector<delta_class_t> classes;
  std::vector<const char *> names;
  std::vector<delta_placement_t> layers;
  delta_layer_kind_t kind = {};
  std::vector<uint32_t> layerIds;
  std::vector<delta_box_t> boxes;
  std::vector<delta_image_t> images;
};

/// Parameters of the only rank of a side, one behind the other in one block of
/// `getNumBytes()` bytes.
class BenchMemory {
public:
  BenchMemory(const runtime::Side &side, uint8_t *block);
  std::vector<delta_param_t> &getParams() { return params; }

private:
  std::vector<std::string> names;
  std::vector<delta_param_t> params;
};

} // namespace delta::bench

#endif // DELTA_TOOLS_DELTA_BENCH_BENCHPLAN_H
