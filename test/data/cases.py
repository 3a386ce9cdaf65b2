# ===- cases.py - Models and geometries of this folder --------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Tiny configurations, sizes odd wherever a split allows it."""

import re

from families import (
    ERNIE, GEMMA2, GEMMA3, GLM, LLAMA, MIMO, MINIMAX, MISTRAL, OLMOE, PARALLEL,
    QWEN2, WINDOWED,
)
from latent import (
    BORROWED, BORROWED_MOST, DEEPSEEK2, DEEPSEEK3, DISPATCH, GEMMA3_IMAGES,
    GEMMA3_NINE, GEMMA4, GEMMA4_ALTERNATING, GEMMA4_EXPERTS, GEMMA4_LARGE,
    GLM_LITE, GLM_PREDICTING, GLM_SPARSE, HYBRID_PREDICTING, KIMI, LISTED,
    MIMO_PREDICTING,
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


NEXT = {
    **COMMON,
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "decoder_sparse_step": 1,
    "full_attention_interval": 2,
    "head_dim": 8,
    "hidden_size": 20,
    "intermediate_size": 28,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 3,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 12,
    "linear_value_head_dim": 5,
    "mlp_only_layers": [],
    "moe_intermediate_size": 6,
    "norm_topk_prob": True,
    "num_attention_heads": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "partial_rotary_factor": 0.25,
    "rope_theta": 10000000.0,
    "shared_expert_intermediate_size": 12,
    "vocab_size": 61,
}

VISION = {
    "deepstack_visual_indexes": [],
    "depth": 3,
    "hidden_size": 12,
    "in_channels": 3,
    "intermediate_size": 20,
    "num_heads": 4,
    "num_position_embeddings": 9,
    "out_hidden_size": 20,
    "patch_size": 2,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}

ROPE = {
    "mrope_interleaved": True,
    "mrope_section": [2, 1, 1],
    "rope_type": "default",
    "rope_theta": 10000000.0,
    "partial_rotary_factor": 0.25,
}

# Dense and without a tower.
DELTA_NET = {
    **COMMON,
    "architectures": ["Qwen3_5ForCausalLM"],
    "model_type": "qwen3_5_text",
    "attention_bias": False,
    "attn_output_gate": True,
    "dtype": "bfloat16",
    "full_attention_interval": 2,
    "head_dim": 16,
    "hidden_size": 20,
    "intermediate_size": 28,
    "layer_types": ["linear_attention", "full_attention"] * 2,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 3,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 12,
    "linear_value_head_dim": 5,
    "mlp_only_layers": [],
    "mtp_num_hidden_layers": 1,
    "mtp_use_dedicated_embeddings": False,
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "rope_parameters": ROPE,
    "vocab_size": 61,
}


def seeing(kind: str, text: dict, indexes: list) -> dict:
    """A model with a vision tower; `indexes` are its deepstack outputs."""
    names = {"qwen3_5": "Qwen3_5", "qwen3_vl": "Qwen3VL"}
    family = names[kind.removesuffix("_moe")]
    moe = "Moe" if kind.endswith("_moe") else ""
    return {
        "architectures": [f"{family}{moe}ForConditionalGeneration"],
        "model_type": kind,
        "text_config": {**text, "model_type": f"{kind}_text"},
        "tie_word_embeddings": False,
        "vision_config": {
            **VISION, "deepstack_visual_indexes": indexes, "model_type": kind,
        },
    }


SEEING_DELTA_NET = seeing("qwen3_5", DELTA_NET, [])
SEEING_SPARSE = seeing(
    "qwen3_5_moe",
    {
        **DELTA_NET,
        "moe_intermediate_size": 6,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "shared_expert_intermediate_size": 12,
    },
    [])
SEEING_DENSE = seeing(
    "qwen3_vl",
    {**DENSE, "head_dim": 8, "num_attention_heads": 4,
     "num_key_value_heads": 2, "rope_scaling": ROPE},
    [0, 2])
SEEING_EXPERTS = seeing(
    "qwen3_vl_moe",
    {**EXPERTS, "head_dim": 8, "hidden_size": 20, "moe_intermediate_size": 6,
     "num_attention_heads": 4, "num_experts": 4, "rope_scaling": ROPE},
    [1])

SEEING_FRAMES = {
    **SEEING_DENSE,
    "vision_config": {**SEEING_DENSE["vision_config"],
                      "temporal_patch_size": 3},
}

TEXT_SPARSE = {
    **SEEING_SPARSE["text_config"],
    "architectures": ["Qwen3_5MoeForCausalLM"],
}


def tied(config: dict) -> dict:
    return {**config, "tie_word_embeddings": True}


def layers(config: dict, count: int) -> dict:
    if "text_config" in config:
        return {**config, "text_config": layers(config["text_config"], count)}
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
# The config of Qwen3-Next does not tell.
MTP = {"provider": {"mtp_num_layers": 1}}


def stacked(prefix: str, numbers: range, sparse: dict) -> dict:
    """The key list of a checkpoint with stacked experts in some layers."""
    text = sparse["text_config"]
    experts = text["num_experts"]
    hidden, inner = text["hidden_size"], text["moe_intermediate_size"]
    shapes = {
        "gate_up_proj": [experts, 2 * inner, hidden],
        "down_proj": [experts, hidden, inner],
    }
    return {
        "drop": [re.escape(prefix) + r"\d+\.mlp\.experts\."],
        "add": {
            f"{prefix}{number}.mlp.experts.{name}": shape
            for number in numbers
            for name, shape in shapes.items()
        },
    }


STACKED_MTP = {"keys": stacked("mtp.layers.", range(1), SEEING_SPARSE)}
STACKED = {
    "keys": stacked("model.language_model.layers.", range(4), SEEING_SPARSE)
}

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
    # Delta nets, MTP layers, vision towers.
    Case("reshard_qwen3_next_mtp_tp2_ep2_to_tp4_etp2_pp2", NEXT,
         {**geometry(tp=2, ep=2), **MTP},
         {**geometry(tp=4, etp=2, pp=2), **MTP}),
    Case("reshard_qwen3_5_tied_tp2_pp2_to_pp2_vpp2", tied(SEEING_DELTA_NET),
         geometry(tp=2, pp=2), geometry(8, pp=2, vpp=2)),
    Case("reshard_qwen3_5_moe_tp2_ep4_to_ep2_etp2_pp2", SEEING_SPARSE,
         geometry(tp=2, ep=4), geometry(ep=2, etp=2, pp=2)),
    Case("reshard_qwen3_vl_tp4_to_tp2_pp2", SEEING_DENSE,
         geometry(tp=4), geometry(tp=2, pp=2)),
    Case("reshard_qwen3_vl_moe_tp2_ep2_to_tp4_etp2", layers(SEEING_EXPERTS, 2),
         geometry(tp=2, ep=2), geometry(tp=4, etp=2)),

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
    Case("export_olmoe_ep2_etp2_pp2_vpp2", OLMOE,
         geometry(ep=2, etp=2, pp=2, vpp=2)),
    Case("reshard_olmoe_ep4_pp2_to_ep2_etp2", OLMOE,
         geometry(ep=4, pp=2), geometry(8, ep=2, etp=2)),
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
    Case("export_qwen3_next_mtp_tp2_ep2_pp2", NEXT,
         {**geometry(tp=2, ep=2, pp=2), **MTP}),
    Case("export_qwen3_next_tp4_ep2_etp2_pp2_vpp2", NEXT,
         geometry(tp=4, ep=2, etp=2, pp=2, vpp=2)),
    Case("export_qwen3_5_tied_tp2_pp2", tied(SEEING_DELTA_NET),
         geometry(tp=2, pp=2)),
    Case("export_qwen3_5_text_tp4_pp2_vpp2", DELTA_NET,
         geometry(tp=4, pp=2, vpp=2)),
    Case("export_qwen3_5_moe_stacked_tp2_ep2_etp2_pp2", SEEING_SPARSE,
         {**geometry(tp=2, ep=2, etp=2, pp=2), **STACKED}),
    Case("export_qwen3_5_moe_stacked_mtp_tp2_ep4", SEEING_SPARSE,
         {**geometry(tp=2, ep=4), **STACKED_MTP}),
    Case("export_qwen3_vl_tied_tp2_pp2", tied(SEEING_DENSE),
         geometry(tp=2, pp=2)),
    Case("export_qwen3_vl_moe_tp4_ep2_etp2_pp2", SEEING_EXPERTS,
         geometry(tp=4, ep=2, etp=2, pp=2)),

    # Latent attention.
    Case("export_deepseek_v2_tp4_ep2_etp2_pp2_vpp2", DEEPSEEK2,
         geometry(tp=4, ep=2, etp=2, pp=2, vpp=2)),
    Case("reshard_deepseek_v2_tp2_ep2_to_ep4_pp2", DEEPSEEK2,
         geometry(tp=2, ep=2), geometry(8, ep=4, pp=2)),
    Case("export_deepseek_v3_tp4_ep2_etp2_pp2_vpp2", DEEPSEEK3,
         geometry(tp=4, ep=2, etp=2, pp=2, vpp=2)),
    Case("reshard_deepseek_v3_tp2_pp2_to_ep4_pp2_vpp2", DEEPSEEK3,
         geometry(tp=2, pp=2), geometry(8, ep=4, pp=2, vpp=2)),
    Case("export_kimi_k2_tp4_ep2_etp2_pp2_vpp2", KIMI,
         geometry(tp=4, ep=2, etp=2, pp=2, vpp=2)),
    Case("reshard_kimi_k2_tp2_ep2_to_ep4_pp2", KIMI,
         geometry(tp=2, ep=2), geometry(8, ep=4, pp=2)),
    Case("export_glm4_moe_lite_tp4_ep2_etp2_pp2_vpp2", GLM_LITE,
         geometry(tp=4, ep=2, etp=2, pp=2, vpp=2)),
    Case("reshard_glm4_moe_lite_ep4_to_tp2_ep2_pp2", GLM_LITE,
         geometry(ep=4), geometry(8, tp=2, ep=2, pp=2)),
    Case("export_glm_moe_dsa_tp4_ep2_etp2_pp2_vpp2", GLM_SPARSE,
         {**geometry(tp=4, ep=2, etp=2, pp=2, vpp=2), **DISPATCH}),
    # Layers 2 and 3 share the choice of layer 1.
    Case("export_glm_moe_dsa_shared_tp2_ep4",
         {**GLM_SPARSE, "index_topk_freq": 3, "index_skip_topk_offset": 2},
         {**geometry(tp=2, ep=4), **DISPATCH}),
    Case("reshard_glm_moe_dsa_tp2_ep2_to_ep4_pp2", GLM_SPARSE,
         {**geometry(tp=2, ep=2), **DISPATCH},
         {**geometry(8, ep=4, pp=2), **DISPATCH}),

    # Prediction layers beside a decoder.
    Case("export_glm4_moe_mtp_tp4_ep2_etp2_pp2_vpp2", GLM_PREDICTING,
         geometry(tp=4, ep=2, etp=2, pp=2, vpp=2)),
    Case("reshard_glm4_moe_mtp_tp2_ep2_to_ep4_pp2", GLM_PREDICTING,
         geometry(tp=2, ep=2), geometry(8, ep=4, pp=2)),
    Case("export_mimo_mtp_tp4_pp2_vpp2", MIMO_PREDICTING,
         geometry(tp=4, pp=2, vpp=2)),
    Case("reshard_mimo_mtp_tp2_to_pp4", MIMO_PREDICTING,
         geometry(tp=2), geometry(pp=4)),
    Case("export_mimo_v2_flash_mtp_tp2_ep2_etp2_pp2", WINDOWED,
         {**geometry(tp=2, ep=2, etp=2, pp=2), **LISTED}),
    Case("reshard_mimo_v2_flash_mtp_ep4_to_tp2_ep2", WINDOWED,
         {**geometry(ep=4), **LISTED},
         {**geometry(8, tp=2, ep=2), **LISTED}),
    Case("export_nemotron_h_moe_mtp_tp2_ep2_etp3_pp2",
         {**HYBRID_EXPERTS, **HYBRID_PREDICTING},
         geometry(tp=2, ep=2, etp=3, pp=2, pp_layout="MEM*|EME")),
    Case("export_nemotron_h_moe_mtp_twice_tp2_ep4",
         {**HYBRID_EXPERTS, **HYBRID_PREDICTING,
          "mtp_use_repeated_layer": False, "num_nextn_predict_layers": 2},
         geometry(tp=2, ep=4)),
    Case("reshard_nemotron_h_moe_mtp_ep4_to_tp2_ep2",
         {**HYBRID_EXPERTS, **HYBRID_PREDICTING},
         geometry(ep=4), geometry(tp=2, ep=2)),

    # Images, and the three kinds of Gemma 4.
    Case("export_gemma3_images_tp4_pp2_vpp2", GEMMA3_IMAGES,
         geometry(tp=4, pp=2, vpp=2)),
    Case("reshard_gemma3_images_tp2_pp2_to_tp4", GEMMA3_IMAGES,
         geometry(tp=2, pp=2), geometry(8, tp=4)),
    Case("export_gemma4_tp2", GEMMA4, {**geometry(tp=2), **BORROWED}),
    Case("export_gemma4_wide_tp4", {**GEMMA4, "use_double_wide_mlp": True},
         {**geometry(tp=4), **BORROWED}),
    Case("export_gemma4_large_tp2", GEMMA4_LARGE, geometry(tp=2)),
    Case("export_gemma4_moe_tp2_ep2_etp2_pp2", GEMMA4_EXPERTS,
         geometry(tp=2, ep=2, etp=2, pp=2)),

    # What mutations of the texts showed to be alike in all cases before, or
    # never there.
    Case("export_ernie4_5_moe_late_tp2_ep2",
         {**ERNIE, "moe_layer_start_index": 2}, geometry(tp=2, ep=2)),
    Case("export_gemma3_images_nine_tp2", GEMMA3_NINE, geometry(tp=2)),
    Case("export_gemma4_alternating_tp2", GEMMA4_ALTERNATING,
         {**geometry(tp=2), **BORROWED_MOST}),
    Case("export_qwen3_vl_frames_tp2", SEEING_FRAMES, geometry(tp=2)),
    Case("export_qwen3_5_moe_text_ep2", TEXT_SPARSE, geometry(ep=2)),
    Case("export_glm_moe_dsa_mtp_ep2",
         {**GLM_SPARSE, "num_nextn_predict_layers": 1},
         {**geometry(ep=2),
          "provider": {**DISPATCH["provider"], "mtp_num_layers": 1}}),
    Case("export_glm_moe_dsa_listed_ep2",
         {**GLM_SPARSE, "index_topk_freq": 3, "index_skip_topk_offset": 2,
          "indexer_types": ["full", "full", "shared", "shared"]},
         {**geometry(ep=2), **DISPATCH}),
]
