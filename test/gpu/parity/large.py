# ===- large.py - A parameter above 2^32 elements -------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Syncs of one table that no 32-bit number counts, whole and in rounds. Every
element of it is compared by torch, on the device; the parameters beside it by
their fingerprints."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from delta_sync import Inproc, ParamInfo, Plan, Receiver, Sender, Side

from .models import LARGE, read_pairs

# Elements at once: torch has operations that count in 32 bits.
CHUNK = 1 << 28
KEY = 0x9E3779B97F4A7C15
CHANGED = 1_000_000


class Wrong(ValueError):
    """What differs, in a sentence."""


class Large:
    """One sender and one receiver on tensors of torch."""

    def __init__(self, plan: Plan, device: str, seed: int) -> None:
        import torch

        self.torch = torch
        torch.manual_seed(seed)
        self.device = torch.device(device)
        source = plan.parameters(Side.SOURCE, 0)
        target = plan.parameters(Side.DESTINATION, 0)
        self.info = max(source, key=lambda info: info.num_elements)
        name = max(target, key=lambda info: info.num_elements).name
        self.source = {info.name: self._allocated(info) for info in source}
        self.target = {info.name: self._allocated(info) for info in target}
        self.size = self.info.num_elements
        self.sent = self._bits(self.source[self.info.name])
        self.held = self._bits(self.target[name])
        if self.held.numel() != self.size:
            raise Wrong(f"{name}: {self.held.numel()} elements, required "
                        f"{self.size}")  # fmt: skip
        for tensor in self.source.values():
            self._randomize(tensor)
        self.box: Inproc = plan.inproc()
        self.sender: Sender = plan.sender(0, self.source, self.box)
        self.receiver: Receiver = plan.receiver(0, self.target, self.box)

    def _allocated(self, info: ParamInfo) -> Any:
        return self.torch.zeros(
            info.shape, dtype=self.torch.bfloat16, device=self.device
        )

    def _bits(self, tensor: Any) -> Any:
        return tensor.view(self.torch.int16).view(-1)

    def chunks(self) -> Iterator[slice]:
        for begin in range(0, self.size, CHUNK):
            yield slice(begin, min(begin + CHUNK, self.size))

    def _randomize(self, tensor: Any) -> None:
        flat = self._bits(tensor)
        for begin in range(0, flat.numel(), CHUNK):
            flat[begin : begin + CHUNK].random_(-32768, 32768)

    def flip(self, places: Any) -> None:
        """Another bit at places of the table that ascend."""
        for chunk in self.chunks():
            inside = (places >= chunk.start) & (places < chunk.stop)
            here = places[inside] - chunk.start
            part = self.sent[chunk]
            part[here] = part[here] ^ 4

    def places(self, count: int) -> Any:
        """Some places, and those around the ends of 31 and 32 bits."""
        edges = [0, self.size - 1]
        for power in (1 << 31, 1 << 32):
            edges += [power - 1, power, power + 1]
        chosen = self.torch.randint(self.size, (count,), device=self.device)
        ends = self.torch.tensor(
            [at for at in edges if at < self.size], device=self.device
        )
        return self.torch.cat([chosen, ends]).unique()

    def sync(
        self, what: str, changed: int | None, *, full: bool = False
    ) -> None:
        """A sync of which so many elements of the table are changes."""
        begin = time.monotonic()
        stats = self.sender.sync(full=full)
        rounds = self.sender.rounds
        self.receiver.receive()
        self.receiver.commit()
        self.sender.acknowledge()
        self.check()
        if changed is not None and stats.changed != changed:
            raise Wrong(f"{what}: {stats.changed} changed, required {changed}")
        print(
            f"large: {what}: {stats.changed:,} changed, {rounds} rounds, "
            f"{stats.message_bytes:,} bytes, {time.monotonic() - begin:.1f} s",
            flush=True,
        )

    def check(self) -> None:
        """Every element of the table; sums of all rows."""
        for chunk in self.chunks():
            if self.torch.equal(self.sent[chunk], self.held[chunk]):
                continue
            wrong = (self.sent[chunk] != self.held[chunk]).nonzero().view(-1)
            raise Wrong(f"{len(wrong)} elements differ, the first is "
                        f"{chunk.start + int(wrong[0])}")  # fmt: skip
        if self.sender.fingerprints(0, KEY) != self.receiver.fingerprints(
            0, KEY
        ):
            raise Wrong("fingerprints differ")

    def replay(self) -> None:
        """Compared with memory: right, then with one wrong element far away."""
        for wrong in (0, 1):
            at = self.size - 3
            if wrong:
                self.held[at] ^= 1
            self.sender.seed(self.sender.version)
            self.sender.send()
            self.receiver.receive()
            found = self.receiver.compare()
            self.sender.abort()
            if found.count != wrong:
                raise Wrong(f"compare: {found}, required {wrong}")
            print(f"large: compare: {found.count} {found.first}", flush=True)
        self.held[at] ^= 1

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()
        self.box.close()


def run(folder: Path, seed: int, device: str) -> int:
    """Raises what is wrong."""
    chosen = next(p for p in read_pairs(folder) if LARGE in p.name)
    with Plan.open(chosen.other) as plan:
        made = Large(plan, device, seed)
        print(f"large: {made.info.name}: {made.size:,} elements", flush=True)
        # All parameters, however many elements they have.
        made.sync("full", None, full=True)
        for count in (CHANGED, 0):
            places = made.places(count)[: None if count else 0]
            made.flip(places)
            made.sync("delta", len(places))
        made.sent[-1] ^= 1
        made.sync("delta of the last element", 1)
        for chunk in made.chunks():
            made.sent[chunk].bitwise_xor_(0x55)
        made.sync("delta of all, in rounds", made.size)
        made.sender.set_capacity(
            sum(info.num_elements for info in plan.parameters(Side.SOURCE, 0))
        )
        for chunk in made.chunks():
            made.sent[chunk].bitwise_xor_(0x2A)
        made.sync("delta of all, in one round", made.size)
        made.replay()
        made.check()
        made.close()
    print("large: same")
    return 0
