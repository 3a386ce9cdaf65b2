//===- AttentionTest.cpp - Fused projections, head by head ----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BoundModel.h"
#include "TinyModels.h"

#include <gmock/gmock.h>

using namespace delta::test;
using testing::HasSubstr;
using testing::Optional;

static const std::string Attention = "decoder.layers.0.self_attention.";
static const std::string Checkpoint = "model.layers.0.self_attn.";

/// Row `row` of the q, k or v projection.
static Element head(char which, int64_t row) {
  return {Checkpoint + which + "_proj.weight", {row}};
}

// Case 3: a fork fuses the output gate too and calls the result linear_qgkv.
// Its config says so, and the compiler stops; without that, bind does.
TEST(AttentionTest, UnknownFusedProjectionIsRefusedByName) {
  const CompiledModel gated(tinyDense(R"({"config": {"attn_output_gate":
                                                     true}})"));
  EXPECT_EQ(gated.exitCode(), 1);
  EXPECT_THAT(gated.messages(),
              HasSubstr("gates beside the queries are not mapped"));
  const CompiledModel model(tinyDense("{}"));
  RankParams params(model, DELTA_SOURCE, 0);
  ASSERT_EQ(bindSender(model, 0, params), "");
  const std::string name = Attention + "linear_qgkv.weight";
  std::vector<uint16_t> memory(16 * 4);
  delta_param_t extra = params.find(Attention + "linear_qkv.weight");
  extra.name = name.c_str();
  extra.shape[0] = 16;
  extra.data = memory.data();
  params.bound().push_back(extra);
  EXPECT_THAT(bindSender(model, 0, params), HasSubstr("\"" + name + "\""));
}

// Case 5: groups of two query heads, their key and their value.
TEST(AttentionTest, QueryKeyAndValueComeOutInHeadOrder) {
  const CompiledModel model(tinyDense(R"({
    "config": {"num_attention_heads": 4}, "trainer": {"tp": 2}})"));
  for (int64_t t : {0, 1}) {
    const Element rows[] = {head('q', 4 * t),     head('q', 4 * t + 1),
                            head('q', 4 * t + 2), head('q', 4 * t + 3),
                            head('k', 2 * t),     head('k', 2 * t + 1),
                            head('v', 2 * t),     head('v', 2 * t + 1)};
    for (int64_t row = 0; row < 8; ++row)
      EXPECT_THAT(
          model.rowOf(uint32_t(t), Attention + "linear_qkv.weight", row),
          Optional(rows[row]));
  }
  EXPECT_EQ(model.shapeOf(DELTA_HF, 0, 0, Checkpoint + "q_proj.weight"),
            Index({8, 4}));
  EXPECT_EQ(model.shapeOf(DELTA_HF, 0, 0, Checkpoint + "k_proj.weight"),
            Index({4, 4}));
}

// Case 5: four ways to two. Ways 0 and 2 hold queries alone, 1 and 3 keys and
// values; a destination shard is a whole group.
TEST(AttentionTest, HalvesOfAGroupAreJoinedWhenTensorRanksHalve) {
  const CompiledModel model(tinyDense(R"({
    "config": {"num_attention_heads": 4}, "trainer": {"tp": 4},
    "rollout": {"engine": "megatron", "tp": 2, "vocab_multiple": 4}})"));
  const std::string name = Attention + "linear_qkv.weight";
  for (uint32_t rank = 0; rank < 4; ++rank)
    for (int64_t row = 0; row < 4; ++row)
      EXPECT_EQ(
          model.destinationsOf(rank, 0, name, {row, 3}),
          std::vector<Place>({{rank / 2, 0, name, {4 * (rank % 2) + row, 3}}}));
  EXPECT_THAT(model.rowOf(0, name, 3), Optional(head('q', 3)));
  EXPECT_THAT(model.rowOf(1, name, 0), Optional(head('k', 0)));
  EXPECT_THAT(model.rowOf(1, name, 2), Optional(head('v', 0)));
  EXPECT_THAT(model.rowOf(3, name, 1), Optional(head('k', 3)));
}

// Case 6: offsets inside a fused bias count elements, not rows of a matrix.
TEST(AttentionTest, FusedBiasIsMappedAsTheWeightWithoutColumns) {
  const CompiledModel model(tinyBiased(R"({
    "config": {"num_key_value_heads": 1}})"));
  const std::string bias = Attention + "linear_qkv.bias";
  EXPECT_EQ(model.shapeOf(DELTA_SOURCE, 0, 0, bias), Index({8}));
  EXPECT_THAT(model.hfOf(0, bias, {3}),
              Optional(Element{Checkpoint + "q_proj.bias", {3}}));
  EXPECT_THAT(model.hfOf(0, bias, {4}),
              Optional(Element{Checkpoint + "k_proj.bias", {0}}));
  EXPECT_THAT(model.hfOf(0, bias, {5}),
              Optional(Element{Checkpoint + "k_proj.bias", {1}}));
  EXPECT_THAT(model.hfOf(0, bias, {6}),
              Optional(Element{Checkpoint + "v_proj.bias", {0}}));
  EXPECT_EQ(model.sourcesOf(Checkpoint + "k_proj.bias", {1}),
            std::vector<Place>({{0, 0, bias, {5}}}));
}

// Case 6: the delta itself.
TEST(AttentionTest, ChangeOfOneKeyBiasIsOneElement) {
  const CompiledModel model(tinyBiased(R"({
    "config": {"num_key_value_heads": 1}})"));
  BoundModel ranks(model);
  ranks.source(0).fill([](size_t p, int64_t i) { return p * 1000 + i; });
  ranks.seed(1);
  ranks.source(0).set(Attention + "linear_qkv.bias", {5}, 0xbeef);
  EXPECT_EQ(ranks.sync(2).changed, 1u);
  EXPECT_EQ(ranks.destination(0).get(Checkpoint + "k_proj.bias", {1}), 0xbeefu);
  const uint64_t before =
      ranks.source(0).get(Attention + "linear_qkv.bias", {4});
  EXPECT_EQ(ranks.destination(0).get(Checkpoint + "k_proj.bias", {0}), before);
}

// Case 4: a checkpoint that stacks all queries, all keys, all values, a trainer
// that stacks heads: the permutation comes before the cut, not instead of it.
TEST(AttentionTest, HeadsArePermutedAndCut) {
  const CompiledModel model(tinyDense(R"({
                              "config": {"num_attention_heads": 4,
                                         "num_key_value_heads": 4,
                                         "head_dim": 1},
                              "trainer": {"tp": 2}})"),
                            R"(
    delta.import "blocks.mlir"
    delta.family @permuted model_types ["qwen3"] architectures [] {
      delta.use @sizes
      delta.use @attention_sizes
      delta.decoder config "num_hidden_layers"
      delta.layers where true {
        delta.scope trainer "decoder.layers.{layer}." hf "layers.{layer}." {
          %w = delta.param "query_key_value.weight" [3 * n * d, H] : storage
          %all = delta.unshard %w dim 0 over tp
          %heads = delta.reshape %all [n, 3, d, H]
          %kinds = delta.transpose %heads [1, 0, 2, 3]
          delta.tensor "query_key_value.weight" = %kinds as [3 * n * d, H]
        }
      }
    })");
  const int64_t rows[] = {2, 6, 10, 3, 7, 11};
  for (int64_t row = 0; row < 6; ++row)
    EXPECT_THAT(
        model.rowOf(1, "decoder.layers.0.query_key_value.weight", row),
        Optional(Element{"layers.0.query_key_value.weight", {rows[row]}}));
}
