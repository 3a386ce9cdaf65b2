//===- Picture.cpp - An array as a drawing of its parts -------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/report/Picture.h"

#include "tools/report/Axis.h"
#include "tools/report/Html.h"

#include <algorithm>

using namespace delta;
using namespace delta::report;

/// Pixels that the largest array of a class takes, and that tick labels take.
constexpr double fullHeight = 170, vectorHeight = 76, fullWidth = 132;
constexpr double leastWidth = 64, lineWidth = 820, labelWidth = 46;
constexpr int bottom = 15, charWidth = 6, tickDistance = 11;

/// Steps of a loop, and of all loops of a part, that are drawn apart.
constexpr int64_t maxSteps = 8, maxCuts = 64;

double report::scaleOf(const std::vector<const Array *> &arrays) {
  int64_t rows = 1, columns = 1;
  for (const Array *array : arrays) {
    rows = std::max(rows, array->numRows);
    columns = std::max(columns, array->numColumns);
  }
  // All of a class on one line, where that leaves something to see.
  double width = lineWidth / double(arrays.size()) - labelWidth;
  width = std::clamp(width, leastWidth, fullWidth);
  return std::min((columns == 1 ? vectorHeight : fullHeight) / double(rows),
                  width / double(columns));
}

namespace {

class Drawing {
public:
  Drawing(const Array &array, double scale)
      : array(array), parts(regions(array)),
        rows(array.numRows, breaks(parts, &Region::rows), scale,
             {72, 28, 12, 34}),
        columns(array.numColumns, breaks(parts, &Region::columns), scale,
                {36, 20, 8, array.numColumns == 1 ? 18 : 38}) {
    left = charWidth * int(std::to_string(array.numRows).size()) + 6;
  }

  std::string run() {
    int width = left + columns.getLength() + charWidth * 2;
    int height = rows.getLength() + bottom + 4;
    std::string size = std::to_string(width);
    std::string text = std::to_string(height);
    out = "<svg class=\"pic\" role=\"img\" width=\"" + size + "\" height=\"" +
          text + "\" viewBox=\"0 -4 " + size + " " + text + "\" " +
          array.attributes + " data-c=\"" + std::to_string(array.numColumns) +
          "\" data-left=\"" + std::to_string(left) + "\" data-y=\"" +
          rows.toText() + "\" data-x=\"" + columns.toText() + "\">\n<title>" +
          escape(array.description) + "</title>\n";
    rectangle("frame", 0, 0, columns.getLength(), rows.getLength());
    for (size_t i = 0; i < array.parts.size(); ++i)
      drawPart(array.parts[i], parts[i]);
    drawGaps();
    drawTicks();
    return out + "</svg>\n";
  }

private:
  using Regions = std::vector<std::vector<Region>>;

  /// Few steps of more than a row or a column are drawn apart, so that a part
  /// that is whole here and in pieces elsewhere shows where they join.
  static std::vector<Strided> stepsOf(const Strided &elements,
                                      int64_t numColumns) {
    std::vector<Strided> steps = {{elements.offset, {}}};
    for (const Strided::Loop &loop : elements.loops) {
      bool cut = loop.extent <= maxSteps && loop.stride != 1 &&
                 loop.stride != numColumns &&
                 loop.extent * int64_t(steps.size()) <= maxCuts;
      std::vector<Strided> next;
      for (const Strided &step : steps)
        for (int64_t k = 0; k < (cut ? loop.extent : 1); ++k) {
          next.push_back(step);
          next.back().offset += k * loop.stride;
          if (!cut)
            next.back().loops.push_back(loop);
        }
      steps = std::move(next);
    }
    return steps;
  }

  static Regions regions(const Array &array) {
    Regions out;
    for (const Part &part : array.parts) {
      out.emplace_back();
      for (const Strided &step : stepsOf(part.elements, array.numColumns))
        for (Region &region : regionsOf(step, array.numColumns))
          out.back().push_back(std::move(region));
    }
    return out;
  }

  static std::vector<int64_t> breaks(const Regions &parts,
                                     std::vector<Interval> Region::*side) {
    std::vector<int64_t> out;
    for (const std::vector<Region> &part : parts)
      for (const Region &region : part)
        for (const Interval &interval : region.*side) {
          out.push_back(interval.begin);
          out.push_back(interval.end);
        }
    return out;
  }

