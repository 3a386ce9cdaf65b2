# ===- test_rollout_slots.py - Slots, copies and padding of engines -------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What an engine has beside one copy of each element: several slots of an
expert, absorbed copies, a shared expert's slot, padding; and engines that lay
the same shape out in another way, or move experts."""

import sys
from pathlib import Path

import pytest

from support import needs_tools

np = pytest.importorskip("numpy", reason="the plain loader needs numpy")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "runtime/python"), str(ROOT / "test")]

from delta_sync import DeltaError, Status  # noqa: E402
from rollout.configs import (  # noqa: E402
    BIASED, DEEPSEEK3, DELTA_NET, DENSE, EXPERTS, HYBRID, NEXT,
)
from rollout.traps import ROUTED, Trap, both, rows  # noqa: E402

pytestmark = needs_tools


# ===--- copies and slots ---------------------------------------------------===

def test_absorbed_copies_follow_their_source(tmp_path) -> None:
    """Copies that no list of parameters has, in another order of memory."""
    at = "model.layers.1.self_attn."
    with Trap(
        tmp_path, DEEPSEEK3, {"tp": 2, "ep": 2},
        {"engine": "sglang", "tp": 2}
    ) as trap:
        # A head has 5 rows without rotation and 3 of values, 7 columns. Head 5
        # is the second rank's second.
        key, value = 7 * (5 * 8 + 2) + 4, 7 * (5 * 8 + 6) + 3
        changed = trap.change({f"{at}kv_b_proj.weight": [key, value]})
        assert changed == {
            (1, f"{at}kv_b_proj.weight"): [
                7 * (8 + 2) + 4, 7 * (8 + 6) + 3],
            (1, f"{at}w_kc"): [(5 + 2) * 7 + 4],
            (1, f"{at}w_vc"): [(7 + 3) * 3 + 1],
        }
        held = trap.engine.held(1)
        assert held[f"{at}w_kc"].stride == (35, 1, 5)
        assert held[f"{at}w_vc"].stride == (21, 1, 7)
        # A second update goes to the same memory.
        changed = trap.change({f"{at}kv_b_proj.weight": [key]})
        assert changed[1, f"{at}w_kc"] == [(5 + 2) * 7 + 4]
        assert len(changed) == 2


@both
def test_every_slot_of_an_expert_gets_it(engine, tmp_path) -> None:
    at = f"model.layers.0.mlp.experts{ROUTED[engine]}."
    with Trap(
        tmp_path, EXPERTS, {"ep": 2},
        {"engine": engine, "tp": 2, "ep": 2, "redundant_experts": 2}
    ) as trap:
        # Ten slots, five a rank; 8 and 9 repeat experts 0 and 1.
        changed = trap.change(
            {"model.layers.0.mlp.experts.1.gate_proj.weight": [12 * 7 + 1]})
        place = 12 * 7 + 1
        assert changed == {
            (0, f"{at}w13_weight"): [1 * 24 * 12 + place],
            (1, f"{at}w13_weight"): [4 * 24 * 12 + place],
        }


@both
def test_bias_that_one_rank_adds(engine, tmp_path) -> None:
    """The others keep zeros: it is added once."""
    bias = "w2_bias" if engine == "vllm" else "w2_weight_bias"
    with Trap(
        tmp_path, BIASED, {"tp": 2}, {"engine": engine, "tp": 2}
    ) as trap:
        changed = trap.change(
            {"model.layers.3.mlp.experts.down_proj_bias": [14 * 6 + 2]})
        name = f"model.layers.3.mlp.experts{ROUTED[engine]}.{bias}"
        assert changed == {(0, name): [14 * 6 + 2]}


@both
def test_rows_of_the_vocabulary_and_none_of_the_padding(
    engine, tmp_path
) -> None:
    # 61 rows in 64: the second rank has rows 32 to 60.
    with Trap(
        tmp_path, DENSE, {"pp": 2}, {"engine": engine, "tp": 2}
    ) as trap:
        changed = trap.change(
            {"model.embed_tokens.weight": rows(31, 61, 20)})
        assert changed == {
            (0, "model.embed_tokens.weight"): rows(31, 32, 20),
            (1, "model.embed_tokens.weight"): rows(0, 29, 20),
        }


def test_shared_expert_is_the_slot_behind_the_routed(tmp_path) -> None:
    """It has no module of its own, and lies on every expert rank."""
    at = "model.layers.1.mlp.experts."
    with Trap(
        tmp_path, DEEPSEEK3, {"tp": 2, "ep": 2},
        {"engine": "sglang", "tp": 4, "ep": 2, "fuse_shared_experts": True}
    ) as trap:
        # Four routed slots and one; 6 of 12 columns on each of two ranks.
        shared = "model.layers.1.mlp.shared_experts."
        changed = trap.change({f"{shared}down_proj.weight": [12 * 40 + 7]})
        assert changed == {
            (rank, f"{at}w2_weight"): [(4 * 48 + 40) * 6 + 1]
            for rank in (1, 3)}
        changed = trap.change({f"{shared}up_proj.weight": [48 * 2 + 3]})
        assert changed == {
            (rank, f"{at}w13_weight"): [(4 * 12 + 6 + 2) * 48 + 3]
            for rank in (0, 2)}


@both
def test_skip_connection_alone(engine, tmp_path) -> None:
    """A reload by layers lost it."""
    with Trap(
        tmp_path, HYBRID, {"tp": 1}, {"engine": engine, "tp": 2}
    ) as trap:
        name = "backbone.layers.2.mixer.D"
        wide = is_wide(trap, name)
        changed = trap.change(
            {name: [2]}, lambda bits: bits ^ (0x10000 if wide else 1))
        assert changed == {(0, "model.layers.2.mixer.D"): [2]}


@both
def test_one_ulp_of_the_router_bias(engine, tmp_path) -> None:
    """Single precision in a model of half of it."""
    name = "model.layers.1.mlp.gate.e_score_correction_bias"
    with Trap(
        tmp_path, DEEPSEEK3, {"tp": 2, "ep": 2}, {"engine": engine, "tp": 2}
    ) as trap:
        before = trap.values(1, name)
        assert before.dtype == np.uint32
        changed = trap.change({name: [6]})
        assert changed == {(rank, name): [6] for rank in (0, 1)}
        assert (trap.values(1, name) ^ before).tolist() == [0] * 6 + [1, 0]


@pytest.mark.parametrize(
    "config", [NEXT, DELTA_NET], ids=["qwen3_next", "qwen3_5"])
def test_copies_of_norms_are_refreshed_when_the_norm_changed(
    config, tmp_path
) -> None:
    """SGLang keeps weight + 1 beside the weight."""
    method = "refresh_gemma_weight"
    with Trap(
        tmp_path, config, {"tp": 2}, {"engine": "sglang", "tp": 2}
    ) as trap:
        ends = ("input_layernorm", "post_attention_layernorm", "q_norm",
                "k_norm", "model.norm")
        norms = {
            name for name in trap.engine.held(0)
            if name.removesuffix(".weight").endswith(ends)}
        assert len(norms) == 2 * 4 + 2 * 2 + 1
        for rank in (0, 1):
            asked = trap.engine.refreshes(rank)
            assert sorted(asked) == sorted((name, method) for name in norms)
        norm = neutral(trap.trainer, "layers.2.input_layernorm.weight")
        held = "model.layers.2.input_layernorm.weight"
        changed = trap.change({norm: [4]})
        assert set(changed) == {(0, held), (1, held)}
        for rank in (0, 1):
            assert trap.engine.refreshes(rank) == [(held, method)]
        trap.change(
            {neutral(trap.trainer, "layers.0.linear_attn.out_proj.weight"):
             [1]})
        assert trap.engine.refreshes(0) == []


@both
@pytest.mark.parametrize("order", ["interleaved", "up_first", "rotated"])
def test_same_shape_in_another_order_is_refused_by_name(
    engine, order, tmp_path
) -> None:
    """What kernels make of w13 in the same storage, under the same shape."""
    at = f"model.layers.2.mlp.experts{ROUTED[engine]}.w13_weight"
    with Trap(
        tmp_path, EXPERTS, {"tp": 2, "ep": 2}, {"engine": engine, "tp": 2}
    ) as trap:
        trap.engine.check_layout()
        held = trap.engine.held(1)[at].view
        loaded = held.copy()
        rows = {
            "interleaved": [half * 6 + i for i in range(6) for half in (0, 1)],
            "up_first": [*range(6, 12), *range(6)],
            "rotated": [*range(1, 12), 0],
        }[order]
        held[:] = loaded[:, rows]
        with pytest.raises(DeltaError) as refused:
            trap.engine.check_layout()
        assert refused.value.status == Status.BIND_MISMATCH
        assert at in refused.value.message
        held[:] = loaded
        trap.engine.check_layout()
        trap.change({"model.layers.2.mlp.experts.3.up_proj.weight": [5]})


@both
def test_moved_experts_alone_are_seeded(engine, tmp_path) -> None:
    """Rebalancing: a plan of the old map is refused, what moved is sent."""
    at = f"model.layers.{{}}.mlp.experts{ROUTED[engine]}.w13_weight"
    start = [slot % 8 for slot in range(10)]
    # Slot 2 gets expert 7, and the last slot expert 2 instead of 1.
    table = [0, 1, 7, 3, 4, 5, 6, 7, 0, 2]
    sizes = {"tp": 2, "ep": 2}
    with Trap(
        tmp_path, EXPERTS, {"tp": 2, "ep": 2},
        {"engine": engine, **sizes, "redundant_experts": 2}
    ) as trap:
        for wrong in ([start[:9]], [[0, 1, 7, 3, 4, 5, 6, 7, 0, 1]]):
            with pytest.raises(DeltaError):
                trap.engine.place(wrong)
        trap.change({"model.layers.0.mlp.experts.2.up_proj.weight": [1]})
        trap.engine.place([table])
        with pytest.raises(DeltaError):
            trap.engine.sync()
        # A slot that keeps its expert is not written.
        kept = trap.engine.held(0)[at.format(1)].view
        value = int(kept[3, 0, 0])
        kept[3, 0, 0] = value ^ 0x55
        received = trap.engine.seed_moved()
        assert int(kept[3, 0, 0]) == value ^ 0x55
        kept[3, 0, 0] = value
        # Two slots in four layers, of 3 x 12 x 12 elements of two bytes.
        for size in received:
            assert 4 * 3 * 144 * 2 <= size < 1.5 * 4 * 3 * 144 * 2
        trap.move({"expert_placement": {"physical_to_logical": table},
                   "engine": engine, **sizes})
        changed = trap.change(
            {"model.layers.3.mlp.experts.7.gate_proj.weight": [5],
             "model.layers.3.mlp.experts.1.gate_proj.weight": [6]})
        slot = 24 * 12
        assert changed == {
            (0, at.format(3)): [slot + 6, 2 * slot + 5],
            (1, at.format(3)): [2 * slot + 5]}


# ===--- names --------------------------------------------------------------===

def neutral(trainer, end: str) -> str:
    (name,) = [name for name in trainer.map.tensors if name.endswith(end)]
    return name


def is_wide(trap: Trap, name: str) -> bool:
    """Whether the trainer holds the elements of a tensor in 32 bits."""
    kinds = trap.trainer.map
    first = kinds.tensors[name].numbers[:1]
    return kinds.classes[int(kinds.classes_of(first)[0])].dtype == 3
