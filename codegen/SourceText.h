//===- SourceText.h - Text that looks written by hand -----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A buffer of C++ source text with line breaks at 80 columns. The result
/// depends on nothing but what is put in.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_SOURCETEXT_H
#define DELTA_CODEGEN_SOURCETEXT_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace delta {

class SourceText {
public:
  /// One line as it is.
  void line(std::string_view text = "");
  /// A comment in as many lines as it takes. Whatever the text holds, it
  /// cannot end the comment.
  void comment(std::string_view text, unsigned indent = 0);
  /// Lines of whole items, `a, b, c,`, each filled.
  void fill(const std::vector<std::string> &items);
  /// One row of a table, `{a, b, c},`; broken between fields where it has to.
  void row(const std::vector<std::string> &fields);
  /// The banner of a file: title, then lines of comment, closed by a rule.
  void banner(std::string_view title, const std::vector<std::string> &lines);

  std::string take() { return std::move(text); }

private:
  void flow(const std::vector<std::string> &items, unsigned indent,
            unsigned hanging);

  std::string text;
};

/// `{a, b, c}`.
std::string braced(const std::vector<std::string> &items);

/// `{1, 2}` without the zeros at the end, which are implied; `{}` if all are.
std::string bracedWithoutTail(const int64_t *values, unsigned count);

/// A C++ string literal of any bytes.
std::string stringLiteral(std::string_view value);

/// `0x0123456789abcdef`.
std::string hexLiteral(uint64_t value);

} // namespace delta

#endif // DELTA_CODEGEN_SOURCETEXT_H
