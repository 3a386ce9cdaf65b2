//===- MixerTest.cpp - Hybrid layers: Mamba sections, router bias ---------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BoundModel.h"
#include "TinyModels.h"

#include <cstring>
#include <gmock/gmock.h>

using namespace delta::test;
using testing::HasSubstr;
using testing::Optional;

static const std::string Mixer = "decoder.layers.0.mixer.";
static const std::string Checkpoint = "backbone.layers.0.mixer.";

// Case 31: z, x, B, C and dt are split one by one; so are x, B and C of the
// convolution.
TEST(MixerTest, EverySectionOfAMambaLayerIsSplitAlone) {
  const CompiledModel model(tinyHybrid(R"({"trainer": {"tp": 2}})"));
  EXPECT_EQ(model.shapeOf(DELTA_SOURCE, 1, 0, Mixer + "in_proj.weight"),
            Index({16, 4}));
  for (auto [row, image] : {std::pair(0, 4), std::pair(4, 12), std::pair(8, 19),
                            std::pair(11, 25), std::pair(14, 30)})
    EXPECT_THAT(model.rowOf(1, Mixer + "in_proj.weight", row),
                Optional(Element{Checkpoint + "in_proj.weight", {image}}));
  for (auto [row, image] : {std::pair(4, 11), std::pair(7, 17)}) {
    EXPECT_THAT(model.hfOf(1, Mixer + "conv1d.weight", {row, 0, 3}),
                Optional(Element{Checkpoint + "conv1d.weight", {image, 0, 3}}));
    EXPECT_THAT(model.hfOf(1, Mixer + "conv1d.bias", {row}),
                Optional(Element{Checkpoint + "conv1d.bias", {image}}));
  }
  for (const char *name : {"D", "A_log", "dt_bias"})
    EXPECT_THAT(model.hfOf(1, Mixer + name, {0}),
                Optional(Element{Checkpoint + name, {2}}));
}

// Case 31: the norm fused into the projection has a name of its own.
TEST(MixerTest, FusedNormOfAMambaLayerIsTheLayersNorm) {
  const CompiledModel model(tinyHybrid("{}"));
  EXPECT_THAT(model.hfOf(0, Mixer + "in_proj.layer_norm_weight", {3}),
              Optional(Element{"backbone.layers.0.norm.weight", {3}}));
  EXPECT_THAT(model.hfOf(0, Mixer + "norm.weight", {3}),
              Optional(Element{Checkpoint + "norm.weight", {3}}));
}

// Case 31: one group cannot be on two ranks.
TEST(MixerTest, OneGroupOnTwoRanksIsRefused) {
  const CompiledModel model(
      tinyHybrid(R"({"config": {"n_groups": 1}, "trainer": {"tp": 2}})"));
  EXPECT_EQ(model.exitCode(), 1);
  EXPECT_TRUE(model.wroteNothing());
  EXPECT_THAT(model.messages(),
              HasSubstr("Mamba groups are never replicated over tp"));
  EXPECT_EQ(
      CompiledModel(tinyHybrid(R"({"config": {"n_groups": 1}})")).exitCode(),
      0);
}

// Case 33: the small tensor that a layer-wise loader forgot.
TEST(MixerTest, SkipConnectionArrivesAlone) {
  const CompiledModel model(tinyHybrid("{}"));
  BoundModel ranks(model);
  RankParams &source = ranks.source(0), &destination = ranks.destination(0);
  source.fill([](size_t p, int64_t i) { return p * 512 + size_t(i); });
  ranks.seed(1);
  const auto expectEqual = [&] {
    for (int64_t i = 0; i < 4; ++i)
      EXPECT_EQ(destination.get(Checkpoint + "D", {i}),
                source.get(Mixer + "D", {i}));
  };
  std::vector<uint64_t> before;
  for (int64_t i = 0; i < 4; ++i)
    before.push_back(source.get(Mixer + "D", {i}));
  source.fill([](size_t p, int64_t i) { return p * 512 + size_t(i) + 7; });
  for (int64_t i = 0; i < 4; ++i)
    source.set(Mixer + "D", {i}, before[size_t(i)]);
  EXPECT_GT(ranks.sync(2).changed, 100u);
  expectEqual();
  source.set(Mixer + "D", {2}, 0x4049);
  EXPECT_EQ(ranks.sync(3).changed, 1u);
  EXPECT_EQ(destination.get(Checkpoint + "D", {2}), 0x4049u);
  expectEqual();
}

static uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

static Json routed() {
  return tinyHybrid(R"({
    "config": {"hybrid_override_pattern": "E", "n_routed_experts": 4,
               "moe_intermediate_size": 4, "n_shared_experts": 1,
               "moe_shared_expert_intermediate_size": 4},
    "trainer": {"tp": 2, "ep": 2}})");
}

// Case 43: near 7 a bf16 step is 0.03125, so a router bias is fp32 on both
// sides, and every rank has the same.
TEST(MixerTest, RouterBiasIsSinglePrecisionAndReplicated) {
  const CompiledModel model(routed());
  const std::string tensor = Checkpoint + "gate.e_score_correction_bias";
  const std::string param = "decoder.layers.0.mlp.router.expert_bias";
  for (auto [side, name] :
       {std::pair(DELTA_HF, tensor), std::pair(DELTA_SOURCE, param)})
    EXPECT_EQ(model.params(side, 0)[model.find(side, 0, 0, name)].dtype,
              "fp32");
  EXPECT_EQ(model
                .params(DELTA_SOURCE, 0)[model.find(
                    DELTA_SOURCE, 0, 0, "decoder.layers.0.mlp.router.weight")]
                .dtype,
            "bf16");
  EXPECT_EQ(model.sourcesOf(tensor, {3}),
            std::vector<Place>({{0, 0, param, {3}}, {1, 0, param, {3}}}));
  EXPECT_EQ(model.numSendersOf(tensor, {3}), 1u);
}

// Case 43: the smallest change there is.
TEST(MixerTest, OneUlpOfTheRouterBiasIsOneElement) {
  const CompiledModel model(routed());
  const std::string tensor = Checkpoint + "gate.e_score_correction_bias";
  const std::string param = "decoder.layers.0.mlp.router.expert_bias";
  const float values[] = {6.900f, 6.905f, 6.910f, 6.915f};
  BoundModel ranks(model);
  for (uint32_t rank : {0u, 1u})
    for (int64_t i = 0; i < 4; ++i)
      ranks.source(rank).set(param, {i}, bitsOf(values[i]));
  ranks.seed(1);
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(ranks.destination(0).get(tensor, {i}), bitsOf(values[i]));
  const uint64_t idle = ranks.sync(2).message_bytes;
  for (uint32_t rank : {0u, 1u})
    ranks.source(rank).set(param, {2}, bitsOf(values[2]) + 1);
  const delta_sync_stats_t stats = ranks.sync(3);
  EXPECT_EQ(stats.changed, 1u);
  EXPECT_EQ(ranks.destination(0).get(tensor, {2}), bitsOf(values[2]) + 1);
  EXPECT_EQ(ranks.destination(0).get(tensor, {1}), bitsOf(values[1]));
  // Four bytes of value among the framing of one tile.
  EXPECT_GE(stats.message_bytes, idle + 4);
}

// Case 45: a decay in fp32 moves by its last bit, and that is the delta.
TEST(MixerTest, OneUlpOfADecayIsOneElementOfFourBytes) {
  const CompiledModel model(tinyDeltaNet(R"({"trainer": {"dtype": "fp32"}})"));
  ASSERT_EQ(model.exitCode(), 0) << model.messages();
  const std::string param = "decoder.layers.0.self_attention.A_log";
  const std::string tensor = "model.layers.0.linear_attn.A_log";
  EXPECT_EQ(model.params(DELTA_HF, 0)[model.find(DELTA_HF, 0, 0, tensor)].dtype,
            "fp32");
  EXPECT_EQ(model.shapeOf(DELTA_HF, 0, 0, tensor), Index({4}));
  BoundModel ranks(model);
  ranks.source(0).set(param, {1}, 0x3f800000);
  ranks.seed(1);
  const uint64_t idle = ranks.sync(2).message_bytes;
  ranks.source(0).set(param, {1}, 0x3f800001);
  const delta_sync_stats_t stats = ranks.sync(3);
  EXPECT_EQ(stats.changed, 1u);
  EXPECT_EQ(ranks.destination(0).get(tensor, {1}), 0x3f800001u);
  EXPECT_EQ(ranks.destination(0).get(tensor, {2}), 0u);
  // The value, an offset and the framing of one tile.
  EXPECT_GE(stats.message_bytes, idle + 4);
  EXPECT_LE(stats.message_bytes, idle + 96);
}
