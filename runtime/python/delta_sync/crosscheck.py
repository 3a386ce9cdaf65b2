# ===- crosscheck.py - A plan against the live converter ------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Compiles a model.json and compares the plan with the published converter.

    python -m delta_sync.crosscheck model.json [--json FILE]
    python -m delta_sync.crosscheck --cases cases.json [PATTERN...]

Exit codes: 0 agrees, 1 differs or refused, 2 usage or missing packages. The
packages are those of `tools/dev crosscheck`.
"""

import argparse
import contextlib
import importlib.util
import io
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cases import (
    TRAINER,
    Case,
    NoFamily,
    Refused,
    UsageError,
    compile_plan,
    config_of,
    known_keys,
    read_cases,
    read_json,
)
from ._abi import Side
from .plan import DeltaError, Plan

if TYPE_CHECKING:
    from .report import Report

PACKAGES = ("numpy", "torch", "transformers", "megatron")

# How many elements of each shard are not NaN in the second pass.
SURVIVORS = 3
# Elements of all trainer ranks together: what fits in memory as doubles, and
# again in the export of each rank.
LARGEST = 20_000_000


@dataclass
class Outcome:
    """What came of a case."""

    case: Case
    status: str  # agrees, differs, refused, skipped
    text: str = ""
    report: "Report | None" = None
    spot_checks: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        found = {} if self.report is None else self.report.json()
        return {
            "name": self.case.name,
            "status": self.status,
            "text": self.text,
            **found,
            "spot_checks": self.spot_checks,
            "seconds": {k: round(v, 3) for k, v in self.seconds.items()},
        }


# --- one case ----------------------------------------------------------------


def load_packages() -> None:
    """Imports the published packages, or says what to do without them."""
    missing = [p for p in PACKAGES if importlib.util.find_spec(p) is None]
    if missing:
        raise UsageError(
            f"not installed for {sys.executable}: {', '.join(missing)}; run "
            "'tools/dev crosscheck', which makes an environment that has them"
        )
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")
    with quiet():
        from .converter import standins

        standins.install()


@contextlib.contextmanager
def kept_environment() -> Iterator[None]:
    """The packages leave settings of one model in the environment, where they
    contradict those of the next."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """The packages print as they go."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def check(case: Case) -> Outcome:
    """Compiles, builds, exports twice, compares."""
    start = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="delta-crosscheck-") as folder:
            path = Path(folder) / "plan.so"
            compile_plan(case, path)
            compiled = time.monotonic() - start
            load_packages()
            with Plan.open(path) as plan:
                outcome = compare(case, plan)
        outcome.seconds["compile"] = compiled
    except NoFamily as reason:
        return Outcome(case, "skipped", str(reason))
    except Refused as reason:
        return Outcome(case, "refused", str(reason))
    return outcome


def check_size(plan: Plan) -> None:
    """A cross-check is for small models."""
    elements = sum(
        parameter.num_elements
        for rank in range(plan.num_ranks(Side.SOURCE))
        for parameter in plan.parameters(Side.SOURCE, rank)
    )
    if elements > LARGEST:
        raise Refused(
            f"the trainer ranks hold {elements} elements; at most {LARGEST} "
            "are checked: cut the sizes in the config, which change no rule"
        )


def compare(case: Case, plan: Plan) -> Outcome:
    """The plan and the converter, both passes."""
    from .compare import Comparison
    from .converter.export import Converter, open_converter
    from .converter.model import Job
    from .elements import ElementMap, spot_check

    check_size(plan)
    try:
        elements = ElementMap(plan)
        asked = spot_check(plan, elements, count=20, seed=1)
    except ValueError as error:
        raise Refused(f"the plan: {error}") from error
    job = Job(
        config=config_of(case),
        trainer={**TRAINER, **read_json(case.model).get("trainer", {})},
        world=len(elements.parameters),
        keys=known_keys(
            case, {n: t.shape for n, t in elements.tensors.items()}
        ),
        architecture=case.architecture,
        provider=case.provider,
    )
    try:
        with quiet(), kept_environment():
            converter: Converter = open_converter(job)
            comparison = Comparison(elements, converter.held())
            export = converter.export_tags()
            start = time.monotonic()
            comparison.tags(export, converter.unmapped)
            chosen = comparison.choose(SURVIVORS, seed=1)
            survivors = converter.export_values(
                lambda held: comparison.fill(held, chosen)
            )
            comparison.survivors(survivors, chosen)
    # A failing rank is one too.
    except RuntimeError as error:
        raise Refused(f"the converter: {error}") from error
    report = comparison.report
    outcome = Outcome(
        case, "agrees" if report.agrees else "differs", "", report, asked
    )
    outcome.seconds.update(converter.seconds)
    outcome.seconds["compare"] = time.monotonic() - start
    return outcome


