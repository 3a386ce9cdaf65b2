# ===- families.py - Model classes ----------------------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""One function a model class: the parameters of a rank."""

from __future__ import annotations

from .geometry import WHOLE
from .models import Model


def dense(model: Model) -> None:
    """Llama and what came of it."""
    c, kind = model.config, model.kind
    bias = kind == "qwen2" or bool(c.get("attention_bias"))
    gemma = kind == "gemma3"
    norms = kind in ("qwen3", "qwen3_vl") or gemma

    def layer(at: str, number: int) -> None:
        model.attention(
            f"{at}.self_attn", bias, norms=norms, fp8_scales=True,
            output_bias=kind == "llama" and bias)
        model.swiglu(f"{at}.mlp", c["intermediate_size"], model.rank.tp)
        model.norm(f"{at}.input_layernorm")
        model.norm(f"{at}.post_attention_layernorm")
        if gemma:
            model.norm(f"{at}.pre_feedforward_layernorm")
            model.norm(f"{at}.post_feedforward_layernorm")

    model.frame(layer, c["num_hidden_layers"],
                padded=not gemma or model.engine == "vllm")


def sparse(model: Model) -> None:
    """Qwen3-MoE, Mixtral, and the language model of Qwen3-VL-MoE."""
    c, mixtral = model.config, model.kind == "mixtral"
    count = c["num_local_experts" if mixtral else "num_experts"]

    def layer(at: str, number: int) -> None:
        model.attention(
            f"{at}.self_attn", bool(c.get("attention_bias")),
            norms=not mixtral, fp8_scales=True)
        is_dense = number in (c.get("mlp_only_layers") or []) or (
            (number + 1) % c.get("decoder_sparse_step", 1) != 0)
        if is_dense and not mixtral:
            model.swiglu(f"{at}.mlp", c["intermediate_size"], model.rank.tp)
        else:
            block = f"{at}.block_sparse_moe" if mixtral else f"{at}.mlp"
            model.column(f"{block}.gate", count, model.hidden, WHOLE,
                         quantized=model.engine == "vllm")
            model.experts(
                block, number, count,
                c["intermediate_size" if mixtral else "moe_intermediate_size"])
        model.norm(f"{at}.input_layernorm")
        model.norm(f"{at}.post_attention_layernorm")

    model.frame(layer, c["num_hidden_layers"])


def shared(model: Model) -> None:
    """DeepSeek and GLM-4-MoE: leading dense layers, then shared experts."""
    c, glm = model.config, model.kind == "glm4_moe"
    count, size = c["n_routed_experts"], c["moe_intermediate_size"]
    common = model.key("n_shared_experts", default=0)
    fused = common if model.rank.geometry.fuse_shared_experts else 0
    assert fused in (0, 1)

    def layer(at: str, number: int) -> None:
        if glm:
            model.attention(
                f"{at}.self_attn", bool(c.get("attention_bias")),
                norms=bool(c.get("use_qk_norm")))
        else:
            model.latent(f"{at}.self_attn")
        if number < c["first_k_dense_replace"] or (
            number % c.get("moe_layer_freq", 1) != 0
        ):
            model.swiglu(f"{at}.mlp", c["intermediate_size"], model.rank.tp)
        else:
            model.add(f"{at}.mlp.gate.weight", (count, model.hidden),
                      "fp32" if glm else None)
            if glm or c.get("topk_method") == "noaux_tc":
                model.add(
                    f"{at}.mlp.gate.e_score_correction_bias", (count,), "fp32")
            if common and not fused:
                model.swiglu(f"{at}.mlp.shared_experts", common * size,
                             model.rank.tp)
            model.experts(f"{at}.mlp", number, count, size, fused)
        model.norm(f"{at}.input_layernorm")
        model.norm(f"{at}.post_attention_layernorm")

    model.frame(layer, c["num_hidden_layers"])


def delta_net(model: Model) -> None:
    """Qwen3-Next and Qwen3.5: delta nets, now and then attention."""
    c = model.config
    every = c.get("full_attention_interval", 4)
    kinds = c.get("layer_types") or [
        "linear_attention" if (number + 1) % every else "full_attention"
        for number in range(c["num_hidden_layers"])
    ]
    level = "" if model.engine == "sglang" else ".self_attn"

    def layer(at: str, number: int) -> None:
        if kinds[number] == "linear_attention":
            model.delta_net(f"{at}.linear_attn", model.kind == "qwen3_next")
        else:
            model.attention(f"{at}{level}", bool(c.get("attention_bias")),
                            norms=True, gate=True)
        is_dense = not c.get("num_experts") or (
            number in (c.get("mlp_only_layers") or [])
            or (number + 1) % c.get("decoder_sparse_step", 1) != 0)
        if is_dense:
            model.swiglu(f"{at}.mlp", c["intermediate_size"], model.rank.tp)
        else:
            model.add(f"{at}.mlp.gate.weight",
                      (c["num_experts"], model.hidden))
            model.add(f"{at}.mlp.shared_expert_gate.weight",
                      (1, model.hidden))
            model.swiglu(f"{at}.mlp.shared_expert",
                         c["shared_expert_intermediate_size"], model.rank.tp)
            model.experts(f"{at}.mlp", number, c["num_experts"],
                          c["moe_intermediate_size"])
        model.norm(f"{at}.input_layernorm")
        model.norm(f"{at}.post_attention_layernorm")

    model.frame(layer, c["num_hidden_layers"])


