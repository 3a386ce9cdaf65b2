# ===- test_rollout_run.py - From any trainer to any rollout --------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""One model of many axes, and shared experts: every element of every engine
parameter after a seed and after two steps is what the engine's loader, written
again in test/rollout, makes of the checkpoint."""

import sys
from pathlib import Path

import pytest

from support import needs_tools

pytest.importorskip("numpy", reason="the plain loader needs numpy")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rollout.syncs import Case, checkpoints, verify  # noqa: E402, F401

pytestmark = needs_tools

# Slots of eight experts, the third and the first twice; and by layer.
TABLE = [7, 2, 2, 5, 0, 1, 6, 3, 4, 0]
TABLES = [TABLE[turn:] + TABLE[:turn] for turn in range(4)]

# Keys of the trainer, keys of the rollout.
BOTH = {
    "tp_up": ({"tp": 2, "ep": 2}, {"tp": 4}),
    "tp_down": ({"tp": 4, "ep": 2}, {"tp": 1}),
    "ep_to_tp": ({"ep": 4}, {"tp": 4}),
    "pp_to_none": ({"tp": 2, "pp": 2, "pp_layout": [1, 3]}, {"tp": 2}),
    "etp_to_ep": ({"tp": 2, "ep": 2, "etp": 2, "pp": 2}, {"tp": 2, "ep": 2}),
    "vpp_to_pp": ({"pp": 2, "vpp": 2}, {"pp": 2, "pp_layout": [3, 1]}),
    "copies_to_replicas": (
        {"tp": 2, "ep": 2, "cp": 2}, {"tp": 2, "replicas": 2}),
    "sequential": (
        {"tp": 2, "ep": 2, "experts": "sequential"}, {"tp": 2, "ep": 2}),
    "key_heads_on_four_ranks_each": (
        {"tp": 4, "ep": 2}, {"tp": 8, "ep": 8}),
    "redundant": ({"ep": 4}, {"tp": 2, "ep": 2, "redundant_experts": 2}),
    "table": (
        {"ep": 4},
        {"tp": 2, "ep": 2,
         "expert_placement": {"physical_to_logical": TABLE}}),
    "table_by_layer": (
        {"ep": 4},
        {"tp": 2, "ep": 2,
         "expert_placement": {"physical_to_logical": TABLES}}),
    "up_first": ({"tp": 2, "ep": 2}, {"tp": 2, "w13_order": "up_gate"}),
    "padded_experts": ({"tp": 2, "ep": 2}, {"tp": 4, "moe_pad": 8}),
}
ONE = {
    "vllm": {
        "experts_over_dp_and_tp": ({"tp": 2, "ep": 2}, {"tp": 2, "dp": 2}),
        "ep_over_dp": ({"tp": 2, "ep": 2}, {"dp": 2, "ep": 2}),
        "redundant_uneven": (
            {"ep": 4}, {"tp": 4, "ep": 4, "redundant_experts": 2}),
    },
    "sglang": {
        "tp_inside_ep": ({"tp": 2, "ep": 2}, {"tp": 4, "ep": 2}),
        "attention_dp": (
            {"tp": 2, "ep": 2}, {"tp": 2, "ep": 2, "attention_dp": 2}),
        "attention_dp_and_tp": (
            {"tp": 2, "ep": 2}, {"tp": 4, "attention_dp": 2}),
    },
}
SHARED_SLOT = {"fuse_shared_experts": True}

CASES = [
    Case("qwen3_moe", trainer, {"engine": engine, **rollout}, label=label)
    for engine, own in ONE.items()
    for label, (trainer, rollout) in {**BOTH, **own}.items()
] + [
    Case("deepseek_v3", {"tp": 2, "ep": 2},
         {"engine": "vllm", "tp": 2, "ep": 2,
          "expert_placement": "round_robin"},
         label="round_robin", changes={"n_group": 2}),
] + [
    Case(family, {"tp": 2, "ep": 2},
         {"engine": "sglang", "tp": 4, "ep": ep, **SHARED_SLOT},
         label="shared_slot")
    for family in ("deepseek_v3", "glm4_moe") for ep in (2, 4)
]


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.rollout['engine']}_{case.name}")
def test_any_trainer_to_any_rollout(
    case, checkpoints, tmp_path  # noqa: F811
) -> None:
    verify(case, checkpoints, tmp_path)
