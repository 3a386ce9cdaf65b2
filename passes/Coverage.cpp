//===- Coverage.cpp - Claims on the elements of one array -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Coverage.h"

#include <algorithm>

using namespace delta;

/// True if `rest` is a sum of the loops from `at` on, which fall in stride.
/// The largest digit fits where strides nest; elsewhere smaller ones are tried.
static bool reaches(const std::vector<std::pair<int64_t, int64_t>> &loops,
                    size_t at, int64_t rest) {
  if (rest == 0)
    return true;
  if (rest < 0 || at == loops.size())
    return false;
  __int128 most = 0;
  for (size_t i = at + 1; i < loops.size(); ++i)
    most += __int128(loops[i].first - 1) * loops[i].second;
  auto [extent, stride] = loops[at];
  for (int64_t digit = std::min(rest / stride, extent - 1);
       digit >= 0 && rest - digit * stride <= most; --digit)
    if (reaches(loops, at + 1, rest - digit * stride))
      return true;
  return false;
}

static bool holds(const Box &box, int64_t element) {
  auto loops = box.loops;
  std::sort(loops.begin(), loops.end(),
            [](auto &a, auto &b) { return a.second > b.second; });
  return reaches(loops, 0, element - box.offset);
}

/// An element that the box counts twice. Two counts of it differ in a loop;
/// their difference there, and the other loops of both, solve an equation.
static std::optional<int64_t> countedTwice(const Box &box,
                                           const CommonElement &commonElement) {
  for (size_t k = 0; k < box.loops.size(); ++k) {
    auto [extent, stride] = box.loops[k];
    if (extent < 2)
      continue;
    Box without = box, shifted = box;
    without.loops.erase(without.loops.begin() + k);
    shifted.offset += stride;
    shifted.loops[k].first = extent - 1;
    if (auto element = commonElement(shifted, without))
      return element;
  }
  return std::nullopt;
}

/// An element outside of all claims, which are known to leave one.
static int64_t unclaimed(const std::vector<Claim> &claims, int64_t size) {
  auto isFree = [&](int64_t element) {
    return element >= 0 && element < size &&
           std::none_of(
               claims.begin(), claims.end(),
               [&](const Claim &claim) { return holds(claim.box, element); });
  };
  // A hole begins at 0 or right behind an element of some box, at the end of
  // one of its loops.
  if (isFree(0))
    return 0;
  for (const Claim &claim : claims) {
    auto loops = claim.box.loops;
    std::sort(loops.begin(), loops.end(),
              [](auto &a, auto &b) { return a.second < b.second; });
    int64_t corner = claim.box.offset;
    if (isFree(corner + 1))
      return corner + 1;
    for (auto [extent, stride] : loops) {
      corner += (extent - 1) * stride;
      if (isFree(corner + 1))
        return corner + 1;
      if (isFree(corner + stride))
        return corner + stride;
    }
  }
  for (int64_t element = 0; element < std::min<int64_t>(size, 1 << 22);
       ++element)
    if (isFree(element))
      return element;
  return size;
}

std::optional<Flaw> delta::findFlaw(std::vector<Claim> claims, int64_t size,
                                    const CommonElement &commonElement) {
  __int128 total = 0;
  for (const Claim &claim : claims) {
    __int128 last = claim.box.offset, count = 1;
    for (auto [extent, stride] : claim.box.loops) {
      last += __int128(extent - 1) * stride;
      count *= extent;
    }
    if (claim.box.offset < 0 || last >= size)
      return Flaw{Flaw::OutOfBounds, claim.claimant, claim.claimant,
                  claim.box.offset < 0 ? claim.box.offset : int64_t(last)};
    // Strides that do not nest could count an element twice.
    if (!isInjective(claim.box))
      if (auto element = countedTwice(claim.box, commonElement))
        return Flaw{Flaw::Overlap, claim.claimant, claim.claimant, *element};
    total += count;
  }
  std::sort(claims.begin(), claims.end(), [](const Claim &a, const Claim &b) {
    return a.box.offset != b.box.offset ? a.box.offset < b.box.offset
                                        : a.claimant < b.claimant;
  });
  // Only boxes whose ranges meet can share an element.
  std::vector<const Claim *> open;
  for (const Claim &claim : claims) {
    open.erase(std::remove_if(open.begin(), open.end(),
                              [&](const Claim *other) {
                                return other->box.last() < claim.box.offset;
                              }),
               open.end());
    for (const Claim *other : open) {
      int64_t common = 0;
      Overlap answer = overlap(other->box, claim.box, common);
      if (answer == Overlap::Unknown) {
        std::optional<int64_t> element = commonElement(other->box, claim.box);
        answer = element ? Overlap::Some : Overlap::None;
        common = element.value_or(0);
      }
      if (answer == Overlap::Some)
        return Flaw{Flaw::Overlap, other->claimant, claim.claimant, common};
    }
    open.push_back(&claim);
  }
  if (total != size)
    return Flaw{Flaw::Hole, 0, 0, unclaimed(claims, size)};
  return std::nullopt;
}
