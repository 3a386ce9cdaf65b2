//===- Html.h - Text of the page --------------------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REPORT_HTML_H
#define DELTA_TOOLS_REPORT_HTML_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace delta::report {

/// Text between tags or in an attribute.
std::string escape(std::string_view text);

/// "1,048,576".
std::string grouped(int64_t number);

/// "1 way", "3 ways", with the number grouped.
std::string counted(int64_t number, std::string_view noun);

/// "1.07 GB", "224 kB", "96 B".
std::string bytesText(int64_t bytes);

/// "0-11, 16": ascending numbers as ranges.
std::string rangesText(const std::vector<uint32_t> &numbers,
                       std::string_view dash = "\u2013");

/// A name in the type of code, that may break after its dots.
std::string codeText(std::string_view name);

/// "<th>a</th>..." or "<td>a</td>..." in a row. Cells are HTML; `attributes`
/// are of the row, after a space.
std::string tableRow(const std::vector<std::string> &cells,
                     std::string_view tag = "td",
                     std::string_view attributes = "");

} // namespace delta::report

#endif // DELTA_TOOLS_REPORT_HTML_H
