# ===- pair.py - Two plans that are told the same -------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""A host plan and another one of the same model, with the same values: every
call has to answer alike, every message and every parameter has to be the same,
byte for byte. What is not is kept in `found`."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from delta_sync import DeltaError, Plan, Sender, SyncStats

from . import bits, wire
from .lane import Lane

# Differences that are kept; a wrong kernel makes thousands.
MOST = 20
Call = Callable[[Lane], Any]


class Pair:
    """Both lanes, the values of the trainer, and what was compared."""

    def __init__(self, host: Lane, other: Lane, seed: int) -> None:
        self.host, self.other = host, other
        self.lanes = (host, other)
        self.rng = random.Random(seed)
        self.step = "create"
        self.found: list[str] = []
        self.num_found = 0
        self.counts: Counter[str] = Counter()
        self.values: list[list[bytes]] = []
        self.held: list[list[bytes]] = []

    def differ(self, text: str) -> None:
        self.num_found += 1
        if len(self.found) < MOST:
            self.found.append(f"{self.step}: {text}")

    # --- values --------------------------------------------------------------

    def fill(self) -> None:
        """The same bits in all parameters of both, those of the receivers
        too. Replicas of the trainer differ: what is sent shows whose it is."""
        self.values = [
            [bits.filled(self.rng, p.dtype, p.width, p.num_elements)
             for p in held]
            for held in self.host.sources
        ]  # fmt: skip
        self.held = [
            [bits.filled(self.rng, p.dtype, p.width, p.num_elements)
             for p in held]
            for held in self.host.destinations
        ]  # fmt: skip
        for lane in self.lanes:
            for side, values in (
                (lane.sources, self.values), (lane.destinations, self.held),
            ):  # fmt: skip
                for held, row in zip(side, values):
                    for one, data in zip(held, row):
                        one.write(data)

    def put(self, rank: int, number: int, data: bytes) -> None:
        """A parameter of the trainer has other values. What a cast makes of
        them on the other side is what the host gets."""
        if data == self.values[rank][number]:
            return
        made = self.other.put(rank, number, data, self.rng)
        self.host.put(rank, number, made, self.rng)
        self.values[rank][number] = made

    def change(self, share: float) -> None:
        """A share of all elements: some each alone, and of many most in one
        stretch, so that there are tiles with all, some and no changes."""
        for rank, held in enumerate(self.host.sources):
            for number, one in enumerate(held):
                self._change(rank, number, one.num_elements, share)

    def _change(
        self, rank: int, number: int, count: int, share: float
    ) -> None:
        one, rng = self.host.sources[rank][number], self.rng
        data = self.values[rank][number]
        wanted = int(count * share + rng.random())
        if wanted >= count:
            self.put(rank, number, bits.inverted(data))
            return
        stretch = max(wanted - bits.MOST, wanted // 2 if share > 0.1 else 0)
        if stretch:
            begin = rng.randrange(count - stretch + 1) * one.width
            end = begin + stretch * one.width
            inner = bits.inverted(data[begin:end])
            data = data[:begin] + inner + data[end:]
        places = [rng.randrange(count) for _ in range(wanted - stretch)]
        data = bits.changed(rng, one.dtype, data, places, one.width)
        self.put(rank, number, data)

    # --- comparisons ---------------------------------------------------------

    def both(self, what: str, call: Call, *, fails: bool | None = False) -> Any:
        """The same call on both. `fails`: whether it has to be refused, None
        where either may be. Returns what the host answered."""
        answers = [outcome(call, lane, self.host.plan) for lane in self.lanes]
        self.counts["calls"] += 1
        if answers[0] != answers[1]:
            self.differ(f"{what}: host {answers[0]}, other {answers[1]}")
        elif fails is not None and isinstance(answers[0], Failure) != fails:
            self.differ(f"{what}: both {answers[0]}")
        if isinstance(answers[0], Failure):
            self.counts["refusals"] += 1
        return answers[0]

    def senders(
        self, what: str, call: Callable[[Sender], Any],
        *, fails: bool | None = False,
    ) -> list[Any]:
        """The same call on every sender of both."""
        return [
            self.both(
                f"sender {rank}: {what}",
                lambda lane, rank=rank: call(lane.senders[rank]), fails=fails,
            )
            for rank in range(len(self.host.senders))
        ]  # fmt: skip

    def receivers(
        self, what: str, call: Callable[[Any], Any],
        *, fails: bool | None = False,
    ) -> list[Any]:
        return [
            self.both(
                f"receiver {rank}: {what}",
                lambda lane, rank=rank: call(lane.receivers[rank]), fails=fails,
            )
            for rank in range(len(self.host.receivers))
        ]  # fmt: skip

    def messages(self) -> None:
        """All bytes that were sent since the posts were cleared."""
        host, other = (lane.post.sent for lane in self.lanes)
        for way in sorted(host.keys() | other.keys()):
            ours, theirs = host.get(way, []), other.get(way, [])
            if len(ours) != len(theirs):
                self.differ(
                    f"messages {way[0]} -> {way[1]}: host {len(ours)}, other "
                    f"{len(theirs)}"
                )
            for round_, (one, two) in enumerate(zip(ours, theirs)):
                self.counts["messages"] += 1
                self.counts["bytes"] += len(one)
                self._same(
                    f"message {way[0]} -> {way[1]}, round {round_}", one,
                    wire.of_plan(two, self.other.name, self.host.name),
                )  # fmt: skip

    def memory(self, what: str) -> None:
        """All parameters of the receivers, and what lies around them."""
        self._compare(what, "receiver", [l.destinations for l in self.lanes])

    def sources(self, what: str) -> None:
        self._compare(what, "sender", [lane.sources for lane in self.lanes])

    def _compare(self, what: str, kind: str, sides: list[Any]) -> None:
        for rank, (ours, theirs) in enumerate(zip(*sides)):
            for one, two in zip(ours, theirs):
                self.counts["elements"] += one.num_elements
                where = f'{what}: {kind} {rank}: "{one.name}"'
                self._same(where, one.read(), two.read())
                for held, side in ((one, "host"), (two, "other")):
                    if not held.is_intact():
                        self.differ(f"{where}: {side}: written outside")

    def unchanged(self, what: str) -> None:
        """The receivers of both hold what they held at the last `keep`."""
        for lane, name in zip(self.lanes, ("host", "other")):
            for rank, held in enumerate(lane.destinations):
                for one, data in zip(held, self.held[rank]):
                    where = f'{what}: {name} receiver {rank}: "{one.name}"'
                    self._same(f"{where}: before and now", data, one.read())

    def keep(self) -> None:
        self.held = [
            [one.read() for one in held] for held in self.host.destinations
        ]

    def _same(self, what: str, one: bytes, two: bytes) -> None:
        if one == two:
            return
        if len(one) != len(two):
            self.differ(f"{what}: {len(one)} bytes, other {len(two)}")
        places = [i for i, (a, b) in enumerate(zip(one, two)) if a != b]
        if places:
            at = places[0] & ~7
            self.differ(
                f"{what}: {len(places)} of {len(one)} bytes differ, the first "
                f"at {places[0]}: from {at} on {one[at : at + 16].hex(' ', 2)},"
                f" other {two[at : at + 16].hex(' ', 2)}"
            )


class Failure(tuple):
    """Status and text of a call that failed."""


def outcome(call: Call, lane: Lane, like: Plan) -> Any:
    """What a call answered, in the words of the plan `like`."""
    try:
        found = call(lane)
    except DeltaError as error:
        own, theirs = (
            "%016x%016x" % plan.fingerprint for plan in (lane.plan, like)
        )
        return Failure((error.status.name, error.message.replace(own, theirs)))
    if isinstance(found, SyncStats):
        return (
            found.elements, found.changed, found.tiles, found.dense_tiles,
            found.message_bytes,
        )  # fmt: skip
    return found
