//===- BoxesTest.cpp - The checker's sets against enumeration -------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/certificate/Boxes.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

using namespace delta::certificate;

namespace {

/// Elements of a box, with repetitions.
std::vector<int64_t> enumerate(const Box &box) {
  std::vector<int64_t> out = {box.offset};
  for (const Box::Loop &loop : box.loops) {
    std::vector<int64_t> more;
    for (int64_t base : out)
      for (int64_t k = 0; k < loop.extent; ++k)
        more.push_back(base + k * loop.stride);
    out = std::move(more);
  }
  return out;
}

TEST(Boxes, PartitionAgreesWithCounting) {
  std::mt19937 random(11);
  int held = 0, refused = 0;
  for (int round = 0; round < 40000; ++round) {
    // Cut [0, 24) along random digits, then sometimes break something.
    std::vector<Box> boxes;
    int64_t a = 1 + random() % 3, size = 24;
    int64_t rows = 24 / (2 * a) / (random() % 2 ? 1 : 2);
    for (int64_t i = 0; i * rows * 2 * a < size; ++i)
      for (int64_t half = 0; half < 2; ++half)
        boxes.push_back({i * rows * 2 * a + half * a,
                         {{rows, 2 * a}, {a, 1}},
                         "box " + std::to_string(boxes.size())});
    Box &victim = boxes[random() % boxes.size()];
    switch (random() % 5) {
    case 0:
      victim.offset += int64_t(random() % 3) - 1;
      break;
    case 1:
      victim.loops[random() % 2].extent += int64_t(random() % 3) - 1;
      break;
    case 2:
      victim.loops[random() % 2].stride += int64_t(random() % 3) - 1;
      break;
    default:
      break;
    }
    std::map<int64_t, int> counts;
    bool nests = true;
    for (const Box &box : boxes) {
      for (const Box::Loop &loop : box.loops)
        nests = nests && loop.extent >= 1 &&
                loop.stride >= (loop.extent > 1 ? 1 : 0);
      if (nests)
        for (int64_t element : enumerate(box))
          ++counts[element];
    }
    bool expected = nests && int64_t(counts.size()) == size;
    for (auto [element, count] : counts)
      expected = expected && count == 1 && element >= 0 && element < size;
    bool answer = partition(boxes, size).empty();
    ASSERT_EQ(answer, expected)
        << "round " << round << ": " << partition(boxes, size);
    ++(answer ? held : refused);
  }
  EXPECT_GT(held, 5000);
  EXPECT_GT(refused, 5000);
}

TEST(Boxes, StridesThatDoNotNestInOneAnotherAreDecided) {
  // Evens and odds of [0, 30), the odds in steps of 6 and 10 that overlap.
  EXPECT_EQ(partition({{0, {{15, 2}}, "a"}, {1, {{15, 2}}, "b"}}, 30), "");
  EXPECT_NE(partition({{0, {{5, 6}}, "a"}, {4, {{3, 10}}, "b"}}, 8), "");
  EXPECT_EQ(partition({{0, {{2, 3}, {2, 1}}, "a"}, {2, {{2, 3}}, "b"}}, 6), "");
}

TEST(Boxes, SayWhoMeets) {
  EXPECT_EQ(partition({{0, {{4, 1}}, "a"}, {3, {{3, 1}}, "b"}}, 7),
            "a and b share an element");
  EXPECT_EQ(partition({{0, {{4, 1}}, "a"}}, 7), "4 of 7 elements are covered");
  EXPECT_EQ(partition({{5, {{4, 1}}, "a"}}, 7), "a reaches element 8 of 7");
  EXPECT_EQ(partition({{0, {{4, 1}, {4, 1}}, "a"}}, 16),
            "a has strides that count elements twice");
}

TEST(Boxes, OffsetsNearTheLimitDoNotOverflow) {
  EXPECT_NE(partition({{INT64_MAX - 1, {{4, 1}}, "a"}}, INT64_MAX), "");
  EXPECT_NE(partition({{0, {{INT64_MAX, INT64_MAX}}, "a"}}, INT64_MAX), "");
  EXPECT_EQ(partition({{0, {{INT64_MAX, 1}}, "a"}}, INT64_MAX), "");
}

TEST(Tracks, FollowOnlyTheirWhole) {
  // Rows of a [4, 6] array, transposed.
  Track whole{0, 0, {{4, 6, 1}, {6, 1, 4}}};
  EXPECT_TRUE(follows({0, 0, {{4, 6, 1}, {6, 1, 4}}}, whole));
  EXPECT_TRUE(follows({7, 5, {{3, 6, 1}, {5, 1, 4}}}, whole));
  EXPECT_TRUE(follows({8, 9, {}}, whole));
  EXPECT_TRUE(follows({1, 4, {{2, 12, 2}, {2, 2, 8}}}, whole));
  EXPECT_FALSE(follows({8, 10, {}}, whole));          // another y
  EXPECT_FALSE(follows({7, 5, {{4, 6, 1}}}, whole));  // beyond a digit
  EXPECT_FALSE(follows({0, 0, {{8, 3, 12}}}, whole)); // carries
  EXPECT_FALSE(follows({24, 4, {}}, whole));          // outside
  EXPECT_FALSE(
      follows({0, 0, {{3, 6, 1}, {3, 6, 1}}}, whole)); // together too far
}

} // namespace
