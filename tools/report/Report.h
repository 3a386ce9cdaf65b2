//===- Report.h - One page that shows a plan --------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Draws a plan for people: which part of a trainer's shard is which part of
/// which tensor. Needs the plan and the few things that it does not say.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REPORT_REPORT_H
#define DELTA_TOOLS_REPORT_REPORT_H

#include "codegen/LoweredPlan.h"
#include "tools/report/Regions.h"

#include <optional>

namespace delta::report {

/// Elements of a class that have no image, and why.
struct Drop {
  struct Part {
    uint32_t way;
    Strided elements;
  };
  uint32_t classIndex;
  std::string reason;
  std::vector<Part> parts;
};

/// What the interpreter was compared with.
struct CrossCheck {
  bool isFull;
  int64_t tensors; ///< of a sample: boxes of instances
  int64_t elements;
};

/// What a plan does not say about its own compilation.
struct Facts {
  std::vector<Drop> sourceDrops;
  std::vector<Drop> destinationDrops;
  std::optional<CrossCheck> crossCheck;
  /// Tensors of the checkpoint that names, shapes and types were compared
  /// with; nothing if there was none.
  std::optional<int64_t> checkpointTensors;
  /// The part of the elements that changes, for the bytes of a sync.
  double density = 0.01;
};

/// The page as HTML that refers to no other file. The same plan and facts give
/// the same bytes.
std::string printReport(const LoweredPlan &plan, const Facts &facts);

} // namespace delta::report

#endif // DELTA_TOOLS_REPORT_REPORT_H
