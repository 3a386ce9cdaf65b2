//===- Axis.cpp - Rows or columns on the screen ---------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/report/Axis.h"

#include <algorithm>
#include <cmath>

using namespace delta::report;

/// A lone small band is easy to miss; many of them need the room.
static int minBand(size_t numBands) {
  return numBands > 40 ? 4 : numBands > 12 ? 5 : 11;
}

constexpr int gapSize = 18;

Axis::Axis(int64_t size, std::vector<int64_t> breaks, double scale,
           Limits limits) {
  breaks.push_back(0);
  breaks.push_back(size);
  std::sort(breaks.begin(), breaks.end());
  breaks.erase(std::unique(breaks.begin(), breaks.end()), breaks.end());
  for (size_t i = 0; i + 1 < breaks.size(); ++i)
    if (breaks[i] >= 0 && breaks[i + 1] <= size)
      bands.push_back({breaks[i], breaks[i + 1], 0, 0});
  if (bands.empty())
    bands.push_back({0, size, 0, 0});
  if (bands.size() > limits.maxBands) {
    gap = int(limits.keepFirst);
    auto last = bands.end() - limits.keepLast;
    bands[gap].end = std::prev(last)->end;
    bands.erase(bands.begin() + gap + 1, last);
  }
  int least = minBand(bands.size());
  int length = 0;
  for (size_t i = 0; i < bands.size(); ++i) {
    bool isGap = int(i) == gap;
    auto extent = double(bands[i].end - bands[i].begin);
    bands[i].from = length;
    length +=
        isGap ? gapSize : std::max(least, int(std::lround(extent * scale)));
    bands[i].to = length;
  }
  if (length >= limits.minSize)
    return;
  // Too small to point at: the same proportions, larger.
  double factor = double(limits.minSize) / length;
  for (Band &band : bands) {
    band.from = int(std::lround(band.from * factor));
    band.to = int(std::lround(band.to * factor));
  }
}

std::vector<Interval>
Axis::visible(const std::vector<Interval> &elements) const {
  std::vector<Interval> out;
  size_t next = 0;
  for (size_t i = 0; i < bands.size(); ++i) {
    if (int(i) == gap)
      continue;
    while (next < elements.size() && elements[next].end <= bands[i].begin)
      ++next;
    if (next == elements.size() || elements[next].begin > bands[i].begin)
      continue;
    if (!out.empty() && out.back().end == bands[i].from)
      out.back().end = bands[i].to;
    else
      out.push_back({bands[i].from, bands[i].to});
  }
  return out;
}

std::string Axis::toText() const {
  std::string out;
  for (size_t i = 0; i < bands.size(); ++i)
    out += std::to_string(bands[i].begin) + (int(i) == gap ? ":!" : ":") +
           std::to_string(bands[i].from) + ",";
  return out + std::to_string(bands.back().end) + ":" +
         std::to_string(bands.back().to);
}
