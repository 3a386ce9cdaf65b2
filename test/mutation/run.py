#!/usr/bin/env python3
# ===- run.py - Make every small mistake and see what stops it ------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Runs all mutants of the family texts; README.md says what the columns are.

    run.py --bin build/bin --out build/mutants [FAMILY.mlir ...]
"""

import argparse
import datetime
import itertools
import json
import multiprocessing
import os
import pickle
import random
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

from derived import around, derived_cases
from mutants import OPERATORS, Mutant, mutants_of
from stages import (
    ROOT, BadInput, Case, Tools, bad_inputs, bind, digest, family_files,
    golden_cases, inputs_version, manifest_cases, varied_first,
)
from text import FamilyText

STAGES = ("verifier", "proof", "cross-check", "manifest", "golden", "live",
          "bad input")
# What a mutant meets in any event: a golden case of so many families that its
# block is part of, and one manifest of at most so many tensors. It meets the
# others only if these do not stop it, larger manifests, which take seconds,
# only on the smallest geometry.
FIRST_FAMILIES = 2
FIRST_TENSORS = 10_000


class World:
    """Texts, cases and what depends on what."""

    def __init__(self, binaries: Path, models: Path, shared: Path | None,
                 out: Path, only: str = ""):
        """`only`: a pattern of golden cases, none else and no manifests."""
        self.binaries, self.model_folder, self.out = binaries, models, out
        self.texts = {
            path.name: FamilyText(path)
            for path in sorted(models.glob("*.mlir"))
        }
        families = family_files(models)
        self.families = sorted(set(families.values()))
        self.users = self._users()
        binary = (binaries / "delta-compile").read_bytes()
        checker = (binaries / "delta-check").read_bytes()
        self.version = digest(binary, checker)
        self.texts_version = digest(self.version, [
            (name, text.source) for name, text in sorted(self.texts.items())])
        self.cases: dict[str, list[Case]] = defaultdict(list)
        self.manifests: dict[str, list[Case]] = defaultdict(list)
        self.bad: dict[str, list[BadInput]] = defaultdict(list)
        self.unusable: list[str] = []
        # Finding them takes minutes; the next run finds them again.
        path = out / "cases.pickle"
        version = digest(self.texts_version, only, inputs_version(shared))
        known = pickle.loads(path.read_bytes()) if path.exists() else {}
        if known.get("version") == version:
            self.cases, self.manifests, self.bad, self.unusable = known["all"]
        else:
            path.unlink(missing_ok=True)
            self._find_cases(families, shared, only)
            path.write_bytes(pickle.dumps({
                "version": version, "all": (self.cases, self.manifests,
                                            self.bad, self.unusable)}))
        self.tested = [
            name for name in self.families
            if self.cases[name] or self.manifests[name]
        ]
        self.data = {family: self._data(family) for family in self.families}
        # By file and region: names of cases that bind it.
        self.reached: dict[tuple[str, int], set[tuple[str, str]]] = {}

    def _find_cases(self, families: dict[str, str], shared: Path | None,
                    only: str) -> None:
        work = self.out / "cases"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        tools = Tools(self.binaries, self.model_folder,
                      self.out / "tools-original")
        golden = golden_cases(families, shared, work)
        wrapped = (around(case, families, work) for case in golden)
        for case in golden + [case for case in wrapped if case]:
            if only and not re.fullmatch(only, case.name):
                continue
            if bind(case, tools, work):
                self.cases[case.family].append(case)
            else:
                self.unusable.append(case.name)
        for choice in manifest_cases(families, shared, work) * (not only):
            case = next((c for c in choice if bind(c, tools, work)), None)
            if case:
                self.manifests[case.family].append(case)
            else:
                self.unusable.append(f"{choice[0].name} (manifest)")
        for family, cases in self.cases.items():
            cases = varied_first(cases)
            # A resharding does not see the checkpoint's names.
            cases.sort(key=lambda case: case.arguments[0] != "--golden")
            cases[1:] = varied_first(cases[1:])
            texts = [self.texts[name] for name in self.files(family)]
            self.cases[family] = cases + derived_cases(
                cases, texts, tools, work)
        for bad in bad_inputs(families, work):
            if tools.refuses(bad):
                self.bad[bad.family].append(bad)
            else:
                self.unusable.append(f"{bad.name} (bad input)")

    def _data(self, family: str) -> str:
        """Changes if the family meets other cases."""
        cases = self.cases[family] + self.manifests[family]
        return digest([(case.name, case.bound) for case in cases],
                      [(bad.name, bad.says) for bad in self.bad[family]])

    def files(self, family: str) -> list[str]:
        """The text of a family and what it imports."""
        files, left = [], [family]
        while left:
            name = left.pop()
            if name in self.texts and name not in files:
                files.append(name)
                left += self.texts[name].imports()
        return files

    def _users(self) -> dict[tuple[str, str], list[str]]:
        """Families that a block, or a family, of a file takes part in."""
        users = defaultdict(list)
        for family in self.families:
            files = self.files(family)
            tops = {
                self.texts[name].name(top): (name, top)
                for name in files
                for top in self.texts[name].statements
                if top.parent is None and top.op == "delta.block"
            }
            wanted = []
            for name in files[1:]:
                for top in self.texts[name].statements:
                    if top.op == "delta.import":
                        users[name, top.op].append(family)
            for top in self.texts[family].statements:
                if top.parent is None and top.op != "delta.block":
                    users[family, self.texts[family].name(top)] = [family]
                    if top.op == "delta.family":
                        wanted += self.texts[family].uses(top)
            reached = set()
            while wanted:
                block = wanted.pop()
                if block in tops and block not in reached:
                    reached.add(block)
                    name, top = tops[block]
                    users[name, block].append(family)
                    wanted += self.texts[name].uses(top)
        return users

    def mutants(self, names: list[str]) -> list[Mutant]:
        found = []
        # Blocks of layouts alone meet no case here.
        used = {file for family in self.families
                for file in self.files(family)}
        for name, text in self.texts.items():
            if name not in (names or used):
                continue
            blocks = {
                text.name(top)
                for file in self.files(name)
                for text in [self.texts[file]]
                for top in text.statements
                if top.op == "delta.block"
            }
            found += mutants_of(text, sorted(blocks))
        return found

    def meets(self, file: str, top: str) -> list[Case | BadInput]:
        """All that a block, or a family, of a file may be bound by."""
        return [
            case
            for family in self.users.get((file, top), [])
            for cases in (self.cases, self.manifests, self.bad)
            for case in cases[family]
        ]


# --- one mutant ------------------------------------------------------------- #


class Trial:
    """Everything that is done with one mutant."""

    def __init__(self, world: World, tools: Tools, mutant: Mutant,
                 live: list[str]):
        self.world, self.tools, self.live = world, tools, live
        self.families = world.users.get((mutant.file, mutant.top), [])
        self.mutant = mutant
        # A change matters only to what binds the place.
        names = set().union(*(world.reached[mutant.file, region]
                              for region in mutant.regions))
        self.cases, self.manifests, self.bad = (
            {family: [case for case in cases[family]
                      if (case.family, case.name) in names]
             for family in self.families}
            for cases in (world.cases, world.manifests, world.bad)
        )
        self.stops: dict[str, str] = {}  # stage: by which case
        self.changed: list[Case] = []  # other maps than the original's

    def run(self) -> dict:
        self.tools.change(self.mutant.file, self.mutant.source)
        try:
            self._try()
        finally:
            self.tools.change(self.mutant.file, None)
        first = next((s for s in STAGES if s in self.stops), "")
        if first:
            verdict = "stopped"
        elif self.changed:
            verdict = "survived"
        elif any(self.cases.values()) or any(self.manifests.values()):
            verdict = "no difference"
        else:
            verdict = "not reached"
        return {"verdict": verdict, "first": first, "stops": self.stops,
                "families": self.families}

    def _try(self) -> None:
        golden = [self.cases[family] for family in self.families
                  if self.cases[family]]
        manifests = sorted(
            (case for cases in self.manifests.values() for case in cases),
            key=lambda case: case.tensors)
        early = [cases[0] for cases in golden[:FIRST_FAMILIES]]
        early += [case for case in manifests[:1]
                  if case.tensors <= FIRST_TENSORS]
        late = [case for case in [*itertools.chain(*golden), *manifests]
                if not any(case is other for other in early)
                and case.tensors <= FIRST_TENSORS]
        last = [case for case in manifests
                if case.tensors > FIRST_TENSORS and case.plain]
        # What no case binds must be parsed all the same.
        any_case = [case for family in self.families
                    for case in self.world.cases[family]]
        self._compare(early or any_case[:1])
        for case in late:
            if not self.stops:
                self._compare([case])
        for bad in itertools.chain(*self.bad.values()):
            if not self.stops and not self.tools.refuses(bad):
                self.stops["bad input"] = bad.name
        for case in last:
            if not self.stops:
                self._compare([case])
        if not self.stops and self.live:
            self._ask_converter()

    def _compare(self, cases: list[Case]) -> None:
        """Binds all cases; if none is refused, holds those that are bound in
        another way against data until one stops it, manifests first."""
        changed = []
        for case in cases:
            code, bound = self.tools.compile(case, "import")
            if code:
                self.stops["verifier"] = case.name
                return
            if bound != case.bound:
                changed.append(case)
        for case in sorted(changed, key=lambda case: case.kind != "manifest"):
            stage = self.tools.agrees(case)
            if stage:
                self.stops[stage] = case.name
                return
            if self.tools.compile(case, "maps")[1] != case.maps:
                self.changed.append(case)

    def _ask_converter(self) -> None:
        for case in self.changed:
            result = subprocess.run(
                [*self.live, case.model], env=self.tools.of_live,
                stdin=subprocess.DEVNULL, capture_output=True)
            if result.returncode == 1:
                self.stops["live"] = case.name
                return


def regions_reached(world: World, tools: Tools, file: str,
                    top: str) -> dict[tuple[str, int], set[tuple[str, str]]]:
    """For each region of a block or family what binds it: with an op at its
    beginning that always refuses, it is refused there."""
    text = world.texts[file]
    found = {}
    for number, op in enumerate(text.statements):
        if text.name(op.top) != top or text.first_of_region(op) is not op:
            continue
        if op.parent is None:
            found[file, number] = {
                (case.family, case.name) for case in world.meets(file, top)}
            continue
        outer = text.first_of_region(op.parent)
        known = found[file, text.statements.index(outer)]
        start, _ = text.span(op)
        tools.change(file, text.source[:start]
                     + 'delta.require 1 == 2, "reached"\n'
                     + text.source[start:])
        try:
            found[file, number] = {
                (case.family, case.name)
                for case in world.meets(file, top)
                if (case.family, case.name) in known
                and (not tools.refuses(case) if isinstance(case, BadInput)
                     else tools.compile(case, "import")[0])
            }
        finally:
            tools.change(file, None)
    return found


# --- many ------------------------------------------------------------------- #

_world: World
_tools: Tools
_live: list[str]


def _start() -> None:
    global _tools
    _tools = Tools(_world.binaries, _world.model_folder,
                   _world.out / f"tools-{os.getpid()}")


def _trial(mutant: Mutant) -> tuple[Mutant, dict]:
    trial = Trial(_world, _tools, mutant, _live)
    try:
        return mutant, trial.run()
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        # No answer at all: a hole, whatever the mutant is.
        print(describe(mutant, {"verdict": "crashed", "stops": {}}), error,
              sep="\n", file=sys.stderr, flush=True)
        return mutant, {"verdict": "crashed", "first": "", "stops": {},
                        "families": trial.families}


def _regions(place: tuple[str, str]) -> dict:
    return regions_reached(_world, _tools, *place)


def _find_regions(world: World, places: list[tuple[str, str]],
                  jobs: int) -> None:
    """What binds each region of blocks and families; kept for the next run."""
    path = world.out / "regions.json"
    version = digest(world.texts_version, world.data,
                     sorted(world.users.items()))
    found = json.loads(path.read_text()) if path.exists() else {}
    if found.get("version") != version:
        found = {"version": version, "places": []}
    known = {tuple(place) for place, _ in found["places"]}
    left = [place for place in places if place not in known]
    with multiprocessing.get_context("fork").Pool(jobs, _start) as pool:
        for place, regions in zip(left, pool.imap(_regions, left)):
            found["places"].append((place, [
                (*region, sorted(cases))
                for region, cases in regions.items()]))
    path.write_text(json.dumps(found))
    for _, regions in found["places"]:
        for file, number, cases in regions:
            world.reached[file, number] = {tuple(case) for case in cases}


def run_all(world: World, mutants: list[Mutant], jobs: int, live: list[str],
            minutes: float | None = None) -> list[tuple[Mutant, dict]]:
    """Results in the order of the mutants, of those that the time is enough
    for; known ones come from the cache."""
    global _world, _live
    _world, _live = world, live
    path = world.out / "cache.json"
    cache = json.loads(path.read_text()) if path.exists() else {}
    others = {
        name: digest(world.version, [world.texts[other].source
                                     for other in sorted(world.texts)
                                     if other != name])
        for name in world.texts
    }
    keys = {m: digest(others[m.file], m.file, m.source) for m in mutants}

    def met(mutant: Mutant) -> str:
        families = world.users.get((mutant.file, mutant.top), [])
        return digest(live, [world.data[family] for family in families])

    # More cases do not save what one of them stopped; the others are tried
    # again, last, if they meet other cases now.
    known = {m: cache[keys[m]] for m in mutants if keys[m] in cache}
    todo = [mutant for mutant in mutants if mutant not in known]
    todo += [m for m, result in known.items()
             if not result["first"] and result["met"] != met(m)]
    results = dict(known)
    if minutes == 0:
        todo = []
    start = time.monotonic()
    before = cache.get("seconds", 0)

    def seconds() -> float:
        return time.monotonic() - start

    def report(number: int, what: str) -> None:
        print(f"{number} of {what}, {seconds():.0f} s", file=sys.stderr,
              flush=True)

    def save() -> None:
        # Of all runs together.
        cache["seconds"] = world.seconds = before + seconds() * bool(todo)
        path.write_text(json.dumps(cache))

    _find_regions(world, sorted({(m.file, m.top) for m in todo}), jobs)
    report(len(world.reached), f"{len(world.reached)} regions")
    # A run that ends early is a fair sample.
    random.Random(1).shuffle(todo)
    with multiprocessing.get_context("fork").Pool(jobs, _start) as pool:
        for number, (mutant, result) in enumerate(
                pool.imap_unordered(_trial, todo, chunksize=4), 1):
            result["met"] = met(mutant)
            results[mutant] = cache[keys[mutant]] = result
            if number % 500 == 0 or number == len(todo):
                save()
                report(number, str(len(todo)))
            if minutes and seconds() > minutes * 60:
                break
    save()
    return [(m, results[m]) for m in mutants if m in results]


# --- report ----------------------------------------------------------------- #

COLUMNS = ("mutants", "verifier", "proof", "accepted", "manifest", "golden",
           "bad input", "no difference", "not reached", "survived")


def count(results: list[tuple[Mutant, dict]]) -> Counter:
    """`accepted`: proved, and another map than the original's in some case."""
    counts = Counter(mutants=len(results))
    for _, result in results:
        first = result["first"]
        counts["accepted"] += (result["verdict"] == "survived"
                               or first in STAGES[3:6])
        counts[first or result["verdict"]] += 1
    return counts


