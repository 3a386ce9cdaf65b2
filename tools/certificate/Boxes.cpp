//===- Boxes.cpp - Sets of array elements, and whether they meet ----------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/certificate/Boxes.h"

#include <algorithm>

using namespace delta::certificate;

/// Steps that one comparison may take. Strides that nest need a handful.
static constexpr int64_t maxSteps = 1 << 20;

/// Sorts the loops, largest stride first, without trivial ones. Returns the
/// number of elements; 0 unless every stride exceeds what all smaller loops
/// together reach, so that none is counted twice, and none overflows.
static __int128 nest(Box &box) {
  auto &loops = box.loops;
  for (const Box::Loop &loop : loops)
    if (loop.extent < 1 || (loop.extent > 1 && loop.stride < 1))
      return 0;
  loops.erase(std::remove_if(loops.begin(), loops.end(),
                             [](auto &l) { return l.extent == 1; }),
              loops.end());
  std::sort(loops.begin(), loops.end(),
            [](auto &a, auto &b) { return a.stride > b.stride; });
  __int128 reach = 0, count = 1;
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
    if (loop->stride <= reach)
      return 0;
    reach += __int128(loop->extent - 1) * loop->stride;
    count *= loop->extent;
    if (reach > INT64_MAX)
      return 0;
  }
  return box.offset >= 0 && box.offset + reach <= INT64_MAX ? count : 0;
}

/// What the loops of a box from number `from` reach.
static int64_t reach(const Box &box, size_t from) {
  int64_t sum = 0;
  for (size_t i = from; i < box.loops.size(); ++i)
    sum += (box.loops[i].extent - 1) * box.loops[i].stride;
  return sum;
}

static int64_t floorDiv(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

/// Is there an element x of left's loops from `a` and y of right's from `b`
/// with shift + x == y? 1: yes; 0: no; -1: too many steps. Both are nested.
///
/// Take the largest stride left. If both boxes have it, their indices in that
/// loop can only differ by a few values d, since what is below the loops
/// reaches less than one stride: try each. If one box has it, only the
/// iterations that come within reach of the other can meet it: try each.
static int meet(const Box &left, size_t a, const Box &right, size_t b,
                int64_t shift, int64_t &steps) {
  if (++steps > maxSteps)
    return -1;
  if (shift > reach(right, b) || shift + reach(left, a) < 0)
    return 0;
  bool leftDone = a == left.loops.size(), rightDone = b == right.loops.size();
  if (leftDone && rightDone)
    return shift == 0;
  int64_t s = leftDone ? 0 : left.loops[a].stride;
  int64_t t = rightDone ? 0 : right.loops[b].stride;
  // The values of (left index - right index) at the larger stride.
  int64_t low = s > t ? 0 : -(right.loops[b].extent - 1);
  int64_t high = s < t ? 0 : left.loops[a].extent - 1;
  int64_t stride = std::max(s, t);
  size_t nextA = a + (s >= t), nextB = b + (t >= s);
  // shift + d*stride + x == y with 0 <= x, y in reach of the inner loops.
  low = std::max(low, -floorDiv(shift + reach(left, nextA), stride));
  high = std::min(high, floorDiv(reach(right, nextB) - shift, stride));
  for (int64_t d = low; d <= high; ++d)
    if (int answer = meet(left, nextA, right, nextB, shift + d * stride, steps))
      return answer;
  return 0;
}

std::string delta::certificate::partition(std::vector<Box> boxes,
                                          int64_t size) {
  __int128 total = 0;
  for (Box &box : boxes) {
    __int128 count = nest(box);
    if (!count)
      return box.owner + " has strides that count elements twice";
    int64_t last = box.offset + reach(box, 0);
    if (last >= size)
      return box.owner + " reaches element " + std::to_string(last) + " of " +
             std::to_string(size);
    total += count;
  }
  std::sort(boxes.begin(), boxes.end(),
            [](auto &a, auto &b) { return a.offset < b.offset; });
  for (auto a = boxes.begin(); a != boxes.end(); ++a) {
    int64_t last = a->offset + reach(*a, 0);
    // Those that begin after it cannot meet it.
    for (auto b = a + 1; b != boxes.end() && b->offset <= last; ++b) {
      int64_t steps = 0;
      if (int answer = meet(*a, 0, *b, 0, a->offset - b->offset, steps))
        return a->owner + " and " + b->owner +
               (answer > 0 ? " share an element" : " cannot be told apart");
    }
  }
  if (total != size)
    return std::to_string(int64_t(total)) + " of " + std::to_string(size) +
           " elements are covered";
  return {};
}

bool delta::certificate::follows(const Track &part, const Track &whole) {
  std::vector<Track::Loop> loops = whole.loops;
  std::sort(loops.begin(), loops.end(),
            [](auto &a, auto &b) { return a.x > b.x; });
  // In the digits of `whole`: where `part` begins, and the room after that.
  int64_t rest = part.x - whole.x, y = whole.y;
  if (rest < 0)
    return false;
  for (Track::Loop &loop : loops) {
    int64_t digit = std::min(rest / loop.x, loop.extent - 1);
    rest -= digit * loop.x;
    y += digit * loop.y;
    loop.extent -= digit;
  }
  if (rest != 0 || y != part.y)
    return false;
  for (const Track::Loop &step : part.loops) {
    // Each loop of `part` moves one digit, by the same number in x and y.
    bool found = step.extent == 1;
    for (size_t j = 0; j < loops.size() && !found; ++j) {
      int64_t times = step.x / loops[j].x;
      if (times < 1 || times * loops[j].x != step.x ||
          times * loops[j].y != step.y)
        continue;
      loops[j].extent -= times * (step.extent - 1);
      found = loops[j].extent > 0;
    }
    if (!found)
      return false;
  }
  return true;
}
