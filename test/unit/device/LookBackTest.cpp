//===- LookBackTest.cpp - Places of tiles, of many blocks -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// On the emulator blocks run one after the other, so that no tile of a launch
/// looks far back. Here one warp does, over words that were written by hand.
///
//===----------------------------------------------------------------------===//

#include "test/emulator/Simt.h"

#include "codegen/device/LookBack.cuh"

#include <gtest/gtest.h>

#include <random>
#include <vector>

using namespace delta::device;

namespace {

constexpr int64_t NumTiles = 1700; // more than three windows

class LookBackTest : public testing::TestWithParam<int64_t> {
protected:
  /// All tiles have said what they pack, and none what lies before it. A
  /// section begins every `GetParam()` tiles; 0: with the first one alone.
  LookBackTest() : words(NumTiles), inclusive(NumTiles * NumSumWords) {
    std::mt19937 random(7);
    TileSums sums = {};
    for (int64_t i = 0; i < NumTiles; ++i) {
      const bool begins = i == 0 || (GetParam() && i % GetParam() == 0);
      const uint32_t changed = random() % 4 ? random() % DELTA_MAX_TILE : 0;
      const bool isWhole = changed && random() % 3 == 0;
      own.push_back(TileWord::of(isWhole ? 0 : changed, changed,
                                 random() % 2 ? 2 : 4, begins));
      words[size_t(i)] = own.back().bits;
      if (begins)
        sums = alignedForSection(sums);
      before.push_back(sums);
      sums = sums + own.back().sums();
    }
  }

  TileSums lookFrom(int64_t index) {
    TileSums found;
    delta::simt::launch(1, WarpThreads, [&] {
      TileSums sums =
          lookBack(words.data(), inclusive.data(), index, own[size_t(index)]);
      if (threadIdx.x == 0)
        found = sums;
    });
    return found;
  }
  void expectPlace(int64_t index) {
    const TileSums found = lookFrom(index), &wanted = before[size_t(index)];
    EXPECT_EQ(found.numOffsets, wanted.numOffsets) << index;
    EXPECT_EQ(found.valueBytes, wanted.valueBytes) << index;
    EXPECT_EQ(found.numSent, wanted.numSent) << index;
    EXPECT_EQ(found.numPresent, wanted.numPresent) << index;
    EXPECT_EQ(found.valuesBegin, wanted.valuesBegin) << index;
  }

  std::vector<TileWord> own;
  std::vector<TileSums> before;
  std::vector<unsigned long long> words, inclusive;
};

} // namespace

TEST_P(LookBackTest, FindsPlacesBeyondAWindow) {
  // Nothing is known but what lies before the first tile.
  expectPlace(NumTiles - 1);
}

TEST_P(LookBackTest, FindsPlacesBehindWhatIsKnown) {
  for (int64_t index : {0, 1, 31, 32, 33, 511, 512, 513, 514, 1100, 1099, 1098,
                        1101, 1650, 1620, 1699, 600})
    expectPlace(index);
}

INSTANTIATE_TEST_SUITE_P(Sections, LookBackTest,
                         testing::Values(0, 1, 7, 32, 500, 1200));