def table(results: list[tuple[Mutant, dict]]) -> str:
    extra = [stage for stage in ("cross-check", "live")
             if any(stage in result["stops"] for _, result in results)]
    columns = [*COLUMNS[:4], *extra, *COLUMNS[4:]]
    lines = ["| operator | " + " | ".join(columns) + " |",
             "| --- |" + " ---: |" * len(columns)]

    def row(name: str, part: list[tuple[Mutant, dict]]) -> None:
        counts = count(part)
        lines.append(f"| {name} | " + " | ".join(
            str(counts[column]) for column in columns) + " |")

    for operator in OPERATORS:
        part = [r for r in results if r[0].operator == operator.__name__]
        row(" ".join((operator.__doc__ or "").split()), part)
    row("**all**", results)
    for name in sorted({mutant.file for mutant, _ in results}):
        row(f"of them in `{name}`", [r for r in results if r[0].file == name])
    return "\n".join(lines)


def describe(mutant: Mutant, result: dict) -> str:
    by = ", ".join(f"{stage} ({case})"
                   for stage, case in result["stops"].items())
    return (f"{result['verdict']}: {mutant.file}:{mutant.line}: "
            f"{mutant.operator}: '{mutant.before}' -> '{mutant.after}'"
            + (f": {by}" if by else ""))


