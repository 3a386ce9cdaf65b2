//===- Axis.h - Rows or columns on the screen -------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REPORT_AXIS_H
#define DELTA_TOOLS_REPORT_AXIS_H

#include "tools/report/Regions.h"

namespace delta::report {

/// Elements of one dimension in pixels. The elements between two places where
/// something begins or ends are a band; a band has a visible size, and of very
/// many bands the middle is left out.
class Axis {
public:
  struct Limits {
    size_t maxBands;  ///< more are not drawn, but ...
    size_t keepFirst; ///< ... so many at the beginning
    size_t keepLast;  ///< ... and at the end
    int minSize;      ///< of the whole axis, in pixels
  };
  struct Band {
    int64_t begin;
    int64_t end;
    int from; ///< pixels
    int to;
  };

  /// `breaks` in any order; those outside [0, size] do not count.
  Axis(int64_t size, std::vector<int64_t> breaks, double scale, Limits limits);

  int getLength() const { return bands.back().to; }
  const std::vector<Band> &getBands() const { return bands; }
  /// The band that stands for those left out, or null.
  const Band *getGap() const { return gap < 0 ? nullptr : &bands[gap]; }

  /// Where the elements are seen, in pixels; empty if in the gap only.
  std::vector<Interval> visible(const std::vector<Interval> &elements) const;

  /// "0:0,2048:64": element and pixel at each band's beginning and at the end;
  /// "!" before the pixel where a gap begins.
  std::string toText() const;

private:
  std::vector<Band> bands;
  int gap = -1;
};

} // namespace delta::report

#endif // DELTA_TOOLS_REPORT_AXIS_H
