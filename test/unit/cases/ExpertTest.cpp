//===- ExpertTest.cpp - Gates, stacks, shared experts ---------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BoundModel.h"
#include "TinyModels.h"

#include <fstream>
#include <gmock/gmock.h>

using namespace delta::test;
using testing::HasSubstr;
using testing::Optional;

static const std::string Experts = "decoder.layers.0.mlp.experts.";
static const std::string Checkpoint = "model.layers.0.mlp.";

static std::string readFamily(const std::string &name) {
  std::ifstream file(DELTA_TEST_MODELS "/" + name + ".mlir");
  std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_FALSE(text.empty());
  return text;
}

/// `text` without the first line that has `what`.
static std::string without(const std::string &text, const std::string &what) {
  const size_t at = text.find(what);
  if (at == std::string::npos)
    throw std::out_of_range(what);
  const size_t begin = text.rfind('\n', at) + 1;
  return text.substr(0, begin) + text.substr(text.find('\n', at) + 1);
}

// Case 18, dense: each rank has its part of the gate, then its part of the up
// projection; a cut of the joined rows in the middle mixes them.
TEST(GateUpTest, DenseRankHoldsItsGateThenItsUp) {
  const CompiledModel model(tinyDense(R"({"trainer": {"tp": 2}})"));
  const std::string name = "decoder.layers.0.mlp.linear_fc1.weight";
  const std::string gate = Checkpoint + "gate_proj.weight";
  const std::string up = Checkpoint + "up_proj.weight";
  const Element rows[2][4] = {{{gate, {0}}, {gate, {1}}, {up, {0}}, {up, {1}}},
                              {{gate, {2}}, {gate, {3}}, {up, {2}}, {up, {3}}}};
  for (uint32_t t : {0u, 1u})
    for (int64_t row = 0; row < 4; ++row)
      EXPECT_THAT(model.rowOf(t, name, row), Optional(rows[t][row]));
}

// Cases 18 and 21: the same for experts under expert tensor parallelism, where
// a shard is no whole tensor of the checkpoint.
TEST(GateUpTest, ExpertRankHoldsItsGateThenItsUp) {
  const CompiledModel model(tinyExperts(R"({
    "config": {"hidden_size": 2}, "trainer": {"tp": 2, "etp": 2}})"));
  for (uint32_t expert : {0u, 1u}) {
    const std::string number = std::to_string(expert);
    const std::string tensors = Checkpoint + "experts." + number + ".";
    const std::string fc1 = Experts + "linear_fc1.weight" + number;
    const std::string fc2 = Experts + "linear_fc2.weight" + number;
    const Element rows[] = {{tensors + "gate_proj.weight", {2}},
                            {tensors + "gate_proj.weight", {3}},
                            {tensors + "up_proj.weight", {2}},
                            {tensors + "up_proj.weight", {3}}};
    for (int64_t row = 0; row < 4; ++row)
      EXPECT_THAT(model.rowOf(1, fc1, row), Optional(rows[row]));
    for (int64_t row : {0, 1})
      for (int64_t column : {0, 1})
        EXPECT_THAT(
            model.hfOf(1, fc2, {row, column}),
            Optional(Element{tensors + "down_proj.weight", {row, column + 2}}));
    EXPECT_EQ(model.shapeOf(DELTA_HF, 0, 0, tensors + "gate_proj.weight"),
              Index({4, 2}));
    EXPECT_EQ(model.shapeOf(DELTA_HF, 0, 0, tensors + "down_proj.weight"),
              Index({2, 4}));
  }
}

// Gated experts when expert tensor parallelism changes: gate rows and up rows
// are regrouped, not one block of rows cut anew.
TEST(GateUpTest, ExpertRowsAreRegroupedWhenExpertRanksChange) {
  const CompiledModel model(tinyExperts(R"({
    "trainer": {"tp": 2, "etp": 2},
    "rollout": {"engine": "megatron", "vocab_multiple": 4}})"));
  const std::string name = Experts + "linear_fc1.weight1";
  // Local rows: two of the gate, two of the up projection. On one rank the
  // gate has rows 0 to 3 and the up projection rows 4 to 7.
  const int64_t rows[2][4] = {{0, 1, 4, 5}, {2, 3, 6, 7}};
  for (uint32_t x : {0u, 1u})
    for (int64_t row = 0; row < 4; ++row)
      EXPECT_EQ(model.destinationsOf(x, 0, name, {row, 1}),
                std::vector<Place>({{0, 0, name, {rows[x][row], 1}}}));
}

