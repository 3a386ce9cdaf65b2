//===- NamesTest.cpp - What a receiver calls its tensors ------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BoundModel.h"
#include "TinyModels.h"

#include <gmock/gmock.h>

#include <algorithm>

using namespace delta::test;
using testing::HasSubstr;
using testing::Optional;

/// The language model within a model that also sees images.
static Json withImages() {
  Json json = tinyDense(R"({"config": {"model_type": "qwen3_vl",
    "vision_config": {"depth": 1, "hidden_size": 4, "num_heads": 2,
      "intermediate_size": 4, "patch_size": 1, "temporal_patch_size": 1,
      "spatial_merge_size": 1, "num_position_embeddings": 4,
      "out_hidden_size": 4, "deepstack_visual_indexes": []}}})");
  Json text = json["config"];
  text.erase("vision_config");
  text.erase("model_type");
  Json config = {{"model_type", "qwen3_vl"},
                 {"vision_config", json["config"]["vision_config"]},
                 {"tie_word_embeddings", false},
                 {"text_config", text}};
  json["config"] = config;
  return json;
}

// Case 54: the prefix is the plan's, once; a receiver with another one binds
// nothing, before anything is sent.
TEST(NamesTest, ReceiverWithAnotherPrefixIsRefusedByName) {
  const CompiledModel model(withImages());
  ASSERT_EQ(model.exitCode(), 0) << model.messages();
  const std::string prefix = "model.language_model.";
  EXPECT_THAT(
      model.rowOf(0, "language_model.decoder.layers.1.mlp.linear_fc2.weight",
                  2),
      Optional(Element{prefix + "layers.1.mlp.down_proj.weight", {2}}));
  RankParams params(model, DELTA_DESTINATION, 0);
  ASSERT_EQ(bindReceiver(model, 0, params), "");
  const std::string inner = "model.layers.1.mlp.down_proj.weight";
  const std::string twice =
      "model.language_model.language_model.layers.1.mlp.down_proj.weight";
  const std::string right = prefix + "layers.1.mlp.down_proj.weight";
  delta_param_t &param = params.find(right);
  for (const std::string &wrong : {inner, twice}) {
    param.name = wrong.c_str();
    EXPECT_THAT(bindReceiver(model, 0, params),
                HasSubstr("\"" + right + "\" (chunk 0): bind: missing"));
  }
  // One that maps to nothing, beside all others.
  param.name = right.c_str();
  for (const std::string &wrong : {inner, twice}) {
    RankParams more(model, DELTA_DESTINATION, 0);
    std::vector<uint16_t> memory(4 * 4);
    delta_param_t extra = more.find(right);
    extra.name = wrong.c_str();
    extra.data = memory.data();
    more.bound().push_back(extra);
    EXPECT_THAT(bindReceiver(model, 0, more), HasSubstr("\"" + wrong + "\""));
  }
}

// Case 54: every tensor has the prefix once, those beside the language model
// one of their own.
TEST(NamesTest, PrefixIsAppliedOnce) {
  const CompiledModel model(withImages());
  size_t numLanguage = 0, numVisual = 0;
  for (const std::string &name : model.names(DELTA_HF, 0)) {
    const bool language = name.rfind("model.language_model.", 0) == 0;
    const bool visual = name.rfind("model.visual.", 0) == 0;
    EXPECT_TRUE(language || visual || name == "lm_head.weight") << name;
    const size_t first = name.find("language_model.");
    EXPECT_EQ(name.find("language_model.", first == 6 ? 7 : 0),
              std::string::npos)
        << name;
    numLanguage += language;
    numVisual += visual;
  }
  EXPECT_GT(numLanguage, 20u);
  EXPECT_GT(numVisual, 10u);
}

// Case 27: a receiver that does not hold a tensor is told of it by name.
TEST(NamesTest, ReceiverWithoutTheSharedExpertIsRefusedByName) {
  const CompiledModel model(
      tinyLatent(R"({"config": {"num_nextn_predict_layers": 0}})"));
  const std::string name = "model.layers.1.mlp.shared_experts.down_proj.weight";
  RankParams params(model, DELTA_DESTINATION, 0);
  ASSERT_EQ(bindReceiver(model, 0, params), "");
  auto &bound = params.bound();
  bound.erase(
      std::find_if(bound.begin(), bound.end(), [&](const delta_param_t &param) {
        return name == param.name;
      }));
  EXPECT_THAT(bindReceiver(model, 0, params), HasSubstr("\"" + name + "\""));
}
