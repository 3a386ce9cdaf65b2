//===- CastTest.cpp - Casts of kernels and interpreter, bit by bit --------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The kernels' casts and the interpreter's were written apart. Both are held
/// against values in double: every 16-bit pattern up, and down every point
/// where rounding turns, one fp32 step to either side of it. NaNs are held
/// against the sentence that defines them.
///
//===----------------------------------------------------------------------===//

#include "codegen/device/ValueOps.h"
#include "tools/reference/Moves.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

using namespace delta::device;
using delta::reference::Array;
using delta::reference::castOf;

namespace {

uint32_t floatBits(double value) {
  const float narrow = float(value);
  EXPECT_EQ(double(narrow), value) << "not an fp32 value";
  uint32_t bits;
  std::memcpy(&bits, &narrow, sizeof(bits));
  return bits;
}

/// A 16-bit format: its largest finite pattern is infinity - 1.
struct Format {
  const char *name;
  int mantissaBits, exponentBits;
  uint32_t infinity, quiet;

  /// Value of a pattern without sign; one past the last finite one has the
  /// value that it would have without an infinity.
  double value(uint32_t magnitude) const {
    const int bias = (1 << (exponentBits - 1)) - 1;
    const int exponent = int(magnitude >> mantissaBits);
    const auto mantissa = double(magnitude & ((1u << mantissaBits) - 1));
    const double one = 1u << mantissaBits;
    return exponent == 0
               ? std::ldexp(mantissa, 1 - bias - mantissaBits)
               : std::ldexp(one + mantissa, exponent - bias - mantissaBits);
  }
};

constexpr Format bf16 = {"bf16", 7, 8, 0x7f80, 0x40};
constexpr Format fp16 = {"fp16", 10, 5, 0x7c00, 0x200};

/// What the kernels make of fp32 bits, after the interpreter agreed.
template <typename To> uint32_t narrowed(const Format &format, uint32_t bits) {
  const uint32_t kernel = applyOp<Narrowed<To>>(bits, DELTA_VALUE_ID);
  EXPECT_EQ(castOf("fp32", format.name)(bits), kernel) << std::hex << bits;
  return kernel;
}

template <typename From>
uint32_t widened(const Format &format, uint32_t pattern) {
  const uint32_t kernel =
      applyOp<Widened<From>>(uint16_t(pattern), DELTA_VALUE_ID);
  EXPECT_EQ(castOf(format.name, "fp32")(pattern), kernel)
      << std::hex << pattern;
  return kernel;
}

template <typename From> void widensEveryPattern(const Format &format) {
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const uint32_t sign = (pattern & 0x8000u) << 16;
    const uint32_t magnitude = pattern & 0x7fffu;
    uint32_t wanted;
    if (magnitude < format.infinity)
      wanted = sign | floatBits(format.value(magnitude));
    else // An infinity, or a NaN whose payload and quiet bit stay as they are.
      wanted = sign | 0x7f800000u |
               (magnitude - format.infinity) << (23 - format.mantissaBits);
    ASSERT_EQ(widened<From>(format, pattern), wanted) << std::hex << pattern;
  }
}

TEST(Cast, WidensEveryBf16) { widensEveryPattern<Bf16>(bf16); }
TEST(Cast, WidensEveryFp16) { widensEveryPattern<Fp16>(fp16); }

