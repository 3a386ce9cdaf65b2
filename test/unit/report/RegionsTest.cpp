//===- RegionsTest.cpp - Strided boxes as rows and columns ----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/report/Regions.h"
#include "tools/report/Axis.h"

#include <gmock/gmock.h>

#include <random>
#include <set>

using namespace delta::report;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

namespace {

MATCHER_P2(Is, begin, end, "") { return arg.begin == begin && arg.end == end; }

/// Every element of a box, one by one.
std::multiset<int64_t> expand(const Strided &box) {
  std::vector<int64_t> elements = {box.offset};
  for (const Strided::Loop &loop : box.loops) {
    std::vector<int64_t> next;
    for (int64_t element : elements)
      for (int64_t k = 0; k < loop.extent; ++k)
        next.push_back(element + k * loop.stride);
    elements = next;
  }
  return {elements.begin(), elements.end()};
}

std::multiset<int64_t> expand(const std::vector<Region> &regions,
                              int64_t numColumns) {
  std::multiset<int64_t> elements;
  for (const Region &region : regions)
    for (const Interval &rows : region.rows)
      for (int64_t row = rows.begin; row < rows.end; ++row)
        for (const Interval &columns : region.columns)
          for (int64_t c = columns.begin; c < columns.end; ++c)
            elements.insert(row * numColumns + c);
  return elements;
}

TEST(Regions, WorkedBoxOfTheHeader) {
  std::vector<Region> regions = regionsOf({1, {{3, 16}, {4, 2}}}, 8);
  ASSERT_THAT(regions, SizeIs(1));
  EXPECT_THAT(regions[0].rows, ElementsAre(Is(0, 1), Is(2, 3), Is(4, 5)));
  EXPECT_THAT(regions[0].columns,
              ElementsAre(Is(1, 2), Is(3, 4), Is(5, 6), Is(7, 8)));
}

TEST(Regions, RunOverWholeRowsIsOneBand) {
  std::vector<Region> regions = regionsOf({24, {{40, 1}}}, 8);
  ASSERT_THAT(regions, SizeIs(1));
  EXPECT_THAT(regions[0].rows, ElementsAre(Is(3, 8)));
  EXPECT_THAT(regions[0].columns, ElementsAre(Is(0, 8)));
}

TEST(Regions, LoopsThatContinueOneAnotherAreOneBand) {
  std::vector<Region> regions = regionsOf({0, {{2, 32}, {4, 8}, {8, 1}}}, 8);
  ASSERT_THAT(regions, SizeIs(1));
  EXPECT_THAT(regions[0].rows, ElementsAre(Is(0, 8)));
}

TEST(Regions, RunThatEndsInARowIsCut) {
  std::vector<Region> regions = regionsOf({6, {{21, 1}}}, 8);
  ASSERT_THAT(regions, SizeIs(3));
  EXPECT_EQ(expand(regions, 8), expand({6, {{21, 1}}}));
}

TEST(Regions, TooManyPiecesAreNone) {
  // Runs of 3 in rows of 7, at every 5th element.
  EXPECT_THAT(regionsOf({0, {{5000, 5}, {3, 1}}}, 7), IsEmpty());
}

/// Boxes with mixed-radix loops, as maps make them, in matrices that fit them
/// and in some that do not.
TEST(Regions, SameElementsAsOneByOne) {
  std::mt19937 random(7);
  auto pick = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  int numWhole = 0;
  for (int round = 0; round < 3000; ++round) {
    // Strides whose loops do not meet: each more than the reach of the rest.
    Strided box = {pick(0, 30), {}};
    int64_t reach = 1;
    for (int64_t i = pick(0, 4); i > 0; --i) {
      int64_t extent = pick(1, 4), stride = reach * pick(1, 3);
      box.loops.push_back({extent, stride});
      reach = (extent - 1) * stride + reach;
    }
    std::shuffle(box.loops.begin(), box.loops.end(), random);
    for (int64_t numColumns : {1, 2, 3, 4, 6, 8, 12}) {
      std::vector<Region> regions = regionsOf(box, numColumns);
      numWhole += regions.size() == 1;
      ASSERT_EQ(expand(regions, numColumns), expand(box))
          << "round " << round << ", " << numColumns << " columns";
      for (const Region &region : regions)
        for (const std::vector<Interval> *side :
             {&region.rows, &region.columns})
          for (size_t i = 1; i < side->size(); ++i)
            ASSERT_GT((*side)[i].begin, (*side)[i - 1].end);
    }
  }
  EXPECT_GT(numWhole, 3000);
}

TEST(Regions, InWords) {
  EXPECT_EQ(inWords({{0, 8}}, 8), "all");
  EXPECT_EQ(inWords({{0, 7}}, 8), "0\u20136");
  EXPECT_EQ(inWords({{2, 3}, {5, 7}}, 8), "2, 5\u20136");
  EXPECT_EQ(inWords({{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}}, 10),
            "0, 2, \u2026 8 (5 parts)");
}

TEST(Axis, BandsAreToScale) {
  Axis axis(100, {25}, 2.0, {10, 4, 2, 0});
  EXPECT_EQ(axis.toText(), "0:0,25:50,100:200");
  EXPECT_THAT(axis.visible({{25, 100}}), ElementsAre(Is(50, 200)));
  EXPECT_EQ(axis.getGap(), nullptr);
}

TEST(Axis, SmallBandIsSeen) {
  Axis axis(100000, {99999}, 0.001, {10, 4, 2, 0});
  ASSERT_THAT(axis.getBands(), SizeIs(2));
  EXPECT_GE(axis.getLength() - axis.getBands()[1].from, 4);
}

TEST(Axis, MiddleOfManyBandsIsLeftOut) {
  std::vector<int64_t> breaks;
  std::vector<Interval> even;
  for (int64_t i = 0; i < 1000; ++i) {
    breaks.push_back(i);
    if (i % 2 == 0)
      even.push_back({i, i + 1});
  }
  Axis axis(1000, breaks, 0.1, {10, 4, 2, 0});
  ASSERT_THAT(axis.getBands(), SizeIs(7));
  ASSERT_NE(axis.getGap(), nullptr);
  EXPECT_EQ(axis.getGap()->begin, 4);
  EXPECT_EQ(axis.getGap()->end, 998);
  EXPECT_THAT(axis.visible(even), SizeIs(3)); // 0, 2 and 998
  EXPECT_THAT(axis.visible({{4, 998}}), IsEmpty());
}

} // namespace