# --- what is said ------------------------------------------------------------


def summary(outcome: Outcome) -> str:
    """One line."""
    seconds = sum(outcome.seconds.values())
    if outcome.report is None:
        return f"{outcome.case.name}: {outcome.status}: {outcome.text}"
    report = outcome.report
    text = (
        f"{outcome.case.name}: {outcome.status}: {report.elements} elements "
        f"of {report.tensors} tensors, {report.survivors} survivors, "
        f"{report.mismatches} mismatches, {seconds:.1f} s"
    )
    if report.bridge_padding:
        text += f"; {report.bridge_padding} elements of padding exported"
    return text


def details(outcome: Outcome, everything: bool) -> list[str]:
    """A line for each class that does not agree, or for each class."""
    if outcome.report is None:
        return []
    lines = []
    for entry in outcome.report.classes:
        text = f"  {entry.name}: {entry.status}"
        if entry.first is not None:
            text += f": {entry.mismatches}, first {entry.first}"
        elif entry.reason:
            text += f": {entry.reason}"
        elif everything:
            text += f": {entry.elements} elements"
        if everything or entry.status != "agrees":
            lines.append(text)
    lines += [f"  {other}" for other in outcome.report.others]
    lines += [f"  {copy}" for copy in outcome.report.copies]
    return lines


# --- the command line --------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m delta_sync.crosscheck",
        description="Compare a plan with the published converter, element by "
        "element.",
    )
    made.add_argument("what", nargs="*", metavar="model.json|PATTERN")
    made.add_argument("--cases", type=Path, help="a table of cases instead")
    made.add_argument("--family", help="family text, as for delta-compile")
    made.add_argument(
        "--keys", choices=("config", "plan"), default="config",
        help="what the converter knows of the checkpoint: its config only, or "
        "the tensors that the plan makes",
    )  # fmt: skip
    made.add_argument("--json", type=Path, help="write the findings here")
    made.add_argument(
        "--verbose", action="store_true", help="show the classes that agree"
    )
    return made


def run(arguments: argparse.Namespace, folder: Path) -> int:
    if arguments.cases is not None:
        if arguments.family or arguments.keys != "config":
            raise UsageError("--family and --keys are for one model.json")
        cases = read_cases(arguments.cases, arguments.what, folder)
    elif len(arguments.what) == 1:
        model = Path(arguments.what[0])
        cases = [Case(model.stem, model, arguments.family, arguments.keys)]
        read_json(model)
    else:
        raise UsageError("one model.json is required, or --cases")
    outcomes = []
    for case in cases:
        outcome = check(case)
        outcomes.append(outcome)
        print(summary(outcome), flush=True)
        for line in details(outcome, arguments.verbose):
            print(line, flush=True)
    if arguments.json is not None:
        found = [outcome.json() for outcome in outcomes]
        text = json.dumps(found if arguments.cases else found[0], indent=1)
        try:
            arguments.json.write_text(text + "\n")
        except OSError as error:
            raise UsageError(f"--json: {error}") from error
    bad = [o for o in outcomes if o.status in ("differs", "refused")]
    checked = [o for o in outcomes if o.status == "agrees"]
    if arguments.cases is not None:
        skipped = len(outcomes) - len(bad) - len(checked)
        print(f"{len(checked)} agree, {len(bad)} do not, {skipped} skipped")
    return 0 if checked and not bad else 1


def main() -> int:
    try:
        with tempfile.TemporaryDirectory(prefix="delta-crosscheck-") as folder:
            return run(parser().parse_args(), Path(folder))
    except (UsageError, DeltaError) as error:
        print(f"delta_sync.crosscheck: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
