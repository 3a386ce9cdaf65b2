//===- TiedTest.cpp - One table, its copy on the last stage ---------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BoundModel.h"
#include "TinyModels.h"

#include <algorithm>
#include <gmock/gmock.h>

using namespace delta::test;
using testing::Contains;
using testing::Not;
using testing::Optional;

static const std::string Embedding = "embedding.word_embeddings.weight";
static const std::string Head = "output_layer.weight";
static const std::string Tensor = "model.embed_tokens.weight";

static Json tied(const std::string &trainer) {
  return tinyDense(R"({"config": {"tie_word_embeddings": true,
                                  "num_hidden_layers": 4},
                       "trainer": )" +
                   trainer + "}");
}

/// Each row has one owner, the first stage; the copy on the last stage is
/// nobody's source.
static void expectOneOwner(const CompiledModel &model, uint32_t lastRank,
                           uint32_t lastChunk) {
  for (int64_t row = 0; row < 8; ++row) {
    EXPECT_THAT(model.rowOf(0, Embedding, row),
                Optional(Element{Tensor, {row}}));
    EXPECT_EQ(model.sourcesOf(Tensor, {row, 2}),
              std::vector<Place>({{0, 0, Embedding, {row, 2}}}));
    EXPECT_EQ(model.numSendersOf(Tensor, {row, 2}), 1u);
    EXPECT_EQ(model.hfOf(lastRank, lastChunk, Head, {row, 2}), std::nullopt);
  }
  EXPECT_TRUE(
      model
          .params(DELTA_SOURCE,
                  lastRank)[model.find(DELTA_SOURCE, lastRank, lastChunk, Head)]
          .isCopy);
}

// Case 10.
TEST(TiedTest, MiddleStagesHoldNoTableOfFour) {
  const CompiledModel model(tied(R"({"pp": 4})"));
  expectOneOwner(model, /*lastRank=*/3, /*lastChunk=*/0);
  for (uint32_t rank : {1u, 2u}) {
    EXPECT_THAT(model.names(DELTA_SOURCE, rank), Not(Contains(Embedding)));
    EXPECT_THAT(model.names(DELTA_SOURCE, rank), Not(Contains(Head)));
  }
  EXPECT_THAT(model.names(DELTA_SOURCE, 0), Not(Contains(Head)));
  EXPECT_THAT(model.names(DELTA_SOURCE, 3), Not(Contains(Embedding)));
}

// Case 10: the last chunk of the last stage, not the last stage.
TEST(TiedTest, CopyIsOnTheLastVirtualStageAlone) {
  const CompiledModel model(tied(R"({"pp": 2, "vpp": 2})"));
  expectOneOwner(model, /*lastRank=*/1, /*lastChunk=*/1);
  for (uint32_t rank : {0u, 1u})
    for (uint32_t chunk : {0u, 1u}) {
      if (rank != 0 || chunk != 0) {
        EXPECT_THAT(model.names(DELTA_SOURCE, rank, chunk),
                    Not(Contains(Embedding)));
      }
      if (rank != 1 || chunk != 1) {
        EXPECT_THAT(model.names(DELTA_SOURCE, rank, chunk),
                    Not(Contains(Head)));
      }
    }
}

// Case 10: a step changes both copies, and the delta has the element once.
TEST(TiedTest, CopyIsNeverASecondEntryOfADelta) {
  const CompiledModel model(tied(R"({"pp": 4})"));
  BoundModel ranks(model);
  ranks.seed(1);
  ranks.source(0).set(Embedding, {6, 1}, 0x1234);
  ranks.source(3).set(Head, {6, 1}, 0x1234);
  EXPECT_EQ(ranks.sync(2).changed, 1u);
  EXPECT_EQ(ranks.destination(0).get(Tensor, {6, 1}), 0x1234u);
}

// Case 11: one emission, no second name. One rank holds one table.
TEST(TiedTest, OneTensorHasOneName) {
  for (const char *trainer : {R"({"pp": 2})", R"({})"}) {
    const CompiledModel model(tied(trainer));
    std::vector<std::string> names = model.names(DELTA_HF, 0);
    EXPECT_EQ(std::count(names.begin(), names.end(), Tensor), 1);
    EXPECT_THAT(names, Not(Contains("lm_head.weight")));
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  }
}

// Case 10, the other way round: a trainer that receives keeps both copies.
TEST(TiedTest, CopyOfTheDestinationReceives) {
  Json json = tied(R"({"tp": 2})");
  json["rollout"] = {
      {"engine", "megatron"}, {"pp", 2}, {"vpp", 2}, {"vocab_multiple", 4}};
  const CompiledModel model(json);
  EXPECT_EQ(
      model.destinationsOf(1, 0, Embedding, {1, 3}),
      std::vector<Place>({{0, 0, Embedding, {5, 3}}, {1, 1, Head, {5, 3}}}));
  BoundModel ranks(model);
  ranks.seed(1);
  ranks.source(1).set(Embedding, {1, 3}, 0x4040);
  ranks.sync(2);
  EXPECT_EQ(ranks.destination(0).get(Embedding, {5, 3}), 0x4040u);
  EXPECT_EQ(ranks.destination(1).get(Head, {5, 3}, /*chunk=*/1), 0x4040u);
}

// Untied models with stages have two tables with two owners.
TEST(TiedTest, UntiedTablesAreTwo) {
  const CompiledModel model(tinyDense(R"({"trainer": {"pp": 2}})"));
  EXPECT_EQ(model.sourcesOf(Tensor, {6, 1}),
            std::vector<Place>({{0, 0, Embedding, {6, 1}}}));
  EXPECT_EQ(model.sourcesOf("lm_head.weight", {6, 1}),
            std::vector<Place>({{1, 0, Head, {6, 1}}}));
}
