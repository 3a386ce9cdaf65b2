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

namespace delta::reference {

/// `tensor` may say the rank too. `element` is a multi-index, empty where a
/// whole tensor is meant.
struct Mismatch {
  std::string tensor;
  std::string element;
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

/// One sentence: `"a.weight" [1, 2]: expected X, found Y`.
inline std::string toText(const Mismatch &mismatch) {
  std::string text = mismatch.tensor;
  if (!mismatch.element.empty())
    text += " " + mismatch.element;
  return text + ": expected " + mismatch.expected + ", found " + mismatch.found;
}

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_REPORT_H