// Case 20: a checkpoint that stacks experts needs all of them.
TEST(ExpertTest, EveryExpertOfAStackArrives) {
  for (const char *trainer : {R"({})", R"({"ep": 2})"}) {
    const CompiledModel model(tinyBiased(R"({"config": {"num_local_experts": 4},
                       "trainer": )" + std::string(trainer) +
                                         "}"));
    const std::string tensor = Checkpoint + "experts.gate_up_proj";
    const Index shape = {4, 4, 4};
    ASSERT_EQ(model.shapeOf(DELTA_HF, 0, 0, tensor), shape);
    BoundModel ranks(model);
    const uint32_t numRanks = model.numRanks(DELTA_SOURCE);
    const int64_t perRank = 4 / numRanks;
    for (int64_t expert = 0; expert < 4; ++expert)
      for (int64_t row = 0; row < 4; ++row)
        for (int64_t column = 0; column < 4; ++column)
          ranks.source(uint32_t(expert / perRank))
              .set(Experts + "linear_fc1.weight" +
                       std::to_string(expert % perRank),
                   {row, column},
                   uint64_t(1 + expert * 100 + row * 10 + column));
    const delta_sync_stats_t stats = ranks.seed(1);
    // Gate rows 0 and 1 are columns 0 and 2, up rows 2 and 3 columns 1 and 3.
    for (int64_t expert = 0; expert < 4; ++expert)
      for (int64_t row = 0; row < 4; ++row)
        for (int64_t column = 0; column < 4; ++column)
          EXPECT_EQ(ranks.destination(0).get(
                        tensor, {expert, column, 2 * (row % 2) + row / 2}),
                    uint64_t(1 + expert * 100 + row * 10 + column));
    uint64_t total = 0;
    for (const ParamDescription &param : model.params(DELTA_HF, 0)) {
      uint64_t count = 1;
      for (int64_t size : param.shape)
        count *= uint64_t(size);
      total += count;
    }
    EXPECT_EQ(stats.changed, total);
    // Four elements, one of each expert; every one arrives alone.
    for (int64_t expert = 0; expert < 4; ++expert) {
      ranks.source(uint32_t(expert / perRank))
          .set(Experts + "linear_fc1.weight" + std::to_string(expert % perRank),
               {3, 2}, 0x7f80);
      EXPECT_EQ(ranks.sync(uint64_t(expert) + 2).changed, 1u);
      EXPECT_EQ(ranks.destination(0).get(tensor, {expert, 2, 3}), 0x7f80u);
    }
  }
}

// Case 23: gate and up alternate, input features come first; the bias too.
TEST(ExpertTest, StackedExpertsInterleaveGateAndUp) {
  const CompiledModel model(tinyBiased(R"({"config": {"hidden_size": 2}})"));
  const std::string tensor = Checkpoint + "experts.gate_up_proj";
  const std::string fc1 = Experts + "linear_fc1.weight0";
  EXPECT_EQ(model.shapeOf(DELTA_HF, 0, 0, tensor), Index({1, 2, 4}));
  EXPECT_THAT(model.hfOf(0, fc1, {1, 0}), Optional(Element{tensor, {0, 0, 2}}));
  EXPECT_THAT(model.hfOf(0, fc1, {2, 0}), Optional(Element{tensor, {0, 0, 1}}));
  EXPECT_THAT(model.hfOf(0, fc1, {3, 1}), Optional(Element{tensor, {0, 1, 3}}));
  const std::string bias = Experts + "linear_fc1.bias0";
  EXPECT_EQ(model.shapeOf(DELTA_HF, 0, 0, tensor + "_bias"), Index({1, 4}));
  EXPECT_THAT(model.hfOf(0, bias, {1}),
              Optional(Element{tensor + "_bias", {0, 2}}));
  EXPECT_THAT(model.hfOf(0, bias, {2}),
              Optional(Element{tensor + "_bias", {0, 1}}));
}

// Case 23 under expert tensor parallelism. The family refuses it, because a
// bias that is added on every rank cannot be split; the map is as it must be.
TEST(ExpertTest, InterleavedShardKeepsItsPairsTogether) {
  const Json json = tinyBiased(R"({
    "config": {"hidden_size": 2}, "trainer": {"tp": 2, "etp": 2}})");
  const CompiledModel refused(json);
  EXPECT_EQ(refused.exitCode(), 1);
  EXPECT_THAT(refused.messages(),
              HasSubstr("experts with biases are not split over etp"));
  const CompiledModel model(
      json, without(readFamily("gpt_oss"), "delta.require etp == 1"));
  const std::string tensor = Checkpoint + "experts.gate_up_proj";
  const std::string fc1 = Experts + "linear_fc1.weight0";
  for (int64_t column : {0, 1}) {
    EXPECT_THAT(model.hfOf(1, fc1, {0, column}),
                Optional(Element{tensor, {0, column, 2}}));
    EXPECT_THAT(model.hfOf(1, fc1, {1, column}),
                Optional(Element{tensor, {0, column, 3}}));
  }
}

