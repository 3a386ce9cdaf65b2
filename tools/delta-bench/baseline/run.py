#!/usr/bin/env python3
# ===- run.py - Measure the published peer on one shard -------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Runs verl's delta export and receiver on the shard of one geometry.

    python3 tools/delta-bench/baseline/run.py --geometry B --out b.json

Prints a line for each median and writes all samples to FILE, again after each
part, so that what was measured before a failure is there. Exit codes: 0; 1
where a check failed; 2 for usage and what is missing.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    # As a package: the names of its modules are common words.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from baseline import options, packages
from baseline.geometry import TABLE, geometry

if TYPE_CHECKING:
    from baseline.peer import Peer

SHARES = (0.0, 0.0003, 0.01, 0.03)
MODES = ("pageable", "pinned", "device")


class Report:
    """What was measured; written again whenever something is added."""

    def __init__(
        self, out: Path, facts: dict[str, Any], say: Callable[[str], object]
    ) -> None:
        """`say` takes a line for people."""
        self._out, self._say = out, say
        self.facts = {**facts, "rows": []}

    def add(self, what: str, seconds: list[float], **facts: object) -> None:
        """Samples of one thing, with their median; `facts` say which."""
        row = {"what": what, **facts, "median": median(seconds)}
        self.facts["rows"].append({**row, "seconds": seconds})
        said = "  ".join(f"{k} {v}" for k, v in facts.items())
        spread = f"[{min(seconds) * 1e3:.3f} - {max(seconds) * 1e3:.3f}]"
        self._say(
            f"{what:<18}{said:<44}{row['median'] * 1e3:12.3f} ms  {spread} "
            f"n={len(seconds)}"
        )
        self.write()

    def note(self, name: str, value: object) -> None:
        """A fact that is no time."""
        self.facts[name] = value
        self._say(f"{name}: {value}")
        self.write()

    def write(self) -> None:
        self._out.write_text(json.dumps(self.facts, indent=1) + "\n")


def machine(device: str) -> dict[str, Any]:
    """What the figures belong to."""
    import torch
    import transformers

    from baseline import fetch

    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    return {
        "device": name,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": sys.version.partition(" ")[0],
        **{project: version for project, (version, _) in fetch.pins().items()},
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "command": " ".join(sys.argv),
    }


def check(peer: "Peer", report: Report, share: float) -> None:
    """The peer's export and one sync, bit for bit."""
    from baseline.check import check_export, check_sync

    start = time.perf_counter()
    peer.snapshot("device")
    before = peer.export()
    tensors, elements = check_export(peer, before)
    peer.flip(share)
    entries = list(peer.sync())
    changed = check_sync(entries, before, peer.export())
    report.note("checked", {
        "tensors of the whole export": tensors,
        "tensors of the shard": len(before),
        "elements of the shard": elements,
        "changed elements": changed,
        "seconds": round(time.perf_counter() - start, 3),
    })  # fmt: skip


def sender(
    peer: "Peer", report: Report, arguments: argparse.Namespace, mode: str
) -> None:
    """Totals of every p, and stages and work of one."""
    from baseline import measure

    start = time.perf_counter()
    peer.snapshot(mode)
    report.add("prime", [time.perf_counter() - start], snapshot=mode)
    for share in arguments.p:
        seconds, changed = measure.timed(peer, share, arguments.syncs)
        report.add("sync", seconds, snapshot=mode, p=share, changed=changed)
    for share in arguments.stages_p:
        found = measure.stages(peer, share, arguments.syncs)
        for stage, seconds in found.items():
            report.add("stage", seconds, snapshot=mode, p=share, stage=stage)
    if mode == "device" and peer.device.type == "cuda":
        for share in arguments.p:
            work = measure.profiled(peer, share)
            report.add("device busy", [work.busy], snapshot=mode, p=share)
            report.note(
                f"device work at {share:g}",
                {"counts": work.counts, "seconds": work.seconds},
            )


def receiver(peer: "Peer", report: Report, share: float, count: int) -> None:
    """`apply_delta` of one sync, checked, and a scatter of the same."""
    from baseline import receiver as published

    peer.snapshot("device")
    destination = published.Destination(peer.export())
    peer.flip(share)
    entries = list(peer.sync())
    sent = published.payloads(entries)
    published.apply(destination, sent)
    destination.check(peer.export())
    seconds = published.seconds_of(
        lambda: published.apply(destination, sent), peer.device, count
    )
    facts = {
        "p": share,
        "entries": sum(int(e[2].count_nonzero()) for e in entries),
        "changed": sum(int(e[2].sum()) for e in entries),
    }
    report.add("apply_delta", seconds, **facts)
    places, values = published.scatter_plan(destination, entries)
    seconds = published.seconds_of(
        lambda: destination.flat.index_copy_(0, places, values),
        peer.device, count,
    )  # fmt: skip
    report.add("torch scatter", seconds, **facts)
    destination.check(peer.export())


def say(line: str) -> None:
    print(line, flush=True)


def measure_all(
    peer: "Peer",
    arguments: argparse.Namespace,
    say: Callable[[str], object] = say,
) -> Report:
    """All of it, in an order in which the short parts come first."""
    report = Report(arguments.out, {
        "geometry": arguments.geometry, "label": peer.geometry.label,
        "parameters": len(peer.parameters), "elements": peer.num_elements,
        **machine(peer.device.type),
    }, say)  # fmt: skip
    if not arguments.unchecked:
        check(peer, report, 0.01)
    for share in arguments.p:
        if share > 0 and not arguments.sender_only:
            receiver(peer, report, share, arguments.syncs)
    for mode in reversed(arguments.snapshots):
        if mode == "pinned" and peer.device.type != "cuda":
            report.note("left out", "the pinned snapshot needs a GPU")
            continue
        sender(peer, report, arguments, mode)
    return report


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    made.add_argument("--geometry", choices=list(TABLE), required=True)
    made.add_argument("--out", type=Path, required=True, metavar="FILE")
    made.add_argument("--tiny", action="store_true", help="a small model")
    made.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    made.add_argument(
        "--p", type=options.share, nargs="+", default=SHARES,
        help="changed share",
    )  # fmt: skip
    made.add_argument(
        "--stages-p", type=options.share, nargs="*", default=[0.01],
        metavar="P",
        help="changed share where the stages are measured",
    )  # fmt: skip
    made.add_argument(
        "--snapshots", nargs="+", choices=MODES, default=list(MODES)
    )
    made.add_argument(
        "--syncs", type=options.at_least(1), default=5, help="of each median"
    )
    made.add_argument("--sender-only", action="store_true")
    made.add_argument(
        "--unchecked", action="store_true", help="leave the checks out"
    )
    return made


def main() -> int:
    arguments = parser().parse_args()
    try:
        if arguments.device == "cpu" and not arguments.tiny:
            raise packages.PackagesError("a CPU is for --tiny only")
        packages.install()
        import torch

        if arguments.device == "cuda" and not torch.cuda.is_available():
            raise packages.PackagesError("no GPU is there; --device cpu --tiny")
    except packages.PackagesError as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    from baseline.engine import PeerError
    from baseline.peer import Peer

    try:
        start = time.perf_counter()
        chosen = geometry(arguments.geometry, tiny=arguments.tiny)
        peer = Peer.open(chosen, device=arguments.device)
        print(f"{chosen.label}: built in {time.perf_counter() - start:.1f} s")
        measure_all(peer, arguments)
    except PeerError as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
