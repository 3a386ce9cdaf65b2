# ===- test_rollout_loader.py - The plain loader against real engines -----=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""test/rollout says what vLLM and SGLang hold after loading. Here it predicts
every element of every parameter that their own loaders filled, and those that
they left alone."""

import json
import sys
from math import prod
from pathlib import Path

import pytest

from support import SHARED, needs_shared

np = pytest.importorskip("numpy", reason="the plain loader needs numpy")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rollout.check import differences  # noqa: E402
from rollout.geometry import Geometry  # noqa: E402
from rollout.loader import load  # noqa: E402
from rollout.parameters import (  # noqa: E402
    Tensor, converted, negated_exponential,
)

CASES: list[str] = []
if SHARED:
    GOLDEN = SHARED / "golden-rollout"
    CASES = sorted(p.parent.name for p in GOLDEN.glob("*/layout.json"))


def geometry_of(layout: dict) -> Geometry:
    return Geometry(
        engine=layout["engine"], tp=layout["tp"], ep=layout["ep"],
        pp=layout["pp"], dp=layout.get("dp", 1),
        attention_dp=layout.get("attention_dp", 1),
        placement=layout.get("expert_placement", "linear"),
        redundant_experts=layout["redundant_experts"],
        w13_order=layout["w13_order"], moe_pad=layout["moe_pad"],
        fuse_shared_experts=bool(layout.get("fused_shared_experts")))


def tags_of(case: Path) -> dict[str, Tensor]:
    tensors = {}
    for entry in json.loads((case / "tensors.json").read_text()):
        shape, first = entry["shape"], entry["first_tag"]
        tags = np.arange(first, first + prod(shape), dtype=np.int32)
        tensors[entry["name"]] = Tensor(tags.reshape(shape), "tag")
    return tensors


@needs_shared
def test_cases_are_the_published_ones() -> None:
    assert len(CASES) == 48


@needs_shared
@pytest.mark.parametrize("name", CASES)
def test_every_element_is_where_the_engine_has_it(name: str) -> None:
    case = GOLDEN / name
    layout = json.loads((case / "layout.json").read_text())
    config = json.loads((case / "config.json").read_text())
    entries = json.loads((case / "params.json").read_text())
    tags = np.fromfile(case / "params.tags", "<i4")
    world = load(tags_of(case), config, geometry_of(layout))
    assert {entry["rank"] for entry in entries} == set(range(len(world)))
    seen: list[set] = [set() for _ in world]
    wrong, compared = [], 0
    for entry in entries:
        if "alias_of" in entry:
            continue
        held = world[entry["rank"]].get(entry["name"])
        where = f"rank {entry['rank']}: {entry['name']}"
        assert held is not None, where
        seen[entry["rank"]].add(entry["name"])
        assert list(held.data.shape) == entry["shape"], where
        if held.stride:
            assert list(held.stride) == entry["stride"], where
        else:
            assert entry["contiguous"], where
        count = prod(entry["shape"])
        begin = entry["offset"]
        expected = tags[begin : begin + count].reshape(entry["shape"])
        got = np.where(held.filled, held.data, -1)
        compared += count
        differ = int((got != expected).sum())
        if differ:
            wrong.append(f"{where}: {differ} of {count}")
    assert not wrong, "\n".join(wrong)
    assert compared == len(tags)
    for rank, names in enumerate(seen):
        assert names == world[rank].keys()


# ===--- values -------------------------------------------------------------===

def bits(*values: int, dtype: str) -> Tensor:
    store = np.uint32 if dtype == "fp32" else np.uint16
    return Tensor(np.array(values, store), dtype)


def test_casts_round_to_even_and_keep_a_nan() -> None:
    wide = bits(0x3F800000, 0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF,
                0xFF800000, 0x7F800001, dtype="fp32")
    assert converted(wide, "bf16").tolist() == [
        0x3F80, 0x3F80, 0x3F82, 0x3F81, 0x7F80, 0xFF80, 0x7FC0]
    half = bits(0x3F80, 0x7FC5, 0x8000, dtype="bf16")
    assert converted(half, "fp32").tolist() == [
        0x3F800000, 0x7FC50000, 0x80000000]


def test_negated_exponential_by_hand() -> None:
    # exp(0) = 1, exp(1) = 2.7182817, exp(-inf) = 0, exp(inf) = inf.
    for dtype, one in (("bf16", 0x3F80), ("fp32", 0x3F800000)):
        shift = 16 if dtype == "bf16" else 0
        values = bits(0, one, 0xFF800000 >> shift, 0x7F800000 >> shift,
                      dtype=dtype)
        result = negated_exponential(values)
        assert result.dtype == "fp32"
        assert result.data.tolist() == [
            0xBF800000, 0xC02DF854, 0x80000000, 0xFF800000]


# ===--- what the published cases do not have -------------------------------===

def test_the_first_ranks_have_one_expert_more() -> None:
    ranks = Geometry("vllm", tp=4, ep=4, redundant_experts=2).ranks(1)
    assert [rank.experts(8, 0) for rank in ranks] == [
        [0, 1, 2], [3, 4, 5], [6, 7], [0, 1]]
    ranks = Geometry("vllm", tp=2, dp=2, ep=4, placement="round_robin").ranks(1)
    assert [rank.experts(6, 0) for rank in ranks] == [
        [0, 4], [1, 5], [2], [3]]


def test_tensor_ranks_inside_expert_ranks() -> None:
    ranks = Geometry("sglang", tp=4, ep=2, attention_dp=2).ranks(1)
    assert [rank.experts(4, 0) for rank in ranks] == [
        [0, 1], [0, 1], [2, 3], [2, 3]]
    assert [(r.moe.size, r.moe.rank) for r in ranks] == [
        (2, 0), (2, 1), (2, 0), (2, 1)]
    assert [(r.attention.size, r.attention.rank) for r in ranks] == [
        (2, 0), (2, 1), (2, 0), (2, 1)]


@pytest.mark.parametrize("engine,counts", [
    ("vllm", [2, 3, 3, 2]), ("sglang", [2, 2, 3, 3])])
def test_stages_with_a_layer_more(engine, counts) -> None:
    stages = Geometry(engine, pp=4).stages(10)
    assert [len(stage) for stage in stages] == counts
    assert [layer for stage in stages for layer in stage] == list(range(10))


def test_a_wrong_element_and_a_written_padding_are_told() -> None:
    config = {
        "model_type": "llama", "hidden_size": 4, "intermediate_size": 6,
        "num_attention_heads": 2, "num_hidden_layers": 0, "vocab_size": 3,
    }
    shapes = {"model.embed_tokens.weight": (3, 4), "model.norm.weight": (4,),
              "lm_head.weight": (3, 4)}
    tensors = {
        name: Tensor(np.arange(prod(shape), dtype=np.uint16).reshape(shape),
                     "bf16")
        for name, shape in shapes.items()}
    (expected,) = load(tensors, config, Geometry("vllm"))
    assert expected["lm_head.weight"].data.shape == (64, 4)

    def told(**changes: object) -> list[str]:
        held = {
            name: Tensor(parameter.data.copy(), parameter.dtype)
            for name, parameter in expected.items()}
        before = [dict(held)]
        for name, (place, value) in changes.items():
            data = held[f"{name}.weight"].data.copy()
            data[place] = value
            held[f"{name}.weight"] = Tensor(data, "bf16")
        return differences([expected], [held], before)[1]

    assert told() == []
    assert told(lm_head=((2, 3), 12)) == [
        "rank 0: lm_head.weight: 1 of 256 differ, first [2, 3]: 0xc, not "
        "0xb"]
    assert "first [3, 0]: 0x7, not 0x0" in told(lm_head=((3, 0), 7))[0]
