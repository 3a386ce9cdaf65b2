//===- ValuesTest.cpp - Forms and types of engines ------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Value ops against the table of delta_abi.h, and values against numbers
/// worked out by hand.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/Values.h"

#include <gtest/gtest.h>

using namespace delta::reference;

namespace {

std::optional<delta_value_op_t> opOf(std::vector<double> scalars,
                                     const std::string &source,
                                     const EngineType &type) {
  ValueFacts facts;
  facts.scalars = std::move(scalars);
  return engineOp(facts, source, type);
}

TEST(Values, opsOfAnEngine) {
  constexpr delta_value_op_t bf16 = DELTA_VALUE_VIA(DELTA_BF16);
  EXPECT_EQ(opOf({}, "bf16", {"bf16", "", "bf16"}), DELTA_VALUE_ID);
  EXPECT_EQ(opOf({}, "bf16", {"bf16", "", "fp32"}), DELTA_VALUE_ID);
  EXPECT_EQ(opOf({1}, "bf16", {"bf16", "", "bf16"}), DELTA_VALUE_ADD_ONE);
  // The tensor rounds what the engine would hold exactly.
  EXPECT_EQ(opOf({}, "fp32", {"bf16", "", "fp32"}), bf16);
  // The engine rounds to the same type.
  EXPECT_EQ(opOf({}, "fp32", {"bf16", "", "bf16"}), DELTA_VALUE_ID);
  EXPECT_EQ(opOf({}, "bf16", {"bf16", "neg_exp", "fp32"}), DELTA_VALUE_NEG_EXP);
  EXPECT_EQ(opOf({}, "fp32", {"bf16", "neg_exp", "fp32"}),
            bf16 | DELTA_VALUE_NEG_EXP);
  EXPECT_EQ(opOf({}, "fp32", {"fp32", "add_one", "bf16"}),
            DELTA_VALUE_PLUS_ONE);
  EXPECT_EQ(opOf({1}, "fp32", {"bf16", "add_one", "bf16"}),
            DELTA_VALUE_ADD_ONE | bf16 | DELTA_VALUE_PLUS_ONE);
  EXPECT_EQ(opOf({2}, "bf16", {"bf16", "", "bf16"}), std::nullopt);
}

TEST(Values, textOfOps) {
  EXPECT_EQ(valueOpText(DELTA_VALUE_ID), "no value op");
  EXPECT_EQ(valueOpText(DELTA_VALUE_ADD_ONE | DELTA_VALUE_VIA(DELTA_BF16) |
                        DELTA_VALUE_PLUS_ONE),
            "value op +1 via bf16 then +1");
  EXPECT_EQ(valueOpText(8), "an unknown value op");
}

TEST(Values, whatAnEngineHolds) {
  EXPECT_FALSE(engineValue({"bf16", "", "bf16"}));
  EXPECT_EQ(engineValue({"bf16", "", "fp32"})(0x3f81), 0x3f810000u);
  EXPECT_EQ(engineValue({"fp32", "", "bf16"})(0x3f818000), 0x3f82u);
  EXPECT_EQ(engineValue({"bf16", "", "fp16"})(0x3f81), 0x3c08u);
  // 1.0078125 + 1 = 2.0078125, a tie between 2 and 2.015625.
  EXPECT_EQ(engineValue({"bf16", "add_one", "bf16"})(0x3f81), 0x4000u);
  // The sum is rounded in the tensor's type before it is widened.
  EXPECT_EQ(engineValue({"bf16", "add_one", "fp32"})(0x3f81), 0x40000000u);
}

TEST(Values, minusExp) {
  const auto held = engineValue({"bf16", "neg_exp", "fp32"});
  EXPECT_EQ(held(0x0000), 0xbf800000u); // -exp(0) = -1
  EXPECT_EQ(held(0x8000), 0xbf800000u);
  EXPECT_EQ(held(0x3f80), 0xc02df854u); // -2.7182817...
  EXPECT_EQ(held(0xbf80), 0xbebc5ab2u); // -0.36787945...
  EXPECT_EQ(held(0xff80), 0x80000000u); // exp(-inf) = 0
  EXPECT_EQ(held(0x7f80), 0xff800000u);
  EXPECT_EQ(held(0x42b0), 0xfef882b7u); // -exp(88), near the end of fp32
  EXPECT_EQ(held(0x42b2), 0xff800000u); // exp(89) is more than fp32 has
  EXPECT_EQ(held(0x7f81), 0x7fc10000u); // a NaN keeps its payload
  const auto rounded = engineValue({"bf16", "neg_exp", "bf16"});
  EXPECT_EQ(rounded(0x3f80), 0xc02eu);
}

} // namespace
