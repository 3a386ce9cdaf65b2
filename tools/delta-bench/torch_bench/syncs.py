# ===- syncs.py - The stages of a plan's syncs ----------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Senders and receivers of one plan, each stage between two marks.

    flip (not timed) | compare pack seal | exchange | stage commit | advance
                       `- local stage -'

The rank that is measured is source rank 0. It seals before it sends into the
mailboxes, so that the seal is seen alone. Other source ranks sync beside it,
not timed. The receiver takes all messages and is compared with the converter's
export.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from delta_sync import Plan, Side, Snapshot, SyncStats

from .clock import Clock
from .memory import Source, Tensors, allocate
from .report import Report

RUN = 20
KEY = 0x9E3779B97F4A7C15
# Of a sync that is measured; the seeds of others lie elsewhere.
FIRST_SEED = 1000

Check = Callable[[Tensors], int]


class Nowhere:
    """A transport that takes messages and drops them."""

    def __init__(self) -> None:
        self.num_bytes = 0

    def send(self, source: int, destination: int, parts: Sequence[Any]) -> None:
        self.num_bytes += sum(
            part.nbytes if isinstance(part, memoryview) else part.size
            for part in parts
        )

    def receive(self, source: int, destination: int) -> Any:
        raise LookupError("nothing is kept")


class Syncs:
    """All ranks of a plan that are here; a context."""

    def __init__(
        self,
        plan: Plan,
        source: Source,
        clock: Clock,
        report: Report,
        *,
        check: Check | None,
        with_receiver: bool,
        threads: int = 1,
        max_checks: int | None = None,
    ) -> None:
        """`max_checks`: of the syncs of each median, how many are compared;
        None: all."""
        self.plan, self.source, self.clock = plan, source, clock
        self.report, self.check, self.max_checks = report, check, max_checks
        self.snapshot = plan.snapshot.name.lower()
        self.is_bitmap = (
            clock.is_cuda and plan.snapshot is Snapshot.BITMAP
        )
        self.nowhere = Nowhere()
        self.inproc = plan.inproc()
        self.destination = None
        if with_receiver:
            infos = plan.parameters(Side.DESTINATION, 0)
            self.destination = allocate(infos, clock.device)
        before = clock.used_bytes()
        self.first = plan.sender(
            0, source.ranks[0], self.inproc, run=RUN, threads=threads
        )
        self.sender_bytes = clock.used_bytes() - before
        self.others = [
            plan.sender(rank, tensors, self.inproc, run=RUN, threads=threads)
            for rank, tensors in enumerate(source.ranks) if rank
        ]
        self.receiver = None
        if self.destination is not None:
            self.receiver = plan.receiver(
                0, self.destination.tensors, self.inproc, run=RUN,
                threads=threads,
            )  # fmt: skip
        tiles = plan.tiles(0)
        self.num_compared = sum(tile.num_elements for tile in tiles)

    def __enter__(self) -> "Syncs":
        return self

    def __exit__(self, *_: object) -> None:
        handles = (self.first, *self.others, self.receiver)
        for handle in handles:
            if handle is not None:
                handle.close()
        self.inproc.close()
        self.destination = None

    @property
    def senders(self) -> list[Any]:
        return [self.first, *self.others]

    # --- without times -------------------------------------------------------

    def seed(self) -> int:
        """A full sync of all ranks; returns checked elements."""
        for sender in self.senders:
            sender.seed()
            self.deliver(sender)
        if self.receiver is not None:
            self.receiver.receive()
            self.receiver.commit()
        for sender in self.senders:
            sender.acknowledge()
        return self.checked()

    def checked(self) -> int:
        """Compares the receiver with the export; returns how many elements."""
        if self.check is None or self.destination is None:
            return 0
        return self.check(self.destination.tensors)

    def deliver(self, sender: Any) -> None:
        if self.receiver is None:
            sender.send(self.nowhere)
        else:
            sender.send()

    # --- with times ----------------------------------------------------------

    def one(self, share: float, seed: int) -> tuple[dict, SyncStats]:
        """A sync: marks of each stage, and what was packed."""
        mark = self.clock.mark
        self.change(share, seed)
        self.clock.warm_up()
        at = {"compare": [mark()]}
        stats = self.local_stage(at)
        at["exchange"] = [mark()]
        if self.first.rounds > 1 or self.receiver is not None:
            self.deliver(self.first)
        at["exchange"].append(mark())
        for sender in self.others:
            sender.sync()
        self.clock.wait()
        if self.receiver is not None:
            at["stage"] = [mark()]
            self.receiver.receive()
            at["stage"].append(mark())
            at["commit"] = [mark()]
            self.receiver.commit()
            at["commit"].append(mark())
        at["advance"] = [mark()]
        self.first.acknowledge()
        at["advance"].append(mark())
        for sender in self.others:
            sender.acknowledge()
        self.clock.wait()
        return at, stats

    def local_stage(self, at: dict[str, list]) -> SyncStats:
        """Compare, pack, seal; several rounds are sealed as they are sent."""
        mark = self.clock.mark
        self.first.compare()
        at["compare"].append(mark())
        at["pack"] = [at["compare"][1]]
        stats = self.first.read()
        at["pack"].append(mark())
        at["seal"] = [mark()]
        if self.first.rounds == 1:
            self.first.seal()
        at["seal"].append(mark())
        self.clock.wait()
        at["local"] = [at["compare"][0], mark()]
        return stats

    def change(self, share: float, seed: int) -> None:
        """New weights. A plan with a bitmap is told of them."""
        if self.is_bitmap:
            self.cast(share, seed)
        else:
            self.source.flip(share, seed)

    def cast(self, share: float, seed: int) -> list[float]:
        """Flips by the optimizer's cast of fp32 values, parameter by parameter;
        seconds of rank 0's on the device. A tensor that ranks share is cast by
        the first of them and marked by the others."""
        values, written, marks = self.source.flipped(share, seed), set(), []
        for sender, held in zip(self.senders, self.source.ranks):
            for name, tensor in held.items():
                address = tensor.data_ptr()
                if address in written:
                    sender.mark(name)
                    continue
                written.add(address)
                wide = values[address].float()
                start = self.clock.mark()
                sender.cast(name, wide)
                if sender is self.first:
                    marks.append((start, self.clock.mark()))
                # torch reuses its memory on this stream only.
                del wide
        self.clock.wait()
        return [self.clock.on_device(*pair) for pair in marks]

    def measure(
        self, share: float, count: int, rates: dict[str, float], label: str = ""
    ) -> None:
        """Medians of `count` syncs after one that is not counted."""
        found: dict[str, list[float]] = defaultdict(list)
        checked = 0
        for number in range(count + 1):
            at, stats = self.one(share, FIRST_SEED + number)
            if self.max_checks is None or number < self.max_checks:
                checked += self.checked()
            if not number:
                continue
            for stage, (start, end) in at.items():
                found[stage].append(self.clock.on_device(start, end))
                found[f"{stage}, host"].append(self.clock.on_host(start, end))
        self._report(share, found, rates, stats, label, checked)

    def _report(
        self,
        share: float,
        found: dict[str, list[float]],
        rates: dict[str, float],
        stats: SyncStats,
        label: str,
        checked: int,
    ) -> None:
        one_side = 2 * self.num_compared
        facts: dict[str, Any] = {"snapshot": self.snapshot, "p": share}
        both = {"num_bytes": 2 * one_side, "against": ("copy", rates["copy"])}
        if self.snapshot in ("pinned", "pageable") and "pcie" in rates:
            both = {"num_bytes": one_side, "against": ("pcie", rates["pcie"])}
        if self.is_bitmap:
            # Marks are read, of the weights only what they say.
            both = {}
        add, said = self.report.add, f"{label} " if label else ""
        add(
            f"{said}diff+pack", found["compare"], **facts, **both,
            note=f"changed {stats.changed} tiles {stats.tiles} dense "
            f"{stats.dense_tiles} bytes {stats.message_bytes} launches "
            f"{stats.launches}",
        )  # fmt: skip
        add(f"{said}local stage, host", found["local, host"], **facts, **both)
        add(f"{said}seal", found["seal"], **facts)
        scatter = rates.get(f"scatter {share:g}")
        against = {"against": ("scatter", scatter)} if scatter else {}
        add(f"{said}advance", found["advance"], **facts, **against)
        if self.receiver is None:
            return
        add(f"{said}exchange", found["exchange"], **facts)
        scatter = rates.get(f"receiver scatter {share:g}")
        against = {"against": ("scatter", scatter)} if scatter else {}
        add(f"{said}receiver stage", found["stage"], **facts)
        add(f"{said}receiver stage, host", found["stage, host"], **facts)
        add(
            f"{said}receiver commit", found["commit"], **facts, **against,
            note=f"checked {checked} elements" if checked else "not checked",
        )  # fmt: skip
