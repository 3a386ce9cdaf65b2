//===- EnginePlan.h - A small plan into an engine ---------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Tables written by hand for two layers, trained with TP 2, DP 2 and EP 2 and
/// received by two replicas of an engine with TP 4 and EP 4:
///
///   tensor            engine's parameter
///   q [8, 3]          qkv [4, 3]: two rows of q of each rank, and below them
///   k [4, 3]          one of two heads of k, which two ranks hold
///   w of 6 experts    stack [slots + 1, 4, 3], on 3, 2, 2 and 1 slots: expert
///   1
///                     lies twice on rank 0, expert 0 on ranks 0 and 3
///   shared [4, 3]     the slot behind the others of stack
///   a [4] bf16        a [1] fp32: -exp(a)
///   up [4, 6]         turned [4, 6], in memory [6, 4]
///   norm [3] bf16     norm [3] fp32, of a trainer's fp32
///   words [6, 3]      words [2, 3] over all ranks, padded to 8 rows
///   unheld [3]        not there
///                     own [5]: of the engine, in no tensor
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_RUNTIME_ENGINEPLAN_H
#define DELTA_TEST_UNIT_RUNTIME_ENGINEPLAN_H

#include "runtime/delta_abi.h"

#include <vector>

namespace delta::test {

/// Tensors, and classes of the source and of the neutral side.
enum EngineTensor : uint32_t {
  TensorQ,
  TensorK,
  TensorW,
  TensorShared,
  TensorA,
  TensorUp,
  TensorNorm,
  TensorWords,
  TensorUnheld,
  NumTensors
};

/// Classes of the engine. `Shared` is part of `Stack`.
enum EngineClass : uint32_t {
  ClassQkv,
  ClassStack,
  ClassShared,
  ClassA,
  ClassTurned,
  ClassNorm,
  ClassWords,
  ClassOwn,
  NumEngineClasses
};

/// The tables and all that they point to; what is public may be changed before
/// they are used.
class EnginePlan {
public:
  EnginePlan();
  EnginePlan(const EnginePlan &) = delete;

  delta_tables_t tables = {};
  std::vector<delta_class_t> sourceClasses, engineClasses, neutralClasses;
  std::vector<delta_placement_t> layers;
  std::vector<delta_expert_t> sourceExperts, engineExperts, neutralExperts;
  std::vector<const char *> sourceNames, engineNames, neutralNames;
  std::vector<delta_layer_kind_t> kinds;
  std::vector<uint32_t> layerIds;
  std::vector<delta_box_t> boxes;
  std::vector<delta_image_t> images;
  std::vector<uint32_t> slotFirst, slotExperts;
  std::vector<delta_refresh_t> refreshes;

private:
  void addClass(std::vector<delta_class_t> &classes,
                std::vector<const char *> &names, const char *name,
                delta_dtype_t dtype, std::vector<int64_t> shape,
                delta_axis_t axis = DELTA_AXIS_NONE, uint32_t ways = 1);
  void addBox(uint32_t tensor, uint32_t way, int64_t rows, int64_t columns,
              int64_t sourceOffset, int64_t neutralOffset,
              std::vector<delta_image_t> destinations);
  void point();
};

} // namespace delta::test

#endif // DELTA_TEST_UNIT_RUNTIME_ENGINEPLAN_H
