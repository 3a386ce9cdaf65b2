//===- BindTest.cpp - What may be bound -----------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Cluster.h"

#include "runtime/Bind.h"

#include <gtest/gtest.h>

using namespace delta::test;
using namespace delta::runtime;

namespace {

class BindTest : public testing::Test {
protected:
  BindTest() {
    Geometry source;
    source.tp = 2;
    source.pp = 2;
    plan = std::make_unique<TestPlan>(source, Geometry(), true, 2, 4,
                                      mixedModel(source, Geometry()));
    side = std::make_unique<Side>(plan->getTables(), DELTA_SOURCE);
    memory = std::make_unique<RankMemory>(*side, Rank, false);
  }

  /// The text of the refusal, empty if bound.
  std::string bind(const std::vector<delta_param_t> &params) {
    std::vector<void *> data;
    Status status = bindParams(*side, Rank, memory->getParams(), params.data(),
                               uint32_t(params.size()), data);
    if (status.failed()) {
      EXPECT_EQ(status.getCode(), DELTA_BIND_MISMATCH);
    }
    return status.getText();
  }
  /// Binds with one change to the parameter called `name`.
  template <typename Change>
  std::string bindWith(const std::string &name, const Change &change) {
    std::vector<delta_param_t> params = memory->getBound();
    for (delta_param_t &param : params)
      if (name == param.name)
        change(param);
    return bind(params);
  }

  static constexpr uint32_t Rank = 3; // tp 1 of stage 1
  std::unique_ptr<TestPlan> plan;
  std::unique_ptr<Side> side;
  std::unique_ptr<RankMemory> memory;
};

} // namespace

TEST_F(BindTest, TakesParametersInAnyOrder) {
  EXPECT_EQ(bind(memory->getBound()), "");
  std::vector<delta_param_t> reversed(memory->getBound().rbegin(),
                                      memory->getBound().rend());
  EXPECT_EQ(bind(reversed), "");
}

TEST_F(BindTest, TakesAnAlternativeName) {
  EXPECT_EQ(bindWith("layers.0.fc1",
                     [](delta_param_t &p) { p.name = "old.layers.0.fc1"; }),
            "");
}

TEST_F(BindTest, RefusesTwoAlternativeNames) {
  std::vector<delta_param_t> params = memory->getBound();
  for (const delta_param_t &param : memory->getBound())
    if (std::string(param.name) == "layers.0.fc1") {
      params.push_back(param);
      params.back().name = "old.layers.0.fc1";
    }
  EXPECT_EQ(bind(params),
            "rank 3: \"old.layers.0.fc1\" (chunk 0): bind: bound besides "
            "\"layers.0.fc1\", which is another name for it");
}

TEST_F(BindTest, RefusesAMissingParameter) {
  std::vector<delta_param_t> params = memory->getBound();
  params.pop_back();
  EXPECT_EQ(bind(params), std::string("rank 3: \"") +
                              memory->getBound().back().name +
                              "\" (chunk 0): bind: missing");
}

TEST_F(BindTest, RefusesAnExtraParameter) {
  std::vector<delta_param_t> params = memory->getBound();
  params.push_back(params[0]);
  params.back().name = "other";
  EXPECT_EQ(bind(params), "rank 3: \"other\" (chunk 0): bind: not a parameter "
                          "of this rank");
}

TEST_F(BindTest, RefusesAParameterBoundTwice) {
  std::vector<delta_param_t> params = memory->getBound();
  params.push_back(params[0]);
  EXPECT_EQ(bind(params), std::string("rank 3: \"") + params[0].name +
                              "\" (chunk 0): bind: bound twice");
}

TEST_F(BindTest, RefusesAnotherChunk) {
  EXPECT_EQ(bindWith("layers.0.fc1", [](delta_param_t &p) { p.chunk = 1; }),
            "rank 3: \"layers.0.fc1\" (chunk 0): bind: missing");
}

TEST_F(BindTest, RefusesAnotherType) {
  EXPECT_EQ(
      bindWith("layers.0.fc1", [](delta_param_t &p) { p.dtype = DELTA_FP32; }),
      "rank 3: \"layers.0.fc1\" (chunk 0): bind: dtype fp32, required "
      "bf16");
}

TEST_F(BindTest, RefusesAnotherShape) {
  EXPECT_EQ(bindWith("layers.0.fc1", [](delta_param_t &p) { p.shape[0] = 9; }),
            "rank 3: \"layers.0.fc1\" (chunk 0): bind: shape [9, 21], required "
            "[8, 21]");
  EXPECT_EQ(bindWith("layers.0.fc1", [](delta_param_t &p) { p.rank = 1; }),
            "rank 3: \"layers.0.fc1\" (chunk 0): bind: shape [8], required "
            "[8, 21]");
  EXPECT_EQ(bindWith("layers.0.fc1", [](delta_param_t &p) { p.rank = 99; }),
            "rank 3: \"layers.0.fc1\" (chunk 0): bind: 99 dimensions");
}

TEST_F(BindTest, RefusesAViewWithHoles) {
  EXPECT_EQ(
      bindWith("layers.0.fc1", [](delta_param_t &p) { p.stride[0] = 32; }),
      "rank 3: \"layers.0.fc1\" (chunk 0): bind: strides [32, 1] are not "
      "row-major");
}

TEST_F(BindTest, IgnoresTheStrideOfASingleRow) {
  EXPECT_EQ(
      bindWith("layers.0.norm", [](delta_param_t &p) { p.stride[0] = 99; }),
      "");
}

TEST_F(BindTest, RefusesNullAndMisalignedData) {
  EXPECT_EQ(
      bindWith("layers.0.fc1", [](delta_param_t &p) { p.data = nullptr; }),
      "rank 3: \"layers.0.fc1\" (chunk 0): bind: data is null");
  EXPECT_EQ(bindWith("layers.0.fc1",
                     [](delta_param_t &p) {
                       p.data = static_cast<uint8_t *>(p.data) + 1;
                     }),
            "rank 3: \"layers.0.fc1\" (chunk 0): bind: data is not aligned to "
            "2 bytes");
}

TEST_F(BindTest, RefusesOverlappingMemory) {
  void *other = nullptr;
  for (delta_param_t &param : memory->getBound())
    if (std::string(param.name) == "layers.0.fc2")
      other = param.data;
  std::string text =
      bindWith("layers.0.fc1", [&](delta_param_t &p) { p.data = other; });
  EXPECT_NE(text.find("overlaps \"layers.0.fc"), std::string::npos) << text;
}

TEST(BindCopyTest, LetsACopyShareTheStorageOfWhatItRepeats) {
  Geometry source, destination;
  TestPlan plan(source, destination, false, 2, 4,
                mixedModel(source, destination));
  Side side(plan.getTables(), DELTA_DESTINATION);
  RankMemory memory(side, 0, false);
  auto &bound = memory.getBound();
  delta_param_t *origin = nullptr, *copy = nullptr;
  for (delta_param_t &param : bound) {
    if (std::string(param.name) == "embedding")
      origin = &param;
    if (std::string(param.name) == "embedding.copy")
      copy = &param;
  }
  ASSERT_TRUE(origin && copy);
  copy->data = origin->data;
  std::vector<void *> data;
  Status status = bindParams(side, 0, memory.getParams(), bound.data(),
                             uint32_t(bound.size()), data);
  EXPECT_FALSE(status.failed()) << status.getText();
  copy->data = static_cast<uint8_t *>(origin->data) + 2;
  EXPECT_TRUE(bindParams(side, 0, memory.getParams(), bound.data(),
                         uint32_t(bound.size()), data)
                  .failed());
}
