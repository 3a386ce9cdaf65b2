//===- PipelineTest.cpp - Stages, virtual stages, re-binding --------------===//
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

static uint64_t pattern(size_t p, int64_t i) {
  return (p * 2654435761u + size_t(i) * 40503u) >> 3;
}

/// What a step does to every source: another pattern.
static void step(BoundModel &ranks, uint32_t numRanks) {
  for (uint32_t rank = 0; rank < numRanks; ++rank)
    ranks.source(rank).fill([rank](size_t p, int64_t i) {
      return pattern(p, i) ^ uint64_t(i % 3 == 0 ? rank + 1 : 0);
    });
}

// Case 16: memory was given back to training between two syncs. What the plan
// then sends is what a plan that never saw the old memory sends, bit for bit.
TEST(PipelineTest, ReboundBuffersSendTheBytesOfAFreshPlan) {
  const Json json = tinyDense(R"({"trainer": {"pp": 2}})");
  const CompiledModel used(json), fresh(json);
  BoundModel first(used), second(fresh);
  for (uint32_t rank : {0u, 1u})
    first.source(rank).fill(pattern);
  first.seed(1);
  const size_t numBefore = first.messages().size();
  first.rebind(/*garbage=*/0xff, [&] { step(first, 2); });
  first.seed(2);
  step(second, 2);
  second.seed(2);
  ASSERT_EQ(first.messages().size(), 2 * numBefore);
  ASSERT_EQ(second.messages().size(), numBefore);
  for (size_t i = 0; i < numBefore; ++i) {
    EXPECT_EQ(first.messages()[numBefore + i], second.messages()[i]) << i;
    EXPECT_NE(first.messages()[i], second.messages()[i]) << i;
  }
  // And a delta after it.
  for (BoundModel *ranks : {&first, &second}) {
    ranks->source(1).set("decoder.layers.0.mlp.linear_fc2.weight", {3, 2},
                         0x4711);
    EXPECT_EQ(ranks->sync(3).changed, 1u);
    EXPECT_EQ(ranks->destination(0).get("model.layers.1.mlp.down_proj.weight",
                                        {3, 2}),
              0x4711u);
  }
  for (size_t i = 0; i < numBefore; ++i)
    EXPECT_EQ(first.messages()[2 * numBefore + i],
              second.messages()[numBefore + i])
        << i;
}

// Layers count anew on each stage and, with virtual stages, in each chunk:
// layer = (chunk * stages + stage) * layers a chunk + local number.
TEST(PipelineTest, VirtualStagesInterleaveLayers) {
  const CompiledModel model(tinyDense(R"({
    "config": {"num_hidden_layers": 8}, "trainer": {"pp": 2, "vpp": 2}})"));
  for (uint32_t rank : {0u, 1u})
    for (uint32_t chunk : {0u, 1u})
      for (uint32_t local : {0u, 1u}) {
        const uint32_t layer = (chunk * 2 + rank) * 2 + local;
        EXPECT_THAT(model.hfOf(rank, chunk,
                               "decoder.layers." + std::to_string(local) +
                                   ".mlp.linear_fc2.weight",
                               {1, 3}),
                    Optional(Element{"model.layers." + std::to_string(layer) +
                                         ".mlp.down_proj.weight",
                                     {1, 3}}));
      }
}

// A destination with virtual stages: its second chunk is written too.
TEST(PipelineTest, EveryChunkOfTheDestinationReceives) {
  const CompiledModel model(tinyDense(R"({
    "config": {"num_hidden_layers": 4}, "trainer": {"tp": 2},
    "rollout": {"engine": "megatron", "pp": 2, "vpp": 2,
                "vocab_multiple": 4}})"));
  const std::string name = ".mlp.linear_fc2.weight";
  for (uint32_t layer = 0; layer < 4; ++layer)
    EXPECT_EQ(
        model.destinationsOf(
            1, 0, "decoder.layers." + std::to_string(layer) + name, {2, 1}),
        std::vector<Place>(
            {{layer % 2, layer / 2, "decoder.layers.0" + name, {2, 3}}}));
  BoundModel ranks(model);
  for (uint32_t rank : {0u, 1u})
    ranks.source(rank).fill([](size_t, int64_t) { return 0x3f80; });
  ranks.seed(1);
  for (uint32_t rank : {0u, 1u})
    for (const ParamDescription &param : model.params(DELTA_DESTINATION, rank))
      for (int64_t i = 0; i < param.shape.front(); ++i) {
        Index index(param.shape.size(), param.shape.back() - 1);
        index.front() = i;
        EXPECT_EQ(ranks.destination(rank).get(param.names.front(), index,
                                              param.chunk),
                  0x3f80u)
            << param.names.front();
      }
}

// Uneven stages, an empty chunk in the middle.
TEST(PipelineTest, UnevenChunksMayBeEmpty) {
  const CompiledModel model(tinyDense(R"({
    "config": {"num_hidden_layers": 5},
    "trainer": {"pp": 2, "vpp": 2, "pp_layout": [[1, 3], [0, 1]]}})"));
  const std::string name = ".mlp.linear_fc2.weight";
  EXPECT_THAT(model.names(DELTA_SOURCE, 1, 0), testing::IsEmpty());
  EXPECT_THAT(model.hfOf(0, 1, "decoder.layers.2" + name, {0, 0}),
              Optional(Element{"model.layers.3.mlp.down_proj.weight", {0, 0}}));
  EXPECT_THAT(model.hfOf(1, 1, "decoder.layers.0" + name, {0, 0}),
              Optional(Element{"model.layers.4.mlp.down_proj.weight", {0, 0}}));
}

// A layout that does not sum to the layers.
TEST(PipelineTest, LayoutWithALayerTooManyIsRefusedWithBothNumbers) {
  const CompiledModel model(tinyDense(R"({
    "config": {"num_hidden_layers": 5},
    "trainer": {"pp": 2, "pp_layout": [3, 3]}})"));
  EXPECT_EQ(model.exitCode(), 1);
  EXPECT_TRUE(model.wroteNothing());
  EXPECT_THAT(model.messages(), HasSubstr("error: "));
  EXPECT_THAT(model.messages(), HasSubstr("6"));
  EXPECT_THAT(model.messages(), HasSubstr("5"));
}
