//===- ValuesTest.cpp - Weights and their changes -------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/delta-bench/Values.h"

#include "codegen/device/ValueOps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace delta::bench;
namespace device = delta::device;

/// Six standard deviations of a binomial count.
static double slack(double count, double share) {
  return 6 * std::sqrt(count * share * (1 - share));
}

template <typename T>
static std::vector<size_t> changesOf(const std::vector<T> &elements) {
  std::vector<size_t> changed;
  for (size_t i = 0; i < elements.size(); ++i)
    if (elements[i]) {
      EXPECT_EQ(elements[i], 1u) << i;
      changed.push_back(i);
    }
  return changed;
}

template <typename T> static void expectShare(double share, uint64_t key) {
  std::vector<T> elements(1 << 22);
  int64_t flips =
      flip(elements.data(), int64_t(elements.size()), sizeof(T), share, key);
  std::vector<size_t> changed = changesOf(elements);
  ASSERT_EQ(size_t(flips), changed.size());
  const double count = double(elements.size());
  EXPECT_NEAR(double(flips), count * share, slack(count, share));
  // As many in each part, and neighbors as often as chance has it.
  std::vector<double> parts(16);
  double neighbors = 0;
  for (size_t i = 0; i < changed.size(); ++i) {
    ++parts[changed[i] / (elements.size() / parts.size())];
    neighbors += i && changed[i] == changed[i - 1] + 1;
  }
  for (double part : parts)
    EXPECT_NEAR(part, count / 16 * share, slack(count / 16, share));
  EXPECT_NEAR(neighbors, double(flips) * share, slack(double(flips), share));
}

TEST(FlipTest, ChangesTheShareOfAllTypes) {
  for (double share : {0.0003, 0.01, 0.03, 0.5}) {
    expectShare<uint16_t>(share, 1);
    expectShare<uint32_t>(share, 2);
    expectShare<uint64_t>(share, 3);
  }
}

TEST(FlipTest, NothingAndEverything) {
  std::vector<uint16_t> elements(1000);
  EXPECT_EQ(flip(elements.data(), 1000, 2, 0, 1), 0);
  EXPECT_TRUE(changesOf(elements).empty());
  EXPECT_EQ(flip(elements.data(), 1000, 2, 1, 1), 1000);
  EXPECT_EQ(changesOf(elements).size(), 1000u);
  EXPECT_EQ(flip(elements.data(), 0, 2, 1, 1), 0);
}

TEST(FlipTest, TheEndsChangeAsOftenAsOthers) {
  const int count = 20000;
  double first = 0, last = 0;
  for (int key = 0; key < count; ++key) {
    uint16_t elements[7] = {};
    flip(elements, 7, 2, 0.1, uint64_t(key));
    first += elements[0];
    last += elements[6];
  }
  EXPECT_NEAR(first, count * 0.1, slack(count, 0.1));
  EXPECT_NEAR(last, count * 0.1, slack(count, 0.1));
}

TEST(FlipTest, AKeyChoosesTheSameTwice) {
  std::vector<uint16_t> once(10000), other(10000);
  flip(once.data(), 10000, 2, 0.1, 7);
  flip(other.data(), 10000, 2, 0.1, 8);
  EXPECT_NE(once, other);
  flip(once.data(), 10000, 2, 0.1, 7);
  EXPECT_TRUE(changesOf(once).empty());
}

template <typename T>
static void expectNormal(delta_dtype_t dtype, float (*valueOf)(T)) {
  static const Quantiles quantiles;
  const int64_t count = 1 << 20;
  std::vector<T> elements(count);
  quantiles.fill(elements.data(), count, dtype, 5);
  double sum = 0, squares = 0, within = 0, beyond = 0;
  for (T element : elements) {
    double value = double(valueOf(element));
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += value * value;
    within += std::fabs(value) < Deviation;
    beyond += std::fabs(value) > 3 * Deviation;
  }
  const double root = std::sqrt(double(count));
  EXPECT_NEAR(sum / count, 0, 6 * Deviation / root);
  EXPECT_NEAR(std::sqrt(squares / count), Deviation, 0.005 * Deviation);
  // A bf16 step at one deviation moves 0.2 % of the elements across.
  EXPECT_NEAR(within / count, 0.6827, 0.004);
  EXPECT_NEAR(beyond / count, 0.0027, 0.0005);

  std::vector<T> again(count), other(count);
  quantiles.fill(again.data(), count, dtype, 5);
  quantiles.fill(other.data(), count, dtype, 6);
  EXPECT_EQ(memcmp(elements.data(), again.data(), count * sizeof(T)), 0);
  EXPECT_NE(memcmp(elements.data(), other.data(), count * sizeof(T)), 0);
  // An odd end, and nothing behind it.
  std::vector<T> few(8, T(1));
  quantiles.fill(few.data(), 7, dtype, 5);
  EXPECT_EQ(few[7], T(1));
  EXPECT_NE(few[6], T(1));
}

TEST(QuantilesTest, Bf16) {
  expectNormal<uint16_t>(DELTA_BF16, [](uint16_t bits) {
    return device::floatOfBits(device::Bf16::toFp32(bits));
  });
}
TEST(QuantilesTest, Fp16) {
  expectNormal<uint16_t>(DELTA_FP16, device::Fp16::widen);
}
TEST(QuantilesTest, Fp32) {
  expectNormal<float>(DELTA_FP32, [](float value) { return value; });
}

TEST(WidenTest, EveryValueComesBack) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = uint16_t(i);
  std::vector<float> wide(all.size());
  for (bool isBf16 : {true, false}) {
    widen(wide.data(), all.data(), int64_t(all.size()),
          isBf16 ? DELTA_BF16 : DELTA_FP16);
    for (size_t i = 0; i < all.size(); ++i) {
      if (std::isnan(wide[i]))
        continue;
      const uint32_t bits = device::bitsOfFloat(wide[i]);
      EXPECT_EQ(isBf16 ? device::Bf16::ofFp32(bits)
                       : device::Fp16::ofFp32(bits),
                all[i]);
    }
  }
}
