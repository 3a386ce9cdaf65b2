//===- VocabularyTest.cpp - Padding of embedding and output ---------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BoundModel.h"
#include "TinyModels.h"

#include <gmock/gmock.h>

using namespace delta::test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Optional;

static const std::string Embedding = "embedding.word_embeddings.weight";
static const std::string Head = "output_layer.weight";

/// Ten rows, padded to 16 for two ranks.
static Json padded() {
  return tinyDense(R"({"config": {"vocab_size": 10}, "trainer": {"tp": 2}})");
}

// Case 7.
TEST(VocabularyTest, PaddedRowsHaveNoImage) {
  const CompiledModel model(padded());
  for (auto [param, tensor] :
       {std::pair(Embedding, "model.embed_tokens.weight"),
        std::pair(Head, "lm_head.weight")}) {
    EXPECT_EQ(model.shapeOf(DELTA_SOURCE, 1, 0, param), Index({8, 4}));
    EXPECT_EQ(model.shapeOf(DELTA_HF, 0, 0, tensor), Index({10, 4}));
    EXPECT_THAT(model.rowOf(0, param, 7), Optional(Element{tensor, {7}}));
    EXPECT_THAT(model.rowOf(1, param, 0), Optional(Element{tensor, {8}}));
    EXPECT_THAT(model.rowOf(1, param, 1), Optional(Element{tensor, {9}}));
    for (int64_t row = 2; row < 8; ++row)
      EXPECT_EQ(model.rowOf(1, param, row), std::nullopt);
  }
}

// Case 7: what has no image is not worth a byte.
TEST(VocabularyTest, ChangeOfAPaddedRowGivesAnEmptyDelta) {
  const CompiledModel model(padded());
  BoundModel ranks(model);
  for (uint32_t rank : {0u, 1u})
    ranks.source(rank).fill([](size_t p, int64_t i) { return p * 100 + i; });
  ranks.seed(1);
  const delta_sync_stats_t unchanged = ranks.sync(2);
  for (const std::string &param : {Embedding, Head}) {
    ranks.source(1).set(param, {5, 0}, 0x7fc0);
    ranks.source(1).set(param, {5, 3}, 0x1234);
  }
  const delta_sync_stats_t stats = ranks.sync(3);
  EXPECT_EQ(stats.changed, 0u);
  EXPECT_EQ(stats.message_bytes, unchanged.message_bytes);
  ranks.source(1).set(Embedding, {1, 3}, 0x4321);
  EXPECT_EQ(ranks.sync(4).changed, 1u);
  EXPECT_EQ(ranks.destination(0).get("model.embed_tokens.weight", {9, 3}),
            0x4321u);
}

// Case 7, to a trainer with other padding: rows move, padding does not.
TEST(VocabularyTest, PaddingOfTheDestinationIsItsOwn) {
  Json json = padded();
  json["rollout"] = {{"engine", "megatron"}, {"vocab_multiple", 3}};
  const CompiledModel model(json);
  EXPECT_EQ(model.shapeOf(DELTA_DESTINATION, 0, 0, Embedding), Index({12, 4}));
  for (const std::string &param : {Embedding, Head}) {
    EXPECT_EQ(model.destinationsOf(1, 0, param, {1, 2}),
              std::vector<Place>({{0, 0, param, {9, 2}}}));
    EXPECT_TRUE(model.destinationsOf(1, 0, param, {2, 2}).empty());
  }
  BoundModel ranks(model);
  for (uint32_t rank : {0u, 1u})
    ranks.source(rank).fill([](size_t, int64_t) { return 0x3f80; });
  ranks.destination(0).fill([](size_t, int64_t) { return 0x7fc0; });
  ranks.seed(1);
  EXPECT_EQ(ranks.destination(0).get(Embedding, {9, 3}), 0x3f80u);
  // Padding is zeroed when receivers are seeded.
  EXPECT_EQ(ranks.destination(0).get(Embedding, {10, 0}), 0u);
  EXPECT_EQ(ranks.destination(0).get(Head, {11, 3}), 0u);
}

// Case 8: eight rows over two ranks are four a rank, and never sixteen in all.
TEST(VocabularyTest, ShardIsNotMultipliedByTensorRanksAgain) {
  const CompiledModel model(tinyDense(R"({"trainer": {"tp": 2}})"));
  EXPECT_EQ(model.shapeOf(DELTA_HF, 0, 0, "model.embed_tokens.weight"),
            Index({8, 4}));
  EXPECT_THAT(model.rowOf(1, Embedding, 0),
              Optional(Element{"model.embed_tokens.weight", {4}}));
  RankParams params(model, DELTA_SOURCE, 1);
  EXPECT_EQ(bindSender(model, 1, params), "");
}

// Case 8: a shape that is no shard of it.
TEST(VocabularyTest, TableOfTheWrongHeightIsRefusedWithBothShapes) {
  const CompiledModel model(tinyDense(R"({"trainer": {"tp": 2}})"));
  for (int64_t rows : {8, 6, 3}) {
    RankParams params(model, DELTA_SOURCE, 1);
    params.find(Embedding).shape[0] = rows;
    EXPECT_THAT(bindSender(model, 1, params),
                AllOf(HasSubstr(Embedding),
                      HasSubstr("[" + std::to_string(rows) + ", 4]"),
                      HasSubstr("[4, 4]")));
  }
}
