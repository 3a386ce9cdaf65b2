# ===- test_run_casts.py - Syncs through casts and stacks -----------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Tensors of another type than the trainer's, layers beside the decoder's, and
checkpoints that hold more than the trainer: every element right, at every
share of changes."""

import json
import os
import struct
from pathlib import Path

import pytest

from support import (
    messages, needs_tools, read_safetensors, tool, write_json,
)

pytestmark = needs_tools

CASTS = Path(__file__).parent / "Inputs" / "casts.mlir"
HF = {"engine": "hf"}

CONFIG = {
    "model_type": "casts", "hidden_size": 6, "intermediate_size": 8,
    "num_experts": 4, "moe_intermediate_size": 4, "num_hidden_layers": 4,
    "vocab_size": 11, "num_nextn_predict_layers": 2,
}
SPREAD = {"tp": 2, "ep": 2, "etp": 2, "pp": 2, "vpp": 2, "vocab_multiple": 4}

# Multi-token prediction of the DeepSeek line: one layer after the decoder's.
DEEPSEEK = {
    "model_type": "deepseek_v3", "hidden_size": 16, "intermediate_size": 24,
    "moe_intermediate_size": 8, "num_attention_heads": 4, "q_lora_rank": 6,
    "kv_lora_rank": 4, "qk_rope_head_dim": 2, "qk_nope_head_dim": 4,
    "v_head_dim": 3, "n_routed_experts": 4, "n_shared_experts": 1,
    "first_k_dense_replace": 1, "num_hidden_layers": 4, "vocab_size": 22,
    "num_nextn_predict_layers": 1,
}


def compile_plan(folder: Path, model: dict, *options: object) -> list:
    """Plan and reference program, as arguments of delta-run; the map agrees
    with the interpreter in every element."""
    path = write_json(folder / "model.json", model)
    plan, reference = folder / "plan.so", folder / "reference.json"
    result = tool("delta-compile", path, "-o", plan, "--cross-check=full",
                  *options)
    assert result.returncode == 0, result.stderr
    assert "agree with the interpreter" in result.stderr
    result = tool("delta-compile", path, "-o", reference, "--emit=reference",
                  *options)
    assert result.returncode == 0, result.stderr
    return ["--plan", plan, "--reference", reference]


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """Compiles each model once."""
    made: dict = {}

    def get(model: dict, *options: object) -> list:
        key = json.dumps([model, *map(str, options)])
        if key not in made:
            made[key] = compile_plan(
                tmp_path_factory.mktemp("plan"), model, *options)
        return made[key]

    return get


def run(folder: Path, *arguments: object) -> dict:
    report = folder / "report.json"
    result = tool("delta-run", *arguments, "--json", report)
    assert result.returncode == 0, result.stderr
    assert messages(result) == ""
    counts = json.loads(report.read_text())
    assert counts["mismatches"] == 0
    return counts


def casts(dtype: str, trainer: dict, rollout: dict) -> dict:
    return {"config": CONFIG, "trainer": {"dtype": dtype, **trainer},
            "rollout": rollout}


ROLLOUTS = {
    "hf": HF,
    "megatron": {"engine": "megatron", "tp": 4, "ep": 4, "pp": 2,
                 "pp_layout": [1, 3], "replicas": 2},
}


@pytest.mark.parametrize("verify", ["full", "fingerprint"])
@pytest.mark.parametrize("changed", [0, 1, 100])
@pytest.mark.parametrize("rollout", ROLLOUTS)
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_casts(plans, tmp_path, dtype, rollout, changed, verify) -> None:
    receiver = dict(ROLLOUTS[rollout])
    if rollout == "megatron":
        receiver["dtype"] = dtype
    plan = plans(casts(dtype, SPREAD, receiver), "--family", CASTS)
    for seed in (1, 2):
        report = run(tmp_path, *plan, "--steps", 4, "--changed", changed,
                     "--seed", seed, "--verify", verify)
        assert report["steps"] == 4
        if changed == 0:
            assert report["changed"] == 0
        else:
            assert report["changed"] > 0
        if changed == 100 and rollout == "hf":
            # All but a quarter: an fp32 step is far below one of bf16, and a
            # small one is lost in 1 + x.
            assert report["changed"] >= 0.75 * 4 * report["elements"]


def test_values_of_casts_by_hand(plans, tmp_path) -> None:
    """One rank, so that an element keeps its place; the values from what a
    cast is, not from the interpreter."""
    model = casts("bf16", {"vocab_multiple": 1}, HF)
    model["config"] = {**CONFIG, "hidden_size": 48, "intermediate_size": 64}
    plan = plans(model, "--family", CASTS)
    run(tmp_path, *plan, "--steps", 40, "--changed", 100, "--dump",
        tmp_path / "dump")
    halves = []
    for when in ("before", "after"):
        held = read_safetensors(
            tmp_path / "dump" / when / "source-0.safetensors")
        sent = read_safetensors(
            tmp_path / "dump" / when / "destination-0.safetensors")
        for layer in range(4):
            trained = f"chunk0.decoder.layers.{layer}."
            saved = f"model.layers.{layer}."
            wide = held[trained + "wide.weight"]
            assert wide.itemsize == 2
            assert list(sent[saved + "wide.weight"]) == [
                bits << 16 for bits in wide]
            both = held[trained + "narrow.weight"]
            assert both.itemsize == 4
            rows = [list(both[at : at + 48])
                    for at in range(0, len(both), 48)]
            even = [bits for row in rows[0::2] for bits in row]
            odd = [bits for row in rows[1::2] for bits in row]
            assert list(sent[saved + "even.weight"]) == even
            assert list(sent[saved + "odd.weight"]) == [
                to_bf16(bits) for bits in odd]
            halves.append(sent[saved + "odd.weight"])
    # Steps of fp32 that led over a rounding boundary of bf16 were sent.
    crossed = sum(a != b for before, after in zip(halves[:4], halves[4:])
                  for a, b in zip(before, after))
    assert 0 < crossed < 0.1 * 4 * 64 * 48


def to_bf16(bits: int) -> int:
    """Of the two bf16 around an fp32 the nearer, of a tie the even one."""
    down = bits >> 16
    if bits & 0x7FFFFFFF > 0x7F800000:
        return down | 0x40
    rest = bits & 0xFFFF
    return down + (rest > 0x8000 or (rest == 0x8000 and down % 2 == 1))


@pytest.mark.parametrize("verify", ["full", "fingerprint"])
def test_wrong_elements_are_noticed_through_casts(
        plans, tmp_path, verify) -> None:
    plan = plans(casts("fp32", SPREAD, HF), "--family", CASTS)
    result = tool("delta-run", *plan, "--steps", 3, "--changed", 50,
                  "--inject", "element", "--verify", verify)
    assert result.returncode != 0
    assert "verification: " in result.stderr
    assert "receiver 0" in result.stderr


def test_types_of_two_trainers_must_agree(tmp_path) -> None:
    model = write_json(
        tmp_path / "model.json",
        casts("fp32", SPREAD, {"engine": "megatron", "dtype": "bf16"}))
    result = tool("delta-compile", model, "-o", tmp_path / "plan.so",
                  "--family", CASTS)
    assert result.returncode == 1
    assert "required trainers of one dtype" in result.stderr
    assert not (tmp_path / "plan.so").exists()


# ===--- stacks -----------------------------------------------------------=== #

STACKS = {
    "hf": HF,
    "two_replicas_of_tp4_ep4_uneven_stages": {
        "engine": "megatron", "tp": 4, "ep": 4, "pp": 2, "pp_layout": [1, 3],
        "replicas": 2},
    "one_stage": {"engine": "megatron", "tp": 1, "ep": 2},
    "last_chunk_without_a_decoder_layer": {
        "engine": "megatron", "tp": 2, "pp": 2, "vpp": 2,
        "pp_layout": [[1, 2], [1, 0]]},
}


@pytest.mark.parametrize("verify", ["full", "fingerprint"])
@pytest.mark.parametrize("changed", [0, 1, 100])
@pytest.mark.parametrize("rollout", STACKS)
def test_prediction_layers(plans, tmp_path, rollout, changed, verify) -> None:
    plan = plans({
        "config": DEEPSEEK, "rollout": STACKS[rollout],
        "trainer": {"tp": 2, "ep": 2, "pp": 2, "vpp": 2, "vocab_multiple": 4}})
    for seed in (1, 2, 3):
        report = run(tmp_path, *plan, "--steps", 4, "--changed", changed,
                     "--seed", seed, "--verify", verify)
        least = report["elements"] * STACKS[rollout].get("replicas", 1) * 4
        assert report["changed"] >= 0.995 * least * (changed == 100)
        assert changed or report["changed"] == 0


def test_prediction_layer_is_a_layer_of_the_checkpoint(
        plans, tmp_path) -> None:
    """Where it lives, and the name of its parameters: stage 1, the last chunk,
    layer 0 there; layer 4 of the checkpoint."""
    plan = plans({
        "config": DEEPSEEK, "rollout": HF,
        "trainer": {"tp": 2, "ep": 2, "pp": 2, "vpp": 2, "vocab_multiple": 4}})
    run(tmp_path, *plan, "--steps", 1, "--changed", 10, "--dump",
        tmp_path / "dump")
    after = tmp_path / "dump" / "after"
    sent = read_safetensors(after / "destination-0.safetensors")
    for rank in range(4):
        held = read_safetensors(after / f"source-{rank}.safetensors")
        mtp = [name for name in held if "mtp." in name]
        assert bool(mtp) == (rank >= 2)
        for name in mtp:
            assert "mtp.layers.0." in name
            if name.endswith("enorm.weight"):
                assert held[name] == sent["model.layers.4.enorm.weight"]
    assert not any(".layers.5." in name for name in sent)


# ===--- checkpoints ------------------------------------------------------=== #

SIZES = {"BF16": 2, "F16": 2, "F32": 4}


def listed(norms: str, storage: str = "BF16") -> dict:
    """Name -> (dtype, shape) of a checkpoint of the family of casts: norms of
    one type, rotary tables that no trainer holds."""
    hidden, rows, experts, inner = 6, 8, 4, 4
    out = {
        "model.embed_tokens.weight": (storage, [11, hidden]),
        "lm_head.weight": (storage, [11, hidden]),
        "model.norm.weight": (storage, [hidden]),
        "rotary.cos": ("F32", [3, 5]),
        "rotary.deep.sin": ("BF16", [7]),
    }

    def matrices(prefix: str) -> None:
        out[prefix + "wide.weight"] = ("F32", [rows, hidden])
        out[prefix + "even.weight"] = ("F32", [rows, hidden])
        out[prefix + "odd.weight"] = (storage, [rows, hidden])

    def stacked(prefix: str) -> None:
        out[prefix + "experts.gate_up"] = ("F32", [experts, hidden, 2 * inner])
        for expert in range(experts):
            out[f"{prefix}experts.{expert}.scale"] = (storage, [inner])

    for layer in range(4):
        prefix = f"model.layers.{layer}."
        out[prefix + "norm.weight"] = (norms, [hidden])
        out[prefix + "wide_norm.weight"] = ("F32", [hidden])
        out[prefix + "narrow_norm.weight"] = (storage, [hidden])
        out[prefix + "inv_freq"] = ("F32", [4])
        matrices(prefix)
        if layer % 2:
            stacked(prefix)
    for layer in range(2):
        prefix = f"mtp.layers.{layer}."
        out[prefix + "norm.weight"] = (norms, [hidden])
        matrices(prefix)
        stacked(prefix)
    return out


def write_checkpoint(path: Path, tensors: dict) -> None:
    entries, at = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = SIZES[dtype]
        for extent in shape:
            size *= extent
        entries[name] = {"dtype": dtype, "shape": shape,
                         "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + os.urandom(at))


def model_with(folder: Path, tensors: dict, dtype: str = "bf16") -> dict:
    write_checkpoint(folder / "base.safetensors", tensors)
    return {**casts(dtype, SPREAD, HF),
            "checkpoint": str(folder / "base.safetensors")}


def types_of(folder: Path) -> dict:
    """Name -> dtype of what the receiver holds after a run."""
    data = (folder / "dump/after/destination-0.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    return {name: entry["dtype"] for name, entry in header.items()
            if name != "__metadata__"}


@pytest.mark.parametrize("trainer,norms,storage", [
    ("bf16", "BF16", "BF16"), ("bf16", "F32", "BF16"), ("fp16", "F32", "F16"),
    ("fp32", "BF16", "F32"), ("fp32", "F32", "F32"),
])
def test_key_list_chooses_the_type(tmp_path, trainer, norms, storage) -> None:
    """Norms are +1, then cast as the checkpoint says; what the trainer does
    not hold is copied by an export and not sent."""
    tensors = listed(norms, storage)
    model = model_with(tmp_path, tensors, trainer)
    plan = compile_plan(tmp_path, model, "--family", CASTS)
    for changed in (0, 1, 100):
        for verify in ("full", "fingerprint"):
            run(tmp_path, *plan, "--steps", 3, "--changed", changed,
                "--verify", verify, "--dump", tmp_path / "dump")
    sent = types_of(tmp_path)
    copied = {name for name in tensors
              if "rotary" in name or "inv_freq" in name}
    assert sent == {name: dtype for name, (dtype, shape) in tensors.items()
                    if name not in copied}


def test_copied_tensors_are_told(tmp_path) -> None:
    path = write_json(tmp_path / "model.json",
                      model_with(tmp_path, listed("BF16")))
    result = tool("delta-compile", path, "-o", tmp_path / "maps.mlir",
                  "--family", CASTS, "--emit=maps")
    assert result.returncode == 0, result.stderr
    assert ("6 tensors are not the trainer's; an export copies them"
            in result.stderr)


def test_copied_tensors_are_the_base_s(tmp_path) -> None:
    """Missing in one layer, of another shape, or unknown: refused by name."""
    def refused(tensors: dict, text: str) -> None:
        path = write_json(
            tmp_path / "model.json", model_with(tmp_path, tensors))
        result = tool("delta-compile", path, "-o", tmp_path / "plan.so",
                      "--family", CASTS)
        assert result.returncode == 1, result.stderr
        assert text in result.stderr
        assert not (tmp_path / "plan.so").exists()

    tensors = listed("BF16")
    del tensors["model.layers.2.inv_freq"]
    refused(tensors, 'the checkpoint lists "model.layers.0.inv_freq" and not '
                     '"model.layers.2.inv_freq"')
    tensors = listed("BF16")
    tensors["model.layers.1.inv_freq"] = ("F32", [5])
    refused(tensors, 'tensor "model.layers.1.inv_freq" is [5] fp32, required '
                     "[4] fp32")
    tensors = listed("BF16")
    tensors["rotary_table"] = ("F32", [5])
    refused(tensors, 'tensor "rotary_table" is in the checkpoint, the family '
                     "does not produce it")
    # One type of all layers: the first one's.
    tensors = listed("F32")
    tensors["model.layers.3.norm.weight"] = ("BF16", [6])
    refused(tensors, 'tensor "model.layers.3.norm.weight" is [6] bf16, '
                     "required [6] fp32")


def test_checkpoints_without_copies_need_none(tmp_path) -> None:
    tensors = {name: entry for name, entry in listed("BF16").items()
               if "rotary" not in name and "inv_freq" not in name}
    path = write_json(tmp_path / "model.json", model_with(tmp_path, tensors))
    result = tool("delta-compile", path, "-o", tmp_path / "plan.so",
                  "--family", CASTS)
    assert result.returncode == 0, result.stderr
    assert "not the trainer's" not in result.stderr


def test_a_cast_cannot_be_undone_for_the_first_weights(tmp_path) -> None:
    """Rounding loses what the trainer would need: `--weights` says so."""
    model = model_with(tmp_path, listed("F32"))
    path = write_json(tmp_path / "model.json", model)
    result = tool("delta-run", path, "--family", CASTS, "--weights",
                  tmp_path / "base.safetensors")
    assert result.returncode == 1
    assert "that rounding does not let undo" in result.stderr