/// Between two neighbors the midpoint goes to the even one, and one fp32 step
/// beside it to the nearer one; the midpoint above the largest finite value
/// goes to infinity. Neighbors themselves stay.
template <typename To> void narrowsAtEveryTurn(const Format &format) {
  for (uint32_t low = 0; low < format.infinity; ++low) {
    const double below = format.value(low), above = format.value(low + 1);
    const uint32_t middle = floatBits((below + above) / 2);
    for (uint32_t sign : {0u, 1u}) {
      const uint32_t in = sign << 31, out = sign << 15;
      ASSERT_EQ(narrowed<To>(format, in | floatBits(below)), out | low);
      ASSERT_EQ(narrowed<To>(format, in | (middle - 1)), out | low);
      ASSERT_EQ(narrowed<To>(format, in | middle), out | (low + (low & 1)));
      ASSERT_EQ(narrowed<To>(format, in | (middle + 1)), out | (low + 1));
      // What lies between rounds with its half.
      const double lower = (3 * below + above) / 4;
      const double upper = (below + 3 * above) / 4;
      ASSERT_EQ(narrowed<To>(format, in | floatBits(lower)), out | low);
      ASSERT_EQ(narrowed<To>(format, in | floatBits(upper)), out | (low + 1));
    }
  }
  for (uint32_t sign : {0u, 1u}) {
    ASSERT_EQ(narrowed<To>(format, sign << 31 | 0x7f7fffffu),
              sign << 15 | format.infinity);
    ASSERT_EQ(narrowed<To>(format, sign << 31 | 0x7f800000u),
              sign << 15 | format.infinity);
  }
}

TEST(Cast, NarrowsToBf16AtEveryTurn) { narrowsAtEveryTurn<Bf16>(bf16); }
TEST(Cast, NarrowsToFp16AtEveryTurn) { narrowsAtEveryTurn<Fp16>(fp16); }

/// A NaN keeps its sign and the upper bits of its payload and becomes quiet:
/// one whose payload is in the lower bits alone is still a NaN.
template <typename To> void keepsNaNs(const Format &format) {
  const int lost = 23 - format.mantissaBits;
  for (uint32_t high = 0; high < 1u << format.mantissaBits; ++high)
    for (uint32_t rest : {0u, 1u, (1u << lost) - 1, 1u << (lost - 1)})
      for (uint32_t sign : {0u, 1u}) {
        if ((high | rest) == 0)
          continue; // an infinity
        const uint32_t bits = sign << 31 | 0x7f800000u | high << lost | rest;
        ASSERT_EQ(narrowed<To>(format, bits),
                  sign << 15 | format.infinity | format.quiet | high);
      }
}

TEST(Cast, KeepsEveryNaNPayloadOfBf16) { keepsNaNs<Bf16>(bf16); }
TEST(Cast, KeepsEveryNaNPayloadOfFp16) { keepsNaNs<Fp16>(fp16); }

TEST(Cast, AgreesOnManyRandomFp32) {
  std::mt19937 random(11);
  for (int i = 0; i < 2000000; ++i) {
    const auto bits = uint32_t(random());
    narrowed<Bf16>(bf16, bits);
    narrowed<Fp16>(fp16, bits);
    // fp16's range is a small part of all exponents.
    narrowed<Fp16>(fp16, (bits & 0x807fffffu) |
                             (102u + (bits >> 23 & 0xff) % 42u) << 23);
    if (HasFailure())
      return;
  }
}

TEST(Cast, KnownValues) {
  EXPECT_EQ(narrowed<Bf16>(bf16, 0x3f808000u), 0x3f80u); // a tie, to even
  EXPECT_EQ(narrowed<Bf16>(bf16, 0x3f818000u), 0x3f82u);
  EXPECT_EQ(narrowed<Bf16>(bf16, 0x00000001u), 0x0000u); // a subnormal
  EXPECT_EQ(narrowed<Bf16>(bf16, 0x80010000u), 0x8001u);
  EXPECT_EQ(narrowed<Fp16>(fp16, 0x33000000u), 0x0000u); // 2^-25: a tie
  EXPECT_EQ(narrowed<Fp16>(fp16, 0x33000001u), 0x0001u);
  EXPECT_EQ(narrowed<Fp16>(fp16, 0x477fefffu), 0x7bffu); // below 65520
  EXPECT_EQ(narrowed<Fp16>(fp16, 0x477ff000u), 0x7c00u);
  EXPECT_EQ(widened<Fp16>(fp16, 0x0001u), 0x33800000u); // 2^-24
  EXPECT_EQ(widened<Fp16>(fp16, 0x7c01u), 0x7f802000u); // signaling
}