// Case 25: experts one by one or in a grouped GEMM have other names and the
// same map.
TEST(ExpertTest, GroupedAndSequentialExpertsHaveTheSameMap) {
  const char *trainer = R"({"trainer": {"ep": 2, "experts": ")";
  const CompiledModel grouped(
      tinyExperts(std::string(trainer) + R"(grouped"}})")),
      sequential(tinyExperts(std::string(trainer) + R"(sequential"}})"));
  for (uint32_t rank : {0u, 1u}) {
    // Two experts, one a rank: local number 0, global number `rank`.
    const std::string tensors =
        Checkpoint + "experts." + std::to_string(rank) + ".";
    for (const auto &[model, fc1, fc2] :
         {std::tuple(&grouped, "linear_fc1.weight0", "linear_fc2.weight0"),
          std::tuple(&sequential, "local_experts.0.linear_fc1.weight",
                     "local_experts.0.linear_fc2.weight")}) {
      for (int64_t row = 0; row < 8; ++row)
        EXPECT_THAT(model->rowOf(rank, Experts + fc1, row),
                    Optional(Element{tensors + (row < 4 ? "gate" : "up") +
                                         "_proj.weight",
                                     {row % 4}}));
      for (int64_t row = 0; row < 4; ++row)
        EXPECT_THAT(model->rowOf(rank, Experts + fc2, row),
                    Optional(Element{tensors + "down_proj.weight", {row}}));
    }
  }
  EXPECT_EQ(grouped.names(DELTA_HF, 0), sequential.names(DELTA_HF, 0));
}

// Case 25: keys of the other kind are not skipped.
TEST(ExpertTest, GroupedNamesDoNotFitSequentialExperts) {
  const CompiledModel grouped(tinyExperts("{}"));
  const CompiledModel sequential(
      tinyExperts(R"({"trainer": {"experts": "sequential"}})"));
  RankParams params(grouped, DELTA_SOURCE, 0);
  EXPECT_EQ(bindSender(grouped, 0, params), "");
  EXPECT_THAT(bindSender(sequential, 0, params),
              HasSubstr("local_experts.0.linear_fc1.weight"));
}

// Case 25: a parameter that goes nowhere stops the compiler.
TEST(ExpertTest, ParameterWithoutATargetIsAnErrorByName) {
  const CompiledModel model(tinyExperts("{}"),
                            without(readFamily("qwen3_moe"),
                                    "delta.tensor \"input_layernorm.weight\""));
  EXPECT_EQ(model.exitCode(), 1);
  EXPECT_TRUE(model.wroteNothing());
  EXPECT_THAT(model.messages(),
              HasSubstr("decoder.layers.{layer}.self_attention.linear_qkv."
                        "layer_norm_weight"));
}

/// Two routed experts and a shared one, in a hybrid's expert layer.
static Json shared(const std::string &trainer) {
  return tinyHybrid(R"({
    "config": {"hybrid_override_pattern": "E", "n_routed_experts": 2,
               "moe_intermediate_size": 2, "n_shared_experts": 1,
               "moe_shared_expert_intermediate_size": 2},
    "trainer": )" + trainer +
                    "}");
}

// Case 26: "experts." inside "shared_experts." is another word.
TEST(ExpertTest, SharedExpertIsNoRoutedExpert) {
  const CompiledModel model(shared(R"({"tp": 2, "ep": 2})"));
  const std::string mixer = "backbone.layers.0.mixer.";
  std::vector<std::string> names;
  for (const std::string &name : model.names(DELTA_HF, 0))
    if (name.find("experts.") != std::string::npos &&
        name.find("down_proj") != std::string::npos)
      names.push_back(name.substr(mixer.size()));
  EXPECT_THAT(names,
              testing::UnorderedElementsAre("shared_experts.down_proj.weight",
                                            "experts.0.down_proj.weight",
                                            "experts.1.down_proj.weight"));
  EXPECT_EQ(
      model.shapeOf(DELTA_HF, 0, 0, mixer + "shared_experts.down_proj.weight"),
      Index({4, 2}));
  // The shared expert is split over tp, routed ones are whole on a rank of ep.
  EXPECT_THAT(
      model.hfOf(1,
                 "decoder.layers.0.mlp.shared_experts.linear_fc2."
                 "weight",
                 {3, 0}),
      Optional(Element{mixer + "shared_experts.down_proj.weight", {3, 1}}));
  EXPECT_THAT(model.hfOf(1, Experts + "linear_fc2.weight0", {3, 1}),
              Optional(Element{mixer + "experts.1.down_proj.weight", {3, 1}}));
}
