//===- Report.cpp - What a comparison found -------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A mismatch as a sentence.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/Report.h"

#include "tools/reference/Moves.h"

namespace delta::reference {

std::string toText(const Mismatch &mismatch) {
  std::string text = mismatch.where;
  if (!mismatch.tensor.empty())
    text += (text.empty() ? "\"" : " \"") + mismatch.tensor + "\"";
  if (mismatch.element)
    text += " " + toText(*mismatch.element);
  return text + ": expected " + mismatch.expected + ", found " + mismatch.found;
}

} // namespace delta::reference
