//===- Regions.cpp - Strided boxes as rows and columns --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/report/Regions.h"

#include <algorithm>
#include <tuple>

using namespace delta::report;

using Loops = std::vector<Strided::Loop>;

/// More intervals than any dimension of a model has stripes; more pieces than
/// a picture can show.
constexpr int64_t maxIntervals = 1 << 20;
constexpr int64_t maxPieces = 4096;

static int64_t product(const Loops &loops) {
  int64_t result = 1;
  for (const Strided::Loop &loop : loops)
    result *= loop.extent;
  return result;
}

int64_t Strided::numElements() const { return product(loops); }

/// Largest stride first, without loops of one step; loops that continue one
/// another are one.
static Loops normalize(const Loops &loops) {
  Loops sorted;
  for (const Strided::Loop &loop : loops)
    if (loop.extent != 1)
      sorted.push_back(loop);
  std::sort(sorted.begin(), sorted.end(),
            [](const Strided::Loop &a, const Strided::Loop &b) {
              return std::tie(a.stride, a.extent) >
                     std::tie(b.stride, b.extent);
            });
  Loops merged;
  for (const Strided::Loop &loop : sorted) {
    if (!merged.empty() && merged.back().stride == loop.extent * loop.stride)
      merged.back() = {merged.back().extent * loop.extent, loop.stride};
    else
      merged.push_back(loop);
  }
  return merged;
}

/// Adds [begin, end), joined with the last one where they touch.
static void append(std::vector<Interval> &out, int64_t begin, int64_t end) {
  if (!out.empty() && out.back().end == begin)
    out.back().end = end;
  else
    out.push_back({begin, end});
}

/// `loops` are normalized. Nothing if there are too many intervals.
static std::vector<Interval> intervalsOf(int64_t start, const Loops &loops) {
  std::vector<Interval> starts = {{start, start + 1}};
  for (size_t i = loops.size(); i-- > 0;) {
    const Strided::Loop &loop = loops[i];
    if (loop.extent > maxIntervals / int64_t(starts.size()) && loop.stride != 1)
      return {};
    std::vector<Interval> next;
    if (loop.stride == 1) {
      next.push_back({start, start + loop.extent});
    } else {
      for (int64_t k = 0; k < loop.extent; ++k)
        for (const Interval &part : starts)
          next.push_back(
              {part.begin + k * loop.stride, part.end + k * loop.stride});
    }
    starts = std::move(next);
  }
  std::sort(
      starts.begin(), starts.end(),
      [](const Interval &a, const Interval &b) { return a.begin < b.begin; });
  std::vector<Interval> out;
  for (const Interval &part : starts)
    append(out, part.begin, part.end);
  return out;
}

/// Parts the loops into those over rows and those inside a row. False if a
/// loop does neither.
static bool split(const Loops &loops, int64_t column, int64_t numColumns,
                  Loops &rows, Loops &columns) {
  int64_t last = column;
  for (const Strided::Loop &loop : loops) {
    if (loop.stride % numColumns == 0) {
      rows.push_back({loop.extent, loop.stride / numColumns});
      continue;
    }
    // A run over several rows is a loop over rows and one over columns.
    int64_t inside = loop.extent;
    int64_t steps = loop.stride < numColumns && numColumns % loop.stride == 0
                        ? numColumns / loop.stride
                        : 0;
    if (steps != 0 && loop.extent > steps && loop.extent % steps == 0) {
      rows.push_back({loop.extent / steps, 1});
      inside = steps;
    }
    columns.push_back({inside, loop.stride});
    last += (inside - 1) * loop.stride;
    if (last >= numColumns)
      return false;
  }
  return true;
}

/// A run as up to three regions: the rest of its first row, whole rows, and
/// the beginning of its last row.
static void addRun(int64_t begin, int64_t end, int64_t numColumns,
                   std::vector<Region> &out) {
  while (begin < end) {
    int64_t row = begin / numColumns, column = begin % numColumns;
    if (column == 0 && end - begin >= numColumns) {
      int64_t rows = (end - begin) / numColumns;
      out.push_back({{{row, row + rows}}, {{0, numColumns}}});
      begin += rows * numColumns;
      continue;
    }
    int64_t stop = std::min(numColumns, column + end - begin);
    out.push_back({{{row, row + 1}}, {{column, stop}}});
    begin += stop - column;
  }
}

std::vector<Region> delta::report::regionsOf(const Strided &box,
                                             int64_t numColumns) {
  Loops loops = normalize(box.loops);
  if (numColumns <= 0 || product(loops) <= 0)
    return {};
  Loops rows, columns;
  int64_t column = box.offset % numColumns;
  if (split(loops, column, numColumns, rows, columns)) {
    Region region = {intervalsOf(box.offset / numColumns, normalize(rows)),
                     intervalsOf(column, normalize(columns))};
    if (region.rows.empty() || region.columns.empty())
      return {};
    return {region};
  }
  int64_t run = loops.back().stride == 1 ? loops.back().extent : 1;
  if (product(loops) / run > maxPieces)
    return {};
  std::vector<Region> out;
  for (const Interval &part : intervalsOf(box.offset, loops))
    addRun(part.begin, part.end, numColumns, out);
  return out;
}

static std::string inWords(const Interval &part) {
  std::string text = std::to_string(part.begin);
  if (part.end > part.begin + 1)
    text += "\u2013" + std::to_string(part.end - 1);
  return text;
}

std::string delta::report::inWords(const std::vector<Interval> &intervals,
                                   int64_t size) {
  if (intervals.size() == 1 && intervals[0].begin == 0 &&
      intervals[0].end == size)
    return "all";
  std::string text;
  size_t count = intervals.size();
  for (size_t i = 0; i < count; ++i) {
    if (count > 4 && i == 2) {
      text += ", \u2026";
      i = count - 1;
      text += " " + ::inWords(intervals[i]);
    } else {
      text += (i ? ", " : "") + ::inWords(intervals[i]);
    }
  }
  if (count > 4)
    text += " (" + std::to_string(count) + " parts)";
  return text;
}
