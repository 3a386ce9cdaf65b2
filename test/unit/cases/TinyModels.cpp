//===- TinyModels.cpp - The small models of the cases ---------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TinyModels.h"

using namespace delta::test;

/// What all families have.
static Json tiny(const std::string &family, const std::string &patch) {
  Json model = Json::parse(R"({
    "config": {"num_hidden_layers": 2, "hidden_size": 4,
               "num_attention_heads": 2, "num_key_value_heads": 2,
               "head_dim": 2, "vocab_size": 8, "tie_word_embeddings": false,
               "torch_dtype": "bfloat16"},
    "trainer": {"vocab_multiple": 4},
    "rollout": {"engine": "hf"}})");
  model.merge_patch(Json::parse(family));
  model.merge_patch(Json::parse(patch));
  return model;
}

Json delta::test::tinyDense(const std::string &patch) {
  return tiny(R"({"config": {"model_type": "qwen3", "intermediate_size": 4}})",
              patch);
}

Json delta::test::tinyExperts(const std::string &patch) {
  return tiny(R"({"config": {"model_type": "qwen3_moe", "num_experts": 2,
                             "moe_intermediate_size": 4}})",
              patch);
}

Json delta::test::tinyBiased(const std::string &patch) {
  return tiny(R"({"config": {"model_type": "gpt_oss", "num_local_experts": 1,
                             "intermediate_size": 2, "attention_bias": true}})",
              patch);
}

Json delta::test::tinyHybrid(const std::string &patch) {
  return tiny(R"({"config": {"model_type": "nemotron_h",
                             "num_hidden_layers": 1,
                             "hybrid_override_pattern": "M",
                             "intermediate_size": 4, "mamba_num_heads": 4,
                             "mamba_head_dim": 2, "n_groups": 2,
                             "ssm_state_size": 3, "conv_kernel": 4,
                             "use_conv_bias": true}})",
              patch);
}

Json delta::test::tinyLatent(const std::string &patch) {
  return tiny(R"({"config": {"model_type": "deepseek_v3", "head_dim": null,
                             "intermediate_size": 4, "moe_intermediate_size": 4,
                             "q_lora_rank": 3, "kv_lora_rank": 2,
                             "qk_rope_head_dim": 2, "qk_nope_head_dim": 1,
                             "v_head_dim": 2, "n_routed_experts": 2,
                             "n_shared_experts": 1, "first_k_dense_replace": 1,
                             "num_nextn_predict_layers": 1}})",
              patch);
}

Json delta::test::tinyDeltaNet(const std::string &patch) {
  return tiny(R"({"config": {"model_type": "qwen3_5_text",
                             "num_hidden_layers": 1, "intermediate_size": 4,
                             "linear_num_key_heads": 2,
                             "linear_num_value_heads": 4,
                             "linear_key_head_dim": 2,
                             "linear_value_head_dim": 2,
                             "layer_types": ["linear_attention"]}})",
              patch);
}
