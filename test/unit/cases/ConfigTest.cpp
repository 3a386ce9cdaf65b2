//===- ConfigTest.cpp - Nulls, absent keys and keys without weights -------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TinyModels.h"

#include <gmock/gmock.h>

using namespace delta::test;

static const std::string Checkpoint = "model.layers.0.self_attn.";

/// Heads of two elements, four for queries and `keyHeads` for keys.
static void expectHeads(const Json &json, int64_t keyHeads) {
  const CompiledModel model(json);
  ASSERT_EQ(model.exitCode(), 0) << model.messages();
  // And the compiler says which values it took.
  EXPECT_NE(model.messages().find("the config leaves out or nulls: "),
            std::string::npos)
      << model.messages();
  const auto shape = [&](const std::string &name) {
    return model.shapeOf(DELTA_HF, 0, 0, Checkpoint + name + ".weight");
  };
  EXPECT_EQ(shape("q_proj"), Index({8, 8}));
  EXPECT_EQ(shape("k_proj"), Index({2 * keyHeads, 8}));
  EXPECT_EQ(shape("v_proj"), Index({2 * keyHeads, 8}));
  EXPECT_EQ(shape("q_norm"), Index({2}));
}

static Json fourHeads() {
  return tinyDense(R"({
    "config": {"hidden_size": 8, "num_attention_heads": 4,
               "num_key_value_heads": 2, "head_dim": null}})");
}

// Case 56: a key that is there and null is not a number.
TEST(ConfigTest, NullHeadSizeIsHiddenOverHeads) {
  Json json = fourHeads();
  json["config"]["head_dim"] = nullptr;
  expectHeads(json, 2);
}

// Case 56.
TEST(ConfigTest, AbsentHeadSizeIsHiddenOverHeads) {
  ASSERT_FALSE(fourHeads()["config"].contains("head_dim"));
  expectHeads(fourHeads(), 2);
}

// Case 56.
TEST(ConfigTest, NullKeyValueHeadsAreTheHeads) {
  Json json = fourHeads();
  json["config"]["num_key_value_heads"] = nullptr;
  expectHeads(json, 4);
  json["config"].erase("num_key_value_heads");
  expectHeads(json, 4);
}

// Case 58: rotary fields move about between versions; weights do not.
TEST(ConfigTest, RotaryFieldsDoNotChangeThePlan) {
  const char *const spellings[] = {
      R"({})", R"({"rope_theta": 1000000.0, "rope_scaling": null})",
      R"({"rope_parameters": {"rope_theta": 1000000.0, "rope_type": "yarn",
                              "factor": 4.0}})",
      R"({"rope_parameters": {
            "full_attention": {"rope_theta": 1000000.0},
            "sliding_attention": {"rope_theta": 10000.0}}})"};
  std::vector<std::pair<uint64_t, uint64_t>> fingerprints;
  for (const char *spelling : spellings) {
    Json json = tinyDense("{}");
    json["config"].update(Json::parse(spelling));
    const CompiledModel model(json);
    fingerprints.emplace_back(model.api().fingerprint[0],
                              model.api().fingerprint[1]);
  }
  for (const auto &fingerprint : fingerprints)
    EXPECT_EQ(fingerprint, fingerprints.front());
  // What touches weights touches the fingerprint.
  for (const char *patch :
       {R"({"config": {"head_dim": 4}})", R"({"trainer": {"tp": 2}})",
        R"({"rollout": {"replicas": 2}})"}) {
    const CompiledModel other(tinyDense(patch));
    EXPECT_NE(std::pair(other.api().fingerprint[0], other.api().fingerprint[1]),
              fingerprints.front())
        << patch;
  }
}
