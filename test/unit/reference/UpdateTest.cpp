//===- UpdateTest.cpp - Do weights change as promised? --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The share of changed elements, the size of the changes, special values, and
/// that any part asked for at any time is the same.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/Update.h"
#include "tools/reference/Moves.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <vector>

using namespace delta::reference;

namespace {

constexpr int64_t kSize = 1 << 20;

template <class T>
std::vector<T> values(const Update &update, const char *dtype, int64_t step,
                      const char *name = "w") {
  std::vector<T> out(kSize);
  update.fill(name, dtype, 0, kSize, step, out.data());
  return out;
}

/// Place of a pattern in the order of values; both zeros are 0.
template <class T> double order(T pattern) {
  const T sign = T(T(1) << (sizeof(T) * 8 - 1));
  const auto magnitude = double(pattern & T(sign - 1));
  return pattern & sign ? -magnitude : magnitude;
}

struct Change {
  double share = 0; ///< of the elements that changed
  double large = 0; ///< of these, by more than one ulp
};

template <class T>
Change changeOf(const std::vector<T> &before, const std::vector<T> &after) {
  int64_t changed = 0, large = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    changed += before[i] != after[i];
    large += std::fabs(order(before[i]) - order(after[i])) > 1;
  }
  return {double(changed) / double(before.size()),
          double(large) / double(std::max<int64_t>(changed, 1))};
}

/// Within five standard deviations of a binomial share, or 2 % of it.
void expectShare(double found, double wanted, double size, const char *what) {
  const double slack = std::max(0.02 * wanted, 5 * std::sqrt(wanted / size));
  EXPECT_NEAR(found, wanted, slack) << what;
}

template <class T> void expectShares(const char *dtype) {
  for (const double share : {0.0003, 0.01, 0.1, 0.5, 1.0}) {
    const Update update(7, share);
    // The direction of the drift turns at 64 and 128.
    for (const int64_t step : share == 0.01
                                  ? std::vector<int64_t>{1, 2, 65, 130}
                                  : std::vector<int64_t>{1, 2}) {
      const Change change = changeOf(values<T>(update, dtype, step - 1),
                                     values<T>(update, dtype, step));
      expectShare(change.share, share, kSize, dtype);
      expectShare(change.large, 0.1, share * kSize, "more than one ulp");
    }
  }
}

TEST(Update, shareOfBf16) { expectShares<uint16_t>("bf16"); }
TEST(Update, shareOfFp32) { expectShares<uint32_t>("fp32"); }

/// Subnormal weights, one in 400, move less than their share.
TEST(Update, shareOfFp16) {
  const Update update(7, 0.01);
  const Change change = changeOf(values<uint16_t>(update, "fp16", 0),
                                 values<uint16_t>(update, "fp16", 1));
  expectShare(change.share, 0.01, kSize, "fp16");
}

TEST(Update, shareOfIntegers) {
  const Update update(7, 0.01);
  const Change change = changeOf(values<uint64_t>(update, "i64", 3),
                                 values<uint64_t>(update, "i64", 4));
  expectShare(change.share, 0.01, kSize, "i64");
}

TEST(Update, nothingChangesAtShareZero) {
  const Update update(7, 0);
  EXPECT_EQ(values<uint16_t>(update, "bf16", 0),
            values<uint16_t>(update, "bf16", 9));
  EXPECT_EQ(values<uint32_t>(update, "fp32", 0),
            values<uint32_t>(update, "fp32", 9));
}

TEST(Update, everythingChangesAtShareOne) {
  const Update update(7, 1);
  const auto before = values<uint16_t>(update, "bf16", 4);
  const auto after = values<uint16_t>(update, "bf16", 5);
  int64_t same = 0;
  for (size_t i = 0; i < before.size(); ++i)
    same += before[i] == after[i];
  // Only a master that lies on a tie exactly can stay: one in 65,536.
  EXPECT_LT(same, kSize / 20000);
}

