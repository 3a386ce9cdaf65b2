//===- Boxes.cpp - Sets of array elements, and whether they meet ----------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/certificate/Boxes.h"

#include <algorithm>
#include <numeric>

using namespace delta::certificate;

/// Steps that one comparison may take. Strides that nest need a handful.
static constexpr int64_t maxSteps = 1 << 20;

/// Loops without trivial ones, largest stride first. False unless every stride
/// exceeds what all smaller loops together reach, so that no element is
/// counted twice; `last` is the largest element. Fails on overflow too.
static bool nest(Box &box, int64_t &last) {
  auto &loops = box.loops;
  for (const Box::Loop &loop : loops)
    if (loop.extent < 1 || (loop.extent > 1 && loop.stride < 1))
      return false;
  loops.erase(std::remove_if(loops.begin(), loops.end(),
                             [](auto &l) { return l.extent == 1; }),
              loops.end());
  std::sort(loops.begin(), loops.end(),
            [](auto &a, auto &b) { return a.stride > b.stride; });
  __int128 reach = 0;
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
    if (loop->stride <= reach)
      return false;
    reach += __int128(loop->extent - 1) * loop->stride;
    if (reach > INT64_MAX)
      return false;
  }
  if (box.offset < 0 || box.offset + reach > INT64_MAX)
    return false;
  last = box.offset + int64_t(reach);
  return true;
}

namespace {
/// Two nested boxes whose offsets differ by `shift`; loops before `a` and `b`
/// are settled already.
///
/// Take the largest stride left. If both boxes have it, their indices in that
/// loop can only differ by a few values d, since what is below the loops
/// reaches less than one stride: try each. If one box has it, only the
/// iterations that come within reach of the other can meet it: try each.
class Meeting {
public:
  Meeting(const Box &left, const Box &right) : left(left), right(right) {}

  /// 1: they share an element; 0: they do not; -1: too many steps.
  int decide() { return meet(0, 0, left.offset - right.offset); }

private:
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
  /// with shift + x == y?
  int meet(size_t a, size_t b, int64_t shift) {
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
      if (int answer = meet(nextA, nextB, shift + d * stride))
        return answer;
    return 0;
  }

  const Box &left;
  const Box &right;
  int64_t steps = 0;
};
} // namespace

std::string delta::certificate::partition(std::vector<Box> boxes,
                                          int64_t size) {
  std::vector<int64_t> lasts(boxes.size());
  __int128 total = 0;
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (!nest(boxes[i], lasts[i]))
      return boxes[i].owner + " has strides that count elements twice";
    if (lasts[i] >= size)
      return boxes[i].owner + " reaches element " + std::to_string(lasts[i]) +
             " of " + std::to_string(size);
    __int128 count = 1;
    for (const Box::Loop &loop : boxes[i].loops)
      count *= loop.extent;
    total += count;
  }
  std::vector<size_t> order(boxes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return boxes[a].offset < boxes[b].offset;
  });
  for (size_t i = 0; i < order.size(); ++i)
    for (size_t j = i + 1; j < order.size(); ++j) {
      const Box &a = boxes[order[i]], &b = boxes[order[j]];
      if (b.offset > lasts[order[i]])
        break; // and all later ones begin later still
      int answer = Meeting(a, b).decide();
      if (answer)
        return a.owner + " and " + b.owner +
               (answer > 0 ? " share an element" : " cannot be told apart");
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
  // Digits of the start, then of the farthest element, of `part` in `whole`.
  std::vector<int64_t> digits;
  int64_t rest = part.x - whole.x, y = whole.y;
  if (rest < 0)
    return false;
  for (const Track::Loop &loop : loops) {
    if (loop.x < 1)
      return false;
    digits.push_back(std::min(rest / loop.x, loop.extent - 1));
    rest -= digits.back() * loop.x;
    y += digits.back() * loop.y;
  }
  if (rest != 0 || y != part.y)
    return false;
  for (const Track::Loop &step : part.loops) {
    if (step.extent == 1)
      continue;
    // Each loop of `part` moves one digit, by the same number in x and y.
    bool found = false;
    for (size_t j = 0; j < loops.size() && !found; ++j) {
      int64_t times = step.x / loops[j].x;
      if (times < 1 || times * loops[j].x != step.x ||
          times * loops[j].y != step.y)
        continue;
      digits[j] += times * (step.extent - 1);
      found = digits[j] < loops[j].extent;
    }
    if (!found)
      return false;
  }
  return true;
}
