//===- StackTest.cpp - Stacks and casts that the checker must refuse ------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Layers beside the decoder's lie on the first or the last chunk, count from
/// 0, and share no parameter with other layers; a cast has fp32 at one end. A
/// fault is planted between two passes, so that plan and certificate agree
/// about it.
///
//===----------------------------------------------------------------------===//

#include "Compiled.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

using namespace delta;
using namespace delta::test;
using namespace mlir;

namespace {

/// What the checker says of a model after `plant` changed what `pass` left, or
/// the interpreter where the checker accepts it.
std::string refusal(const std::string &model, const std::string &pass,
                    const std::function<void(ModuleOp)> &plant) {
  Compiled compiled(model);
  for (const std::string &name : passNames) {
    EXPECT_TRUE(compiled.run(name)) << name;
    if (name == pass)
      plant(compiled.module());
  }
  std::optional<LoweredPlan> plan = compiled.lower();
  if (!plan)
    return "not lowered";
  std::string said = checkerError(compiled.certificate(*plan), *plan);
  if (!said.empty())
    return said;
  said = interpreterError(compiled.program(), *plan);
  return said.empty() ? said : "interpreter: " + said;
}

/// Two stages of two chunks, four layers, and a stack of two on the last stage.
const char stacked[] = R"({"family": ")" DELTA_TEST_CASTS R"(",
    "config": {"model_type": "casts", "hidden_size": 3, "intermediate_size": 4,
    "num_experts": 2, "moe_intermediate_size": 2, "num_hidden_layers": 4,
    "vocab_size": 5, "num_nextn_predict_layers": 2},
    "trainer": {"pp": 2, "vpp": 2, "vocab_multiple": 4}})";

SideOp sourceOf(ModuleOp module) { return *module.getOps<SideOp>().begin(); }

/// The checker's answer with rows of the placement replaced.
std::string
placed(const std::vector<std::pair<int, std::vector<int64_t>>> &by) {
  return refusal(stacked, "delta-fold-instances", [&](ModuleOp module) {
    SideOp side = sourceOf(module);
    SmallVector<int64_t> table(*side.getPlacement());
    for (const auto &[layer, row] : by)
      std::copy(row.begin(), row.end(), table.begin() + 4 * layer);
    side.setPlacement(table);
  });
}

TEST(Stack, IsAcceptedAtItsPlace) {
  // Layers 4 and 5: stage 1, chunk 1, local 0 and 1.
  EXPECT_EQ(placed({{4, {1, 1, 0, 4}}, {5, {1, 1, 1, 5}}}), "");
}

TEST(Stack, OutOfPlaceIsRefused) {
  const std::string first = "source layer 4 is out of place";
  const std::string second = "source layer 5 is out of place";
  // Chunks that are neither the first nor the last one.
  EXPECT_EQ(placed({{4, {1, 0, 0, 4}}, {5, {1, 0, 1, 5}}}), first);
  EXPECT_EQ(placed({{4, {0, 1, 0, 4}}, {5, {0, 1, 1, 5}}}), first);
  // A local number that goes on after the decoder's has no such row.
  EXPECT_EQ(placed({{4, {1, 1, 2, 4}}, {5, {1, 1, 3, 5}}}), first);
  // Rows of one stack: a gap, the wrong way round, on two chunks.
  EXPECT_EQ(placed({{5, {1, 1, 2, 5}}}), second);
  EXPECT_EQ(placed({{4, {1, 1, 1, 4}}}), second);
  EXPECT_EQ(placed({{5, {0, 0, 0, 5}}}), second) << "its kind is on both";
  EXPECT_EQ(placed({{5, {2, 1, 1, 5}}}), second) << "no such stage";
  EXPECT_EQ(placed({{5, {1, 1, 1, 4}}}), second) << "no such number";
}

// A stack that goes on after the decoder's layer of its chunk looks like layers
// of the decoder: the bound model knows better.
TEST(Stack, NumberedOnAfterTheDecoderIsLeftToTheInterpreter) {
  const std::string said = placed({{4, {1, 1, 1, 4}}, {5, {1, 1, 2, 5}}});
  EXPECT_EQ(said.rfind("interpreter: ", 0), 0u) << said;
}

TEST(Stack, LayerKindOfDecoderAndStackIsRefused) {
  // Every parameter of decoder layers 0 to 3 also claims the stack's first.
  EXPECT_EQ(refusal(stacked, "delta-fold-instances",
                    [](ModuleOp module) {
                      SideOp side = sourceOf(module);
                      side.walk([](ParamOp param) {
                        if (param.getLayers() && param.getLayers()->back() == 3)
                          param.setLayers(SmallVector<int64_t>{0, 1, 2, 3, 4});
                      });
                    }),
            "source layer 4 is out of place");
}

/// One layer a stack, so that only the kind can tell them from one stack.
const char twoStacks[] = R"({"family": ")" DELTA_TEST_CASTS R"(",
    "config": {"model_type": "casts", "hidden_size": 3, "intermediate_size": 4,
    "num_experts": 2, "moe_intermediate_size": 2, "num_hidden_layers": 1,
    "vocab_size": 5, "num_nextn_predict_layers": 2},
    "trainer": {"vocab_multiple": 4}})";

TEST(Stack, LayerKindOfTwoStacksIsRefused) {
  // A second stack begins at layer 2, whose parameters are those of layer 1.
  EXPECT_EQ(refusal(twoStacks, "delta-fold-instances",
                    [](ModuleOp module) {
                      SideOp side = sourceOf(module);
                      side.setPlacement(SmallVector<int64_t>{0, 0, 0, 0, 0, 0,
                                                             0, 1, 0, 0, 0, 2});
                    }),
            "source layer 2 is out of place");
}

/// The checker's answer after the first cast from `from` leads to `to`.
std::string castTo(StringRef from, StringRef to) {
  return refusal(stacked, "delta-coalesce-runs", [&](ModuleOp module) {
    Builder builder(module.getContext());
    bool planted = false;
    sourceOf(module).walk([&](ApplyOp apply) {
      auto param = apply.getValues()[0].getDefiningOp<ParamOp>();
      if (planted || !apply.getTo() || param.getDtype() != from)
        return;
      apply.setToAttr(builder.getStringAttr(to));
      planted = true;
    });
    EXPECT_TRUE(planted);
  });
}

TEST(Cast, WithoutFp32AtOneEndIsRefused) {
  EXPECT_EQ(castTo("bf16", "f32"), "");
  EXPECT_EQ(castTo("f32", "bf16"), "");
  // Fit for a checker, but not what the family says.
  EXPECT_EQ(castTo("f32", "f16").rfind("interpreter: tensor ", 0), 0u);
  for (auto [from, to] : {std::pair<StringRef, StringRef>{"bf16", "f16"},
                          {"bf16", "i64"},
                          {"f32", "i64"}}) {
    const std::string said = castTo(from, to);
    EXPECT_NE(said.find("hf is of other layers, experts or type"),
              std::string::npos)
        << from.str() << " to " << to.str() << ": " << said;
  }
}

} // namespace
