//===- SampleSide.h - Single elements of one side ---------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The names by which both sides know an element, and who holds it.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REFERENCE_SAMPLESIDE_H
#define DELTA_TOOLS_REFERENCE_SAMPLESIDE_H

#include "tools/reference/Interpreter.h"
#include "tools/reference/Pull.h"

namespace delta::reference {

/// An element under the name by which both sides know it.
struct Known {
  Origin origin;
  int64_t layer = kNone, expert = kNone;

  bool operator==(const Known &o) const {
    return origin == o.origin && layer == o.layer && expert == o.expert;
  }
};

/// One side. Names are filled one by one, never for all layers and experts.
class SideView {
public:
  SideView(const Interpreter &interpreter)
      : interpreter(interpreter), puller(interpreter.side()) {}

  const Interpreter &interpreter;
  Puller puller;

  /// Whether a rank holds instance (layer, expert) of a parameter in `chunk`
  /// under `name`, and which shard of it.
  bool holds(int64_t param, uint32_t rank, int64_t layer, int64_t expert,
             uint32_t chunk, const std::string &name, int64_t &outWay) const;

  std::string describe(const Known &known) const;

  /// Ranks of one replica that hold an element: those of its stage and expert
  /// rank, one in `ways` of them.
  int64_t numHolders(int64_t param) const;
};

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_SAMPLESIDE_H
