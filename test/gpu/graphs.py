#!/usr/bin/env python3
# ===- graphs.py - Syncs from CUDA graphs ---------------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Captures the parts of a sync in CUDA graphs, launches them, checks, times.

    python3 tools/delta-bench/torch_bench/run.py plans --out plans --tiny \\
        --geometry B --snapshots device pinned pageable bitmap \\
        -- --target cuda --arch sm_90
    python3 test/gpu/graphs.py plans/b-tiny-*.so

Needs torch. After each sync the receivers are compared, bit for bit, with those
of a full sync of the same weights by other handles without graphs. A plan for
the host runs with `--device cpu`, each graph as the calls in it. Exit codes: 0;
1 where something is refused or differs.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from graph_ranks import Case, Graph, Parts, Wrong  # sets the path
from delta_sync import DeltaError, Plan, Snapshot
from delta_sync._abi import Status

SHARES = (0.01, 0.0, 0.3, 0.0003, 0.05)
CALLS = 50  # of each median
BY_KERNEL = (Snapshot.DEVICE, Snapshot.PINNED)  # the advance


def sync(case: Case, parts: Parts, share: float, what: str) -> int:
    """From graphs, and checked; returns the rounds."""
    case.change(share)
    parts.compare.replay()
    case.read(share)
    rounds = max(sender.rounds for sender in case.senders)
    parts.seal.replay()
    case.pair.deliver()
    case.confirm()
    parts.advance.replay()
    case.check(what)
    return rounds


def in_parts(case: Case) -> None:
    """A graph of each part; a full sync and calls in between."""
    parts = Parts(case)
    for number, share in enumerate(SHARES * 2):
        if number == 4:
            case.change(share)
            case.pair.full()
            case.check("a full sync in between")
        elif number == 6:
            case.change(share)
            for sender in case.senders:
                sender.diff()
            case.pair.deliver()
            for sender in case.senders:
                sender.acknowledge()
            case.check("calls in between")
        else:
            sync(case, parts, share, f"in parts, sync {number}")


def in_steps(case: Case) -> None:
    """One graph with the advance, the step and the compare, and one sync that
    is aborted, whose advance must not be done."""

    def run() -> None:
        for sender in case.senders:
            sender.advance()
        if not case.is_bitmap:
            case.step()
        for sender in case.senders:
            sender.compare()

    step, parts = Graph("step", case.device, run), Parts(case)
    for number, share in enumerate(SHARES):
        if case.is_bitmap:
            case.change(share)
        else:
            case.draw(share)
        step.replay()
        # What was aborted is sent by the next.
        case.read(share if number != 3 else 1)
        parts.seal.replay()
        if number == 2:
            for sender in case.senders:
                sender.abort()
            continue
        case.pair.deliver()
        case.confirm()
        case.check(f"in steps, sync {number}")
    parts.advance.replay()


