# ===- test_rollout_vllm.py - Syncs into vLLM -----------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Every element of every vLLM parameter after a seed and after two steps is
what its loader, written again in test/rollout, makes of the checkpoint."""

import sys
from pathlib import Path

import pytest

from support import needs_tools

pytest.importorskip("numpy", reason="the plain loader needs numpy")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rollout.configs import MODELS  # noqa: E402
from rollout.syncs import (  # noqa: E402, F401
    Case, check_refusal, checkpoints, layouts, refused, unknown_layouts, verify,
)

pytestmark = needs_tools

FAMILIES = layouts("vllm")


def vllm(**keys: object) -> dict:
    return {"engine": "vllm", **keys}


# What each model goes through.
EACH = [
    ({"tp": 2}, vllm(tp=4)),
    ({"tp": 2}, vllm(tp=2, pp=2)),
    ({"pp": 2}, vllm(tp=1, replicas=2)),
]
SEVEN_LAYERS = {"nemotron_h": {"pp_layout": [4, 3]}}

# Slots of eight experts, the third and the first twice; and by layer.
TABLE = [7, 2, 2, 5, 0, 1, 6, 3, 4, 0]
TABLES = [TABLE[turn:] + TABLE[:turn] for turn in range(4)]

# From any trainer to any rollout, on the model with most axes.
ANY = {
    "tp_up": ({"tp": 2, "ep": 2}, vllm(tp=4)),
    "tp_down": ({"tp": 4, "ep": 2}, vllm(tp=1)),
    "ep_to_tp": ({"ep": 4}, vllm(tp=4)),
    "pp_to_none": ({"tp": 2, "pp": 2, "pp_layout": [1, 3]}, vllm(tp=2)),
    "etp_to_ep": ({"tp": 2, "ep": 2, "etp": 2, "pp": 2}, vllm(tp=2, ep=2)),
    "vpp_to_pp": ({"pp": 2, "vpp": 2}, vllm(pp=2, pp_layout=[3, 1])),
    "copies_to_replicas": (
        {"tp": 2, "ep": 2, "cp": 2}, vllm(tp=2, replicas=2)),
    "sequential": (
        {"tp": 2, "ep": 2, "experts": "sequential"}, vllm(tp=2, ep=2)),
    "key_heads_on_four_ranks_each": ({"tp": 4, "ep": 2}, vllm(tp=8, ep=8)),
    "experts_over_dp_and_tp": ({"tp": 2, "ep": 2}, vllm(tp=2, dp=2)),
    "ep_over_dp": ({"tp": 2, "ep": 2}, vllm(dp=2, ep=2)),
    "redundant": (
        {"ep": 4}, vllm(tp=2, ep=2, redundant_experts=2)),
    "redundant_uneven": (
        {"ep": 4}, vllm(tp=4, ep=4, redundant_experts=2)),
    "table": (
        {"ep": 4},
        vllm(tp=2, ep=2, expert_placement={"physical_to_logical": TABLE})),
    "table_by_layer": (
        {"ep": 4},
        vllm(tp=2, ep=2, expert_placement={"physical_to_logical": TABLES})),
    "up_first": ({"tp": 2, "ep": 2}, vllm(tp=2, w13_order="up_gate")),
    "padded_experts": ({"tp": 2, "ep": 2}, vllm(tp=4, moe_pad=8)),
}

CASES = [
    Case(family, {**trainer, **SEVEN_LAYERS.get(family, {})}
         if "pp" in trainer else trainer, rollout, model)
    for family in FAMILIES for model in MODELS[family]
    for trainer, rollout in EACH
]
if "qwen3_moe" in FAMILIES:
    CASES += [
        Case("qwen3_moe", *sides, label=label)
        for label, sides in ANY.items()
    ]
if "deepseek_v3" in FAMILIES:
    CASES += [
        Case("deepseek_v3", {"tp": 2, "ep": 4}, vllm(tp=2, ep=2), label="ep"),
        Case("deepseek_v3", {"tp": 2, "ep": 2},
             vllm(tp=2, ep=2, expert_placement="round_robin"),
             label="round_robin", changes={"n_group": 2}),
    ]


def test_every_layout_has_a_model() -> None:
    assert not unknown_layouts("vllm")
    assert "qwen3_moe" in FAMILIES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_engine_holds_what_its_loader_would(
    case, checkpoints, tmp_path  # noqa: F811
) -> None:
    if refused(case):
        check_refusal(case, tmp_path)
    else:
        verify(case, checkpoints, tmp_path)
