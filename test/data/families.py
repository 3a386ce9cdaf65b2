# ===- families.py - Models and geometries of further families ------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Tiny configurations, sizes odd wherever a split allows it."""

COMMON = {
    "hidden_act": "silu",
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-06,
    "rope_theta": 10000.0,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
    "head_dim": 3,
    "hidden_size": 20,
    "intermediate_size": 28,
    "num_attention_heads": 8,
    "num_hidden_layers": 4,
    "num_key_value_heads": 4,
    "vocab_size": 61,
}

LLAMA = {
    **COMMON,
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "intermediate_size": 40,
    "head_dim": 6,
    "hidden_size": 24,
    "attention_bias": False,
    "mlp_bias": False,
    "rope_scaling": None,
}

MISTRAL = {
    **COMMON,
    "architectures": ["MistralForCausalLM"],
    "model_type": "mistral",
    "sliding_window": None,
}

# No converter has it.
MIXTRAL = {
    **COMMON,
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "intermediate_size": 12,
    "num_experts_per_tok": 2,
    "num_key_value_heads": 2,
    "num_local_experts": 8,
    "sliding_window": None,
}

QWEN2 = {
    **COMMON,
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "num_key_value_heads": 2,
    "use_sliding_window": False,
}

GEMMA = {
    **COMMON,
    "head_dim": 6,
    "hidden_size": 24,
    "attention_bias": False,
    "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 9,
    "sliding_window": 64,
    "tie_word_embeddings": True,
}

GEMMA2 = {
    **GEMMA,
    "architectures": ["Gemma2ForCausalLM"],
    "model_type": "gemma2",
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
}

GEMMA3 = {
    **GEMMA,
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "rope_local_base_freq": 10000.0,
    "rope_scaling": None,
    "sliding_window_pattern": 2,
}

PARALLEL = {
    **COMMON,
    "architectures": ["FalconH1ForCausalLM"],
    "model_type": "falcon_h1",
    "head_dim": 6,
    "hidden_size": 24,
    "attention_bias": False,
    "attention_in_multiplier": 1.0,
    "attention_out_multiplier": 0.9375,
    "embedding_multiplier": 5.5,
    "key_multiplier": 0.5,
    "lm_head_multiplier": 0.25,
    "mamba_chunk_size": 128,
    "mamba_conv_bias": True,
    "mamba_d_conv": 4,
    "mamba_d_head": 3,
    "mamba_d_ssm": 24,
    "mamba_d_state": 5,
    "mamba_expand": 2,
    "mamba_n_groups": 4,
    "mamba_n_heads": 8,
    "mamba_norm_before_gate": False,
    "mamba_proj_bias": False,
    "mamba_rms_norm": False,
    "mamba_use_mlp": True,
    "mlp_bias": False,
    "mlp_multipliers": [0.875, 0.5],
    "projectors_bias": False,
    "ssm_in_multiplier": 1.25,
    "ssm_multipliers": [0.5, 0.25, 0.5, 0.5, 0.25],
    "ssm_out_multiplier": 0.25,
}

MINIMAX = {
    **COMMON,
    "architectures": ["MiniMaxM2ForCausalLM"],
    "model_type": "minimax_m2",
    "head_dim": 4,
    "intermediate_size": 12,
    "num_experts_per_tok": 2,
    "num_local_experts": 8,
    "scoring_func": "sigmoid",
    "use_qk_norm": True,
    "use_routing_bias": True,
}

ERNIE = {
    **COMMON,
    "architectures": ["Ernie4_5_MoeForCausalLM"],
    "model_type": "ernie4_5_moe",
    "moe_intermediate_size": 12,
    "moe_k": 2,
    "moe_layer_end_index": -1,
    "moe_layer_interval": 1,
    "moe_layer_start_index": 1,
    "moe_num_experts": 8,
    "moe_num_shared_experts": 2,
    "num_key_value_heads": 2,
    "num_nextn_predict_layers": 1,
    "tie_word_embeddings": True,
    "use_bias": False,
}

MIMO = {
    **COMMON,
    "architectures": ["MiMoForCausalLM"],
    "model_type": "mimo",
    "attention_bias": True,
    "num_nextn_predict_layers": 0,
}

WINDOWED = {
    **COMMON,
    "architectures": ["MiMoV2FlashForCausalLM"],
    "model_type": "mimo_v2_flash",
    "add_full_attention_sink_bias": False,
    "add_swa_attention_sink_bias": True,
    "attention_bias": False,
    "attention_value_scale": 0.707,
    "head_dim": 6,
    "hybrid_layer_pattern": [0, 1, 1, 0],
    "layernorm_epsilon": 1e-05,
    "moe_intermediate_size": 12,
    "moe_layer_freq": [0, 1, 1, 1],
    "n_group": 1,
    "n_routed_experts": 8,
    "norm_topk_prob": True,
    "num_experts_per_tok": 2,
    "num_key_value_heads": 2,
    "partial_rotary_factor": 0.334,
    "routed_scaling_factor": None,
    "scoring_func": "sigmoid",
    "sliding_window": 128,
    "sliding_window_size": 128,
    "swa_head_dim": 6,
    "swa_num_attention_heads": 8,
    "swa_num_key_value_heads": 4,
    "swa_rope_theta": 10000,
    "swa_v_head_dim": 5,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "v_head_dim": 5,
}

GLM = {
    **COMMON,
    "architectures": ["Glm4MoeForCausalLM"],
    "model_type": "glm4_moe",
    "attention_bias": True,
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 12,
    "n_group": 1,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_experts_per_tok": 2,
    "num_key_value_heads": 2,
    "num_nextn_predict_layers": 0,
    "partial_rotary_factor": 0.5,
    "routed_scaling_factor": 1.0,
    "topk_group": 1,
    "use_qk_norm": True,
}

OLMOE = {
    **COMMON,
    "architectures": ["OlmoeForCausalLM"],
    "model_type": "olmoe",
    "attention_bias": False,
    "clip_qkv": None,
    "head_dim": 2,
    "intermediate_size": 12,
    "norm_topk_prob": False,
    "num_attention_heads": 10,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_key_value_heads": 10,
    "router_aux_loss_coef": 0.01,
}