def in_rounds(case: Case) -> None:
    """More changes than the graphs have memory for: `send` makes the rounds,
    and graphs of seal and advance do nothing."""
    for sender, held in zip(case.senders, case.source.ranks):
        most = sum(tensor.numel() for tensor in held.values())
        sender.set_capacity(max(most // 8, 65536))
    parts = Parts(case)
    rounds = [
        sync(case, parts, share, f"in rounds, p {share:g}")
        for share in (0.02, 1.0, 0.01)
    ]
    print(f"  rounds: {rounds}")
    if rounds[1] < 2:
        raise Wrong("one round for all")


def refused(call: Callable[[], object], text: str) -> None:
    try:
        call()
    except DeltaError as error:
        if error.status == Status.REFUSED and text in str(error):
            return
        raise Wrong(f"refused otherwise: {error}") from error
    raise Wrong(f'not refused: "{text}"')


def forgotten(case: Case) -> None:
    """Graphs that were not launched."""
    parts = Parts(case)
    case.change(0.01)
    parts.compare.replay()
    case.read(0.01)
    refused(case.senders[0].send, "is not sealed")
    parts.seal.replay()
    case.pair.deliver()
    case.confirm()
    case.change(0.02)
    parts.compare.replay()
    if case.device.type == "cuda" and case.plan.snapshot in BY_KERNEL:
        for sender in case.senders:
            refused(sender.read, "was not launched")
    else:
        case.read(0.02)
        for sender in case.senders:
            sender.abort()
    case.pair.full()
    sync(case, parts, 0.01, "after a full sync")


def again(case: Case) -> None:
    """A compare that is launched twice, and one while something is packed."""
    parts = Parts(case)
    case.change(0.02)
    parts.compare.replay()
    sync(case, parts, 0.01, "compared twice")
    case.change(0.02)
    parts.compare.replay()
    case.read(0.02)
    parts.seal.replay()
    case.change(0.01)
    if parts.compare.graph is not None:
        parts.compare.replay()
        torch.cuda.synchronize()
        for sender in case.senders:
            refused(sender.confirm, "was overwritten by a compare")
    for sender in case.senders:
        sender.abort()
    sync(case, parts, 0.3, "after a compare that came too early")


class Nowhere:
    def send(self, source: int, destination: int, parts: Sequence[Any]) -> None:
        pass

    def receive(self, source: int, destination: int) -> Any:
        raise LookupError("nothing is kept")


Times = dict[str, list[tuple[float, float]]]


def timed(found: Times, name: str, call: Callable[[], object]) -> None:
    """Adds microseconds on the host, without a wait but its own, and on the
    device."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    begin = time.perf_counter()
    call()
    took = time.perf_counter() - begin
    end.record()
    torch.cuda.synchronize()
    found.setdefault(name, []).append(
        (took * 1e6, start.elapsed_time(end) * 1e3)
    )


def times(case: Case, share: float) -> None:
    """Rank 0's parts and whole syncs, called and launched; all of a sync but
    for what a transport does. The receivers are left behind."""
    sender, nowhere = case.senders[0], Nowhere()
    sender.seed()
    sender.send(nowhere)
    sender.acknowledge()
    parts = Parts(case, sender)
    graphs = (parts.compare, parts.seal, parts.advance)
    found: Times = {}
    for number in range(CALLS + 3):
        if number == 3:
            found.clear()
        for how in ("called", "launched"):
            do = [g.replay if how == "launched" else g.run for g in graphs]
            case.change(share)
            torch.cuda.synchronize()
            timed(found, f"compare {how}", do[0])
            sender.read()
            timed(found, f"seal {how}", do[1])
            sender.send(nowhere)
            sender.confirm()
            timed(found, f"advance {how}", do[2])

            def whole(do: Sequence[Callable[[], object]] = do) -> None:
                do[0]()
                sender.read()
                do[1]()
                sender.send(nowhere)
                sender.confirm()
                do[2]()

            case.change(share)
            torch.cuda.synchronize()
            timed(found, f"sync {how}", whole)
        case.change(share)

        def plain() -> None:
            sender.compare()
            sender.pack()
            sender.send(nowhere)
            sender.acknowledge()

        torch.cuda.synchronize()
        timed(found, "sync, pack and acknowledge", plain)
    for name, rows in found.items():
        host, device = (median(column) for column in zip(*rows))
        print(f"  p {share:<6g} {name:<26} host {host:8.1f} us   "
              f"device {device:8.1f} us")


def run_plan(path: Path, device: torch.device, *, timed: bool) -> None:
    with Plan.open(path) as plan:
        plan.check_device()
        case = Case(plan, device)
        case.pair.full()
        case.check("full sync")
        print(f"{path.name}: {plan.snapshot.name.lower()}, "
              f"{len(case.senders)} to {len(case.pair.receivers)} ranks")
        for part in (in_parts, in_steps, forgotten, again, in_rounds):
            part(case)
            print(f"  {part.__name__}: ok, {case.num_checked} elements "
                  f"checked, {case.num_changed} changed so far")
        if timed:
            for share in (0.0, 0.01):
                times(case, share)
        case.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plans", type=Path, nargs="+")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--untimed", action="store_true")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    timed = device.type == "cuda" and not arguments.untimed
    if device.type == "cuda":
        torch.zeros(1, device=device)  # the device is current from here on
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for path in arguments.plans:
        try:
            run_plan(path, device, timed=timed)
        except (DeltaError, RuntimeError, Wrong) as error:
            print(f"{path.name}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
