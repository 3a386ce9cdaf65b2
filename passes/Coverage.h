//===- Coverage.h - Claims on the elements of one array ---------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The arithmetic of the proof: boxes that claim elements of one array, each
/// by a claimant. They cover it exactly once if each is in bounds and counts
/// no element twice, no two of them meet, and their sizes add up to its size.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_PASSES_COVERAGE_H
#define DELTA_PASSES_COVERAGE_H

#include "dialect/IndexMap.h"

#include <functional>
#include <optional>
#include <vector>

namespace delta {

/// A box and who claims it.
struct Claim {
  Box box;
  size_t claimant;
};

/// What is wrong with a set of claims, with one element as the witness.
struct Flaw {
  enum Kind {
    OutOfBounds, ///< `first` claims `element`, which the array has not
    Overlap,     ///< `first` and `second` (may be equal) claim `element`
    Hole         ///< nobody claims `element`
  } kind;
  size_t first = 0, second = 0;
  int64_t element = 0;
};

/// A complete method for boxes whose structure says nothing: a common element
/// of both, or nothing if there is none.
using CommonElement =
    std::function<std::optional<int64_t>(const Box &, const Box &)>;

/// Checks that the claims cover [0, size) exactly once.
std::optional<Flaw> findFlaw(std::vector<Claim> claims, int64_t size,
                             const CommonElement &commonElement);

} // namespace delta

#endif // DELTA_PASSES_COVERAGE_H
