# ===- syncs.py - Runs of delta-run into engines --------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""One run into an engine and one of the same trainer into a checkpoint: its
weights are a function of name, index, seed and step, so both have the same."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support import BIN, messages, tool, write_json

from .check import differences, geometry_of, read_tensors
from .configs import MODELS, has_experts
from .loader import load

MOMENTS = ("before", "after")
LAYOUTS = Path(__file__).resolve().parents[2] / "models"


@dataclass(frozen=True)
class Case:
    """A trainer and a rollout; `layout` is that file's name."""

    layout: str
    trainer: dict
    rollout: dict
    model: str = ""
    changes: dict = field(default_factory=dict)
    label: str = ""

    @property
    def config(self) -> dict:
        return {**MODELS[self.layout][self.model], **self.changes}

    @property
    def name(self) -> str:
        def geometry(side: dict) -> str:
            sizes = [
                f"{key}{value}" for key, value in side.items()
                if key in ("tp", "ep", "etp", "pp", "vpp", "dp", "cp")
            ]
            return "_".join(sizes) or "tp1"

        parts = [self.layout, self.model, self.label, geometry(self.trainer),
                 "to", geometry(self.rollout)]
        return "_".join(part for part in parts if part)


def layouts(engine: str) -> list[str]:
    """Families that have a layout."""
    names = sorted(path.stem for path in (LAYOUTS / engine).glob("*.mlir"))
    return [name for name in names if name in MODELS]


def unknown_layouts(engine: str) -> list[str]:
    """Files that are no family of ours: blocks, or one without a model."""
    return [
        path.name for path in (LAYOUTS / engine).glob("*.mlir")
        if path.stem not in MODELS and "delta.family" in path.read_text()
    ]


def refused(case: Case) -> str:
    """Why a layout takes no expert ranks, or no stages: where the engine's own
    loader fails, or the document does not know which stage holds what."""
    sglang = case.rollout["engine"] == "sglang"
    if case.layout == "gpt_oss" and sglang and "ep" in case.rollout:
        return "SGLang does not load bf16 experts with ep"
    if case.rollout.get("pp", 1) == 1:
        return ""
    if "vision_config" in case.config:
        return "which stages have the vision tower is not known"
    if case.layout == "gemma3_text" and sglang:
        return "stages of this model are not known"
    return ""


def each(engine: str, family: str, model: str) -> list[Case]:
    """What every model goes through: more tensor ranks and no stages; other
    stages and whole experts. Where that is refused, again without."""
    experts = {"ep": 2} if has_experts(MODELS[family][model]) else {}
    trainer = {"tp": 2, "pp": 2, **experts}
    if family == "nemotron_h":
        trainer["pp_layout"] = [4, 3]
    both = {"engine": engine, "tp": 2, "replicas": 2, "pp": 2, **experts}
    cases = [
        Case(family, trainer, {"engine": engine, "tp": 4}, model),
        Case(family, trainer, both, model),
    ]
    if why := refused(cases[1]):
        key = "ep" if why.endswith("ep") else "pp"
        rest = {name: size for name, size in both.items() if name != key}
        cases.append(Case(family, trainer, rest, model))
    return cases


def check_refusal(case: Case, folder: Path) -> None:
    model = write_json(
        folder / "model.json",
        {"config": case.config, "trainer": case.trainer,
         "rollout": case.rollout})
    result = tool("delta-compile", model, "-o", folder / "plan.so")
    assert result.returncode == 1
    assert refused(case) in messages(result)
    assert not (folder / "plan.so").exists()


def run(folder: Path, config: dict, trainer: dict, rollout: dict,
        *options: object) -> tuple[dict, Path]:
    """Counts of a run that ends well, and where the memory is."""
    folder.mkdir(parents=True, exist_ok=True)
    model = write_json(
        folder / "model.json",
        {"config": config, "trainer": trainer, "rollout": rollout})
    report = folder / "report.json"
    result = tool(
        "delta-run", model, "--steps", 2, "--changed", 1, "--seed", 7,
        "--dump", folder / "dump", "--json", report, *options)
    assert result.returncode == 0, messages(result)
    return json.loads(report.read_text()), folder / "dump"


def ranks_of(folder: Path) -> list[dict]:
    """Parameters of each receiver, by the names that the engine knows."""
    found = []
    while (path := folder / f"destination-{len(found)}.safetensors").exists():
        found.append({
            name.removeprefix("chunk0."): tensor
            for name, tensor in read_tensors(path).items()
        })
    return found


class Checkpoints:
    """Exports of trainers, one run each."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.made: dict[str, Path] = {}

    def get(self, config: dict, trainer: dict) -> Path:
        key = json.dumps([config, trainer], sort_keys=True)
        if key not in self.made:
            _, self.made[key] = run(
                self.folder / str(len(self.made)), config, trainer,
                {"engine": "hf"})
        return self.made[key]


def verify(case: Case, checkpoints: Checkpoints, folder: Path) -> dict:
    """Every element of every engine parameter, before and after the steps."""
    report, dump = run(
        folder, case.config, case.trainer, case.rollout)
    assert report["mismatches"] == 0
    assert report["changed"] > 0
    exported = checkpoints.get(case.config, case.trainer)
    start = ranks_of(dump / "before")
    geometry = geometry_of(case.rollout)
    for moment in MOMENTS:
        tensors = read_tensors(exported / moment / "destination-0.safetensors")
        expected = load(tensors, case.config, geometry)
        held = ranks_of(dump / moment)
        assert len(held) == len(expected) * case.rollout.get("replicas", 1)
        compared, wrong = differences(expected, held, start)
        assert not wrong, f"{moment}:\n" + "\n".join(wrong[:20])
        assert compared > sum(t.data.size for t in tensors.values()) // 2
    return report


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> Checkpoints:
    return Checkpoints(tmp_path_factory.mktemp("checkpoints"))


def without_tools() -> bool:
    return not (BIN / "delta-run").exists()


def cases_of(engine: str) -> list[Case]:
    """Every layout of an engine, every model of it."""
    return [case for family in layouts(engine) for model in MODELS[family]
            for case in each(engine, family, model)]


def check(case: Case, checkpoints, folder: Path) -> None:
    """The engine holds what its loader would, or is refused as it must be."""
    if refused(case):
        check_refusal(case, folder)
    else:
        verify(case, checkpoints, folder)
