//===- Matrix.cpp - Who sends how much to whom, drawn ---------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/report/Html.h"
#include "tools/report/Sections.h"

#include <algorithm>

using namespace delta;
using namespace delta::report;

/// Rows or columns of the drawing at most; more ranks are drawn by groups.
constexpr uint32_t maxCells = 64;

namespace {

/// Ranks of one side as rows or columns: `each` neighbors are one.
struct Cells {
  explicit Cells(uint32_t numRanks)
      : numRanks(numRanks), each((numRanks + maxCells - 1) / maxCells),
        count((numRanks + each - 1) / each) {}

  std::string name(const runtime::Side &side, uint32_t cell) const {
    uint32_t first = cell * each, last = std::min(first + each, numRanks) - 1;
    std::string text = rankName(side, first);
    return each == 1 ? text : text + " to " + std::to_string(last);
  }

  uint32_t numRanks, each, count;
};

std::string number(double value) {
  char text[32];
  snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

} // namespace

/// Bytes of each cell, row by row.
static std::vector<int64_t> bytesOf(const Traffic &traffic, const Cells &rows,
                                    const Cells &columns, double density) {
  std::vector<Flow> flows(size_t(rows.count) * columns.count);
  for (uint32_t from = 0; from < rows.numRanks; ++from)
    for (uint32_t to = 0; to < columns.numRanks; ++to) {
      Flow &flow =
          flows[size_t(from / rows.each) * columns.count + to / columns.each];
      flow.elements += traffic.at(from, to).elements;
      flow.bytes += traffic.at(from, to).bytes;
    }
  std::vector<int64_t> bytes;
  for (const Flow &flow : flows)
    bytes.push_back(wireBytes(flow, density));
  return bytes;
}

static std::string drawing(const View &view, const Traffic &traffic) {
  const Cells rows(traffic.getNumSources());
  const Cells columns(traffic.getNumDestinations());
  const std::vector<int64_t> bytes =
      bytesOf(traffic, rows, columns, view.facts.density);
  const int64_t most =
      std::max<int64_t>(*std::max_element(bytes.begin(), bytes.end()), 1);
  const uint32_t size =
      std::clamp(640 / std::max(rows.count, columns.count), 10u, 28u);
  const uint32_t left = 48, top = 22;
  std::string out = "<div class=\"scroll\"><svg class=\"matrix\" role=\"img\" "
                    "width=\"" +
                    std::to_string(left + columns.count * size + 12) +
                    "\" height=\"" +
                    std::to_string(top + rows.count * size + 2) +
                    "\">\n<title>Bytes that each trainer rank (rows) sends "
                    "each receiver (columns)</title>\n";
  auto label = [&](const char *style, uint32_t x, uint32_t y, uint32_t rank) {
    out += "<text class=\"" + std::string(style) + "\" x=\"" +
           std::to_string(x) + "\" y=\"" + std::to_string(y) + "\">" +
           std::to_string(rank) + "</text>\n";
  };
  // A number takes 30 pixels, a line 12.
  for (uint32_t i = 0; i < columns.count; i += (29 + size) / size)
    label("at-col", left + i * size + size / 2, top - 6, i * columns.each);
  for (uint32_t i = 0; i < rows.count; i += (11 + size) / size)
    label("at-row", left - 6, top + i * size + size / 2 + 4, i * rows.each);
  for (uint32_t row = 0; row < rows.count; ++row)
    for (uint32_t column = 0; column < columns.count; ++column) {
      const int64_t here = bytes[size_t(row) * columns.count + column];
      if (here == 0)
        continue;
      out += "<g><title>" + rows.name(view.source, row) + " \u2192 " +
             columns.name(view.destination, column) + ": " + bytesText(here) +
             "</title><rect x=\"" + std::to_string(left + column * size) +
             "\" y=\"" + std::to_string(top + row * size) + "\" width=\"" +
             std::to_string(size - 1) + "\" height=\"" +
             std::to_string(size - 1) + "\" fill-opacity=\"" +
             number(0.08 + 0.92 * double(here) / double(most)) +
             "\" data-bytes=\"" + std::to_string(here) + "\"/></g>\n";
    }
  return out + "</svg></div>\n";
}

/// "12 MB on average, at most 3.1 % more and 2 % less".
static std::string evenness(const std::vector<Flow> &flows, double density) {
  Flow sum;
  for (const Flow &flow : flows) {
    sum.elements += flow.elements;
    sum.bytes += flow.bytes;
  }
  Imbalance off = imbalanceOf(flows);
  std::string text = bytesText(wireBytes(sum, density / double(flows.size()))) +
                     (flows.size() > 1 ? " on average, " : ", ");
  if (flows.size() == 1)
    return text + "one rank";
  if (off.above < 0.05 && off.below < 0.05)
    return text + "all alike";
  char range[64];
  snprintf(range, sizeof(range), "at most %.1f %% more and %.1f %% less",
           off.above, off.below);
  return text + range;
}

std::string report::trafficSection(const View &view, const Traffic &traffic) {
  const double density = view.facts.density;
  const std::string part = number(100 * density) + " %";
  std::string out =
      "<section id=\"traffic\">\n<h2>Who sends to whom</h2>\n<p>Bytes of a "
      "sync in which <b>" +
      part +
      "</b> of all elements changed, evenly: two for the place of an element "
      "and those of its value. An element that a receiver holds several times "
      "is sent to it once.</p>\n<div class=\"scroll\"><table>\n<thead>" +
      tableRow({"", "bytes"}, "th") + "</thead>\n<tbody>\n" +
      tableRow({"a trainer rank packs", evenness(traffic.owned(), density)}) +
      tableRow(
          {"a trainer rank sends", evenness(traffic.bySource(), density)}) +
      tableRow(
          {"a receiver gets", evenness(traffic.byDestination(), density)}) +
      "</tbody></table></div>\n" + drawing(view, traffic);
  if (traffic.getNumSources() > maxCells ||
      traffic.getNumDestinations() > maxCells)
    out += "<p class=\"also\">Neighboring ranks are one row or column here; "
           "<code>delta-compile --emit=maps</code> lists each.</p>\n";
  return out + "</section>\n";
}
