# ===- vision.py - The vision tower of Qwen3-VL and Qwen3.5 ---------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Beside the language model, cut over the same ranks, on the first stage."""

from __future__ import annotations

from .models import Model


def tower(model: Model) -> None:
    v = model.vision
    size, merged = v["hidden_size"], v["hidden_size"]
    merged *= v["spatial_merge_size"] ** 2
    patch = v["patch_size"]
    model.add(
        "visual.patch_embed.proj.weight",
        (size, v["in_channels"], v["temporal_patch_size"], patch, patch))
    model.add("visual.patch_embed.proj.bias", (size,))
    positions = v["num_position_embeddings"]
    if model.engine == "sglang":
        model.vocabulary(
            "visual.pos_embed.weight", positions, size, model.heads)
    else:
        model.add("visual.pos_embed.weight", (positions, size))
    heads = v["num_heads"]
    qkv = "qkv_proj" if model.engine == "sglang" else "qkv"
    for number in range(v["depth"]):
        at = f"visual.blocks.{number}"
        for norm in ("norm1", "norm2"):
            with_bias(model, f"{at}.{norm}", size)
        part = (heads, heads, size // heads)
        text, model.hidden = model.hidden, size
        model.query_key_value(
            f"{at}.attn.{qkv}", True, shape=part, quantized=False)
        model.hidden = text
        model.output(f"{at}.attn.proj", size, size, model.heads, True)
        pair(model, f"{at}.mlp", size, v["intermediate_size"], size)
    merger(model, "visual.merger", size, merged)
    for number in range(len(v.get("deepstack_visual_indexes") or [])):
        merger(model, f"visual.deepstack_merger_list.{number}", merged,
               merged)


def with_bias(model: Model, name: str, size: int) -> None:
    model.norm(name, size)
    model.add(f"{name}.bias", (size,))


def pair(model: Model, at: str, inputs: int, size: int, rows: int) -> None:
    model.column(f"{at}.linear_fc1", size, inputs, model.heads, bias=True,
                 quantized=False)
    model.output(f"{at}.linear_fc2", rows, size, model.heads, True)


def merger(model: Model, at: str, norm: int, merged: int) -> None:
    with_bias(model, f"{at}.norm", norm)
    pair(model, at, merged, merged, model.vision["out_hidden_size"])
