#!/usr/bin/env python3
# ===- run.py - Hold CUDA plans to host plans -----------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Plans of small models for the host and for CUDA, told the same, compared
byte for byte.

    test/gpu/parity/run.py plans --out plans -- --target cuda --arch sm_90
    test/gpu/parity/run.py check --plans plans
    test/gpu/parity/run.py sanitize --plans plans
    test/gpu/parity/run.py large --plans plans

Exit codes: 0; 1 where something differs or fails; 2 for usage and what is
missing.
"""

import argparse
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

if __name__ == "__main__":
    # As a package: the names of the modules are common words.
    HERE = Path(__file__).resolve().parent
    sys.path[0] = str(HERE.parent)
    sys.path.insert(1, str(HERE.parents[2] / "runtime" / "python"))

from delta_sync import DeltaError, Plan, Target
from delta_sync.cases import UsageError
from parity import kernels, models
from parity.driver import Cuda, CudaError
from parity.lane import Lane
from parity.pair import Pair
from parity.script import Script

SECONDS = 300  # for one pair
# Exit codes: of usage, and of compute-sanitizer where it found something.
USAGE, ERRORS = 2, 9
# Of compute-sanitizer, with options of theirs.
TOOLS = {
    "memcheck": ["--padding", "64"],
    "initcheck": [],
    "racecheck": ["--racecheck-report", "all"],
    "synccheck": [],
}
# Between them these start every kernel and convert values.
SANITIZED = [
    "smallest-device", "smallest-bitmap", "casts-fp32-device",
    "vllm-slots-device",
]  # fmt: skip


def compare(
    chosen: models.Pair, seed: int, *, brief: bool, exact: bool
) -> tuple[Pair, Counter[str]]:
    """Runs the script on a pair of plans; what differs is in the first."""
    with Plan.open(chosen.other) as plan:
        is_cuda = plan.target == Target.CUDA
        if is_cuda:
            launches = None if exact else kernels.Launches()
            cuda = Cuda()
            plan.check_device()
        else:
            launches = cuda = None
    lanes = [
        Lane(Plan.open(path), cuda, exact=exact)
        for path in (chosen.host, chosen.other)
    ]
    pair = Pair(lanes[0], lanes[1], seed)
    try:
        Script(pair, brief=brief).run()
    except (DeltaError, CudaError) as error:
        pair.differ(f"{type(error).__name__}: {error}")
    else:
        # After an error of the device nothing can be freed.
        for lane in lanes:
            lane.close()
        if cuda is not None:
            cuda.wait()
    counted: Counter[str] = Counter()
    if launches is not None:
        launches.close()
        counted = launches.counts
    return pair, counted


def one(arguments: argparse.Namespace) -> int:
    """A pair in this process; the last line is for `check`."""
    chosen = next(
        (p for p in models.read_pairs(arguments.plans)
         if p.name == arguments.name), None,
    )  # fmt: skip
    if chosen is None:
        raise UsageError(f"no plan {arguments.name} in {arguments.plans}")
    begin = time.monotonic()
    pair, launches = compare(
        chosen, arguments.seed, brief=arguments.brief, exact=arguments.exact
    )
    for text in pair.found:
        print(f"{chosen.name}: {text}")
    if pair.num_found > len(pair.found):
        print(f"{chosen.name}: ... and {pair.num_found - len(pair.found)} more")
    counts = pair.counts
    print(
        f"{chosen.name:<28}{'DIFFERENT' if pair.found else 'same':<11}"
        f"{counts['syncs']:4} syncs {counts['calls']:6} calls "
        f"{counts['damaged']:5} damaged {counts['messages']:6} messages "
        f"{counts['bytes']:12,} bytes {counts['elements']:12,} elements "
        f"{time.monotonic() - begin:6.1f} s"
    )
    print(json.dumps({"launches": launches}), flush=True)
    return 1 if pair.found else 0


def single(
    arguments: argparse.Namespace, name: str, options: Sequence[str]
) -> list[str]:
    """The command that compares one pair."""
    return [
        sys.executable, str(Path(__file__).resolve()), "one", name, "--plans",
        str(arguments.plans), "--seed", str(arguments.seed), *options,
    ]  # fmt: skip


def outputs(
    commands: Sequence[Sequence[str]], jobs: int
) -> Iterator[tuple[int, str]]:
    """Exit codes and texts of commands, in their order; `jobs` at once."""

    def run(command: Sequence[str]) -> tuple[int, str]:
        try:
            result = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, errors="replace", timeout=SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return -1, f"no answer within {SECONDS} s\n"
        return result.returncode, result.stdout

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(run, commands)


def check(arguments: argparse.Namespace) -> int:
    """Each pair in a process of its own: an error of a GPU ends a process."""
    chosen = [
        pair for pair in models.read_pairs(arguments.plans)
        if models.LARGE not in pair.name and (not arguments.case or any(
            fnmatch.fnmatch(pair.name, case) for case in arguments.case))
    ]  # fmt: skip
    if not chosen:
        raise UsageError(f"{arguments.plans} has no such plan")
    options = [
        *(["--brief"] if arguments.brief else []),
        *(["--exact"] if arguments.exact else []),
    ]  # fmt: skip
    failed, launches = [], Counter()
    names = [pair.name for pair in chosen]
    commands = [single(arguments, name, options) for name in names]
    for name, (code, text) in zip(names, outputs(commands, arguments.jobs)):
        lines = text.splitlines()
        if lines and lines[-1].startswith('{"launches"'):
            launches.update(json.loads(lines.pop())["launches"])
        else:
            lines.append(f"{name}: ended with {code}")
        print("\n".join(lines), flush=True)
        if code == USAGE:
            return USAGE
        if code:
            failed.append(name)
    print_launches(launches)
    print(f"{len(chosen) - len(failed)} of {len(chosen)} pairs are the same")
    if failed:
        print("different or failed:", *failed)
    return 1 if failed else 0


def print_launches(launches: Counter[str]) -> None:
    if not launches:
        print("kernels: not counted (a host plan, or no CUPTI)")
        return
    for name in kernels.known():
        print(f"kernel {name:<20}{launches[name]:10} launches")
    missing = [name for name in kernels.known() if not launches[name]]
    if missing:
        print("never started:", *missing)


def sanitize(arguments: argparse.Namespace) -> int:
    """Pairs under compute-sanitizer, each with each tool."""
    folder = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin"
    program = shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path=str(folder)
    )
    if program is None:
        raise UsageError(f"no compute-sanitizer in PATH or {folder}")
    failed, names, commands = [], [], []
    for tool in arguments.tool:
        for name in arguments.case:
            names.append(f"{tool}: {name}")
            commands.append([
                program, "--tool", tool, *TOOLS[tool], "--error-exitcode",
                str(ERRORS), *single(arguments, name, ["--brief", "--exact"]),
            ])  # fmt: skip
    for name, (code, text) in zip(names, outputs(commands, arguments.jobs)):
        said = {0: "clean", ERRORS: "errors"}.get(code, f"ended with {code}")
        print(f"{text}--- {name}: {said}", flush=True)
        if code:
            failed.append(name)
    print("sanitizer:", "errors in " + ", ".join(failed) if failed else "clean")
    return 1 if failed else 0


def large(arguments: argparse.Namespace) -> int:
    from parity.large import run

    return run(arguments.plans, arguments.seed, arguments.device)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = made.add_subparsers(dest="command", required=True)
    plans = commands.add_parser("plans", help="compile what is compared")
    plans.add_argument("--out", type=Path, required=True)
    plans.add_argument("--case", nargs="+", default=[], metavar="NAME")
    plans.add_argument("options", nargs="*", help="of delta-compile, after --")
    every = commands.add_parser("check", help="compare all on this machine")
    every.add_argument("--case", nargs="+", metavar="PATTERN")
    alone = commands.add_parser("one", help="compare one, in this process")
    alone.add_argument("name")
    clean = commands.add_parser("sanitize", help="under compute-sanitizer")
    clean.add_argument("--tool", nargs="+", choices=TOOLS,
                       default=["memcheck", "initcheck", "racecheck"])
    clean.add_argument("--case", nargs="+", default=SANITIZED)
    big = commands.add_parser("large", help="a parameter above 2^32 elements")
    big.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    for command in (every, alone, clean, big):
        command.add_argument("--plans", type=Path, required=True)
        command.add_argument("--seed", type=int, default=1)
    for command in (every, clean):
        command.add_argument("--jobs", type=int, default=1, metavar="N",
                             help="pairs at once")
    for command in (every, alone):
        command.add_argument(
            "--brief", action="store_true", help="fewer syncs, every call"
        )
        command.add_argument(
            "--exact", action="store_true",
            help="nothing around a parameter, no CUPTI: for a sanitizer",
        )  # fmt: skip
    return made


def main() -> int:
    arguments = parser().parse_args()
    try:
        if arguments.command == "plans":
            models.compile_plans(
                arguments.out, arguments.case, arguments.options
            )
            return 0
        commands = {
            "check": check, "one": one, "sanitize": sanitize, "large": large,
        }  # fmt: skip
        return commands[arguments.command](arguments)
    except (UsageError, OSError, ImportError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return USAGE
    except (DeltaError, CudaError, RuntimeError, ValueError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