  void rectangle(const char *style, int64_t x, int64_t y, int64_t width,
                 int64_t height) {
    out += "<rect class=\"" + std::string(style) + "\" x=\"" +
           std::to_string(left + x) + "\" y=\"" + std::to_string(y) +
           "\" width=\"" + std::to_string(width) + "\" height=\"" +
           std::to_string(height) + "\"/>\n";
  }

  static int64_t lengthOf(const Interval &interval) {
    return interval.end - interval.begin;
  }

  static std::string label(const char *style, int64_t x, int64_t y,
                           const std::string &text) {
    if (text.empty())
      return "";
    return "<text class=\"" + std::string(style) + "\" x=\"" +
           std::to_string(x) + "\" y=\"" + std::to_string(y) + "\">" +
           escape(text) + "</text>\n";
  }

  static std::string styleOf(const Part &part) {
    switch (part.kind) {
    case Part::Kind::Own:
      return "h" + std::to_string(part.way % 8) + " s" +
             std::to_string(part.section);
    case Part::Kind::Foreign:
      return "foreign";
    case Part::Kind::Dropped:
      break;
    }
    return "drop";
  }

  void drawPart(const Part &part, const std::vector<Region> &regions) {
    std::string path, labels;
    for (const Region &region : regions) {
      std::vector<Interval> shownColumns = columns.visible(region.columns);
      Interval largestX = {0, 0}, largestY = {0, 0};
      for (const Interval &y : rows.visible(region.rows))
        for (const Interval &x : shownColumns) {
          path += "M" + std::to_string(left + x.begin) + " " +
                  std::to_string(y.begin) + "h" + std::to_string(lengthOf(x)) +
                  "v" + std::to_string(lengthOf(y)) + "h-" +
                  std::to_string(lengthOf(x)) + "z";
          if (lengthOf(x) * lengthOf(y) >
              lengthOf(largestX) * lengthOf(largestY)) {
            largestX = x;
            largestY = y;
          }
        }
      if (lengthOf(largestY) >= 11 &&
          lengthOf(largestX) >= charWidth * int64_t(part.label.size()) + 4)
        labels += label("lab", left + (largestX.begin + largestX.end) / 2,
                        (largestY.begin + largestY.end) / 2 + 4, part.label);
    }
    if (path.empty())
      return;
    out += "<path class=\"" + styleOf(part) + "\"";
    if (part.kind == Part::Kind::Own)
      out += " data-w=\"" + std::to_string(part.way) + "\"";
    out += " d=\"" + path + "\"/>\n" + labels;
  }

  void drawGaps() {
    if (const Axis::Band *gap = rows.getGap()) {
      rectangle("gap", -1, gap->from, columns.getLength() + 2,
                gap->to - gap->from);
      out += label("dots", left + columns.getLength() / 2,
                   (gap->from + gap->to) / 2 + 4, "\u22ee");
    }
    if (const Axis::Band *gap = columns.getGap()) {
      rectangle("gap", gap->from, -1, gap->to - gap->from,
                rows.getLength() + 2);
      out += label("dots", left + (gap->from + gap->to) / 2,
                   rows.getLength() / 2 + 4, "\u2026");
    }
  }

  /// Numbers where bands begin and at the ends, as far as there is room.
  void drawTicks() {
    int last = rows.getLength(), free = -tickDistance;
    for (const Axis::Band &band : rows.getBands())
      if (band.from - free >= tickDistance &&
          (band.from == 0 || last - band.from >= tickDistance)) {
        out += label("at-row", left - 3, band.from + 4,
                     std::to_string(band.begin));
        free = band.from;
      }
    out += label("at-row", left - 3, last + 4, std::to_string(array.numRows));
    if (array.numColumns == 1)
      return;
    int length = columns.getLength();
    std::string size = std::to_string(array.numColumns);
    int lastFrom = length - charWidth * int(size.size()) / 2;
    free = -1000;
    for (const Axis::Band &band : columns.getBands()) {
      std::string text = std::to_string(band.begin);
      int half = charWidth * int(text.size()) / 2;
      if (band.from - half < free || band.from + half > lastFrom - 4)
        continue;
      out += label("at-col", left + band.from, last + bottom - 4, text);
      free = band.from + half + 4;
    }
    out += label("at-col", left + length, last + bottom - 4, size);
  }

  const Array &array;
  Regions parts;
  Axis rows, columns;
  int left = 0;
  std::string out;
};

} // namespace

std::string report::draw(const Array &array, double scale) {
  return Drawing(array, scale).run();
}
