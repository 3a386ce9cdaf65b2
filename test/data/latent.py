# ===- latent.py - Models with latent attention or prediction layers ------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Tiny configurations, sizes odd wherever a split allows it."""

from families import COMMON, GEMMA, GEMMA3, GLM, MIMO, WINDOWED

LATENT = {
    **COMMON,
    "attention_bias": False,
    "first_k_dense_replace": 1,
    "hidden_size": 48,
    "kv_lora_rank": 7,
    "moe_intermediate_size": 12,
    "moe_layer_freq": 1,
    "n_group": 1,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_experts_per_tok": 2,
    "num_key_value_heads": 8,
    "q_lora_rank": 9,
    "qk_nope_head_dim": 5,
    "qk_rope_head_dim": 4,
    "rope_scaling": {
        "beta_fast": 32,
        "beta_slow": 1,
        "factor": 40,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096,
        "type": "yarn",
    },
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "v_head_dim": 3,
}

DEEPSEEK2 = {
    **LATENT,
    "architectures": ["DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v2",
    "n_shared_experts": 2,
    "scoring_func": "softmax",
    "topk_method": "group_limited_greedy",
}

# Of V2-Lite: queries are not compressed.
DEEPSEEK2_LITE = {**DEEPSEEK2, "q_lora_rank": None, "topk_method": "greedy"}

DEEPSEEK3 = {
    **LATENT,
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "num_nextn_predict_layers": 1,
}

KIMI = {
    **LATENT,
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "kimi_k2",
    "num_nextn_predict_layers": 0,
}

GLM_LITE = {
    **LATENT,
    "architectures": ["Glm4MoeLiteForCausalLM"],
    "model_type": "glm4_moe_lite",
    "head_dim": 4,
    "num_nextn_predict_layers": 1,
    "rope_scaling": None,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
}

GLM_SPARSE = {
    **LATENT,
    "architectures": ["GlmMoeDsaForCausalLM"],
    "model_type": "glm_moe_dsa",
    "index_head_dim": 6,
    "index_n_heads": 5,
    "index_topk": 4,
    "indexer_rope_interleave": True,
    "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    "num_nextn_predict_layers": 0,
    "qk_head_dim": 9,
    "rope_scaling": None,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
}

GLM_PREDICTING = {**GLM, "num_nextn_predict_layers": 1}
MIMO_PREDICTING = {**MIMO, "num_nextn_predict_layers": 2}

HYBRID_PREDICTING = {
    "mtp_hybrid_override_pattern": "*E-",
    "mtp_use_repeated_layer": True,
    "num_nextn_predict_layers": 1,
}

# What the experts' layers of GLM-5 need where no GPU is.
DISPATCH = {"provider": {"moe_token_dispatcher_type": "alltoall"}}


def windowed_keys(layers: int) -> dict:
    """Tensors of prediction layers, which the config does not tell of."""
    hidden, heads = WINDOWED["hidden_size"], WINDOWED["num_attention_heads"]
    groups = WINDOWED["swa_num_key_value_heads"]
    size, values = WINDOWED["head_dim"], WINDOWED["v_head_dim"]
    rows = WINDOWED["intermediate_size"]
    shapes = {
        "enorm.weight": [hidden],
        "hnorm.weight": [hidden],
        "eh_proj.weight": [hidden, 2 * hidden],
        "final_layernorm.weight": [hidden],
        "input_layernorm.weight": [hidden],
        "pre_mlp_layernorm.weight": [hidden],
        "self_attn.attention_sink_bias": [heads],
        "self_attn.q_proj.weight": [heads * size, hidden],
        "self_attn.k_proj.weight": [groups * size, hidden],
        "self_attn.v_proj.weight": [groups * values, hidden],
        "self_attn.o_proj.weight": [hidden, heads * values],
        "mlp.gate_proj.weight": [rows, hidden],
        "mlp.up_proj.weight": [rows, hidden],
        "mlp.down_proj.weight": [hidden, rows],
    }
    return {
        f"model.mtp.layers.{layer}.{name}": shape
        for layer in range(layers) for name, shape in shapes.items()
    }


LISTED = {"keys": {"add": windowed_keys(2)}}

VISION = {
    "hidden_size": 12,
    "image_size": 28,
    "intermediate_size": 18,
    "model_type": "siglip_vision_model",
    "num_attention_heads": 2,
    "num_channels": 3,
    "num_hidden_layers": 3,
    "patch_size": 14,
    "vision_use_head": False,
}

GEMMA3_IMAGES = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "mm_tokens_per_image": 4,
    "model_type": "gemma3",
    "text_config": {
        key: value for key, value in GEMMA3.items() if key != "architectures"
    },
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "vision_config": VISION,
    "vocab_size": 61,
}

# Three by three patches, which are another number than three and three.
GEMMA3_NINE = {
    **GEMMA3_IMAGES,
    "mm_tokens_per_image": 9,
    "vision_config": {**VISION, "image_size": 42},
}

# Three kinds of layers: with a window, without one, with the keys and values of
# a layer before.
GEMMA4 = {
    **GEMMA,
    "architectures": ["Gemma4ForCausalLM"],
    "model_type": "gemma4_text",
    "attention_k_eq_v": False,
    "enable_moe_block": False,
    "final_logit_softcapping": 30.0,
    "global_head_dim": 10,
    "hidden_size_per_layer_input": 6,
    "layer_types": [
        "sliding_attention", "sliding_attention", "full_attention",
    ] * 2,
    "num_global_key_value_heads": None,
    "num_hidden_layers": 6,
    "num_kv_shared_layers": 2,
    "rope_parameters": {
        "full_attention": {
            "partial_rotary_factor": 0.25,
            "rope_theta": 1000000.0,
            "rope_type": "proportional",
        },
        "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
    },
    "use_double_wide_mlp": False,
    "vocab_size_per_layer_input": 68,
}

# Both kinds right behind the last layer with keys of its own.
GEMMA4_ALTERNATING = {
    **GEMMA4,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
    "num_kv_shared_layers": 3,
}

# Layers without a window use their keys as values.
GEMMA4_LARGE = {
    **GEMMA4,
    "attention_k_eq_v": True,
    "hidden_size_per_layer_input": 0,
    "num_global_key_value_heads": 2,
    "num_kv_shared_layers": 0,
}

GEMMA4_EXPERTS = {
    **GEMMA4_LARGE,
    "enable_moe_block": True,
    "moe_intermediate_size": 12,
    "num_experts": 8,
    "top_k_experts": 2,
}

# Config-only conversions export a norm for keys that the model has not.
BORROWED = {
    "keys": {"drop": [r"layers\.[45]\.self_attn\.(k_norm|[kv]_proj)"]},
}
BORROWED_MOST = {
    "keys": {"drop": [r"layers\.[345]\.self_attn\.(k_norm|[kv]_proj)"]},
}
