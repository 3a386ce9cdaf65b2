//===- PredictionTest.cpp - Latent attention and prediction layers --------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BoundModel.h"
#include "TinyModels.h"
#include "runtime/Replicas.h"

#include <gmock/gmock.h>

using namespace delta::test;
using testing::HasSubstr;
using testing::Optional;

static const std::string Table = "embedding.word_embeddings.weight";
static const std::string Inner = "mtp.layers.0.mtp_model_layer.";
static const std::string Saved = "model.layers.2.";

/// Gives every parameter of the inner layer its other name.
static std::vector<std::string> respell(RankParams &params) {
  std::vector<std::string> names;
  names.reserve(params.bound().size());
  for (delta_param_t &param : params.bound()) {
    std::string name = param.name;
    const size_t at = name.find("mtp_model_layer");
    if (at == std::string::npos)
      continue;
    name.replace(at, std::string("mtp_model_layer").size(),
                 "transformer_layer");
    names.push_back(name);
    param.name = names.back().c_str();
  }
  return names;
}

// Case 39: a trainer binds under either spelling, and what it sends is the
// same: layer 0 of the predictions is layer 2 of a checkpoint of two.
TEST(PredictionTest, BothSpellingsBindAndHaveTheSameTensors) {
  const CompiledModel model(tinyLatent("{}"));
  RankParams live(model, DELTA_SOURCE, 0), saved(model, DELTA_SOURCE, 0);
  EXPECT_EQ(bindSender(model, 0, live), "");
  const std::vector<std::string> names = respell(saved);
  EXPECT_GT(names.size(), 10u);
  EXPECT_EQ(bindSender(model, 0, saved), "");
  for (const std::string &layer :
       {Inner, std::string("mtp.layers.0.transformer_layer.")}) {
    EXPECT_THAT(model.rowOf(0, layer + "self_attention.linear_proj.weight", 3),
                Optional(Element{Saved + "self_attn.o_proj.weight", {3}}));
    EXPECT_THAT(
        model.rowOf(0, layer + "mlp.experts.linear_fc2.weight1", 2),
        Optional(Element{Saved + "mlp.experts.1.down_proj.weight", {2}}));
  }
}

// Case 42: predictions that the config declares and the trainer does not have
// are told by name. Without them is another plan, asked for.
TEST(PredictionTest, DeclaredLayerThatTheTrainerLacksIsRefusedByName) {
  const CompiledModel declared(tinyLatent("{}"));
  const CompiledModel partial(tinyLatent(R"({"trainer": {"mtp_layers": 0}})"));
  RankParams params(partial, DELTA_SOURCE, 0);
  EXPECT_THAT(bindSender(declared, 0, params), HasSubstr("\"mtp.layers.0."));
  EXPECT_EQ(bindSender(partial, 0, params), "");
  // What is written is what is listed: no tensor of layer 2, and no copies.
  for (const std::string &name : partial.names(DELTA_HF, 0))
    EXPECT_EQ(name.find(Saved), std::string::npos) << name;
  size_t numSaved = 0;
  for (const std::string &name : declared.names(DELTA_HF, 0))
    numSaved += name.find(Saved) == 0;
  EXPECT_GT(numSaved, 10u);
}

// Case 15: the last stage repeats the table for the predictions. The first is
// its owner; the copy is never sent, and compared.
TEST(PredictionTest, TableOfTheLastStageIsAComparedReplica) {
  const CompiledModel model(tinyLatent(R"({"trainer": {"pp": 2}})"));
  const std::string tensor = "model.embed_tokens.weight";
  EXPECT_EQ(model.sourcesOf(tensor, {5, 1}),
            std::vector<Place>({{0, 0, Table, {5, 1}}}));
  EXPECT_EQ(model.numSendersOf(tensor, {5, 1}), 1u);
  const ParamDescription &copy =
      model.params(DELTA_SOURCE, 1)[model.find(DELTA_SOURCE, 1, 0, Table)];
  EXPECT_TRUE(copy.isCopy);

  BoundModel ranks(model);
  for (uint32_t rank : {0u, 1u})
    ranks.source(rank).fill([](size_t, int64_t i) { return 0x3f00 + i; });
  uint64_t compared = 0;
  EXPECT_FALSE(
      delta::runtime::findReplicaDifference(ranks.replicaSums(9), compared));
  EXPECT_GT(compared, 0u);
  ranks.seed(1);
  ranks.source(1).set(Table, {5, 1}, 0x4000);
  EXPECT_TRUE(
      delta::runtime::findReplicaDifference(ranks.replicaSums(9), compared));
  EXPECT_EQ(ranks.sync(2).changed, 0u);
}

// Case 37: what an engine derives from kv_b_proj has to be derived again after
// every delta, so every delta lands in the same memory, one element or more.
TEST(LatentTest, UpdatesOfTheUpProjectionLandInPlace) {
  const CompiledModel model(tinyLatent(R"({"trainer": {"tp": 2}})"));
  BoundModel ranks(model);
  const std::string param =
      "decoder.layers.1.self_attention.linear_kv_up_proj.weight";
  const std::string tensor = "model.layers.1.self_attn.kv_b_proj.weight";
  for (uint32_t rank : {0u, 1u})
    ranks.source(rank).fill([](size_t p, int64_t i) { return p * 512 + i; });
  ranks.seed(1);
  const void *memory = ranks.destination(0).find(tensor).data;
  const auto expectEqual = [&] {
    // Two heads of one query row and two value rows, one head a rank.
    ASSERT_EQ(model.shapeOf(DELTA_HF, 0, 0, tensor), Index({6, 2}));
    for (int64_t row = 0; row < 6; ++row)
      for (int64_t column : {0, 1})
        EXPECT_EQ(
            ranks.destination(0).get(tensor, {row, column}),
            ranks.source(uint32_t(row / 3)).get(param, {row % 3, column}));
    EXPECT_EQ(ranks.destination(0).find(tensor).data, memory);
  };
  expectEqual();
  for (int64_t row : {0, 1, 2})
    ranks.source(1).set(param, {row, 0}, 0x7000 + uint64_t(row));
  EXPECT_EQ(ranks.sync(2).changed, 3u);
  expectEqual();
  ranks.source(1).set(param, {2, 1}, 0xabcd);
  EXPECT_EQ(ranks.sync(3).changed, 1u);
  EXPECT_EQ(ranks.destination(0).get(tensor, {5, 1}), 0xabcdu);
  expectEqual();
}
