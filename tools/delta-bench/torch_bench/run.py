#!/usr/bin/env python3
# ===- run.py - Measure a plan on tensors of torch ------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Plans for the shards of three models, and their syncs on torch tensors.

    python3 tools/delta-bench/torch_bench/run.py plans --out plans \
        --geometry A A1 A18K B C -- --target cuda --arch sm_90
    python3 tools/delta-bench/torch_bench/run.py measure --geometry B \
        --plans plans --out test/bench --peer

`measure` writes GEOMETRY.txt and GEOMETRY.json. Exit codes: 0; 1 where
something is refused or differs; 2 for usage and what is missing.
"""

import argparse
import sys
from pathlib import Path
from statistics import median

if __name__ == "__main__":
    # As packages: the names of the modules are common words.
    HERE = Path(__file__).resolve().parent
    sys.path[0] = str(HERE.parent)
    sys.path.insert(1, str(HERE.parents[2] / "runtime" / "python"))

from baseline import options, packages
from baseline import run as peer_run
from delta_sync import DeltaError, Plan
from torch_bench import cases

SHARES = (0.0, 0.0003, 0.01, 0.03, 1.0)


def measure(arguments: argparse.Namespace) -> None:
    import torch
    from torch_bench.clock import Clock
    from torch_bench.memory import Source
    from torch_bench.report import Report, machine

    device = torch.device(arguments.device)
    clock = Clock(device)
    chosen = cases.case(arguments.geometry, tiny=arguments.tiny)
    # Rank 0 of A alone: a receiver of all ranks does not fit beside it.
    alone = arguments.geometry == "A"
    report = Report(arguments.out, {
        "geometry": arguments.geometry, "label": chosen.label,
        **machine(device),
    })  # fmt: skip
    if clock.is_cuda:
        torch.zeros(1, device=device)  # the device is current from here on
    converter = None
    if arguments.peer or arguments.check:
        from torch_bench.exports import Converter

        converter = Converter(chosen, device)
    plans = {
        snapshot: Plan.open(
            arguments.plans
            / cases.plan_name(
                arguments.geometry, snapshot, tiny=arguments.tiny
            )
        )
        for snapshot in arguments.snapshots
    }
    for plan in plans.values():
        plan.check_device()
    first = next(iter(plans.values()))
    ranks = range(1) if alone else range(chosen.num_ranks)
    source = Source(first, ranks, device, converter and converter.first)
    source.fill(seed=1)
    held = sum(t.numel() for t in source.ranks[0].values())
    report.say(f"# rank 0: {len(source.ranks[0])} parameters, {2 * held} bytes")
    rates = machine_rates(clock, source, report, arguments)
    if arguments.peer:
        peer_rows = measure_peer(converter, report, arguments)
    if converter and not alone:
        converter.bind(source.ranks)
    for snapshot, plan in plans.items():
        measure_plan(
            plan, source, clock, report, rates, arguments,
            converter.check if arguments.check and not alone else None,
            with_receiver=not alone,
        )  # fmt: skip
        plan.close()
    if alone and arguments.check:
        check_alone(arguments, source, clock, converter, report)
    if arguments.peer:
        compare_with_peer(report, peer_rows, arguments)


def machine_rates(clock, source, report, arguments) -> dict[str, float]:
    """Rates of this run that the figures are shares of."""
    from torch_bench import clock as timing

    count, rates = arguments.syncs, {}
    size = arguments.copy_bytes
    seconds = report.add(
        "copy on the device", timing.copy_times(clock, size, count),
        num_bytes=2 * size, note="read + written",
    )  # fmt: skip
    rates["copy"] = 2 * size / seconds
    if clock.is_cuda:
        up, down = timing.link_times(clock, size // 2, count)
        seconds = report.add("pinned link, up", up, num_bytes=size // 2)
        rates["pcie"] = size // 2 / seconds
        report.add("pinned link, down", down, num_bytes=size // 2)
    for share in arguments.p:
        if not 0 < share < 1:
            continue
        add_scatter(
            "scatter", "torch scatter, shard", clock, source.buffers[0], share,
            rates, report, count,
        )  # fmt: skip
    return rates


def add_scatter(
    kind, what, clock, buffer, share, rates, report, count
) -> None:
    """A scatter of torch; one that it does not do is said, and is no rate."""
    from torch_bench.clock import scatter_times

    try:
        seconds = scatter_times(clock, buffer, share, count)
    except RuntimeError as error:
        report.say(f"{what} {share:g}: not measured: {error}")
        return
    rates[f"{kind} {share:g}"] = report.add(what, seconds, p=share)


def measure_plan(
    plan, source, clock, report, rates, arguments, check, with_receiver
) -> None:
    """All that is said of one plan."""
    from torch_bench import beside
    from torch_bench.syncs import Syncs

    clock.trim()
    with Syncs(
        plan, source, clock, report, check=check, with_receiver=with_receiver,
        threads=arguments.threads, max_checks=arguments.checks,
    ) as syncs:  # fmt: skip
        snapshot = syncs.snapshot
        report.say(
            f"# {snapshot}: {plan.path.name}, fingerprint "
            f"{plan.fingerprint[0]:016x}{plan.fingerprint[1]:016x}, "
            f"{plan.path.stat().st_size} bytes"
        )
        compared = syncs.num_compared
        report.say(
            f"# {snapshot}: rank 0 compares {2 * compared} bytes; its sender "
            f"takes {syncs.sender_bytes} bytes of the device"
        )
        report.say(f"# {snapshot}: seeded, {syncs.seed()} elements checked")
        if with_receiver:
            receiver_rates(syncs, rates, report, arguments)
        clock.trim()
        for share in arguments.p:
            syncs.measure(share, arguments.syncs, rates)
        if snapshot == "device":
            beside.whole(syncs, arguments.syncs, rates)
            beside.fingerprints(syncs, arguments.syncs, rates)
        beside.casts(syncs, arguments.syncs, rates)
        for share in (0.0, 0.01):
            beside.launches(syncs, share)
        beside.aborted(syncs, 0.01)


def check_alone(arguments, source, clock, converter, report) -> None:
    """All ranks of a plan that has no receiver here."""
    from torch_bench.messages import check_ranks
    from torch_bench.syncs import RUN

    name = cases.plan_name(
        arguments.geometry, arguments.snapshots[0], tiny=arguments.tiny
    )
    clock.trim()
    with Plan.open(arguments.plans / name) as plan:
        check_ranks(plan, source, converter, 0.01, report.say, run=RUN)


def receiver_rates(syncs, rates, report, arguments) -> None:
    """A scatter of as many elements as a sync of all ranks brings."""
    for share in arguments.p:
        if 0 < share < 1 and f"receiver scatter {share:g}" not in rates:
            add_scatter(
                "receiver scatter", "torch scatter, receiver", syncs.clock,
                syncs.destination, share, rates, report, arguments.syncs,
            )  # fmt: skip


def measure_peer(converter, report, arguments) -> list[dict]:
    """The published peer on rank 0's shard, in this process."""
    from baseline.peer import Peer

    peer = Peer(converter.geometry, converter.built)
    report.say("# the published peer on the same memory:")
    made = peer_run.measure_all(peer, argparse.Namespace(
        out=arguments.out / f"{arguments.geometry.lower()}-peer.json",
        geometry=arguments.geometry, syncs=arguments.peer_syncs,
        p=[share for share in arguments.p if share < 1], stages_p=[0.01],
        snapshots=arguments.peer_snapshots, sender_only=False, unchecked=False,
    ), report.say)  # fmt: skip
    return made.facts["rows"]