def reason_of(mutant: Mutant, result: dict, known: list[dict]) -> str:
    """Why a mutant that nothing stops is no hole; empty: it is one."""
    for entry in known:
        if all(re.search(entry.get(key, ""), value) for key, value in (
                ("verdict", result["verdict"]), ("file", mutant.file),
                ("top", mutant.top), ("operator", mutant.operator),
                ("line", mutant.text), ("before", mutant.before),
                ("after", mutant.after))):
            return entry["reason"]
    return ""


def reasons(left: list[tuple[Mutant, dict, str]]) -> str:
    counts = Counter(reason for _, _, reason in left)
    lines = ["| mutants | reason |", "| ---: | --- |"]
    for reason, number in sorted(counts.items(), key=lambda item: -item[1]):
        lines.append(f"| {number} | {reason or '**none: a hole**'} |")
    return "\n".join(lines)


def write_readme(**parts: str) -> None:
    path = Path(__file__).parent / "README.md"
    text = path.read_text()
    for name, new in parts.items():
        text = re.sub(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)",
                      lambda match, new=new: f"{match[1]}{new}\n{match[2]}",
                      text, flags=re.S)
    path.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", help="texts to mutate (all)")
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "bin")
    parser.add_argument("--models", type=Path, default=ROOT / "models")
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sample", type=int, help="so many, by chance")
    parser.add_argument("--live", type=shlex.split, default=[],
                        help="command that holds a model.json against the "
                        "live converter; exit code 1 stops a mutant")
    parser.add_argument("--minutes", type=float, help="stop after so long; the "
                        "next run goes on; 0: what is known, once more")
    parser.add_argument("--write", action="store_true",
                        help="put the results into README.md")
    options = parser.parse_args()
    shared = options.shared if options.shared.is_dir() else None
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    world = World(options.bin.resolve(), options.models.resolve(),
                  shared and shared.resolve(), out)
    for name in world.tested:
        print(f"{name}: {len(world.cases[name])} golden, "
              f"{len(world.manifests[name])} manifests, "
              f"{len(world.bad[name])} bad inputs", file=sys.stderr)
    for name in world.unusable:
        print(f"does not hold on the texts as they are: {name}",
              file=sys.stderr)
    mutants = world.mutants(options.files)
    if options.sample:
        mutants = random.Random(1).sample(mutants, options.sample)
    results = run_all(world, mutants, options.jobs, options.live,
                      options.minutes)
    lines = [describe(*result) for result in results]
    (out / "results.txt").write_text("\n".join(lines) + "\n")
    known = json.loads((Path(__file__).parent / "known.json").read_text())
    left = [(mutant, result, reason_of(mutant, result, known))
            for mutant, result in results if not result["first"]]
    counts = ", ".join(
        f"`{name}` ({len(world.cases[name])} golden, "
        f"{len(world.manifests[name])} manifests, {len(world.bad[name])} bad "
        "inputs)" for name in world.tested)
    command = "`tools/dev mutants`" if not options.files else "a part"
    head = (f"{datetime.date.today()}, {command}: {len(results)} of "
            f"{len(mutants)} mutants, {world.seconds:.0f} s with "
            f"{options.jobs} processes. Families: {counts}.\n")
    print(head, table(results), reasons(left), sep="\n")
    for mutant, result, reason in left:
        if not reason:
            print("hole:", describe(mutant, result))
    if options.write:
        write_readme(results=f"{head}\n{table(results)}",
                     reasons=reasons(left))
    return 1 if world.unusable or any(not entry[2] for entry in left) else 0


if __name__ == "__main__":
    sys.exit(main())
