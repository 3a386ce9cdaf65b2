//===- Regions.h - Strided boxes as rows and columns ------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A box of a plan is an offset and loops over a flat array. A picture needs
/// it as rows and columns of a matrix.
///
/// Worked box. Columns 8, offset 1, loops {3 x 16, 4 x 2}: rows 0, 2, 4 and
/// columns 1, 3, 5, 7.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REPORT_REGIONS_H
#define DELTA_TOOLS_REPORT_REGIONS_H

#include <cstdint>
#include <string>
#include <vector>

namespace delta::report {

/// {offset + k0*stride0 + k1*stride1 + ... | 0 <= ki < extenti}.
struct Strided {
  struct Loop {
    int64_t extent;
    int64_t stride;
  };
  int64_t offset = 0;
  std::vector<Loop> loops;

  int64_t numElements() const;
};

/// Numbers from `begin` to before `end`.
struct Interval {
  int64_t begin;
  int64_t end;
};

/// Every row of `rows` with every column of `columns`, both ascending and
/// apart.
struct Region {
  std::vector<Interval> rows;
  std::vector<Interval> columns;
};

/// Regions that together are the elements of `box` in a row-major matrix of so
/// many columns: one, unless runs begin or end inside rows. None if there
/// would be too many of them to draw.
std::vector<Region> regionsOf(const Strided &box, int64_t numColumns);

/// "0-95", "0, 2, ... 62", "0-7, 32-39, ... 96-103"; "all" for [0, size).
std::string inWords(const std::vector<Interval> &intervals, int64_t size);

} // namespace delta::report

#endif // DELTA_TOOLS_REPORT_REGIONS_H
