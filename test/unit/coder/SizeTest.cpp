//===- SizeTest.cpp - How short coded tiles are ---------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CoderSamples.h"

#include <gtest/gtest.h>

#include <cstdio>

using namespace delta::device;
using namespace delta::test;

namespace {

/// Bytes of several tiles in both forms, what is on the wire beside bodies
/// included: a bit a tile, and for each that is present a descriptor or a
/// count.
struct Sizes {
  double coded = 0, raw = 0, count = 0;

  template <typename Element> void add(const Sample<Element> &sample) {
    Coded tile = encode(sample);
    coded += 0.125 + (tile.descriptor ? 8 : 0) + double(tile.words.size()) * 4;
    raw += 0.125 + (sample.count() ? 2 : 0) + double(sample.rawBytes());
    count += sample.count();
  }
};

template <typename Element>
Sizes sizesOf(double share, Steps steps, uint32_t numTiles) {
  Random random(uint64_t(share * 1e6));
  Sizes sizes;
  for (uint32_t i = 0; i < numTiles; ++i)
    sizes.add(makeSample<Element>(random, 65536, share, steps));
  return sizes;
}

TEST(CoderSize, BytesOfAnElement) {
  struct Row {
    double share;
    uint32_t numTiles;
    double trained, independent; ///< bytes an element at most
  };
  const Row rows[] = {{0.0003, 100, 2.40, 2.50},
                      {0.01, 30, 1.25, 1.33},
                      {0.03, 10, 1.05, 1.12}};
  for (const Row &row : rows) {
    Sizes trained = sizesOf<Bf16>(row.share, Steps::Trained, row.numTiles);
    Sizes independent =
        sizesOf<Bf16>(row.share, Steps::Independent, row.numTiles);
    std::printf("%5.2f %%: %.3f bytes an element, %.3f if steps do not depend "
                "on exponents, raw %.3f\n",
                row.share * 100, trained.coded / trained.count,
                independent.coded / independent.count,
                trained.raw / trained.count);
    EXPECT_LT(trained.coded / trained.count, row.trained);
    EXPECT_LT(independent.coded / independent.count, row.independent);
  }
}

template <typename Element> class CoderGrowth : public testing::Test {};
using Elements = testing::Types<Bf16, Fp16, Fp32, Int64>;
TYPED_TEST_SUITE(CoderGrowth, Elements);

TYPED_TEST(CoderGrowth, RandomBits) {
  for (double share : {0.0003, 0.01, 0.03, 0.3, 0.49}) {
    Sizes sizes = sizesOf<TypeParam>(share, Steps::RandomBits, 10);
    EXPECT_LT(sizes.coded, 1.01 * sizes.raw) << share;
  }
  Random random(5);
  Sizes dense;
  dense.add(makeDense<TypeParam>(random, 65536, 1, Steps::RandomBits));
  EXPECT_LT(dense.coded, 1.01 * dense.raw);
}

/// No body is longer than its raw form by more than rounding to words, wherever
/// the elements are.
TYPED_TEST(CoderGrowth, BoundOfABody) {
  Random random(6);
  for (uint32_t count = 1; count < 300; count += count < 40 ? 1 : 37)
    for (int kind = 0; kind < 4; ++kind) {
      std::vector<uint16_t> offsets;
      for (uint32_t i = 0; i < count; ++i) {
        uint32_t start = kind == 0   ? 0
                         : kind == 1 ? 65536 - count
                         : kind == 2 ? (i < count / 2 ? 0 : 65536 - count)
                                     : i * (65535 / count - 1);
        offsets.push_back(uint16_t(start + i));
      }
      auto sample =
          makeSample<TypeParam>(random, 65536, offsets, Steps::RandomBits);
      ASSERT_LE(encode(sample).words.size() * 4, sample.rawBytes() + 6)
          << count << " " << kind;
    }
}

/// What half changes: fewer bits than a bitmap and all values.
TEST(CoderSize, DenseTile) {
  Random random(7);
  auto sample = makeDense<Bf16>(random, 65536, 0.6, Steps::Independent);
  double bits = double(encode(sample).words.size()) * 32 / 65536;
  std::printf("dense, 60 %% changed: %.2f bits an element of 16\n", bits);
  EXPECT_LT(bits, 4);
}

} // namespace
