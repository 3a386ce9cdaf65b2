//===- CoverageTest.cpp - The proof's arithmetic against a bitmap ---------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Coverage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

using namespace delta;

namespace {

/// All elements of a box, one by one.
std::vector<int64_t> elements(const Box &box) {
  std::vector<int64_t> out = {box.offset};
  for (auto [extent, stride] : box.loops) {
    std::vector<int64_t> more;
    for (int64_t element : out)
      for (int64_t i = 0; i < extent; ++i)
        more.push_back(element + i * stride);
    out = std::move(more);
  }
  return out;
}

std::optional<int64_t> naiveCommonElement(const Box &a, const Box &b) {
  std::vector<int64_t> list = elements(a);
  std::set<int64_t> set(list.begin(), list.end());
  for (int64_t element : elements(b))
    if (set.count(element))
      return element;
  return std::nullopt;
}

std::optional<Flaw> flaw(std::vector<Claim> claims, int64_t size) {
  return findFlaw(std::move(claims), size, naiveCommonElement);
}

/// How often each claimant counts each element.
struct Bitmap {
  explicit Bitmap(const std::vector<Claim> &claims, int64_t size)
      : owners(size) {
    for (const Claim &claim : claims)
      for (int64_t element : elements(claim.box)) {
        if (element < 0 || element >= size)
          outside.insert({claim.claimant, element});
        else
          owners[element].push_back(claim.claimant);
      }
  }
  bool isExact() const {
    for (const auto &list : owners)
      if (list.size() != 1)
        return false;
    return outside.empty();
  }
  std::vector<std::vector<size_t>> owners;
  std::set<std::pair<size_t, int64_t>> outside;
};

/// Checks verdict and witness. Out of bounds comes first, then overlaps.
void check(const std::vector<Claim> &claims, int64_t size) {
  Bitmap map(claims, size);
  std::optional<Flaw> found = flaw(claims, size);
  ASSERT_EQ(!found, map.isExact());
  if (!found)
    return;
  if (found->kind == Flaw::OutOfBounds) {
    EXPECT_TRUE(map.outside.count({found->first, found->element}))
        << found->element;
    return;
  }
  ASSERT_GE(found->element, 0);
  ASSERT_LT(found->element, size);
  const std::vector<size_t> &owners = map.owners[found->element];
  if (found->kind == Flaw::Hole) {
    EXPECT_TRUE(owners.empty()) << found->element;
    return;
  }
  ASSERT_GE(owners.size(), 2u) << found->element;
  std::multiset<size_t> set(owners.begin(), owners.end());
  EXPECT_TRUE(set.count(found->first)) << found->element;
  EXPECT_TRUE(set.count(found->second)) << found->element;
  if (found->first == found->second) {
    EXPECT_GE(set.count(found->first), 2u) << found->element;
  }
}

TEST(Coverage, NothingCoversNothing) {
  EXPECT_FALSE(flaw({}, 0));
  auto found = flaw({}, 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, Flaw::Hole);
  EXPECT_EQ(found->element, 0);
}

TEST(Coverage, OverflowIsOutOfBounds) {
  auto found = flaw({{{0, {{4, int64_t(1) << 62}}}, 5}}, 100);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, Flaw::OutOfBounds);
  EXPECT_EQ(found->first, 5u);
}

TEST(Coverage, HugeBoxesCostNothing) {
  const int64_t size = int64_t(1) << 60;
  // Even and odd elements, and one missing at the end.
  Box even{0, {{size / 2, 2}}}, odd{1, {{size / 2, 2}}};
  EXPECT_FALSE(flaw({{even, 0}, {odd, 1}}, size));
  odd.loops[0].first -= 1;
  auto found = flaw({{even, 0}, {odd, 1}}, size);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, Flaw::Hole);
  EXPECT_EQ(found->element, size - 1);
}

TEST(Coverage, AgreesWithABitmapOnRandomBoxes) {
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    int64_t size = 1 + random() % 24;
    std::vector<Claim> claims;
    for (size_t claimant = 0; claimant < 1 + random() % 4; ++claimant) {
      Box box{int64_t(random() % size), {}};
      for (size_t loop = 0; loop < random() % 3; ++loop)
        box.loops.push_back(
            {1 + int64_t(random() % 4), 1 + int64_t(random() % 6)});
      claims.push_back({box, claimant});
    }
    check(claims, size);
    if (HasFatalFailure() || HasNonfatalFailure())
      FAIL() << "round " << round;
  }
}

/// A tiling of [0, size) by strided boxes: rows of a matrix cut into pieces.
std::vector<Claim> tiling(std::mt19937 &random, int64_t &size) {
  int64_t outer = 1 + random() % 4, middle = 1 + random() % 4,
          inner = 1 + random() % 4;
  size = outer * middle * inner;
  std::vector<Claim> claims;
  // Dimension 1 is cut into single rows, in two parts of dimension 2.
  for (int64_t row = 0; row < middle; ++row) {
    int64_t cut = random() % (inner + 1);
    if (cut)
      claims.push_back(
          {{row * inner, {{outer, middle * inner}, {cut, 1}}}, claims.size()});
    if (cut < inner)
      claims.push_back(
          {{row * inner + cut, {{inner - cut, 1}, {outer, middle * inner}}},
           claims.size()});
  }
  std::shuffle(claims.begin(), claims.end(), random);
  return claims;
}

TEST(Coverage, AgreesWithABitmapOnTilingsAndTheirNeighbors) {
  std::mt19937 random(13);
  int exact = 0;
  for (int round = 0; round < 10000; ++round) {
    int64_t size = 0;
    std::vector<Claim> claims = tiling(random, size);
    switch (random() % 5) {
    case 0:
      break;
    case 1:
      claims.pop_back();
      break;
    case 2:
      claims.push_back({claims[0].box, claims.size()});
      break;
    case 3:
      claims[0].box.offset += 1;
      break;
    default:
      size += 1;
    }
    exact += Bitmap(claims, size).isExact();
    check(claims, size);
    if (HasFatalFailure() || HasNonfatalFailure())
      FAIL() << "round " << round;
  }
  EXPECT_GT(exact, 1000);
}

} // namespace