def gpt_oss(model: Model) -> None:
    c, vllm = model.config, model.engine == "vllm"
    assert vllm or model.rank.geometry.ep == 1, "no expert slice of bf16"
    count = c["num_local_experts"]

    def layer(at: str, number: int) -> None:
        attention = f"{at}.attn" if vllm else f"{at}.self_attn"
        model.attention(attention, True, output_bias=True)
        model.vector(f"{attention}.sinks", c["num_attention_heads"],
                     model.heads)
        model.add(f"{at}.mlp.router.weight", (count, model.hidden))
        model.add(f"{at}.mlp.router.bias", (count,))
        model.stacked(
            f"{at}.mlp", number, count, c["intermediate_size"]
        ).add_interleaved(
            model, "bias" if vllm else "weight_bias",
            None if vllm else "fp32")
        model.norm(f"{at}.input_layernorm")
        model.norm(f"{at}.post_attention_layernorm")

    model.frame(layer, c["num_hidden_layers"],
                embedding="embedding" if vllm else "embed_tokens")


def nemotron_h(model: Model) -> None:
    c = model.config
    # SGLang asks for a key that the published config has not.
    groups = (c["n_groups"] if model.engine == "vllm"
              else c.get("mamba_n_groups", 8))

    def layer(at: str, number: int) -> None:
        mixer, kind = f"{at}.mixer", c["hybrid_override_pattern"][number]
        if kind == "M":
            model.mamba(
                mixer, c["mamba_num_heads"], c["mamba_head_dim"], groups,
                c["ssm_state_size"], c["conv_kernel"], c["use_conv_bias"],
                bool(c.get("mamba_proj_bias")), True)
        elif kind == "*":
            model.attention(mixer, bool(c.get("attention_bias")))
        elif kind == "-":
            linear_pair(model, mixer, c["intermediate_size"])
        else:
            count = c["n_routed_experts"]
            latent = c.get("moe_latent_size")
            if latent:
                model.column(
                    f"{mixer}.fc1_latent_proj", latent, model.hidden, WHOLE)
                model.column(
                    f"{mixer}.fc2_latent_proj", model.hidden, latent, WHOLE)
            model.add(f"{mixer}.gate.weight", (count, model.hidden))
            model.add(
                f"{mixer}.gate.e_score_correction_bias", (count,), "fp32")
            if model.key("n_shared_experts", default=0):
                linear_pair(model, f"{mixer}.shared_experts",
                            c["moe_shared_expert_intermediate_size"])
            model.experts(mixer, number, count, c["moe_intermediate_size"],
                          gated=False, hidden=latent)
        model.norm(f"{at}.norm")

    model.frame(layer, c["num_hidden_layers"], norm="norm_f")


def linear_pair(model: Model, at: str, size: int) -> None:
    model.column(f"{at}.up_proj", size, model.hidden, model.rank.tp)
    model.output(f"{at}.down_proj", model.hidden, size, model.rank.tp)


def falcon_h1(model: Model) -> None:
    c, vllm = model.config, model.engine == "vllm"

    def layer(at: str, number: int) -> None:
        model.mamba(
            f"{at}.mamba.mamba" if vllm else f"{at}.mamba",
            c["mamba_n_heads"], c["mamba_d_head"], c["mamba_n_groups"],
            c["mamba_d_state"], c["mamba_d_conv"], c["mamba_conv_bias"],
            bool(c.get("mamba_proj_bias")), bool(c.get("mamba_rms_norm")))
        model.attention(f"{at}.self_attn" if vllm else at,
                        bool(c.get("attention_bias")), norms=not vllm)
        model.swiglu(f"{at}.feed_forward", c["intermediate_size"],
                     model.rank.tp)
        model.norm(f"{at}.input_layernorm")
        model.norm(f"{at}.pre_ff_layernorm")

    model.frame(layer, c["num_hidden_layers"], norm="final_layernorm")
