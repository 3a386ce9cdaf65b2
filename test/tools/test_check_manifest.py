# ===- test_check_manifest.py - Plans against published checkpoints -------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""delta-check agrees with the manifests: every name, shape and type, none else,
and which tensors a plan leaves to a copy."""

import json
from pathlib import Path

import pytest

from support import SHARED, check, needs_shared, needs_tools, write_json

pytestmark = [needs_tools, needs_shared]

MANIFESTS = {
    "Qwen3-0.6B": {"tp": 2, "pp": 2},
    "Qwen3-8B": {"tp": 4, "pp": 4, "vpp": 3},
    "Qwen3-30B-A3B": {"tp": 2, "ep": 8},
    "Qwen3-235B-A22B": {
        "tp": 4, "ep": 16, "pp": 4, "vpp": 2,
        "pp_layout": [[11, 12], [12, 12], [12, 12], [12, 11]],
    },
    "NVIDIA-Nemotron-Nano-9B-v2": {"tp": 8, "pp": 2},
    "NVIDIA-Nemotron-3-Nano-30B-A3B": {"tp": 2, "ep": 4, "etp": 2},
    "gpt-oss-20b": {"tp": 2, "ep": 4, "pp": 2},
    "Qwen2.5-0.5B": {"tp": 2, "pp": 2, "vpp": 2},
    "Qwen2.5-7B-Instruct": {"tp": 4, "pp": 4},
    "Llama-3.1-8B": {"tp": 8, "pp": 4, "vpp": 2},
    "Mixtral-8x7B-v0.1": {
        "tp": 4, "ep": 8, "etp": 2, "pp": 2, "vpp": 2,
    },
    "gemma-3-270m": {"tp": 2, "pp": 3},
    "Falcon-H1-0.5B": {"pp": 4},
    "Qwen3-Next-80B-A3B-Thinking": {
        "tp": 8, "ep": 4, "etp": 2, "pp": 4, "vpp": 2, "mtp_layers": 1,
    },
    "Qwen3.5-35B-A3B": {"tp": 2, "ep": 8, "pp": 2, "mtp_layers": 1},
    "Qwen3-VL-30B-A3B-Instruct": {"tp": 2, "ep": 8, "pp": 2},
    "DeepSeek-V3": {
        "tp": 4, "ep": 8, "etp": 2, "pp": 4, "vpp": 2,
        "pp_layout": [[8, 8], [8, 8], [8, 8], [8, 5]],
    },
    "Kimi-K2-Instruct": {
        "tp": 8, "ep": 32, "pp": 8, "vpp": 2,
        "pp_layout": [[3, 4], [4, 4], [4, 4], [4, 4], [4, 4], [4, 4], [4, 4],
                      [4, 2]],
    },
    "GLM-4.5-Air": {
        "tp": 4, "ep": 8, "etp": 2, "pp": 2, "vpp": 2,
        "pp_layout": [[12, 12], [12, 10]],
    },
}
# Their prediction layers may stay as they are.
PREDICTING = (
    "DeepSeek-V3", "GLM-4.5-Air", "Qwen3-Next-80B-A3B-Thinking",
    "Qwen3.5-35B-A3B",
)
# What no trainer holds: all else must be sent.
COPIED = json.loads((
    Path(__file__).parents[1] / "data" / "copied.json").read_text())


def manifest_lines(model: str) -> list[list[str]]:
    """Name, shape, dtype and flag."""
    text = (SHARED / "manifests" / f"{model}.tsv").read_text()
    return [line.split("\t") for line in text.splitlines()]


def check_manifest(
    model: str, trainer: dict, tmp_path: Path, copied: list[str]
) -> None:
    arguments = [
        "--manifest", SHARED / "manifests" / f"{model}.tsv",
        "--config", SHARED / "configs" / f"{model}.json",
    ]
    for name in copied:
        arguments += ["--copied", name]
    if trainer:
        geometry = write_json(tmp_path / "model.json", {"trainer": trainer})
        arguments += ["--geometry", geometry]
    code, report, errors = check(tmp_path, *arguments)
    totals = json.loads((SHARED / "manifests" / "totals.json").read_text())
    assert report["first"] is None, report
    assert code == 0, errors
    assert report["tensors"] == totals[model]["tensors"]
    assert report["elements"] == totals[model]["params"]


@pytest.mark.parametrize("parallel", [False, True], ids=["one", "many"])
@pytest.mark.parametrize("model", MANIFESTS)
def test_manifest(model: str, parallel: bool, tmp_path: Path) -> None:
    check_manifest(
        model, MANIFESTS[model] if parallel else {}, tmp_path,
        list(COPIED.get(model, {})))


@pytest.mark.parametrize("model", PREDICTING)
def test_manifest_with_prediction_layers_left_alone(
    model: str, tmp_path: Path
) -> None:
    flagged = [line[0] for line in manifest_lines(model) if line[3] == "mtp"]
    assert flagged
    check_manifest(
        model, {**MANIFESTS[model], "mtp_layers": 0}, tmp_path, flagged)


def test_manifest_that_lacks_a_name(tmp_path: Path) -> None:
    lines = (SHARED / "manifests" / "Qwen3-0.6B.tsv").read_text().splitlines()
    manifest = tmp_path / "short.tsv"
    manifest.write_text(
        "\n".join(line for line in lines if "q_norm" not in line) + "\n"
    )
    code, _, errors = check(
        tmp_path, "--manifest", manifest,
        "--config", SHARED / "configs" / "Qwen3-0.6B.json",
    )
    assert code == 1
    assert "q_norm" in errors


def test_manifest_with_another_shape(tmp_path: Path) -> None:
    text = (SHARED / "manifests" / "Qwen3-0.6B.tsv").read_text()
    manifest = tmp_path / "wide.tsv"
    assert "151936x1024" in text
    manifest.write_text(text.replace("151936x1024", "151936x1025"))
    code, _, errors = check(
        tmp_path, "--manifest", manifest,
        "--config", SHARED / "configs" / "Qwen3-0.6B.json",
    )
    assert code == 1
    assert "1025" in errors


def check_llama(tmp_path: Path, *copied: str) -> tuple[int, dict, str]:
    arguments = [word for name in copied for word in ("--copied", name)]
    return check(
        tmp_path, "--manifest", SHARED / "manifests" / "Llama-3.1-8B.tsv",
        "--config", SHARED / "configs" / "Llama-3.1-8B.json", *arguments)


def test_manifest_of_which_too_little_is_copied(tmp_path: Path) -> None:
    """A trainer's tensor is no copy, and a copy is no trainer's."""
    code, report, errors = check_llama(tmp_path, "model.norm.weight")
    assert code == 1
    assert report["mismatches"] == 2
    assert report["first"]["tensor"] == "model.norm.weight"
    assert '"model.norm.weight": expected no such tensor' in errors


def test_manifest_of_which_too_much_is_copied(tmp_path: Path) -> None:
    """Prediction layers that the trainer has not, and nobody said so."""
    geometry = write_json(tmp_path / "m.json", {"trainer": {"mtp_layers": 0}})
    model = "Qwen3.5-35B-A3B"
    code, report, _ = check(
        tmp_path, "--manifest", SHARED / "manifests" / f"{model}.tsv",
        "--config", SHARED / "configs" / f"{model}.json",
        "--geometry", geometry)
    totals = json.loads((SHARED / "manifests" / "totals.json").read_text())
    assert code == 1
    missing = totals[model]["mtp_tensors"]
    assert report["tensors"] == totals[model]["tensors"] - missing
    # Each is missing where it must be sent, and one too many among copies.
    assert report["mismatches"] == 2 * missing > 0
    assert report["first"]["tensor"].startswith("mtp.")


def test_copied_name_that_the_manifest_lacks(tmp_path: Path) -> None:
    name = "model.layers.{31..32}.input_layernorm.weight"
    code, _, errors = check_llama(tmp_path, name)
    assert code == 1
    assert (f"--copied {name}: the manifest has no "
            "model.layers.32.input_layernorm.weight") in errors


def test_copied_name_with_an_open_brace(tmp_path: Path) -> None:
    code, _, errors = check_llama(tmp_path, "model.layers.{0..1")
    assert code == 1
    assert "is no name with {a..b} for numbers" in errors


def test_empty_manifest_is_a_failure(tmp_path: Path) -> None:
    manifest = tmp_path / "empty.tsv"
    manifest.write_text("")
    code, _, errors = check(
        tmp_path, "--manifest", manifest,
        "--config", SHARED / "configs" / "Qwen3-0.6B.json",
    )
    assert code == 1
    assert "lists no tensor" in errors
