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
  /// under `name`. A stacked parameter is no expert's.
  bool holds(int64_t param, uint32_t rank, int64_t layer, int64_t expert,
             uint32_t chunk, const std::string &name) const;

  /// Shape of a rank's parameter, as it is shown.
  Shape shownShape(int64_t param, uint32_t rank) const;

  /// What an element of the memory of a rank's parameter is; nothing where it
  /// is in a slot that nothing fills.
  std::optional<Known> locate(int64_t param, uint32_t rank, int64_t layer,
                              int64_t expert, int64_t element) const;

  std::string describe(const Known &known) const;

  /// Places of an element of a parameter over the ranks of one replica.
  int64_t numPlaces(int64_t param, const Known &known) const;

private:
  int64_t wayOf(int64_t param, const Coordinates &at) const;
  /// Experts of an ep rank, slot by slot.
  std::vector<int64_t> expertsOf(int64_t layer, int64_t ep) const;
  Shape memoryShape(int64_t param, uint32_t rank) const;
};

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_SAMPLESIDE_H
