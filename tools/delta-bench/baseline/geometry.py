# ===- geometry.py - The shards that are measured -------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Rank 0 of three published models: a model.json each, and what is known of
the shard. The tiny forms have the same layers of each kind, small."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHARDS = Path(__file__).resolve().parent / "shards"

# The converters of the three, as modules of the published package.
MODULES = (
    "megatron.bridge.models.nemotronh.nemotron_h_bridge",
    "megatron.bridge.models.qwen.qwen2_bridge",
    "megatron.bridge.models.qwen.qwen3_moe_bridge",
)


@dataclass(frozen=True)
class Geometry:
    """A model.json, and what rank 0 of its trainer holds."""

    name: str
    label: str
    config: Mapping[str, Any]
    trainer: Mapping[str, Any]
    # Of the full size; a tiny form is compared with its plan instead.
    num_parameters: int
    num_elements: int
    is_tiny: bool = False

    @property
    def num_ranks(self) -> int:
        """Ranks of the trainer: its groups' sizes divide it."""
        sizes = {"tp": 1, "cp": 1, "ep": 1, "etp": 1, "pp": 1, **self.trainer}
        dense = sizes["tp"] * sizes["cp"]
        return sizes["pp"] * math.lcm(dense, sizes["ep"] * sizes["etp"])

    @property
    def model(self) -> dict[str, Any]:
        """As a model.json."""
        return {
            "config": dict(self.config),
            "trainer": dict(self.trainer),
            "rollout": {"engine": "hf"},
        }


# Name: label, parameters and elements of rank 0, sizes of the tiny form.
TABLE: dict[str, tuple[str, int, int, dict[str, Any]]] = {
    "A": ("Qwen3-30B-A3B, TP1 x EP8", 1875, 5_164_972_032, {
        "num_hidden_layers": 2, "hidden_size": 64, "head_dim": 16,
        "num_attention_heads": 8, "num_key_value_heads": 4,
        "num_experts": 16, "moe_intermediate_size": 24,
        "intermediate_size": 96, "vocab_size": 256,
    }),
    "B": ("Qwen2.5-7B, TP2", 199, 3_807_910_400, {
        "num_hidden_layers": 2, "hidden_size": 96, "intermediate_size": 72,
        "num_attention_heads": 6, "num_key_value_heads": 2,
        "vocab_size": 512,
    }),
    "C": ("Nemotron-Nano-9B-v2, TP2", 333, 4_444_241_344, {
        "num_hidden_layers": 5, "hybrid_override_pattern": "M-*M-",
        "hidden_size": 64, "intermediate_size": 48,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "mamba_num_heads": 8, "mamba_head_dim": 8, "n_groups": 2,
        "ssm_state_size": 16, "vocab_size": 512,
    }),
}  # fmt: skip


def geometry(name: str, *, tiny: bool = False) -> Geometry:
    """The geometry of a name of TABLE; KeyError for another."""
    label, num_parameters, num_elements, small = TABLE[name]
    model = json.loads((SHARDS / f"{name.lower()}.json").read_text())
    config = {**model["config"], **small} if tiny else model["config"]
    return Geometry(
        name, label + (", tiny" if tiny else ""), config, model["trainer"],
        num_parameters, num_elements, tiny,
    )  # fmt: skip
