# ===- ranks.py - Small plans and the memory of their ranks ---------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What the tests of syncs share: a trainer whose elements are known by their
place in the checkpoint, receivers, and a transport that can be tampered with.
What belongs in a receiver is found from the tables of the plan, by the arrays
of `delta_sync.elements`, and not by what moves it there."""

from __future__ import annotations

import sys
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / folder) for folder in ("runtime/python", "test/tools", "test")
]

from delta_sync import Plan, Receiver, Sender, Side  # noqa: E402
from rollout.session import Held, Trainer, infos  # noqa: E402
from support import tool, write_json  # noqa: E402


def compile_plan(
    folder: Path, config: dict, trainer: dict, rollout: dict | None = None,
    name: str = "plan",
) -> Path:
    model = {"config": config, "trainer": trainer, "rollout": rollout or {}}
    path = write_json(folder / f"{name}.json", model)
    result = tool("delta-compile", path, "-o", folder / f"{name}.so")
    assert result.returncode == 0, result.stderr
    return folder / f"{name}.so"


def by_chunk(held: Sequence[Held]) -> list[dict[str, np.ndarray]]:
    """As `Plan.sender` takes them."""
    chunks: list[dict] = [{} for _ in range(1 + max(p.chunk for p in held))]
    for one in held:
        chunks[one.chunk][one.name] = one.view
    return chunks


class Capture:
    """A transport that keeps messages in queues, as bytes."""

    def __init__(self) -> None:
        self.queues: dict[tuple[int, int], deque] = defaultdict(deque)
        self.released: list[tuple[int, int]] = []

    def send(
        self, source: int, destination: int, parts: Sequence[memoryview]
    ) -> None:
        self.queues[source, destination].append(b"".join(parts))

    def receive(self, source: int, destination: int) -> Any:
        queue = self.queues[source, destination]
        if not queue:
            raise LookupError("no message")
        return queue.popleft()

    def release(self, source: int, destination: int, message: Any) -> None:
        self.released.append((source, destination))


class World:
    """All ranks of a plan to the checkpoint's layout, in this process."""

    def __init__(
        self, path: Path, transport: Any = None, threads: int = 1, seed: int = 5
    ) -> None:
        self.trainer = Trainer(path, seed)
        self.plan = Plan.open(path)
        self.inproc = self.plan.inproc() if transport is None else None
        self.transport = transport or self.inproc
        self.held = [
            [Held(info) for info in infos(self.plan, Side.DESTINATION, rank)]
            for rank in range(self.plan.num_ranks(Side.DESTINATION))
        ]
        self.senders: list[Sender] = [
            self.plan.sender(
                rank, by_chunk(held), self.transport, run=3, threads=threads
            )
            for rank, held in enumerate(self.trainer.ranks)
        ]
        self.receivers: list[Receiver] = [
            self.plan.receiver(
                rank, by_chunk(held), self.transport, run=3, threads=threads
            )
            for rank, held in enumerate(self.held)
        ]

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        for handle in (*self.senders, *self.receivers):
            handle.close()
        if self.inproc is not None:
            self.inproc.close()
        self.plan.close()

    def change(self, share: float, seed: int) -> int:
        """Other bits in a share of the trainer's elements, one at least;
        returns how many elements of the checkpoint that are."""
        bits = self.trainer.bits
        chosen = np.random.default_rng(seed).random(len(bits)) < share
        used = np.zeros(len(bits), dtype=bool)
        for tensor in self.trainer.map.tensors.values():
            if tensor.repeats is None:
                used[tensor.numbers] = True
        chosen[np.argmax(used)] = True
        bits[chosen] ^= 1
        self.trainer.write()
        return int((chosen & used).sum())

    def sync(self) -> None:
        for sender in self.senders:
            sender.sync()
        for receiver in self.receivers:
            receiver.receive()
        for receiver in self.receivers:
            receiver.commit()
        for sender in self.senders:
            sender.acknowledge()

    def expected(self) -> dict[str, np.ndarray]:
        tensors = self.trainer.map.tensors
        assert not any(t.value_ops.any() for t in tensors.values())
        return {
            name: self.trainer.bits[tensor.numbers]
            for name, tensor in tensors.items()
        }

    def check(self, expected: dict[str, np.ndarray] | None = None) -> None:
        """Every element of every receiver."""
        wanted = expected or self.expected()
        for held in self.held:
            assert {one.name for one in held} == set(wanted)
            for one in held:
                assert np.array_equal(one.memory, wanted[one.name]), one.name


@dataclass
class FakeTensor:
    """What is read of a tensor of torch."""

    shape: tuple[int, ...]
    device: str = "cuda:1"
    dtype: str = "torch.bfloat16"
    address: int = 0x7F0000001000

    def data_ptr(self) -> int:
        return self.address

    def stride(self) -> tuple[int, ...]:
        steps = [1]
        for extent in reversed(self.shape[1:]):
            steps.insert(0, steps[0] * extent)
        return tuple(steps)


def fakes(plan: Plan, side: Side, **changes: Any) -> dict[str, FakeTensor]:
    return {
        info.name: FakeTensor(info.shape, **changes)
        for info in plan.parameters(side, 0)
    }