def compare_with_peer(report, rows: list[dict], arguments) -> None:
    """How many times our stages the peer takes."""
    for row in rows:
        if row["what"] == "apply_delta":
            compare_receivers(report, row)
        if row["what"] not in ("sync", "device busy"):
            continue
        on_host = row["what"] == "sync"
        facts = {"snapshot": "device", "p": row["p"]}
        ours = report.find(
            "local stage, host" if on_host else "diff+pack", **facts
        )
        if ours is None:
            continue
        if not on_host:
            ours += report.find("seal", **facts)
        advance = report.find("advance", **facts)
        theirs = median(row["seconds"])
        report.say(
            f"peer {row['what']:<12}{row['snapshot']:<9}{row['p']:<8g}"
            f"{theirs * 1e3:12.3f} ms = {theirs / ours:8.1f} x ours, "
            f"{theirs / (ours + advance):8.1f} x with the advance"
        )


def compare_receivers(report, row: dict) -> None:
    """`apply_delta` takes one rank's delta; our receiver that of all ranks: its
    stage by the host's clock, which ends when the checks are done, and its
    commit on the device."""
    theirs = median(row["seconds"])
    line = (
        f"peer apply_delta {row['p']:<8g}{theirs * 1e3:12.3f} ms of rank 0's "
        f"{row['changed']} elements"
    )
    facts = {"snapshot": "device", "p": row["p"]}
    commit = report.find("receiver commit", **facts)
    if commit is not None:
        ours = commit + report.find("receiver stage, host", **facts)
        line += f" = {theirs / ours:8.1f} x ours of all ranks' elements"
    report.say(line)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = made.add_subparsers(dest="command", required=True)
    plans = commands.add_parser("plans", help="compile what is measured")
    plans.add_argument("--geometry", nargs="+", choices=cases.NAMES,
                       default=list(cases.NAMES))
    plans.add_argument("--out", type=Path, required=True)
    plans.add_argument("options", nargs="*", help="of delta-compile, after --")
    run = commands.add_parser("measure", help="on this machine")
    run.add_argument("--geometry", choices=cases.NAMES, required=True)
    run.add_argument("--plans", type=Path, required=True)
    run.add_argument("--out", type=Path, required=True)
    run.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    run.add_argument("--p", type=options.share, nargs="+", default=list(SHARES))
    run.add_argument("--syncs", type=options.at_least(1), default=9,
                     help="of each median")
    run.add_argument("--copy-bytes", type=options.at_least(1), default=4 << 30)
    run.add_argument("--threads", type=options.at_least(1), default=1,
                     help="of a host plan")
    run.add_argument("--checks", type=options.at_least(0), metavar="N",
                     help="compare N syncs of each median (all)")
    run.add_argument("--unchecked", dest="check", action="store_false",
                     help="without the published converter")
    run.add_argument("--peer", action="store_true",
                     help="measure the published peer too")
    run.add_argument("--peer-syncs", type=options.at_least(1), default=5)
    run.add_argument("--peer-snapshots", nargs="+", choices=peer_run.MODES,
                     default=list(peer_run.MODES))
    for command in (plans, run):
        command.add_argument("--snapshots", nargs="+", choices=cases.SNAPSHOTS,
                             default=["device"])
        command.add_argument("--tiny", action="store_true")
    return made  # fmt: skip


def main() -> int:
    arguments = parser().parse_args()
    try:
        if arguments.command == "plans":
            cases.compile_plans(
                arguments.geometry, arguments.snapshots, arguments.out,
                arguments.options, tiny=arguments.tiny,
            )  # fmt: skip
            return 0
        if arguments.check or arguments.peer:
            packages.install()
    except packages.PackagesError as error:
        print(f"run.py: {error}; or --unchecked", file=sys.stderr)
        return 2
    try:
        measure(arguments)
    except (DeltaError, RuntimeError, ValueError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
