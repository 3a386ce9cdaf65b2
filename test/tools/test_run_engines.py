# ===- test_run_engines.py - delta-run with engines as receivers ----------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Every kind of check and of planted fault, with engine ranks as receivers,
and the files that they are written to. What engines hold is compared with the
plain loaders in test_rollout_vllm.py and test_rollout_sglang.py."""

import json
import struct
import sys
from pathlib import Path

import pytest

from support import messages, needs_tools, read_safetensors, tool, write_json

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rollout.configs import MODELS  # noqa: E402

pytestmark = needs_tools

# Latent attention with copies in another order of memory; experts in slots,
# some twice; a mixer whose decay the engine keeps transformed.
RUNS = {
    "latent": ("deepseek_v3", {"tp": 2, "ep": 2},
               {"engine": "sglang", "tp": 2, "replicas": 2}),
    "slots": ("qwen3_moe", {"ep": 4},
              {"engine": "vllm", "tp": 2, "ep": 2, "redundant_experts": 2}),
    "mixer": ("nemotron_h", {"tp": 2}, {"engine": "vllm", "tp": 2}),
}


@pytest.fixture(params=sorted(RUNS))
def model(request, tmp_path) -> Path:
    name, trainer, rollout = RUNS[request.param]
    return write_json(
        tmp_path / "model.json",
        {"config": MODELS[name][""], "trainer": trainer, "rollout": rollout})


def run(model: Path, *options: object):
    return tool("delta-run", model, "--steps", 2, "--changed", 5, *options)


@pytest.mark.parametrize("verify", ["full", "replay", "fingerprint"])
def test_every_verification_agrees(model, verify, tmp_path) -> None:
    report = tmp_path / "report.json"
    result = run(model, "--verify", verify, "--json", report)
    assert result.returncode == 0, messages(result)
    counts = json.loads(report.read_text())
    assert counts["mismatches"] == 0
    assert counts["changed"] > 0


@pytest.mark.parametrize("verify", ["full", "replay", "fingerprint"])
def test_one_wrong_element_is_found(model, verify) -> None:
    result = run(model, "--verify", verify, "--inject", "element")
    assert result.returncode == 1
    found = messages(result)
    assert "verification: " in found and "\"model.layers." in found, found


@pytest.mark.parametrize("fault", ["drop", "order", "stale"])
def test_wrong_messages_are_refused(model, fault) -> None:
    result = run(model, "--inject", fault)
    assert result.returncode == 1
    assert f"inject {fault}: refused" in messages(result), messages(result)


def test_plan_of_its_own_and_reference(model, tmp_path) -> None:
    plan, reference = tmp_path / "plan.so", tmp_path / "reference.json"
    for options in (["-o", plan], ["--emit=reference", "-o", reference]):
        assert tool("delta-compile", model, *options).returncode == 0
    for options in (["--reference", reference], ["--verify", "replay"]):
        result = tool("delta-run", "--plan", plan, "--steps", 2, *options)
        assert result.returncode == 0, messages(result)


def header(path: Path) -> dict:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8:8 + length])


def test_files_have_the_engine_s_order(tmp_path) -> None:
    """The copies that absorb the up projection: written as their shape says,
    whatever their memory's order is."""
    name, trainer, rollout = RUNS["latent"]
    config = MODELS[name][""]
    model = write_json(
        tmp_path / "model.json",
        {"config": config, "trainer": trainer, "rollout": rollout})
    result = run(model, "--dump", tmp_path / "dump")
    assert result.returncode == 0, messages(result)
    key, value = config["qk_nope_head_dim"], config["v_head_dim"]
    latent = config["kv_lora_rank"]
    heads = config["num_attention_heads"] // rollout["tp"]
    for rank in range(4):
        path = tmp_path / "dump" / "after" / f"destination-{rank}.safetensors"
        shapes, tensors = header(path), read_safetensors(path)
        prefix = "model.layers.0.self_attn."
        whole = tensors[prefix + "kv_b_proj.weight"]
        for copy, shape in (("w_kc", [heads, key, latent]),
                            ("w_vc", [heads, latent, value])):
            assert shapes[prefix + copy]["shape"] == shape

        def up(head: int, row: int, column: int) -> int:
            return whole[(head * (key + value) + row) * latent + column]

        assert list(tensors[prefix + "w_kc"]) == [
            up(h, i, c) for h in range(heads) for i in range(key)
            for c in range(latent)]
        assert list(tensors[prefix + "w_vc"]) == [
            up(h, key + j, c) for h in range(heads) for c in range(latent)
            for j in range(value)]
