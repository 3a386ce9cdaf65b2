//===- Report.h - What a comparison found -----------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Counts of a comparison and its first mismatch, in words.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REFERENCE_REPORT_H
#define DELTA_TOOLS_REFERENCE_REPORT_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace delta::reference {

struct Mismatch {
  std::string where;                           ///< "rank 3", or empty
  std::string tensor;                          ///< or empty
  std::optional<std::vector<int64_t>> element; ///< else the whole tensor
  std::string expected;
  std::string found;
};

struct Report {
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t mismatches = 0;
  std::optional<Mismatch> first;

  void add(Mismatch mismatch) {
    ++mismatches;
    if (!first)
      first = std::move(mismatch);
  }
};

/// One sentence: `rank 3 "a.weight" [1, 2]: expected X, found Y`.
std::string toText(const Mismatch &mismatch);

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_REPORT_H
