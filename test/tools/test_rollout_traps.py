# ===- test_rollout_traps.py - Where an engine's own update is wrong ------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Updates that the engines' own sparse or partial loads get silently wrong:
vLLM's checkpoint patches, its layerwise reload, SGLang's partial loads. Each
test changes just that, and exactly those elements change in the engine."""

import sys
from pathlib import Path

import pytest

from support import needs_tools

np = pytest.importorskip("numpy", reason="the plain loader needs numpy")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "runtime/python"), str(ROOT / "test")]

from rollout.configs import (  # noqa: E402
    DEEPSEEK3, DELTA_NET, DENSE, EXPERTS, HYBRID, NEXT, ONE_GROUP,
)
from rollout.traps import ROUTED, Trap, both, nans, rows  # noqa: E402

pytestmark = needs_tools


def constant(bits: int):
    return lambda old: np.full_like(old, bits)


# ===--- NaN ----------------------------------------------------------------===

@both
@pytest.mark.parametrize(
    "config", [NEXT, DELTA_NET], ids=["qwen3_next", "qwen3_5"])
def test_nan_in_the_delta_net_convolution(engine, config, tmp_path) -> None:
    """Patches as NaN-filled tensors wrote NaN over every weight of it."""
    # Rows: 12 of queries, 12 of keys, 60 of values, four taps each. Two ranks
    # hold half of each.
    end = "layers.0.linear_attn.conv1d.weight"
    first, payload = 4 * 83 + 1, 0x7FC3
    with Trap(
        tmp_path, config, {"tp": 2}, {"engine": engine, "tp": 2},
        lambda trainer: trainer.change(
            neutral(trainer, end), np.array([first]), constant(payload)),
    ) as trap:
        name = neutral(trap.trainer, end)
        held = engine_name(trap, end)
        assert nans(trap.values(0, held)) == []
        # Last value row of the second rank: its row 6 + 6 + 29.
        assert nans(trap.values(1, held)) == [4 * 41 + 1]
        # The first key row of the second rank becomes NaN too.
        changed = trap.change({name: [4 * (12 + 6) + 2]}, constant(0xFFA1))
        assert changed == {(1, held): [4 * 6 + 2]}
        assert nans(trap.values(0, held)) == []
        assert nans(trap.values(1, held)) == [4 * 6 + 2, 4 * 41 + 1]
        assert trap.values(1, held)[[4 * 6 + 2, 4 * 41 + 1]].tolist() == [
            0xFFA1, payload]
        # A query, a key and a value, each of another rank.
        changed = trap.change(
            {name: [0, 4 * 17 + 3, 4 * (24 + 31)]})
        assert changed == {
            (0, held): [0, 4 * 11 + 3], (1, held): [4 * (12 + 1)]}
        assert nans(trap.values(0, held)) == []


@both
def test_nan_in_the_mamba2_convolution_with_one_group(
    engine, tmp_path
) -> None:
    """One group is whole on both ranks, loaded by slice assignment, which
    patches did not see."""
    # Rows: 24 of x, 5 of B, 5 of C; a rank holds 12 + 5 + 5.
    end = "layers.0.mixer.conv1d.weight"
    name, held = f"backbone.{end}", f"model.{end}"
    with Trap(
        tmp_path, ONE_GROUP, {"tp": 1}, {"engine": engine, "tp": 2}
    ) as trap:
        changed = trap.change({name: [4 * 26 + 1]}, constant(0x7FC7))
        assert changed == {
            (rank, held): [4 * (12 + 2) + 1] for rank in (0, 1)}
        for rank in (0, 1):
            assert nans(trap.values(rank, held)) == [4 * 14 + 1]
        changed = trap.change({name: [4 * 13, 4 * 33 + 3]})
        assert changed == {
            (0, held): [4 * 21 + 3], (1, held): [4 * 1, 4 * 21 + 3]}
        for rank in (0, 1):
            assert nans(trap.values(rank, held)) == [4 * 14 + 1]
        # And back to a number.
        trap.change({name: [4 * 26 + 1]}, constant(0x3F80))
        assert nans(trap.values(0, held)) == []


# ===--- values -------------------------------------------------------------===

@both
def test_decay_is_not_transformed_twice(engine, tmp_path) -> None:
    """Elements that were not sent went through -exp again."""
    end = "layers.0.mixer."
    with Trap(
        tmp_path, HYBRID, {"tp": 2}, {"engine": engine, "tp": 2}
    ) as trap:
        held = f"model.{end}A"
        before = [
            trap.values(rank, held).view(np.float32) for rank in (0, 1)]
        # Heads 0 to 3 are on the first rank. log 2, rounded to 16 bits.
        half = 0x3F31
        bits = half << 16 if is_wide(trap, f"backbone.{end}A_log") else half
        changed = trap.change({f"backbone.{end}A_log": [5]}, constant(bits))
        assert changed == {(1, held): [1]}
        after = [
            trap.values(rank, held).view(np.float32) for rank in (0, 1)]
        assert (after[0] == before[0]).all()
        assert (np.delete(after[1], 1) == np.delete(before[1], 1)).all()
        assert abs(after[1][1] + 2) < 0.01
        # Another tensor of the layer leaves all of them.
        trap.change({f"backbone.{end}dt_bias": [5]}, lambda b: b ^ 0x10000
                    if is_wide(trap, f"backbone.{end}dt_bias") else b ^ 1)
        again = trap.values(1, held).view(np.float32)
        assert (again == after[1]).all()


@both
def test_decay_of_values_of_every_kind(engine, tmp_path) -> None:
    """Infinities, zeros, a subnormal, what overflows, and a NaN."""
    kinds = [0x7F80, 0xFF80, 0x0000, 0x8000, 0x0001, 0x42B2, 0xC2D2, 0x7FC3]
    name = "backbone.layers.0.mixer.A_log"
    held = "model.layers.0.mixer.A"
    with Trap(
        tmp_path, HYBRID, {"tp": 2}, {"engine": engine, "tp": 2}
    ) as trap:
        shift = 16 if is_wide(trap, name) else 0
        # Heads 0 to 3 are on the first rank.
        changed = trap.change(
            {name: range(8)}, lambda _: np.array(kinds, np.uint32) << shift)
        assert changed == {
            (rank, held): [0, 1, 2, 3] for rank in (0, 1)}
        bits = [*trap.values(0, held), *trap.values(1, held)]
        assert [hex(value) for value in bits[:4]] == [
            "0xff800000", "0x80000000", "0xbf800000", "0xbf800000"]
        assert [hex(value) for value in bits[4:6]] == [
            "0xbf800000", "0xff800000"]
        # exp(-105) is below half of the least subnormal.
        assert hex(bits[6]) == "0x80000000"
        assert hex(bits[7]) == "0x7fc30000"


# ===--- partial loads ------------------------------------------------------===

@both
def test_queries_alone_leave_keys_and_values(engine, tmp_path) -> None:
    """A layer that got one of three tensors had garbage for the others."""
    held = "model.layers.1.self_attn.qkv_proj.weight"
    with Trap(
        tmp_path, DENSE, {"tp": 2}, {"engine": engine, "tp": 4}
    ) as trap:
        # 8 heads of 3, hidden 20: all rows of q, two heads on each rank.
        changed = trap.change(
            {"model.layers.1.self_attn.q_proj.weight": rows(0, 24, 20)})
        assert changed == {
            (rank, held): rows(0, 6, 20) for rank in range(4)}


@both
def test_keys_alone_reach_every_rank_that_repeats_them(
    engine, tmp_path
) -> None:
    held = "model.layers.0.self_attn.qkv_proj.weight"
    with Trap(
        tmp_path, EXPERTS, {"tp": 2, "ep": 2},
        {"engine": engine, "tp": 8, "ep": 8}
    ) as trap:
        # Two key heads of 2 rows; ranks 4 to 7 hold the second, behind one
        # head of queries.
        changed = trap.change(
            {"model.layers.0.self_attn.k_proj.weight": [12 * 3 + 7]})
        assert changed == {
            (rank, held): [12 * (2 + 1) + 7] for rank in range(4, 8)}


@both
def test_one_expert_leaves_the_others(engine, tmp_path) -> None:
    """One expert's tensor destroyed the other experts of the layer."""
    at = f"model.layers.2.mlp.experts{ROUTED[engine]}."
    with Trap(
        tmp_path, EXPERTS, {"ep": 4}, {"engine": engine, "tp": 2}
    ) as trap:
        # Expert 5: up is rows 6 to 11 of 12 on each of two ranks.
        changed = trap.change(
            {"model.layers.2.mlp.experts.5.up_proj.weight": rows(0, 12, 12)})
        assert changed == {
            (rank, f"{at}w13_weight"): rows(5 * 12 + 6, 5 * 12 + 12, 12)
            for rank in (0, 1)}
        changed = trap.change(
            {"model.layers.2.mlp.experts.0.down_proj.weight": [12 * 4 + 11]})
        assert changed == {(1, f"{at}w2_weight"): [6 * 4 + 5]}


