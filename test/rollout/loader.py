# ===- loader.py - What an engine holds after loading a checkpoint --------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The documented rule of the loaders of vLLM 0.33 and SGLang 0.5.23, written
again: full tensors come one by one, each names a parameter and a shard of it,
and every rank keeps its part. Shares nothing with the layouts of models/."""

from __future__ import annotations

import re

from .families import (
    delta_net, dense, falcon_h1, gpt_oss, nemotron_h, shared, sparse,
)
from .geometry import Geometry
from .models import Model
from .parameters import Parameter, Tensor
from .vision import tower

LATENT = ("deepseek_v2", "deepseek_v3", "kimi_k2")
CLASSES = {
    **dict.fromkeys(
        ("llama", "mistral", "qwen2", "qwen3", "gemma3", "qwen3_vl"), dense),
    **dict.fromkeys(("qwen3_moe", "mixtral", "qwen3_vl_moe"), sparse),
    **dict.fromkeys(("glm4_moe", *LATENT), shared),
    **dict.fromkeys(("qwen3_next", "qwen3_5", "qwen3_5_moe"), delta_net),
    "gpt_oss": gpt_oss, "nemotron_h": nemotron_h, "falcon_h1": falcon_h1,
}

# A checkpoint's module -> the fused one and the id of the shard.
ATTENTION = {
    "q_proj": ("qkv_proj", "q"), "k_proj": ("qkv_proj", "k"),
    "v_proj": ("qkv_proj", "v"),
}
SWIGLU = {"gate_proj": ("gate_up_proj", 0), "up_proj": ("gate_up_proj", 1)}
FUSED_A = {"vllm": "fused_qkv_a_proj", "sglang": "fused_qkv_a_proj_with_mqa"}
DELTA_NET = {
    "in_proj_qkv": ("in_proj_qkvz", (0, 1, 2)),
    "in_proj_z": ("in_proj_qkvz", 3),
    "in_proj_b": ("in_proj_ba", 0), "in_proj_a": ("in_proj_ba", 1),
}
EXPERT_PARTS = {
    "gate_proj": ("w13", "gate"), "up_proj": ("w13", "up"),
    "down_proj": ("w2", "down"), "w1": ("w13", "gate"), "w3": ("w13", "up"),
    "w2": ("w2", "down"),
}
ONE_EXPERT = re.compile(r"(.*\.experts)\.(\d+)\.(\w+)\.(\w+)")
ALL_EXPERTS = re.compile(r"(.*\.experts)\.(gate_up_proj|down_proj)(_bias)?")
SHARED_EXPERT = re.compile(r"(.*)\.shared_experts\.(\w+)\.(\w+)")


def stacked(model: Model) -> dict[str, tuple[str, object]]:
    if model.kind == "nemotron_h":
        return ATTENTION
    table = {**ATTENTION, **SWIGLU}
    if model.kind in LATENT:
        table = dict(SWIGLU)
        if model.key("q_lora_rank"):
            name = FUSED_A[model.engine]
            table["q_a_proj"] = (name, 0)
            table["kv_a_proj_with_mqa"] = (name, 1)
    return {**table, **DELTA_NET}


def renamed(model: Model, name: str) -> str:
    """The path of the module in the engine."""
    vllm = model.engine == "vllm"
    if name.startswith("model.visual."):
        name = name.removeprefix("model.")
        return name if vllm else name.replace(".attn.qkv.", ".attn.qkv_proj.")
    if name.startswith("model.language_model."):
        name = model.prefix + name.removeprefix("model.language_model.")
    elif name.startswith("lm_head."):
        name = model.head + name.removeprefix("lm_head.")
    if model.kind == "nemotron_h":
        name = re.sub("^backbone.embeddings", "model.embed_tokens", name)
        name = re.sub("^backbone", "model", name).replace("A_log", "A")
    elif model.kind == "falcon_h1":
        name = name.replace("A_log", "A")
        if vllm:
            name = name.replace(".mamba.", ".mamba.mamba.")
    elif model.kind == "gpt_oss" and vllm:
        name = name.replace(".self_attn.", ".attn.")
        name = name.replace("model.embed_tokens.", "model.embedding.")
    if not vllm and model.kind in (
        "falcon_h1", "qwen3_next", "qwen3_5", "qwen3_5_moe"
    ):
        name = name.replace(".self_attn.", ".")
    return name


def skipped(model: Model, name: str) -> bool:
    """Of a draft model, or a head that is the embedding."""
    layer = re.match(r"model\.layers\.(\d+)\.", name)
    return (
        name.startswith("mtp.")
        or (layer and int(layer[1]) >= model.config["num_hidden_layers"])
        or (name.startswith("lm_head.") and model.tied))


def expert(model: Model, name: str) -> tuple[str, tuple] | None:
    """Parameter and shard of a tensor of one expert, or of all."""
    routed = ".routed_experts" if model.engine == "vllm" else ""
    if match := ONE_EXPERT.fullmatch(name):
        path, number, part, suffix = match.groups()
        half, part = EXPERT_PARTS[part]
        return f"{path}{routed}.{half}_{suffix}", (int(number), part)
    if match := ALL_EXPERTS.fullmatch(name):
        path, part, bias = match.groups()
        half = "w2" if part == "down_proj" else "w13"
        suffix = "weight"
        if bias:
            suffix = "bias" if model.engine == "vllm" else "weight_bias"
        return (f"{path}{routed}.{half}_{suffix}",
                (None, "down" if half == "w2" else "both"))
    match = SHARED_EXPERT.fullmatch(name)
    if match and model.rank.geometry.fuse_shared_experts:
        path, part, suffix = match.groups()
        half, part = EXPERT_PARTS[part]
        return f"{path}.experts{routed}.{half}_{suffix}", (-1, part)
    return None


def routed(model: Model, name: str) -> tuple[str, object]:
    if found := expert(model, name):
        return found
    modules = name.split(".")
    for at, module in enumerate(modules):
        if module in stacked(model) and not name.startswith("visual."):
            modules[at], shard = stacked(model)[module]
            return ".".join(modules), shard
    return name, None


def untransposed(model: Model, name: str, tensor: Tensor) -> Tensor:
    """Qwen3-VL-MoE stores its experts with the input first."""
    if model.kind == "qwen3_vl_moe" and ALL_EXPERTS.fullmatch(name):
        return tensor.of(tensor.data.transpose(0, 2, 1))
    return tensor


def absorb(model: Model) -> None:
    """SGLang's copies of the two halves of kv_b_proj, head by head. Batched
    products want the input contiguous."""
    c = model.config
    nope, value, low = (
        c["qk_nope_head_dim"], c["v_head_dim"], c["kv_lora_rank"])
    for name in list(model.parameters):
        if not name.endswith(".kv_b_proj.weight"):
            continue
        held = model.parameters[name]
        heads = len(held.data) // (nope + value)
        at = name.removesuffix("kv_b_proj.weight")

        def halves(values, dims=(heads, nope + value, low)):
            whole = values.reshape(dims)
            return whole[:, :nope], whole[:, nope:].transpose(0, 2, 1)

        for key, data, filled, stride in zip(
            ("w_kc", "w_vc"), halves(held.data), halves(held.filled),
            ((nope * low, 1, nope), (low * value, 1, low)),
        ):
            model.copy(f"{at}{key}", data, filled, stride, held.dtype)


def load(
    tensors: dict[str, Tensor], config: dict, geometry: Geometry,
    dtype: str = "bf16",
) -> list[dict[str, Parameter]]:
    """Parameters of every rank, once each where two names share storage."""
    language = config.get("text_config", config)
    tagged = any(tensor.dtype == "tag" for tensor in tensors.values())
    reached = set()
    world = []
    for rank in geometry.ranks(language["num_hidden_layers"]):
        model = Model(config, rank, dtype, tagged)
        CLASSES[model.kind](model)
        if model.vision and rank.first:
            tower(model)
        for name, tensor in tensors.items():
            if skipped(model, name):
                reached.add(name)
                continue
            target, shard = routed(model, renamed(model, name))
            head = f"{model.head}weight"
            copied = model.tied and name.endswith(".embed_tokens.weight")
            for known in (target, head) if copied else (target,):
                if known in model.parameters:
                    reached.add(name)
                    model.parameters[known].load(
                        untransposed(model, name, tensor), shard)
        if model.engine == "sglang" and model.kind in LATENT:
            absorb(model)
        world.append(model.parameters)
    lost = sorted(tensors.keys() - reached)
    assert not lost, f"no parameter takes {lost[:5]}"
    return world
