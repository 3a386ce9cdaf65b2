# ===- cases.py - Models to check, and their plans ------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""From a model.json, or a line of a table, to a compiled plan and to what the
converter is told."""

import fnmatch
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# The defaults of models/SCHEMA.md that the packages have to be told.
TRAINER = {
    "tp": 1, "cp": 1, "ep": 1, "etp": 1, "pp": 1, "vpp": 1, "dp": None,
    "pp_layout": None, "account_for_embedding": False,
    "account_for_loss": False, "dtype": "bf16", "vocab_multiple": 128,
    "mtp_layers": None, "experts": "grouped",
}  # fmt: skip


# Of a line of a table: what the converter is told besides the model.
TOLD = {"keys", "architecture", "provider"}
CASE_KEYS = {"name", "config", "trainer"} | TOLD


class UsageError(Exception):
    """The command line or the machine, not the plan."""


class Refused(Exception):
    """The compiler or the converter does not take the model."""


class NoFamily(Refused):
    """No family maps the model_type."""


@dataclass
class Case:
    """A model and what its converter has to be told besides."""

    name: str
    model: Path
    family: str | None = None
    # What the converter knows of the checkpoint's tensors: "config", nothing
    # but what the config says; "plan", those that the plan makes. With a
    # "checkpoint" in the model, its own list.
    keys: str = "config"
    architecture: str | None = None
    provider: Mapping[str, Any] = field(default_factory=dict)


# --- the compiler ------------------------------------------------------------


def find_compiler() -> Path:
    """delta-compile: in DELTA_BIN, in the build or installation around this
    package, or in PATH."""
    folders = []
    if "DELTA_BIN" in os.environ:
        folders.append(Path(os.environ["DELTA_BIN"]))
    for parent in Path(__file__).resolve().parents:
        folders += [parent / "bin", parent / "build" / "bin"]
    for folder in folders:
        if (tool := folder / "delta-compile").exists():
            return tool
    if found := shutil.which("delta-compile"):
        return Path(found)
    raise UsageError(
        "delta-compile not found: build it (tools/dev build), put it in PATH, "
        "or name its folder in DELTA_BIN"
    )


def compile_plan(case: Case, plan: Path) -> None:
    """Compiles the model for the neutral layout."""
    command = [str(find_compiler()), str(case.model), "-o", str(plan)]
    if case.family:
        command += ["--family", case.family]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        error = next(
            (line for line in result.stderr.splitlines() if "error:" in line),
            result.stderr.strip(),
        )
        if "known types are" in error:
            model_type = config_of(case).get("model_type")
            raise NoFamily(f'no family maps model_type "{model_type}"')
        raise Refused(error)


# --- the model ---------------------------------------------------------------


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error


def config_of(case: Case) -> dict[str, Any]:
    config = read_json(case.model)["config"]
    if isinstance(config, str):
        config = read_json(case.model.parent / config)
    return config


def checkpoint_keys(folder: Path) -> dict[str, list[int]]:
    """Names and shapes in the headers of a checkpoint's safetensors files."""
    if folder.suffix == ".json":
        names = set(read_json(folder)["weight_map"].values())
        files = [folder.parent / name for name in sorted(names)]
    elif folder.is_dir():
        files = sorted(folder.glob("*.safetensors"))
    else:
        files = [folder]
    keys = {}
    for file in files:
        with file.open("rb") as data:
            length = int.from_bytes(data.read(8), "little")
            header = json.loads(data.read(length))
        header.pop("__metadata__", None)
        keys.update((name, entry["shape"]) for name, entry in header.items())
    return keys


def known_keys(
    case: Case, planned: Mapping[str, Sequence[int]]
) -> Mapping[str, Sequence[int]] | None:
    """What the converter is told of the checkpoint's tensors; `planned` are
    those that the plan makes."""
    checkpoint = read_json(case.model).get("checkpoint")
    if checkpoint is not None:
        return checkpoint_keys(case.model.parent / checkpoint)
    return planned if case.keys == "plan" else None


# --- the table ---------------------------------------------------------------


def read_cases(path: Path, patterns: Sequence[str], folder: Path) -> list[Case]:
    """The cases of a table whose name or model_type fits a pattern; their
    model files are written to `folder`."""
    cases = []
    for number, entry in enumerate(read_json(path)):
        if not {"name", "config"} <= set(entry) <= CASE_KEYS:
            raise UsageError(
                f"{path}: case {number} has the keys {sorted(entry)}; name and "
                f"config are required, of {sorted(CASE_KEYS)}"
            )
        config = path.parent / "configs" / f"{entry['config']}.json"
        model_type = read_json(config).get("model_type")
        name = entry["name"]
        if patterns and not any(
            fnmatch.fnmatch(name, p) or model_type == p for p in patterns
        ):
            continue
        model = folder / f"{name}.json"
        content = {
            "config": str(config.resolve()),
            "trainer": entry.get("trainer", {}),
        }
        model.write_text(json.dumps(content))
        told = {key: entry[key] for key in TOLD & set(entry)}
        cases.append(Case(name, model, **told))
    if not cases:
        raise UsageError(f"{path}: no case fits {' '.join(patterns)}")
    return cases
