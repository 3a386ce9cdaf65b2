# ===- parts.py - What steps are made of ----------------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""A sync, on both plans of a pair, and what is compared on its way."""

from collections.abc import Callable
from dataclasses import replace

from delta_sync import DeltaError, Receiver, Sender, Side, SyncStats

from . import bits
from .pair import Pair

KEYS = (1, 0x9E3779B97F4A7C15)
# Pairs of ranks whose fingerprints are compared; brief.
MOST_PAIRS, FEW_PAIRS = 24, 3


class Parts:
    """A pair, its version, and the parts of a sync."""

    def __init__(self, pair: Pair, *, brief: bool = False) -> None:
        self.pair = pair
        self.brief = brief
        self.capacities = capacities(pair)
        self.is_bitmap = pair.other.is_bitmap

    def set_capacity(self, of: Callable[[int, int, int], int]) -> None:
        """`of` the usual capacity, all elements and the largest tile."""
        for rank, sizes in enumerate(self.capacities):
            if sizes[1]:
                self.pair.both(
                    f"sender {rank}: capacity",
                    lambda l: l.senders[rank].set_capacity(of(*sizes)),
                )

    def sync(
        self, *, full: bool = False, halves: bool = False, alike: bool = True,
        counted: bool = True, layout: bool = False,
    ) -> None:
        """All of a sync. `alike`: the messages are the same. `counted`: so is
        the number of changes, with a bitmap too; of a tile that was sent whole
        and not acknowledged that has forgotten which they were."""
        self.pack(full=full, halves=halves, alike=alike, counted=counted)
        self.send(alike=alike)
        self.receive()
        if layout:
            self.pair.receivers("layout", lambda r: r.check_layout(0.0))
        self.commit()

    def pack(
        self, *, full: bool = False, halves: bool = False, alike: bool = True,
        counted: bool = True,
    ) -> None:
        def one(sender: Sender) -> SyncStats | None:
            if full:
                stats = sender.seed()
            elif halves:
                sender.compare()
                stats = sender.pack()
            else:
                stats = sender.diff()
            if self.is_bitmap and not counted:
                stats = replace(stats, changed=0)
            return stats if alike else None

        self.pair.senders("pack", one)
        if alike:
            self.pair.senders("rounds", lambda s: s.rounds)

    def send(self, *, alike: bool = True) -> None:
        for lane in self.pair.lanes:
            lane.post.clear()
        self.pair.senders("send", lambda s: s.send())
        if alike:
            self.pair.messages()

    def receive(self) -> None:
        self.pair.receivers("receive", lambda r: r.receive())

    def commit(self, *, moved: bool = False) -> None:
        pair = self.pair
        pair.receivers("commit", lambda r: r.commit())
        pair.receivers("version", lambda r: r.version)
        pair.receivers("refreshes", lambda r: r.refreshes())
        pair.memory("committed")
        pair.senders("acknowledge", lambda s: s.acknowledge())
        pair.counts["syncs"] += 1

    def change_tile(self) -> None:
        """Every element of the largest tile of each rank, and nothing else."""
        pair = self.pair
        for rank, held in enumerate(pair.host.sources):
            tiles = list(pair.host.plan.tiles(rank))
            if not tiles:
                continue
            sizes = [tile.num_elements for tile in tiles]
            tile = sizes.index(max(sizes))
            number = tiles[tile].param
            one = held[number]
            places = [
                pair.host.plan.element(rank, tile, offset)[0].element
                for offset in range(sizes[tile])
            ]
            pair.put(rank, number, bits.changed(
                pair.rng, one.dtype, pair.values[rank][number], places,
                one.width,
            ))  # fmt: skip

    def compare_sums(self, keys: tuple[int, ...]) -> None:
        pair = self.pair
        num_to = len(pair.host.receivers)
        ways = [
            (source, to)
            for source in range(len(pair.host.senders)) for to in range(num_to)
        ]  # fmt: skip
        most = FEW_PAIRS if self.brief else MOST_PAIRS
        for source, to in pair.rng.sample(ways, min(most, len(ways))):
            for key in keys:
                pair.both(
                    f"fingerprints {source} -> {to}",
                    lambda l: (l.senders[source].fingerprints(to, key).tolist(),
                               l.receivers[to].fingerprints(source, key)
                               .tolist()),
                )  # fmt: skip


def capacities(pair: Pair) -> list[tuple[int, int, int]]:
    """Of each sender: as delta_abi.h says for one of a CUDA plan, all of its
    elements, and its largest tile."""
    out = []
    for rank in range(pair.host.plan.num_ranks(Side.SOURCE)):
        sizes = [tile.num_elements for tile in pair.host.plan.tiles(rank)]
        total, largest = sum(sizes), max(sizes, default=0)
        out.append((max(-(-total // 16), largest), total, largest))
    return out


def status(call: Callable[[], None]) -> str:
    try:
        call()
    except DeltaError as error:
        return error.status.name
    return "OK"


def found(receiver: Receiver) -> tuple[int, str]:
    """Elements that differ from what is staged, and the first in words."""
    result = receiver.compare()
    return result.count, result.first
