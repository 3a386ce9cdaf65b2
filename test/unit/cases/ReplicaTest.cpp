//===- ReplicaTest.cpp - Trainer ranks that hold different values ---------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BoundModel.h"
#include "TinyModels.h"

#include "runtime/Replicas.h"

#include <gtest/gtest.h>

using namespace delta::test;

static const std::string Embedding = "embedding.word_embeddings.weight";
static const std::string Head = "output_layer.weight";
static const std::string Norm =
    "decoder.layers.1.self_attention.linear_qkv.layer_norm_weight";

static Json trained(const std::string &trainer, const std::string &config) {
  return tinyDense(R"({"config": )" + config + R"(, "trainer": )" + trainer +
                   "}");
}

/// What is said of the replicas; empty: all agree. At least one is compared.
static std::string differenceOf(const CompiledModel &model, BoundModel &ranks) {
  uint64_t compared = 0;
  const auto difference = delta::runtime::findReplicaDifference(
      ranks.replicaSums(/*key=*/9), compared);
  EXPECT_GT(compared, 0u);
  if (!difference)
    return "";
  return describe(*model.api().tables, *difference,
                  [&](const delta::runtime::ReplicaHolder &holder) {
                    const ParamDescription &param =
                        model.params(DELTA_SOURCE, holder.rank)[holder.param];
                    return ranks.source(holder.rank)
                        .find(param.names.front(), param.chunk)
                        .data;
                  });
}

/// Element i of every parameter has the same bits on all ranks.
static void fillAlike(BoundModel &ranks, uint32_t numRanks) {
  for (uint32_t rank = 0; rank < numRanks; ++rank)
    ranks.source(rank).fill([](size_t, int64_t i) { return 0x3f00 + i; });
}

// Case 83.
TEST(ReplicaTest, NormOfTwoTensorRanksDiffersInOneElement) {
  const CompiledModel model(trained(R"({"tp": 2})", "{}"));
  BoundModel ranks(model);
  fillAlike(ranks, 2);
  EXPECT_EQ(differenceOf(model, ranks), "");
  ranks.source(1).set(Norm, {2}, 0x4242);
  EXPECT_EQ(differenceOf(model, ranks),
            "replicas of tensor \"model.layers.1.input_layernorm.weight\" "
            "differ: \"" +
                Norm + "\" of rank 0 against \"" + Norm +
                "\" of rank 1; first element [2]: \"" + Norm +
                "\"[2] of rank 0 is 0x3f02, \"" + Norm +
                "\"[2] of rank 1 is 0x4242");
}

// Case 83, with data parallel ranks: all of a shard is replicated.
TEST(ReplicaTest, OneOfFourDataParallelRanksDiffers) {
  const CompiledModel model(trained(R"({"dp": 4})", "{}"));
  BoundModel ranks(model);
  fillAlike(ranks, 4);
  EXPECT_EQ(differenceOf(model, ranks), "");
  ranks.source(2).set(Embedding, {5, 3}, 0x0001);
  EXPECT_EQ(differenceOf(model, ranks),
            "replicas of tensor \"model.embed_tokens.weight\" differ: \"" +
                Embedding + "\" of rank 0, 1, 3 against \"" + Embedding +
                "\" of rank 2; first element [5, 3]: \"" + Embedding +
                "\"[5, 3] of rank 0 is 0x3f17, \"" + Embedding +
                "\"[5, 3] of rank 2 is 0x0001");
}

// Case 10: the copy of a tied table is a replica of it.
static void expectTiedCopyIsCompared(const std::string &trainer,
                                     uint32_t numRanks, uint32_t lastRank,
                                     uint32_t lastChunk) {
  const CompiledModel model(trained(
      trainer, R"({"tie_word_embeddings": true, "num_hidden_layers": 4})"));
  BoundModel ranks(model);
  fillAlike(ranks, numRanks);
  EXPECT_EQ(differenceOf(model, ranks), "");
  ranks.source(lastRank).set(Head, {6, 1}, 0x4000, lastChunk);
  const std::string last = " of rank " + std::to_string(lastRank);
  EXPECT_EQ(differenceOf(model, ranks),
            "replicas of tensor \"model.embed_tokens.weight\" differ: \"" +
                Embedding + "\" of rank 0 against \"" + Head + "\"" + last +
                "; first element [6, 1]: \"" + Embedding +
                "\"[6, 1] of rank 0 is 0x3f19, \"" + Head + "\"[6, 1]" + last +
                " is 0x4000");
  // Both copies alike, and the other one alone.
  ranks.source(0).set(Embedding, {6, 1}, 0x4000);
  EXPECT_EQ(differenceOf(model, ranks), "");
  ranks.source(0).set(Embedding, {0, 0}, 0x4000);
  EXPECT_NE(differenceOf(model, ranks), "");
}

TEST(ReplicaTest, TiedCopyOnTheLastOfFourStages) {
  expectTiedCopyIsCompared(R"({"pp": 4})", 4, /*lastRank=*/3, /*lastChunk=*/0);
}

TEST(ReplicaTest, TiedCopyInTheLastVirtualStage) {
  expectTiedCopyIsCompared(R"({"pp": 2, "vpp": 2})", 2, /*lastRank=*/1,
                           /*lastChunk=*/1);
}