@both
@pytest.mark.parametrize("part", ["q_a_proj", "kv_a_proj_with_mqa"])
def test_half_of_a_fused_latent_pair(engine, part, tmp_path) -> None:
    """SGLang dropped one of the two when it came without the other."""
    fused = "fused_qkv_a_proj" + ("_with_mqa" if engine == "sglang" else "")
    held = f"model.layers.1.self_attn.{fused}.weight"
    with Trap(
        tmp_path, DEEPSEEK3, {"tp": 2, "ep": 2}, {"engine": engine, "tp": 2}
    ) as trap:
        # 9 rows of queries, 11 of keys and values; whole on both ranks.
        size, begin = (9, 0) if part == "q_a_proj" else (11, 9)
        changed = trap.change(
            {f"model.layers.1.self_attn.{part}.weight": rows(0, size, 48)})
        assert changed == {
            (rank, held): rows(begin, begin + size, 48) for rank in (0, 1)}


# ===--- names --------------------------------------------------------------===

def neutral(trainer, end: str) -> str:
    (name,) = [name for name in trainer.map.tensors if name.endswith(end)]
    return name


def engine_name(trap: Trap, end: str) -> str:
    (name,) = [name for name in trap.engine.held(0) if name.endswith(end)]
    return name


def is_wide(trap: Trap, name: str) -> bool:
    """Whether the trainer holds the elements of a tensor in 32 bits."""
    kinds = trap.trainer.map
    first = kinds.tensors[name].numbers[:1]
    return kinds.classes[int(kinds.classes_of(first)[0])].dtype == 3
