//===- Box.cpp - Sets of elements and their overlap ----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/IndexMap.h"

#include <algorithm>

using namespace delta;

Box Box::sourceOf(const Piece &piece) {
  Box box{piece.source, {}};
  for (const Loop &loop : piece.loops)
    box.loops.push_back({loop.extent, loop.source});
  return box;
}
Box Box::destinationOf(const Piece &piece) {
  Box box{piece.destination, {}};
  for (const Loop &loop : piece.loops)
    box.loops.push_back({loop.extent, loop.destination});
  return box;
}
int64_t Box::last() const {
  int64_t last = offset;
  for (auto [extent, stride] : loops)
    last += (extent - 1) * stride;
  return last;
}

bool delta::isInjective(const Box &box) {
  auto loops = box.loops;
  std::sort(loops.begin(), loops.end(),
            [](auto &a, auto &b) { return a.second < b.second; });
  int64_t reach = 0;
  for (auto [extent, stride] : loops) {
    if (extent > 1 && stride <= reach)
      return false;
    reach += (extent - 1) * stride;
  }
  return true;
}

namespace {
/// Digits of a box in a radix: for each stride an interval [low, high].
struct Digits {
  std::vector<int64_t> low, high;
};
} // namespace

/// Writes a box in the radix `strides` (falling, each dividing the one
/// before, the last one 1); false where a digit would carry.
static bool digitsOf(const Box &box, const std::vector<int64_t> &strides,
                     Digits &out) {
  int64_t rest = box.offset;
  for (size_t i = 0; i < strides.size(); ++i) {
    out.low.push_back(rest / strides[i]);
    out.high.push_back(out.low.back());
    rest %= strides[i];
  }
  for (auto [extent, stride] : box.loops) {
    if (extent == 1)
      continue;
    size_t i =
        std::find(strides.begin(), strides.end(), stride) - strides.begin();
    // Two loops of one stride would make the digit skip values.
    if (out.high[i] != out.low[i])
      return false;
    out.high[i] += extent - 1;
  }
  for (size_t i = 1; i < strides.size(); ++i)
    if (out.high[i] >= strides[i - 1] / strides[i])
      return false;
  return true;
}

Overlap delta::overlap(const Box &a, const Box &b, int64_t &common) {
  if (a.last() < b.offset || b.last() < a.offset)
    return Overlap::None;
  std::vector<int64_t> strides = {1};
  for (const Box *box : {&a, &b})
    for (auto [extent, stride] : box->loops)
      if (extent > 1)
        strides.push_back(stride);
  std::sort(strides.rbegin(), strides.rend());
  strides.erase(std::unique(strides.begin(), strides.end()), strides.end());
  for (size_t i = 1; i < strides.size(); ++i)
    if (strides[i - 1] % strides[i] != 0)
      return Overlap::Unknown;
  Digits x, y;
  if (!digitsOf(a, strides, x) || !digitsOf(b, strides, y))
    return Overlap::Unknown;
  common = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    int64_t low = std::max(x.low[i], y.low[i]);
    if (low > std::min(x.high[i], y.high[i]))
      return Overlap::None;
    common += low * strides[i];
  }
  return Overlap::Some;
}
