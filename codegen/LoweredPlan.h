//===- LoweredPlan.h - The one lowered form of a plan -----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What both targets are emitted from: the tables of delta_abi.h as plain
/// values, in the order in which they are printed. Knows nothing of MLIR.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_LOWEREDPLAN_H
#define DELTA_CODEGEN_LOWEREDPLAN_H

#include "runtime/delta_abi.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace delta {

/// One class with its name templates and a comment that says where it came
/// from, for the reader of the emitted text.
struct LoweredClass {
  std::vector<std::string> names;
  /// Everything else; first_name and num_names are set by the emitter.
  delta_class_t row = classOfItsOwn();

private:
  static delta_class_t classOfItsOwn() {
    delta_class_t row = {};
    row.part_of = DELTA_NONE;
    return row;
  }
};

/// One side: `row` holds the sizes; its pointers and counts are set by the
/// emitter.
struct LoweredSide {
  delta_side_t row = {};
  std::vector<LoweredClass> classes;
  std::vector<delta_placement_t> layers;
  std::vector<delta_expert_t> experts;
};

/// One box with its images. first_image, num_images and hf_image of `row` are
/// set by the emitter. `formula` is the map in words of the source and the
/// neutral tensor, one line, printed as a comment.
struct LoweredBox {
  delta_box_t row = {};
  std::vector<delta_image_t> images;
  delta_image_t hfImage = {};
  std::string formula;
};

/// Where an engine's experts live: ep rank p has the slots [first[p],
/// first[p + 1]), and tables[t][s] is the expert in slot s; one table t, or one
/// for each layer. Both are empty where experts lie as the side says.
struct LoweredSlots {
  std::vector<uint32_t> first;
  std::vector<std::vector<uint32_t>> tables;
};

/// A method that an engine calls when a parameter of a class changed.
struct LoweredRefresh {
  uint32_t classIndex = 0;
  std::string method;
};

struct LoweredPlan {
  std::string model;
  std::string compiler;
  std::array<uint64_t, 2> fingerprint = {0, 0};
  LoweredSide source;
  /// Empty (no classes) when the destination is the neutral layout itself;
  /// then only `row.replicas` of it counts.
  LoweredSide destination;
  LoweredSide hf;
  /// Tensors that the trainer does not hold; may have no classes.
  LoweredSide copied;
  bool destinationIsHf = true;
  /// Where a sender on a GPU keeps its snapshot.
  delta_snapshot_t snapshot = DELTA_SNAPSHOT_DEVICE;
  /// Ascending layer rows of each kind.
  std::vector<std::vector<uint32_t>> layerKinds;
  /// Sorted by (source_class, source_way).
  std::vector<LoweredBox> boxes;
  /// Of an engine; empty for other destinations.
  std::string engine;
  std::string engineVersion;
  LoweredSlots slots;
  std::vector<LoweredRefresh> refreshes;
};

} // namespace delta

#endif // DELTA_CODEGEN_LOWEREDPLAN_H
