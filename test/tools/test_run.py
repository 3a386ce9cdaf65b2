# ===- test_run.py - Whole syncs between all ranks ------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""delta-run over small geometries: every element right at every share of
changes, every planted fault noticed, and dumps that agree with a real
converter."""

import json
import re
from pathlib import Path

import pytest

from support import (
    CONFIGS, SHARED, messages, needs_shared, needs_tools, read_safetensors,
    read_tags, tool, write_json,
)

pytestmark = needs_tools

HF = {"engine": "hf"}


def to(**keys: object) -> dict:
    return {"engine": "megatron", **keys}


# family -> (trainer, rollout), five each.
GEOMETRIES = {
    "qwen3": {
        "tp2_pp2_to_hf": ({"tp": 2, "pp": 2}, HF),
        "tp8_cuts_heads_to_tp2": (
            {"tp": 8, "vocab_multiple": 4}, to(tp=2, vocab_multiple=16)),
        "tp2_pp2_vpp2_to_tp4": ({"tp": 2, "pp": 2, "vpp": 2}, to(tp=4)),
        "tp1_to_virtual_stages": (
            {"tp": 1}, to(tp=2, pp=2, vpp=2, pp_layout=[[1, 2], [1, 0]])),
        "uneven_stages_cp2_dp2_to_two_replicas": (
            {"tp": 2, "pp": 2, "cp": 2, "dp": 2, "pp_layout": [1, 3]},
            {**HF, "replicas": 2}),
    },
    "qwen3_moe": {
        "tp2_ep4_to_hf": ({"tp": 2, "ep": 4}, HF),
        "etp2_pp2_to_one_rank": (
            {"tp": 2, "ep": 2, "etp": 2, "pp": 2}, to()),
        "gated_experts_when_etp_changes": (
            {"tp": 2, "ep": 4}, to(ep=2, etp=2)),
        "ep8_to_tp2_ep2": ({"ep": 8}, to(tp=2, ep=2)),
        "sequential_to_two_replicas_of_pp2_vpp2": (
            {"tp": 2, "ep": 2, "experts": "sequential"},
            to(tp=4, ep=4, pp=2, vpp=2, replicas=2)),
    },
    "nemotron_h": {
        "tp2_ep2_to_hf": ({"tp": 2, "ep": 2}, HF),
        "tp2_to_tp1": ({"tp": 2}, to()),
        "uneven_stages_to_tp2": (
            {"pp": 2, "pp_layout": [4, 3]}, to(tp=2, vocab_multiple=8)),
        "ep4_to_ep2_etp2": ({"ep": 4}, to(ep=2, etp=2)),
        "one_rank_to_tp2_ep4": ({}, to(tp=2, ep=4)),
    },
    "gpt_oss": {
        "tp2_ep2_to_hf": ({"tp": 2, "ep": 2}, {**HF, "replicas": 2}),
        "ep4_to_tp2_ep2": ({"ep": 4}, to(tp=2, ep=2)),
        "tp4_ep4_to_one_rank": ({"tp": 4, "ep": 4}, to()),
        "tp2_pp2_to_ep8": ({"tp": 2, "pp": 2}, to(ep=8)),
        "one_rank_to_tp2_ep2_pp2": ({}, to(tp=2, ep=2, pp=2)),
    },
}
ALL = [(f, g) for f, table in GEOMETRIES.items() for g in table]


def make_model(folder: Path, family: str, geometry: str, **config) -> Path:
    trainer, rollout = GEOMETRIES[family][geometry]
    return write_json(
        folder / "model.json",
        {"config": {**CONFIGS[family], **config}, "trainer": trainer,
         "rollout": rollout},
    )


def compile_plan(model: Path) -> list:
    """Plan and reference program, as arguments of delta-run. The map is also
    compared with the interpreter, element by element over all ranks."""
    plan = model.with_name("plan.so")
    reference = model.with_name("reference.json")
    result = tool("delta-compile", model, "-o", plan, "--cross-check=full")
    assert result.returncode == 0, result.stderr
    assert re.search(r"cross-check: [1-9]\d* elements", result.stderr)
    result = tool("delta-compile", model, "-o", reference, "--emit=reference")
    assert result.returncode == 0, result.stderr
    return ["--plan", plan, "--reference", reference]


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """Compiles each geometry once."""
    made: dict = {}

    def get(family: str, geometry: str) -> list:
        if (family, geometry) not in made:
            folder = tmp_path_factory.mktemp(f"{family}-{geometry}")
            made[family, geometry] = compile_plan(
                make_model(folder, family, geometry))
        return made[family, geometry]

    return get


def run(tmp_path: Path, *arguments: object):
    """Exit code, counts and messages."""
    report = tmp_path / "report.json"
    result = tool("delta-run", *arguments, "--json", report)
    counts = json.loads(report.read_text()) if report.exists() else {}
    return result.returncode, counts, messages(result)


@pytest.mark.parametrize("changed", [0, 0.03, 1, 100])
@pytest.mark.parametrize("family,geometry", ALL)
def test_all_elements(plans, tmp_path, family, geometry, changed) -> None:
    plan = plans(family, geometry)
    for seed in (1, 2, 3):
        code, report, errors = run(
            tmp_path, *plan, "--steps", 5, "--changed", changed,
            "--seed", seed)
        assert code == 0, errors
        assert errors == "", "quiet in a pipe"
        assert report["mismatches"] == 0
        assert report["steps"] == 5
        assert report["launches_per_sync"] <= 8
        receivers = GEOMETRIES[family][geometry][1].get("replicas", 1)
        least = report["elements"] * receivers * 5
        if changed == 0:
            assert report["changed"] == 0
        elif changed == 100:
            # Replicated parameters count once a rank.
            assert report["changed"] >= 0.995 * least
        else:
            assert report["changed"] >= 0.5 * least * changed / 100
            assert report["changed"] <= 6 * least * changed / 100


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_other_storage_types(tmp_path, dtype) -> None:
    model = write_json(
        tmp_path / "model.json",
        {"config": CONFIGS["qwen3"], "trainer": {"tp": 2, "dtype": dtype},
         "rollout": to(tp=4, dtype=dtype)},
    )
    code, report, errors = run(tmp_path, model, "--changed", 10)
    assert code == 0, errors
    assert report["mismatches"] == 0
    assert report["changed"] > 0


def test_tied_copy_on_the_last_stage(tmp_path) -> None:
    """The copy is bound, received, and never a second claim."""
    model = make_model(
        tmp_path, "qwen3", "tp2_pp2_to_hf", tie_word_embeddings=True)
    code, report, errors = run(tmp_path, model, "--dump", tmp_path / "dump")
    assert code == 0, errors
    first = read_safetensors(tmp_path / "dump/after/source-0.safetensors")
    last = read_safetensors(tmp_path / "dump/after/source-2.safetensors")
    sizes = {name: len(values) for name, values in first.items()}
    table = max(sizes, key=sizes.get)
    copies = [name for name in last if last[name] == first[table]]
    assert len(copies) == 1
    assert report["mismatches"] == 0


def test_json_and_table(plans, tmp_path) -> None:
    plan = plans("qwen3_moe", "gated_experts_when_etp_changes")
    report_path = tmp_path / "report.json"
    result = tool("delta-run", *plan, "--steps", 2, "--json", report_path)
    report = json.loads(report_path.read_text())
    assert list(report) == [
        "steps", "elements", "changed", "wire_bytes", "seed_bytes",
        "mismatches", "launches_per_sync", "rounds", "seconds"]
    assert report["rounds"] == 1
    assert list(report["seconds"]) == [
        "compile", "seed", "update", "diff", "pack", "exchange", "stage",
        "commit", "advance", "verify"]
    for line in ("elements", "changed elements delivered",
                 "bytes a changed element", "time: exchange"):
        assert line in result.stdout
    assert f"{report['changed']:,}" in result.stdout
    assert report["seed_bytes"] > 2 * report["elements"]
    assert report["wire_bytes"] > 4 * report["changed"]


def test_same_seed_same_bytes(plans, tmp_path) -> None:
    plan = plans("nemotron_h", "ep4_to_ep2_etp2")
    reports = []
    for seed in (1, 1, 2):
        _, report, _ = run(tmp_path, *plan, "--seed", seed)
        reports.append((report["changed"], report["wire_bytes"]))
    assert reports[0] == reports[1] != reports[2]


@pytest.mark.parametrize("verify", ["fingerprint", "replay"])
def test_verification_with_the_plan_alone(plans, tmp_path, verify) -> None:
    plan = plans("qwen3_moe", "etp2_pp2_to_one_rank")[:2]
    code, report, errors = run(tmp_path, *plan, "--verify", verify)
    assert code == 0, errors
    assert report["changed"] > 0


# ===--- rounds -------------------------------------------------------------===

# Tiles have 65,536 elements at most: 1 % of these 9 million is more.
LARGER = {
    **CONFIGS["qwen3"], "head_dim": 64, "hidden_size": 256,
    "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 1024, "vocab_size": 8192,
}


@pytest.mark.parametrize("rollout", [HF, to(tp=2, pp=2)])
def test_everything_changed_in_the_memory_of_one_percent(
    tmp_path, rollout
) -> None:
    model = write_json(
        tmp_path / "model.json",
        {"config": LARGER, "trainer": {"tp": 2}, "rollout": rollout})
    whole, unlimited, errors = run(
        tmp_path, model, "--steps", 2, "--changed", 100)
    assert whole == 0, errors
    capacity = unlimited["elements"] // 100
    code, report, errors = run(
        tmp_path, model, "--steps", 2, "--changed", 100, "--capacity",
        capacity)
    assert code == 0, errors
    assert report["mismatches"] == 0
    assert report["changed"] == unlimited["changed"]
    # Half of the elements in each of two ranks.
    assert report["rounds"] >= 50
    assert unlimited["rounds"] == 1


def least_capacity(tmp_path: Path, plan: list) -> int:
    """The largest tile of all ranks: each rank asks for its own."""
    least = 10
    while True:
        code, _, errors = run(
            tmp_path, *plan, "--steps", 0, "--capacity", least)
        if code == 0:
            assert least > 10
            return least
        found = re.fullmatch(
            rf"delta-run: rank \d+: capacity: {least} elements, required are "
            r"(\d+): the largest tile", errors.strip())
        assert found, errors
        least = int(found[1])


@pytest.mark.parametrize("changed", [0.03, 5, 100])
@pytest.mark.parametrize("family,geometry", [
    ("qwen3", "tp2_pp2_vpp2_to_tp4"), ("nemotron_h", "tp2_ep2_to_hf"),
    ("qwen3_moe", "etp2_pp2_to_one_rank")])
def test_capacity_of_one_tile(
    plans, tmp_path, family, geometry, changed
) -> None:
    plan = plans(family, geometry)
    code, report, errors = run(
        tmp_path, *plan, "--changed", changed, "--capacity",
        least_capacity(tmp_path, plan))
    assert code == 0, errors
    assert report["mismatches"] == 0
    assert report["rounds"] > 1 or changed < 100


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("fault,message", [
    ("drop", "commit"), ("order", "stage"), ("stale", "stage"),
    ("element", "verification")])
def test_faults_of_several_rounds(
    plans, tmp_path, fault, message, seed
) -> None:
    plan = plans("qwen3", "tp2_pp2_vpp2_to_tp4")
    code, report, errors = run(
        tmp_path, *plan, "--steps", 2, "--changed", 100, "--capacity",
        least_capacity(tmp_path, plan), "--inject", fault, "--seed", seed)
    assert code == 1
    assert report["rounds"] > 1
    assert "not noticed" not in errors
    assert message in errors
    if fault != "element":
        assert f"inject {fault}: refused: rank " in errors
        assert report["mismatches"] == 0


# ===--- faults -------------------------------------------------------------===


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("verify", ["full", "replay", "fingerprint"])
@pytest.mark.parametrize(
    "family,geometry",
    [("qwen3", "tp2_pp2_to_hf"), ("qwen3_moe", "ep8_to_tp2_ep2"),
     ("gpt_oss", "tp2_ep2_to_hf")])
def test_flipped_element_is_named(
    plans, tmp_path, family, geometry, verify, seed
) -> None:
    code, report, errors = run(
        tmp_path, *plans(family, geometry), "--steps", 1, "--verify", verify,
        "--inject", "element", "--seed", seed)
    assert code == 1
    assert report["mismatches"] >= 1
    assert "verification" in errors
    assert re.search(r'"[\w.]+"', errors), "names the tensor"
    assert re.search(r"\[\d+(, \d+)*\]|element \d+", errors), "and the element"
    assert "not noticed" not in errors


# The plan alone compares before the seed, --verify full at every step too.
@pytest.mark.parametrize("verify", ["full", "replay", "fingerprint"])
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("family,geometry", [
    ("qwen3", "uneven_stages_cp2_dp2_to_two_replicas"),
    ("qwen3_moe", "etp2_pp2_to_one_rank"), ("nemotron_h", "tp2_ep2_to_hf"),
    ("gpt_oss", "ep4_to_tp2_ep2")])
def test_replica_that_differs_is_named(
    plans, tmp_path, family, geometry, seed, verify
) -> None:
    code, report, errors = run(
        tmp_path, *plans(family, geometry), "--steps", 1, "--verify", verify,
        "--inject", "replica", "--seed", seed)
    assert code == 1
    assert "not noticed" not in errors
    found = re.fullmatch(
        r'delta-run: replicas of tensor "[\w.]+" differ: "[\w.]+" of rank '
        r'[\d, ]+ against "[\w.]+" of rank [\d, ]+; first element '
        r'\[[\d, ]+\]: "[\w.]+"\[[\d, ]+\] of rank \d+ is (0x[\da-f]+), '
        r'"[\w.]+"\[[\d, ]+\] of rank \d+ is (0x[\da-f]+)', errors.strip())
    assert found, errors
    assert int(found[1], 16) ^ int(found[2], 16) == 1
    # Nothing sends it, so no receiver could have told.
    assert report.get("mismatches", 0) == 0


def test_tied_copy_that_differs_is_named(tmp_path) -> None:
    """One rank a stage: the copy is all that two ranks hold."""
    model = write_json(
        tmp_path / "model.json",
        {"config": {**CONFIGS["qwen3"], "tie_word_embeddings": True},
         "trainer": {"pp": 4}, "rollout": HF})
    code, _, errors = run(tmp_path, model, "--inject", "replica")
    assert code == 1
    assert 'replicas of tensor "model.embed_tokens.weight" differ' in errors
    assert '"output_layer.weight" of rank 3' in errors


def test_no_replica_to_differ(plans, tmp_path) -> None:
    code, _, errors = run(
        tmp_path, *plans("qwen3", "tp1_to_virtual_stages"), "--inject",
        "replica")
    assert code == 1
    assert "no two ranks hold an element" in errors


@pytest.mark.parametrize("fault,message", [
    ("drop", "commit"), ("order", "stage"), ("stale", "stage")])
@pytest.mark.parametrize("family,geometry", [
    ("qwen3", "tp2_pp2_vpp2_to_tp4"), ("nemotron_h", "tp2_ep2_to_hf")])
def test_bad_messages_are_refused(
    plans, tmp_path, family, geometry, fault, message
) -> None:
    code, report, errors = run(
        tmp_path, *plans(family, geometry), "--steps", 2, "--inject", fault)
    assert code == 1
    assert f"inject {fault}: refused: rank " in errors
    assert message in errors
    # What was refused has changed nothing.
    assert report["mismatches"] == 0
    assert "verification" not in errors


# ===--- refusals -----------------------------------------------------------===


@pytest.mark.parametrize("arguments", [
    ["--target", "cuda"], ["--transport", "gloo"], ["--transport", "nccl"],
    ["--transport", "files"]])
def test_not_built_yet(plans, tmp_path, arguments) -> None:
    plan = plans("qwen3", "tp2_pp2_to_hf")
    code, _, errors = run(tmp_path, *plan, *arguments)
    assert code == 1
    assert "not built yet" in errors


@pytest.mark.parametrize("arguments", [
    [], ["a", "--plan", "b"], ["a", "--changed", 101], ["a", "--steps", -1],
    ["a", "--verify", "no"], ["a", "--inject", "no"], ["a", "--reference", "b"],
    ["--plan", "a"], ["a", "--inject", "drop", "--steps", 0], ["a", "--what"]])
def test_usage(arguments) -> None:
    assert tool("delta-run", *arguments).returncode == 2


def test_reference_of_another_plan(plans, tmp_path) -> None:
    plan = plans("qwen3", "tp2_pp2_to_hf")
    other = plans("qwen3", "tp2_pp2_vpp2_to_tp4")
    code, _, errors = run(tmp_path, *plan[:2], *other[2:])
    assert code == 1
    assert "belongs to another plan" in errors


def test_model_that_the_compiler_refuses(tmp_path) -> None:
    model = write_json(
        tmp_path / "model.json",
        {"config": CONFIGS["qwen3"], "trainer": {"tp": 5}, "rollout": HF})
    code, _, errors = run(tmp_path, model)
    assert code == 1
    assert "5" in errors


def test_plan_that_is_none(tmp_path) -> None:
    path = tmp_path / "plan.so"
    path.write_text("no plan")
    code, _, errors = run(tmp_path, "--plan", path, "--verify", "replay")
    assert code == 1
    assert "cannot open plan" in errors


# ===--- dumps --------------------------------------------------------------===


def golden_model(tmp_path: Path, case: Path) -> Path:
    geometry = json.loads((case / "geometry.json").read_text())
    keys = ("tp", "ep", "etp", "pp", "cp", "dp")
    trainer = {key: geometry[key] for key in keys}
    trainer["vocab_multiple"] = geometry["make_vocab_size_divisible_by"]
    return write_json(
        tmp_path / "model.json",
        {"config": str(case / "config.json"), "trainer": trainer,
         "rollout": HF})


@needs_shared
@pytest.mark.parametrize("case", [
    "qwen3_tp8", "qwen3_moe_tp2_ep2_etp2_pp2", "gpt_oss_tp2_ep2",
    "nemotron_h_moe_tp2_ep2"])
def test_dumps_agree_with_the_converter(tmp_path, case) -> None:
    """Every element of the receiver is, bit for bit, the trainer element that
    the real converter takes."""
    folder = SHARED / "golden" / case
    dump = tmp_path / "dump"
    code, _, errors = run(
        tmp_path, golden_model(tmp_path, folder), "--dump", dump, "--steps", 2,
        "--changed", 20)
    assert code == 0, errors
    sources = json.loads((folder / "sources.json").read_text())
    tensors = json.loads((folder / "tensors.json").read_text())
    tags = read_tags(folder / "hf.tags")
    moments = {}
    for moment in ("before", "after"):
        ranks: dict = {}
        values = []  # by tag
        for line in sources:
            rank = line["rank"]
            if rank not in ranks:
                ranks[rank] = read_safetensors(
                    dump / moment / f"source-{rank}.safetensors")
            name = f"chunk{line['coords']['vp_chunk']}.{line['name']}"
            values.extend(ranks[rank][name])
        received = read_safetensors(
            dump / moment / "destination-0.safetensors")
        assert set(received) == {tensor["name"] for tensor in tensors}
        for tensor in tensors:
            found = received[tensor["name"]]
            wanted = [
                values[tag]
                for tag in tags[tensor["offset"]:tensor["offset"] + len(found)]
            ]
            assert list(found) == wanted, tensor["name"]
        moments[moment] = received
    assert moments["before"] != moments["after"]


def test_dump_of_another_geometry(plans, tmp_path) -> None:
    dump = tmp_path / "dump"
    code, _, errors = run(
        tmp_path, *plans("qwen3", "tp1_to_virtual_stages"), "--dump", dump,
        "--steps", 1)
    assert code == 0, errors
    names = sorted(path.name for path in (dump / "after").iterdir())
    assert names == [f"destination-{rank}.safetensors" for rank in range(4)] + [
        "source-0.safetensors"]
    chunks = {
        name.split(".")[0]
        for name in read_safetensors(dump / "after/destination-0.safetensors")
    }
    assert chunks == {"chunk0", "chunk1"}
