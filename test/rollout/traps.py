# ===- traps.py - Change a few elements, see what else changed ------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""One trainer, synced into an engine and into a checkpoint. After each delta,
exactly the elements that stand for changed ones have changed in the engine, and
all of them are what the plain loader makes of the checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import prod
from pathlib import Path

import numpy as np
import pytest

from support import messages, tool, write_json

from .check import differences, geometry_of
from .loader import load
from .parameters import Parameter, Tensor
from .session import DTYPES, UNTOUCHED, Session, Trainer

# Changed elements of a parameter: row-major numbers, ascending.
Changed = dict[tuple[int, str], list[int]]
CODES = {name: code for code, name in DTYPES.items()}

both = pytest.mark.parametrize("engine", ("vllm", "sglang"))
# Where the engine has its experts, behind "experts".
ROUTED = {"vllm": ".routed_experts", "sglang": ""}


def rows(begin: int, end: int, columns: int) -> list[int]:
    """The elements of rows [begin, end)."""
    return list(range(begin * columns, end * columns))


# Plans by model: a trainer's neutral one serves every engine.
MADE: dict[str, Path] = {}


def compile_plan(folder: Path, stem: str, model: dict) -> Path:
    key = json.dumps(model, sort_keys=True)
    if key not in MADE:
        path = write_json(folder / f"{stem}.json", model)
        result = tool("delta-compile", path, "-o", folder / f"{stem}.so")
        assert result.returncode == 0, messages(result)
        MADE[key] = folder / f"{stem}.so"
    return MADE[key]


class Trap:
    """`plant` writes values that are there before the seed."""

    def __init__(
        self, folder: Path, config: dict, trainer: dict, rollout: dict,
        plant: Callable[[Trainer], None] = lambda trainer: None,
    ):
        self.config, self.geometry = config, geometry_of(rollout)
        sides = {"config": config, "trainer": trainer}
        neutral = compile_plan(
            folder, "neutral", {**sides, "rollout": {"engine": "hf"}})
        direct = compile_plan(folder, "direct", {**sides, "rollout": rollout})
        self.trainer = Trainer(neutral, seed=5)
        plant(self.trainer)
        self.checkpoint = Session(neutral, self.trainer)
        self.engine = Session(direct, self.trainer)
        self.checkpoint.seed()
        self.engine.seed()
        self.first, self.tagged, at = {}, {}, 1
        for name, tensor in self.checkpoint.tensors().items():
            self.first[name] = at
            count = prod(tensor.shape)
            tags = np.arange(at, at + count, dtype=np.int32)
            self.tagged[name] = Tensor(tags.reshape(tensor.shape), "tag")
            at += count
        self.origins = load(self.tagged, config, self.geometry)
        self.padding = self.plant_padding()

    def move(self, rollout: dict) -> None:
        """The engine is another one now."""
        self.geometry = geometry_of(rollout)
        self.origins = load(self.tagged, self.config, self.geometry)
        self.check()

    def __enter__(self) -> Trap:
        return self

    def __exit__(self, *_: object) -> None:
        self.checkpoint.close()
        self.engine.close()

    def memory(self) -> list[dict[str, Tensor]]:
        return [
            {one.name: one.tensor() for one in held}
            for held in self.engine.receivers
        ]

    def plant_padding(self) -> list[dict[str, Tensor]]:
        """After a full sync, padding is zero, but a parameter that no tensor
        fills on any rank is what it was. Then all of it gets a value that no
        delta may touch."""
        filled = {
            name for rank in self.origins
            for name, parameter in rank.items() if parameter.filled.any()}
        ranks = []
        for rank in self.memory():
            for name, tensor in rank.items():
                value = UNTOUCHED[CODES[tensor.dtype]]
                rank[name] = tensor.of(np.full_like(
                    tensor.data, 0 if name in filled else value))
            ranks.append(rank)
        self.padding = ranks
        self.check()
        for origins, held in zip(self.origins, self.engine.receivers):
            for one in held:
                one.view[~origins[one.name].filled] = UNTOUCHED[one.dtype]
        return self.memory()

    def check(self) -> None:
        """The whole engine is right, its padding too."""
        expected = load(self.checkpoint.tensors(), self.config, self.geometry)
        compared, wrong = differences(expected, self.memory(), self.padding)
        assert not wrong, "\n".join(wrong[:20])
        assert compared > 0

    def change(
        self, tensors: dict[str, list[int] | range],
        value: Callable[[np.ndarray], np.ndarray] = lambda bits: bits ^ 1,
    ) -> Changed:
        """What one delta changed in the engine."""
        before = self.memory()
        source = self.checkpoint.tensors()
        tags = []
        for name, places in tensors.items():
            numbers = np.array(places)
            self.trainer.change(name, numbers, value)
            tags.append(self.first[name] + numbers)
        self.checkpoint.sync()
        self.engine.sync()
        after = self.checkpoint.tensors()
        for name, tensor in after.items():
            moved = np.flatnonzero(tensor.data != source[name].data)
            assert moved.tolist() == sorted(tensors.get(name, [])), name
        self.check()
        found: Changed = {}
        wanted = np.concatenate(tags)
        for rank, (old, new) in enumerate(zip(before, self.memory())):
            for name, tensor in new.items():
                moved = (tensor.data != old[name].data).reshape(-1)
                asked = stands_for(self.origins[rank][name], wanted)
                assert (moved == asked).all(), f"rank {rank}: {name}"
                if moved.any():
                    found[rank, name] = np.flatnonzero(moved).tolist()
        return found

    def values(self, rank: int, name: str) -> np.ndarray:
        """Bits, flat and in the order of the dimensions."""
        return self.engine.held(rank)[name].view.reshape(-1).copy()


def stands_for(parameter: Parameter, tags: np.ndarray) -> np.ndarray:
    return (parameter.filled & np.isin(parameter.data, tags)).reshape(-1)


def nans(bits: np.ndarray) -> list[int]:
    """Numbers of the elements of a 16-bit brain float that are NaN."""
    return np.flatnonzero((bits & 0x7FFF) > 0x7F80).tolist()
