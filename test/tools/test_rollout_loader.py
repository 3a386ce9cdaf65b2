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
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rollout"))

from geometry import Geometry  # noqa: E402
from loader import load  # noqa: E402
from parameters import Tensor, converted, negated_exponential  # noqa: E402

GOLDEN = SHARED / "golden-rollout" if SHARED else None
CASES = sorted(
    path.parent.name for path in GOLDEN.glob("*/layout.json")
) if GOLDEN else []


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
