# ===- test_engine_certificate.py - Certificates of plans into engines ----=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""delta-check holds the plan and the certificate of an engine against what
model.json asks for."""

import json
from pathlib import Path

import pytest

from support import CONFIGS, needs_tools, tool, write_json

pytestmark = needs_tools

TABLE = [7, 6, 5, 4, 3, 2, 1, 0, 3, 3]
MODELS = {
    "linear": ("qwen3_moe", {"tp": 2, "ep": 4}, {"engine": "vllm", "tp": 4}),
    "uneven": ("qwen3_moe", {"tp": 1, "ep": 2},
               {"engine": "vllm", "dp": 3, "ep": 3}),
    "table": ("qwen3_moe", {"tp": 2}, {
        "engine": "sglang", "version": "0.5.23", "tp": 2, "ep": 2,
        "expert_placement": {"physical_to_logical": TABLE}}),
    "tables": ("qwen3_moe", {"tp": 2, "pp": 2}, {
        "engine": "vllm", "tp": 2, "ep": 2, "pp": 2,
        "expert_placement": {
            "physical_to_logical": [TABLE, TABLE[::-1], TABLE, TABLE]}}),
    "mixers": ("nemotron_h", {"tp": 2}, {"engine": "vllm", "tp": 2}),
}

def model_of(case: str) -> dict:
    config, trainer, rollout = MODELS[case]
    return {"config": CONFIGS[config], "trainer": trainer,
            "rollout": dict(rollout)}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, tuple[Path, Path]]:
    """The certificate and the plan of every model."""
    folder = tmp_path_factory.mktemp("engine")
    out = {}
    for case in MODELS:
        model = write_json(folder / f"{case}.json", model_of(case))
        paths = folder / f"{case}.cert", folder / f"{case}.so"
        for path, stage in zip(paths, ("proof", "so")):
            run = tool("delta-compile", model, f"--emit={stage}", "-o", path)
            assert run.returncode == 0, run.stderr
        out[case] = paths
    return out


def check(made, case: str, model: dict, tmp_path: Path) -> str:
    """What is wrong, or an empty text."""
    certificate, plan = made[case]
    run = tool("delta-check", certificate, "--plan", plan, "--model",
               write_json(tmp_path / "model.json", model))
    assert (run.returncode == 0) == (": holds: " in run.stdout), run.stderr
    return run.stderr


@pytest.mark.parametrize("case", MODELS)
def test_certificate_holds(case: str, made, tmp_path: Path) -> None:
    assert check(made, case, model_of(case), tmp_path) == ""


def test_slots_are_those_of_the_placement(made) -> None:
    def slots(case: str) -> list:
        return json.loads(made[case][0].read_text())["destination"]["slots"]

    assert slots("linear") == [[0, 8], [list(range(8))]]
    assert slots("uneven") == [[0, 3, 6, 8], [list(range(8))]]
    assert slots("table") == [[0, 5, 10], [TABLE]]
    assert slots("tables") == [
        [0, 5, 10], [TABLE, TABLE[::-1], TABLE, TABLE]]
    assert slots("mixers") == [[0, 8], [list(range(8))]]


@pytest.mark.parametrize("case, changes, message", [
    ("linear", {"engine": "sglang"}, "is for another destination"),
    ("linear", {"engine": "megatron"}, "is for another destination"),
    ("linear", {"replicas": 2}, "is for another destination"),
    ("linear", {"version": "0.33.0"},
     'is for version "", model.json says "0.33.0"'),
    ("table", {"version": "0.5.22"},
     'is for version "0.5.23", model.json says "0.5.22"'),
    ("linear", {"tp": 2}, "destination has tp 4 in the plan"),
    ("linear", {"ep": 4}, "destination has ep 1 in the plan"),
    ("linear", {"redundant_experts": 1}, "other experts in its slots"),
    ("uneven", {"expert_placement": "round_robin"},
     "other experts in its slots"),
    ("table", {"expert_placement": {"physical_to_logical": TABLE[::-1]}},
     "other experts in its slots"),
    ("table", {"expert_placement": "linear", "redundant_experts": 2},
     "other experts in its slots"),
    ("tables", {"expert_placement": {"physical_to_logical": TABLE}},
     "other experts in its slots"),
])
def test_another_model_is_refused(
    case: str, changes: dict, message: str, made, tmp_path: Path
) -> None:
    model = model_of(case)
    model["rollout"].update(changes)
    assert message in check(made, case, model, tmp_path)


def test_certificate_of_other_slots_is_refused(made, tmp_path: Path) -> None:
    text = json.loads(made["table"][0].read_text())
    slots = text["destination"]["slots"][1][0]
    assert slots == TABLE
    slots[9] = 4
    certificate = write_json(tmp_path / "other.cert", text)
    run = tool("delta-check", certificate, "--plan", made["table"][1],
               "--model", write_json(tmp_path / "m.json", model_of("table")))
    assert run.returncode == 1
    assert ("/destination/slots/1/0/9 is 4 in the certificate and 3 in the "
            "plan") in run.stderr