TEST(Cast, NoneLeadsBetweenOtherTypes) {
  for (const char *from : {"bf16", "fp16", "fp32", "i64"})
    for (const char *to : {"bf16", "fp16", "fp32", "i64"}) {
      const bool one =
          (std::string(from) == "fp32") != (std::string(to) == "fp32");
      const bool integer =
          std::string(from) == "i64" || std::string(to) == "i64";
      EXPECT_EQ(castOf(from, to) != nullptr, one && !integer)
          << from << " to " << to;
    }
}

//===--- after +1 ---------------------------------------------------------===//

/// The interpreter's op on one element, then its cast.
template <class T>
uint32_t plusOneThenCast(T bits, const char *from, const char *to) {
  Array<T> array({1});
  array.data[0] = bits;
  addScalar(array, from, 1.0);
  return uint32_t(castOf(from, to)(array.data[0]));
}

/// The sum is rounded in the trainer's type first: 2^-9 + 1 is no bf16.
template <typename From> void addsOneThenWidens(const Format &format) {
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto in = uint16_t(pattern);
    const uint32_t kernel = applyOp<Widened<From>>(in, DELTA_VALUE_ADD_ONE);
    ASSERT_EQ(kernel, plusOneThenCast(in, format.name, "fp32"));
    // It is a value of the 16-bit type: nothing is lost on the way back.
    ASSERT_EQ(kernel & ((1u << (23 - format.mantissaBits)) - 1), 0u);
  }
}

TEST(Cast, AddsOneToEveryBf16BeforeWidening) { addsOneThenWidens<Bf16>(bf16); }
TEST(Cast, AddsOneToEveryFp16BeforeWidening) { addsOneThenWidens<Fp16>(fp16); }

template <typename To> void addsOneThenNarrows(const Format &format) {
  std::mt19937 random(12);
  for (int i = 0; i < 500000; ++i) {
    // Norm weights are near zero; every eighth is anything.
    auto bits = uint32_t(random());
    if (i % 8)
      bits = (bits & 0x807fffffu) | (100u + (bits >> 23 & 0xff) % 32u) << 23;
    ASSERT_EQ(applyOp<Narrowed<To>>(bits, DELTA_VALUE_ADD_ONE),
              plusOneThenCast(bits, "fp32", format.name))
        << std::hex << bits;
  }
}

TEST(Cast, AddsOneInFp32BeforeNarrowingToBf16) {
  addsOneThenNarrows<Bf16>(bf16);
  // 1 + 2^-8 + 2^-23 is above the middle of two bf16; the added value itself,
  // rounded to bf16 first, would give the middle and then 1.
  EXPECT_EQ(
      applyOp<Narrowed<Bf16>>(floatBits(0x1p-8 + 0x1p-23), DELTA_VALUE_ADD_ONE),
      0x3f81);
  EXPECT_EQ(applyOp<Narrowed<Bf16>>(floatBits(0x1p-8), DELTA_VALUE_ADD_ONE),
            0x3f80);
}
TEST(Cast, AddsOneInFp32BeforeNarrowingToFp16) {
  addsOneThenNarrows<Fp16>(fp16);
  EXPECT_EQ(applyOp<Narrowed<Fp16>>(floatBits(0x1p-11 + 0x1p-23),
                                    DELTA_VALUE_ADD_ONE),
            0x3c01);
}

TEST(Cast, RoundsTheSumInBf16BeforeWidening) {
  EXPECT_EQ(applyOp<Widened<Bf16>>(0x3b00, DELTA_VALUE_ADD_ONE),
            0x3f800000u); // 2^-9 + 1 is 1 in bf16
  EXPECT_EQ(applyOp<Widened<Bf16>>(0x7f81, DELTA_VALUE_ADD_ONE), 0x7fc10000u);
}

} // namespace
