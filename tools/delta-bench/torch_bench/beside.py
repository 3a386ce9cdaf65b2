# ===- beside.py - What is measured beside steady syncs -------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Casts, whole tiles, fingerprints, launches, and a sync that fails."""

from collections import defaultdict
from collections.abc import Callable

import torch

from .memory import bits
from .syncs import FIRST_SEED, KEY, Syncs


def casts(syncs: Syncs, count: int, rates: dict[str, float]) -> None:
    """The cast of all parameters of rank 0, beside torch's own copy."""
    if not syncs.is_bitmap:
        return
    size = sum(t.numel() for t in syncs.source.ranks[0].values())
    seconds = [sum(syncs.cast(0.01, FIRST_SEED)) for _ in range(count)]
    syncs.report.add(
        "cast fp32 -> bf16, marked", seconds, snapshot=syncs.snapshot,
        p=0.01, num_bytes=8 * size, against=("copy", rates["copy"]),
        note=f"{len(syncs.source.ranks[0])} parameters",
    )  # fmt: skip
    held = max(syncs.source.ranks[0].values(), key=torch.Tensor.numel)
    wide = held.float()
    syncs.report.add(
        "torch copy_ of the largest",
        syncs.clock.times(lambda: held.copy_(wide), count),
        num_bytes=6 * held.numel(), against=("copy", rates["copy"]),
    )  # fmt: skip


def whole(syncs: Syncs, count: int, rates: dict[str, float]) -> None:
    """The dense gather into send order, and a delta of all elements, each
    in one round; needs room for them."""
    syncs.clock.trim()
    syncs.first.set_capacity(syncs.num_compared)
    seconds = []
    syncs.clock.warm_up()
    for number in range(count + 1):
        syncs.clock.wait()
        start = syncs.clock.mark()
        gather(syncs)
        end = syncs.clock.mark()
        syncs.clock.wait()
        syncs.first.abort()
        if number:
            seconds.append(syncs.clock.on_device(start, end))
    facts = {
        "snapshot": syncs.snapshot, "num_bytes": 4 * syncs.num_compared,
        "against": ("copy", rates["copy"]),
    }  # fmt: skip
    syncs.report.add("dense gather, sealed", seconds, **facts)
    busy = gather_busy(syncs, count)
    if busy:
        syncs.report.add("dense gather, sealed: busy", busy, **facts)
    if syncs.first.version:
        syncs.measure(1.0, count, rates, label="one round:")
    syncs.first.set_capacity(max(syncs.num_compared // 16, 1 << 16))


def gather(syncs: Syncs) -> None:
    """A full sync of rank 0 to nobody, which is yet to be aborted."""
    syncs.first.seed(syncs.first.version + 1)
    syncs.first.send(syncs.nowhere)


def gather_busy(syncs: Syncs, count: int) -> list[float]:
    """Seconds that the device works on a full sync, as CUPTI sees it: without
    the host's part in between. Empty where there is no device."""
    seconds = []
    for _ in range(count):
        work = syncs.clock.work(lambda: gather(syncs))
        syncs.first.abort()
        if work is None:
            return []
        seconds.append(work.busy)
    return seconds


def fingerprints(
    syncs: Syncs, count: int, rates: dict[str, float]
) -> None:
    """A full pass over one side each, and whether both agree."""
    found: dict[str, list[float]] = defaultdict(list)
    syncs.clock.warm_up()
    for number in range(count + 1):
        for what, run in passes(syncs).items():
            syncs.clock.wait()
            start = syncs.clock.mark()
            run()
            syncs.clock.wait()
            end = syncs.clock.mark()
            if number:
                found[what].append(syncs.clock.on_host(start, end))
    for what, seconds in found.items():
        syncs.report.add(
            f"fingerprints, {what}", seconds, snapshot=syncs.snapshot,
            num_bytes=2 * syncs.num_compared,
            against=("copy", rates["copy"]),
        )  # fmt: skip
    if syncs.receiver is None:
        return
    for rank, sender in enumerate(syncs.senders):
        sums = sender.fingerprints(0, KEY)
        if sums != syncs.receiver.fingerprints(rank, KEY):
            raise RuntimeError(f"fingerprints of source rank {rank} differ")
        syncs.report.say(f"fingerprints of source rank {rank}: {len(sums)} "
                        "equal ones")  # fmt: skip


def passes(syncs: Syncs) -> dict[str, Callable[[], object]]:
    runs = {"sender": lambda: syncs.first.fingerprints(0, KEY)}
    if syncs.receiver is not None:
        runs["receiver"] = lambda: syncs.receiver.fingerprints(0, KEY)
    return runs


def launches(syncs: Syncs, share: float) -> None:
    """What a sync puts on the device, by CUPTI."""
    syncs.change(share, FIRST_SEED - 1)

    # With a receiver all that other ranks and the receiver do, too.
    rest = "advance" if syncs.receiver is None else "rest of the sync"

    def local() -> None:
        syncs.local_stage({"compare": [syncs.clock.mark()]})

    for what, run in (
        ("local stage", local), (rest, lambda: finish(syncs)),
    ):
        # Nothing changed, no receiver: nothing to do.
        work = syncs.clock.work(run, may_be_idle=what == rest)
        if work is None:
            syncs.report.say("launches are counted on a GPU only")
            return
        syncs.report.say(
            f"launches by CUPTI, {syncs.snapshot} {share:g}, {what}: "
            f"{work.counts} busy {work.busy * 1e3:.4f} ms"
        )


def finish(syncs: Syncs) -> None:
    """Delivers what rank 0 has packed, with what the others have."""
    if syncs.first.rounds > 1 or syncs.receiver is not None:
        syncs.deliver(syncs.first)
    for sender in syncs.others:
        sender.sync()
    if syncs.receiver is not None:
        syncs.receiver.receive()
        syncs.receiver.commit()
    for sender in syncs.senders:
        sender.acknowledge()


def aborted(syncs: Syncs, share: float) -> None:
    """A sync that fails after it was staged changes nothing, and the next
    one brings everything."""
    if syncs.receiver is None:
        return
    held = bits(syncs.destination.flat).clone()
    syncs.change(share, FIRST_SEED - 2)
    for sender in syncs.senders:
        sender.sync()
    syncs.receiver.receive()
    syncs.receiver.discard()
    for sender in syncs.senders:
        sender.abort()
    if not torch.equal(bits(syncs.destination.flat), held):
        raise RuntimeError("an aborted sync has changed the receiver")
    del held
    for sender in syncs.senders:
        sender.sync()
    syncs.receiver.receive()
    syncs.receiver.commit()
    for sender in syncs.senders:
        sender.acknowledge()
    syncs.report.say(f"aborted and sent again: {syncs.checked()} checked")
