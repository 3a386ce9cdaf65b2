# ===- cases.py - Models and geometries of this folder --------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Tiny configurations, sizes odd wherever a split allows it."""

from families import (
    ERNIE, GEMMA2, GEMMA3, GLM, LLAMA, MIMO, MINIMAX, MISTRAL, PARALLEL, QWEN2,
    WINDOWED,
)


class Case:
    """One model on one geometry (an export) or on two (a resharding).

    `copies`: a parameter of which neighboring ranks of tp hold one shard.
    """

    def __init__(
        self, name: str, config: dict, *sides: dict, copies: str = ""
    ):
        self.name = name
        self.config = config
        self.sides = sides
        self.copies = copies


def geometry(multiple: int = 4, **sizes: object) -> dict:
    """Sizes that are not 1, and the multiple that pads the vocabulary."""
    return {**sizes, "make_vocab_size_divisible_by": multiple}


COMMON = {
    "hidden_act": "silu",
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-06,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}

DENSE = {
    **COMMON,
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "attention_bias": False,
    "head_dim": 3,
    "hidden_size": 20,
    "intermediate_size": 28,
    "num_attention_heads": 8,
    "num_hidden_layers": 4,
    "num_key_value_heads": 4,
    "rope_theta": 1000000.0,
    "vocab_size": 61,
}

EXPERTS = {
    **COMMON,
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "attention_bias": False,
    "decoder_sparse_step": 1,
    "head_dim": 2,
    "hidden_size": 12,
    "intermediate_size": 24,
    "mlp_only_layers": [],
    "moe_intermediate_size": 12,
    "norm_topk_prob": True,
    "num_attention_heads": 8,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "rope_theta": 1000000.0,
    "vocab_size": 61,
}

HYBRID = {
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    "attention_bias": False,
    "chunk_size": 128,
    "conv_kernel": 4,
    "expand": 2,
    "head_dim": 4,
    "hidden_size": 20,
    "hybrid_override_pattern": "M-M*-M-",
    "intermediate_size": 28,
    "layer_norm_epsilon": 1e-05,
    "mamba_head_dim": 3,
    "mamba_hidden_act": "silu",
    "mamba_num_heads": 8,
    "mamba_proj_bias": False,
    "max_position_embeddings": 512,
    "mlp_bias": False,
    "mlp_hidden_act": "relu2",
    "n_groups": 4,
    "num_attention_heads": 4,
    "num_hidden_layers": 7,
    "num_key_value_heads": 2,
    "residual_in_fp32": False,
    "rope_theta": 10000,
    "sliding_window": None,
    "ssm_state_size": 5,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_bias": False,
    "use_conv_bias": True,
    "vocab_size": 61,
}

HYBRID_EXPERTS = {
    **HYBRID,
    "hybrid_override_pattern": "MEM*EME",
    "moe_intermediate_size": 9,
    "moe_shared_expert_intermediate_size": 20,
    "n_group": 1,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "norm_eps": 1e-05,
    "norm_topk_prob": True,
    "num_experts_per_tok": 2,
    "partial_rotary_factor": 1.0,
    "routed_scaling_factor": 2.5,
    "topk_group": 1,
}

HYBRID_LATENT = {
    **HYBRID_EXPERTS,
    "hybrid_override_pattern": "ME*E",
    "num_hidden_layers": 4,
    "moe_latent_size": 10,
}

BIASED = {
    **COMMON,
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "attention_bias": True,
    "experts_per_token": 2,
    "head_dim": 2,
    "hidden_size": 14,
    "initial_context_length": 4096,
    "intermediate_size": 11,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "num_attention_heads": 8,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "num_local_experts": 8,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "rope_type": "yarn",
        "truncate": False,
        "rope_theta": 150000,
    },
    "rope_theta": 150000,
    "sliding_window": 128,
    "swiglu_limit": 7.0,
    "vocab_size": 61,
}