TEST(Update, specialValuesOfEveryKind) {
  const Update update(7, 0.01);
  std::map<std::string, int64_t> kinds;
  std::map<uint16_t, int64_t> payloads;
  for (const uint16_t bits : values<uint16_t>(update, "bf16", 3)) {
    const uint16_t magnitude = bits & 0x7fff;
    if (magnitude > 0x7f80) {
      ++kinds[magnitude & 0x40 ? "quiet NaN" : "signaling NaN"];
      ++payloads[magnitude & 0x3f];
    } else if (magnitude == 0x7f80) {
      ++kinds[bits & 0x8000 ? "-Inf" : "Inf"];
    } else if (magnitude < 0x80) {
      ++kinds[magnitude ? "subnormal" : bits ? "-0.0" : "0.0"];
    }
  }
  for (const char *kind : {"quiet NaN", "signaling NaN", "-Inf", "Inf",
                           "subnormal", "-0.0", "0.0"})
    EXPECT_GT(kinds[kind], kSize / 2048 / 16) << kind;
  EXPECT_GT(payloads.size(), 30u);
}

TEST(Update, masterIsBellShaped) {
  double sum = 0, squares = 0;
  int64_t number = 0;
  for (const uint32_t bits : values<uint32_t>(Update(7, 0), "fp32", 0)) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value))
      continue;
    ++number;
    sum += value;
    squares += double(value) * value;
  }
  EXPECT_NEAR(sum / double(number), 0, 1e-4);
  EXPECT_NEAR(std::sqrt(squares / double(number)), 0.018, 0.0005);
}

/// Were they not, the first steps would change more or less than they should.
TEST(Update, bitsBelowAnUlpAreUniform) {
  const auto master = values<uint32_t>(Update(7, 0), "fp32", 0);
  for (const int bits : {16, 13}) { // of bf16 and fp16
    std::vector<int64_t> histogram(64);
    for (const uint32_t pattern : master)
      ++histogram[pattern >> (bits - 6) & 63];
    for (const int64_t number : histogram)
      EXPECT_NEAR(double(number) * 64 / kSize, 1, 0.05) << bits;
  }
}

/// bf16 values are the fp32 start rounded to nearest even: same name, same
/// master before the first step.
TEST(Update, bf16IsTheRoundedMaster) {
  const Update update(7, 0.01);
  const auto master = values<uint32_t>(update, "fp32", 0);
  const auto rounded = values<uint16_t>(update, "bf16", 0);
  int64_t different = 0, up = 0;
  for (size_t i = 0; i < master.size(); ++i) {
    different += toBf16(master[i]) != rounded[i];
    up += (rounded[i] & 0x7fff) > (master[i] >> 16 & 0x7fff);
  }
  // Only special values differ, for they have other payloads.
  EXPECT_LT(different, kSize / 1500);
  EXPECT_NEAR(double(up) / kSize, 0.5, 0.01);
}

TEST(Update, anyPartIsTheSame) {
  const Update update(3, 0.05);
  const auto whole = values<uint16_t>(update, "bf16", 4);
  for (const int64_t begin : {0, 1, 4095, 4096, 5000, 12287})
    for (const int64_t size : {1, 100, 4096, 9000}) {
      std::vector<uint16_t> part(static_cast<size_t>(size));
      update.fill("w", "bf16", begin, size, 4, part.data());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin));
    }
}

TEST(Update, namesAndSeedsAreIndependent) {
  const Update update(3, 0.05), other(4, 0.05);
  const auto values0 = values<uint16_t>(update, "bf16", 1);
  for (const auto &values1 : {values<uint16_t>(update, "bf16", 1, "v"),
                              values<uint16_t>(other, "bf16", 1)}) {
    int64_t same = 0;
    for (size_t i = 0; i < values0.size(); ++i)
      same += values0[i] == values1[i];
    EXPECT_LT(same, kSize / 100);
  }
}

} // namespace
