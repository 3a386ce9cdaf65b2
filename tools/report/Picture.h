//===- Picture.h - An array as a drawing of its parts -----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// One shard or tensor as SVG: its parts as rectangles, to scale where that
/// can be seen, thicker where it cannot, with a gap where there are too many
/// stripes to draw.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REPORT_PICTURE_H
#define DELTA_TOOLS_REPORT_PICTURE_H

#include "tools/report/Regions.h"

namespace delta::report {

/// A part of an array: who it belongs to.
struct Part {
  enum class Kind {
    Own,     ///< of this class; colored by way, shaded by section
    Foreign, ///< of another class
    Dropped
  };
  Kind kind = Kind::Own;
  uint32_t way = 0;
  uint32_t section = 0;
  std::string label; ///< drawn where there is room
  Strided elements;
};

struct Array {
  /// Which one, for the script: attributes of the drawing.
  std::string attributes;
  std::string description; ///< for who cannot see it
  int64_t numRows = 1;
  int64_t numColumns = 1;
  std::vector<Part> parts;
};

/// Pixels of an element, the same in all drawings of a class.
double scaleOf(const std::vector<const Array *> &arrays);

/// The drawing. Sections have `numSections` shades.
std::string draw(const Array &array, double scale);

} // namespace delta::report

#endif // DELTA_TOOLS_REPORT_PICTURE_H