def tied(config: dict) -> dict:
    return {**config, "tie_word_embeddings": True}


def layers(config: dict, count: int) -> dict:
    config = {**config, "num_hidden_layers": count}
    if "layer_types" in config:
        config["layer_types"] = config["layer_types"][:count]
    return config


# Without the number of key/value heads there are as many as heads. Qwen3's own
# default is 32.
EQUAL_HEADS = layers({**DENSE, "num_attention_heads": 32, "head_dim": 2}, 1)
del EQUAL_HEADS["num_key_value_heads"]

# A first stage without layers, a last one with its loss alone.
NESTED = [
    ["embedding", "decoder"],
    ["decoder"] * 3,
    ["decoder"],
    ["decoder"] * 2 + ["loss"],
]
STANDALONE = [
    ["embedding"],
    ["decoder"] * 3,
    ["decoder"] * 2,
    ["decoder"] * 2 + ["loss"],
]
FEW_KEYS = {**layers(MINIMAX, 2), "num_key_value_heads": 2}
SEQUENTIAL = {"provider": {"moe_grouped_gemm": False}}

CASES = [
    # Virtual stages on the destination.
    Case("reshard_qwen3_tp2_to_pp2_vpp2", DENSE,
         geometry(tp=2), geometry(8, pp=2, vpp=2)),
    Case("reshard_qwen3_moe_tp2_ep2_to_ep2_pp2_vpp2", EXPERTS,
         geometry(tp=2, ep=2), geometry(8, ep=2, pp=2, vpp=2)),
    # Gated experts on both sides of a change of expert tensor parallelism.
    Case("reshard_qwen3_moe_tp4_etp4_to_tp2_ep2_etp2", layers(EXPERTS, 2),
         geometry(tp=4, etp=4), geometry(tp=2, ep=2, etp=2)),
    # Other padding of the vocabulary on the two sides.
    Case("reshard_qwen3_padding_64_to_68", layers(DENSE, 1),
         geometry(1, tp=4), geometry(17, tp=2)),
    Case("reshard_qwen3_padding_128_to_62", layers(tied(DENSE), 1),
         geometry(128), geometry(31, tp=2)),
    Case("reshard_nemotron_h_padding_72_to_64", HYBRID,
         geometry(36, tp=2), geometry(4, tp=4)),
    # Uneven and nested layouts.
    Case("reshard_qwen3_uneven_pp3_to_nested_pp2_vpp2", layers(DENSE, 7),
         geometry(pp=3, pp_layout=[1, 4, 2]),
         geometry(tp=2, pp=2, vpp=2, pp_layout=NESTED)),
    Case("reshard_qwen3_nested_pp2_vpp2_to_embedding_alone", layers(DENSE, 7),
         geometry(tp=2, pp=2, vpp=2, pp_layout=[3, 1, 1, 2]),
         geometry(pp=4, pp_layout=STANDALONE)),
    Case("reshard_nemotron_h_pattern_pp2_to_pp3", HYBRID,
         geometry(tp=2, pp=2, pp_layout="M-M|*-M-"),
         geometry(pp=3, pp_layout="M|-M*|-M-")),
    # A tied table and its copy on the last stage.
    Case("reshard_qwen3_tied_pp2_to_tp2_pp2_vpp2", tied(DENSE),
         geometry(pp=2), geometry(8, tp=2, pp=2, vpp=2)),
    Case("reshard_qwen3_tied_tp2_pp4_to_tp2_pp2", tied(DENSE),
         geometry(tp=2, pp=4), geometry(16, tp=2, pp=2)),
    # Experts one by one on one side, in a grouped GEMM on the other.
    Case("reshard_qwen3_moe_sequential_ep2_to_grouped_etp2",
         layers(EXPERTS, 2),
         {**geometry(tp=2, ep=2), **SEQUENTIAL}, geometry(tp=2, etp=2)),
    # Context and data parallel copies.
    Case("reshard_qwen3_tp2_cp2_to_cp2_pp2", DENSE,
         geometry(tp=2, cp=2), geometry(cp=2, pp=2)),
    Case("reshard_qwen3_moe_tp2_cp2_ep4_to_dp4_ep2_etp2", layers(EXPERTS, 2),
         geometry(tp=2, cp=2, ep=4), geometry(ep=2, etp=2)),
    # Biases, sinks and stacked experts over stages.
    Case("reshard_gpt_oss_tp2_pp2_to_ep4_pp2_vpp2", BIASED,
         geometry(tp=2, pp=2), geometry(8, ep=4, pp=2, vpp=2)),
    Case("reshard_nemotron_h_moe_tp2_ep4_to_ep2_etp3", HYBRID_EXPERTS,
         geometry(tp=2, ep=4), geometry(ep=2, etp=3)),

    # To the checkpoint.
    Case("export_qwen3_tied_tp2_pp2_vpp2", tied(DENSE),
         geometry(tp=2, pp=2, vpp=2)),
    Case("export_qwen3_nested_pp2_vpp2", layers(DENSE, 7),
         geometry(pp=2, vpp=2, pp_layout=NESTED)),
    Case("export_qwen3_tp2_cp2", layers(DENSE, 2), geometry(tp=2, cp=2)),
    Case("export_qwen3_moe_tp4_ep2_etp2_pp2", layers(EXPERTS, 2),
         geometry(tp=4, ep=2, etp=2, pp=2)),
    Case("export_qwen3_moe_sequential_tp2_ep2_etp2", layers(EXPERTS, 2),
         {**geometry(tp=2, ep=2, etp=2), **SEQUENTIAL}),
    Case("export_qwen3_moe_ep4_pp2_vpp2", EXPERTS,
         geometry(ep=4, pp=2, vpp=2)),
    Case("export_nemotron_h_tp4_pp2", HYBRID,
         geometry(tp=4, pp=2, pp_layout="M-M*|-M-")),
    Case("export_nemotron_h_moe_ep4_pp2", HYBRID_EXPERTS,
         geometry(ep=4, pp=2, pp_layout="MEM*|EME")),
    Case("export_gpt_oss_tp2_ep4_pp2", BIASED, geometry(tp=2, ep=4, pp=2)),

    # Further families: every axis that the family has, then other geometries.
    Case("export_llama_tp4_pp2_vpp2", LLAMA, geometry(tp=4, pp=2, vpp=2)),
    Case("reshard_llama_tp2_pp2_to_tp8", LLAMA,
         geometry(tp=2, pp=2), geometry(8, tp=8)),
    Case("export_mistral_tp2_pp2_vpp2", MISTRAL, geometry(tp=2, pp=2, vpp=2)),
    Case("reshard_mistral_pp3_to_tp4", MISTRAL,
         geometry(pp=3, pp_layout=[1, 2, 1]), geometry(tp=4)),
    Case("export_qwen2_tp4_pp2_vpp2", QWEN2, geometry(tp=4, pp=2, vpp=2)),
    Case("reshard_qwen2_tp2_to_tp4_pp2", QWEN2,
         geometry(tp=2), geometry(tp=4, pp=2)),
    Case("export_gemma2_tp2_pp2_vpp2", GEMMA2, geometry(tp=2, pp=2, vpp=2)),
    Case("export_gemma2_tp4", GEMMA2, geometry(tp=4)),
    Case("reshard_gemma2_tp2_pp2_to_tp4", GEMMA2,
         geometry(tp=2, pp=2), geometry(8, tp=4)),
    Case("export_gemma3_tp4_pp2_vpp2", GEMMA3, geometry(tp=4, pp=2, vpp=2)),
    Case("reshard_gemma3_tp2_to_pp2_vpp2", GEMMA3,
         geometry(tp=2), geometry(pp=2, vpp=2)),
    Case("export_falcon_h1_tp4_pp2", PARALLEL, geometry(tp=4, pp=2)),
    Case("export_falcon_h1_norm_tp2", {**PARALLEL, "mamba_rms_norm": True},
         geometry(tp=2)),
    Case("reshard_falcon_h1_norm_tp2_pp2_to_tp4",
         {**PARALLEL, "mamba_rms_norm": True},
         geometry(tp=2, pp=2), geometry(8, tp=4)),
    Case("export_minimax_m2_tp4_ep2_etp2_pp2_vpp2", MINIMAX,
         geometry(tp=4, ep=2, etp=2, pp=2, vpp=2)),
    # Four ranks hold each key head and its norm.
    Case("export_minimax_m2_tp8_ep4", FEW_KEYS, geometry(tp=8, ep=4),
         copies="self_attention.k_layernorm.weight"),
    Case("reshard_minimax_m2_tp2_ep2_to_tp8_ep4", FEW_KEYS,
         geometry(tp=2, ep=2), geometry(8, tp=8, ep=4),
         copies="self_attention.k_layernorm.weight"),
    Case("reshard_minimax_m2_tp8_ep4_to_tp4", FEW_KEYS,
         geometry(8, tp=8, ep=4), geometry(tp=4),
         copies="self_attention.k_layernorm.weight"),
    Case("export_ernie4_5_moe_tp4_ep2_etp2_pp2_vpp2", ERNIE,
         geometry(tp=4, ep=2, etp=2, pp=2, vpp=2)),
    Case("export_ernie4_5_moe_sequential_untied_tp2_ep4",
         {**ERNIE, "tie_word_embeddings": False},
         {**geometry(tp=2, ep=4), **SEQUENTIAL}),
    Case("reshard_ernie4_5_moe_tp2_ep2_to_ep4_pp2", ERNIE,
         geometry(tp=2, ep=2), geometry(8, ep=4, pp=2)),
    Case("export_mimo_tp4_pp2_vpp2", MIMO, geometry(tp=4, pp=2, vpp=2)),
    Case("reshard_mimo_tp2_to_pp4", MIMO, geometry(tp=2), geometry(pp=4)),
    Case("export_mimo_v2_flash_tp2_ep2_etp2_pp2", WINDOWED,
         geometry(tp=2, ep=2, etp=2, pp=2)),
    Case("export_mimo_v2_flash_tp2_ep4", WINDOWED, geometry(tp=2, ep=4)),
    Case("reshard_mimo_v2_flash_ep4_to_tp2_ep2", WINDOWED,
         geometry(ep=4), geometry(8, tp=2, ep=2)),
    Case("export_glm4_moe_tp4_ep2_etp2_pp2_vpp2", GLM,
         geometry(tp=4, ep=2, etp=2, pp=2, vpp=2)),
    Case("export_glm4_moe_plain_tp2_ep4",
         {**GLM, "attention_bias": False, "use_qk_norm": False,
          "first_k_dense_replace": 2}, geometry(tp=2, ep=4)),
    Case("reshard_glm4_moe_tp2_ep2_to_ep4_pp2", GLM,
         geometry(tp=2, ep=2), geometry(8, ep=4, pp=2)),
    # What no other case binds: mutations of these lines changed nothing.
    Case("export_nemotron_h_latent_tp2_ep2_etp2",
         {**HYBRID_LATENT, "moe_intermediate_size": 6},
         geometry(tp=2, ep=2, etp=2)),
    Case("export_qwen3_kv_heads_left_out_tp2", EQUAL_HEADS, geometry(tp=2)),
    Case("export_gpt_oss_sequential_tp2_ep2", layers(BIASED, 2),
         {**geometry(tp=2, ep=2), **SEQUENTIAL}),
    Case("export_qwen3_unpadded_tp2",
         {**layers(DENSE, 1), "vocab_size": 62},
         {**geometry(tp=2), "pad_vocab": False}),
]
