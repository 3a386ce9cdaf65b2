//===- Coverage.cpp - Claims on the elements of one array -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Coverage.h"

#include <algorithm>

using namespace delta;

/// True if the box holds the element; its strides must nest.
static bool holds(const Box &box, int64_t element) {
  auto loops = box.loops;
  std::sort(loops.begin(), loops.end(),
            [](auto &a, auto &b) { return a.second > b.second; });
  int64_t rest = element - box.offset;
  if (rest < 0)
    return false;
  for (auto [extent, stride] : loops)
    rest -= std::min(rest / stride, extent - 1) * stride;
  return rest == 0;
}

/// An element outside of all claims, which are known to leave one.
static int64_t unclaimed(const std::vector<Claim> &claims, int64_t size) {
  auto isFree = [&](int64_t element) {
    return element >= 0 && element < size &&
           std::none_of(claims.begin(), claims.end(), [&](const Claim &claim) {
             return holds(claim.box, element);
           });
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
    // Strides that do not nest could count an element twice; the op set makes
    // none, so they are refused instead of examined.
    if (!isInjective(claim.box))
      return Flaw{Flaw::Overlap, claim.claimant, claim.claimant,
                  claim.box.offset};
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
