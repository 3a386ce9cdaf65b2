# ===- test_rollout_bytes.py - Each receiver gets its own share -----------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""At 1 % changed elements, a receiver gets 4.1 bytes for each that it holds,
and nothing for those that others hold."""

import sys
from pathlib import Path

import pytest

from support import messages, needs_tools, tool, write_json

np = pytest.importorskip("numpy", reason="the plain loader needs numpy")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "runtime/python"), str(ROOT / "test")]

from rollout.configs import EXPERTS  # noqa: E402
from rollout.session import Memory, Session  # noqa: E402

pytestmark = needs_tools

# 24 million elements.
CONFIG = {
    **EXPERTS, "head_dim": 64, "hidden_size": 512, "moe_intermediate_size": 384,
    "num_hidden_layers": 4, "vocab_size": 16000,
}
BYTES = 4.1

CASES = {
    "vllm_tp4": {"engine": "vllm", "tp": 4},
    "vllm_ep4_pp2": {"engine": "vllm", "tp": 4, "ep": 4, "pp": 2},
    "sglang_tp4_ep2": {"engine": "sglang", "tp": 4, "ep": 2},
    "sglang_attention_dp2": {
        "engine": "sglang", "tp": 4, "ep": 4, "attention_dp": 2},
}


@pytest.fixture(scope="module")
def steps(tmp_path_factory) -> Path:
    """The trainer's memory before and after a step that changes 1 %."""
    folder = tmp_path_factory.mktemp("steps")
    model = write_json(folder / "model.json", model_of({"engine": "hf"}))
    result = tool(
        "delta-run", model, "--steps", 1, "--changed", 1, "--verify",
        "fingerprint", "--dump", folder)
    assert result.returncode == 0, messages(result)
    return folder


def model_of(rollout: dict) -> dict:
    return {"config": CONFIG, "trainer": {"tp": 2, "ep": 2},
            "rollout": rollout}


@pytest.mark.parametrize("name", CASES)
def test_bytes_of_a_receiver_are_its_share(name, steps, tmp_path) -> None:
    plan = tmp_path / "plan.so"
    model = write_json(tmp_path / "model.json", model_of(CASES[name]))
    result = tool("delta-compile", model, "-o", plan)
    assert result.returncode == 0, messages(result)
    trainer = Memory(plan)
    trainer.read(steps / "before")
    with Session(plan, trainer) as session:
        session.seed()
        before = [
            [one.memory.copy() for one in held] for held in session.receivers]
        trainer.read(steps / "after")
        received = session.sync()
        sizes, total = [], 0
        for rank, held in enumerate(session.receivers):
            elements = sum(one.memory.size for one in held)
            changed = sum(
                int((one.memory != old).sum())
                for one, old in zip(held, before[rank]))
            assert 0.009 * elements < changed < 0.011 * elements
            assert received[rank] <= 1.01 * BYTES * changed, rank
            assert received[rank] >= 4 * changed, rank
            sizes.append(elements)
            total += elements
        # No receiver is given the model, nor another's experts.
        assert max(sizes) < 0.6 * total
