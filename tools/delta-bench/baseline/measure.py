# ===- measure.py - Time, stages and launches of a steady sync ------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Measures the local part of one rank's steady sync.

Every sync follows a flip of the same elements, which is not timed. Entries are
held as verl's gather queue holds them, 32 at a time, then dropped.
"""

import contextlib
import functools
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from .peer import Entry, Peer

HELD = 32  # verl's `batch_gather`

# What runs between two marks of a sync, in the order of a row.
STAGES = {
    "upload": "the snapshot goes to the device",
    "compare": "compare, positions (waits), values",
    "refresh": "the snapshot takes the new values",
    "fill": "a shard of NaN with the changed values",
    "convert": "the converter's megatron_to_hf",
    "extract": "what is not NaN (waits), and its values",
    "queue": "the entry leaves; the next row begins",
}


def drain(entries: Iterable[Entry]) -> int:
    """Takes all entries; returns how many elements they hold. No entry is
    read: a count is a tensor of the host."""
    held: list[Entry] = []
    counts = []
    for entry in entries:
        held.append(entry)
        counts.append(entry[2])
        if len(held) >= HELD:
            held.clear()
    return int(torch.cat(counts).sum())


def warm_up(device: torch.device) -> None:
    """Works until the clocks are up: an H200 that was idle has all of them
    after some 30 ms of work."""
    if device.type != "cuda":
        return
    source = torch.empty(1 << 26, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    end = time.perf_counter() + 0.06
    while time.perf_counter() < end:
        for _ in range(8):
            target.copy_(source)
        torch.cuda.synchronize(device)


def timed(peer: Peer, share: float, count: int) -> tuple[list[float], int]:
    """Seconds of each of `count` syncs after one that is not counted, and the
    elements that one sends. The snapshot must be made."""
    seconds = []
    for number in range(count + 1):
        peer.flip(share)
        warm_up(peer.device)
        start = time.perf_counter()
        changed = drain(peer.sync())
        peer.synchronize()
        if number:
            seconds.append(time.perf_counter() - start)
    return seconds, changed


# --- stages ------------------------------------------------------------------


class Marks:
    """Points in time on the device's stream, or of the host without one."""

    def __init__(self, peer: Peer) -> None:
        self._on_device = peer.device.type == "cuda"
        self._marks: list[tuple[str, Any]] = []

    def __call__(self, stage: str) -> None:
        """`stage` begins here, and what ran before ends."""
        if self._on_device:
            at = torch.cuda.Event(enable_timing=True)
            at.record()
        else:
            at = time.perf_counter()
        self._marks.append((stage, at))

    def seconds(self) -> dict[str, float]:
        """Of each stage, in all; waits for the device."""
        if self._on_device:
            torch.cuda.synchronize()
        total = dict.fromkeys(STAGES, 0.0)
        for (stage, start), (_, end) in zip(self._marks, self._marks[1:]):
            if self._on_device:
                total[stage] += start.elapsed_time(end) / 1000
            else:
                total[stage] += end - start
        return total


def marking(function: Callable, mark: Marks, before: str, after: str) -> (
    Callable
):  # fmt: skip
    """The function, with a mark where it begins and where it has ended."""

    @functools.wraps(function)
    def marked(*rest: Any, **named: Any) -> Any:
        mark(before)
        result = function(*rest, **named)
        mark(after)
        return result

    return marked


@contextlib.contextmanager
def marked(peer: Peer, mark: Marks) -> Iterator[None]:
    """Puts marks around the functions that a sync calls; their code and what
    calls them stay as published."""
    from verl.checkpoint_engine.delta_sync import sparse_gather

    engine = peer.engine
    shards, compare = (
        engine.get_per_tensor_param_shard,
        sparse_gather.shard_delta_indices,
    )

    def shards_marked() -> tuple[Iterator, None]:
        def rows() -> Iterator:
            for row in shards()[0]:
                mark("upload")
                yield row

        return rows(), None

    engine.get_per_tensor_param_shard = shards_marked
    engine._hf_delta_entry = marking(
        engine._hf_delta_entry, mark, "fill", "queue"
    )
    sparse_gather.shard_delta_indices = marking(
        compare, mark, "compare", "refresh"
    )
    for row in peer.rows:
        row.probe.megatron_to_hf = marking(
            row.probe.megatron_to_hf, mark, "convert", "extract"
        )
    try:
        yield
    finally:
        del engine.get_per_tensor_param_shard, engine._hf_delta_entry
        sparse_gather.shard_delta_indices = compare
        for row in peer.rows:
            del row.probe.megatron_to_hf


def stages(peer: Peer, share: float, count: int) -> dict[str, list[float]]:
    """Seconds of each stage in each of `count` syncs, marks included."""
    found = defaultdict(list)
    for _ in range(count):
        peer.flip(share)
        warm_up(peer.device)
        mark = Marks(peer)
        with marked(peer, mark):
            drain(peer.sync())
            mark("queue")
        for stage, seconds in mark.seconds().items():
            found[stage].append(seconds)
    return dict(found)


# --- the device --------------------------------------------------------------


@dataclass
class DeviceWork:
    """What a sync put on the device, as CUPTI saw it. Seconds are sums of what
    each kernel and copy took."""

    seconds: dict[str, float] = field(
        default_factory=lambda: {"kernel": 0.0, "copy": 0.0, "set": 0.0}
    )
    counts: dict[str, int] = field(
        default_factory=lambda: {"kernel": 0, "copy": 0, "set": 0, "wait": 0}
    )

    @property
    def busy(self) -> float:
        return sum(self.seconds.values())

    def add(self, name: str, on_device: bool, seconds: float) -> None:
        """One event of the profiler."""
        if on_device:
            kind = {"Memcpy": "copy", "Memset": "set"}.get(
                name.partition(" ")[0], "kernel"
            )
            self.seconds[kind] += seconds
            self.counts[kind] += 1
        elif name == "cudaStreamSynchronize":
            self.counts["wait"] += 1


def device_work(
    peer: Peer, run: Callable[[], object], *, may_be_idle: bool = False
) -> DeviceWork:
    """Runs something once under the profiler, which has to see a device.

    Raises where it saw no kernel, unless there may be none.
    """
    if peer.device.type != "cuda":
        raise ValueError(f"the device is {peer.device}; required is a GPU")
    warm_up(peer.device)
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        run()
        peer.synchronize()
    work = DeviceWork()
    cpu = torch.autograd.DeviceType.CPU
    for event in profile.profiler.kineto_results.events():
        work.add(
            event.name(), event.device_type() != cpu, event.duration_ns() / 1e9
        )
    if not work.counts["kernel"] and not may_be_idle:
        raise RuntimeError("the profiler saw no kernel: no CUPTI?")
    return work


def profiled(peer: Peer, share: float) -> DeviceWork:
    """The work of one sync; the flip before it is not in it."""
    peer.flip(share)
    return device_work(peer, lambda: drain(peer.sync()))
