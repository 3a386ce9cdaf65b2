# ===- test_run_matrix.py - The figures over many geometries --------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Missed, extra or wrong elements: 0, over the models and geometries of
test/data (odd sizes, uneven cuts, six or more a family), 3 seeds, 5 steps, at
0, 0.03, 1 and 100 % changed. Bytes on the wire at 0 and at 1 %."""

import json
import sys
from itertools import product
from pathlib import Path

import pytest

from support import needs_tools, tool, write_json

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from cases import (
    BIASED, CASES, DELTA_NET, DENSE, EXPERTS, HYBRID, HYBRID_EXPERTS, MTP, NEXT,
    SEEING_DELTA_NET, SEEING_DENSE, SEEING_EXPERTS, SEEING_SPARSE, SEQUENTIAL,
    Case, tied,
)
from families import (
    ERNIE, GEMMA2, GEMMA3, GLM, LLAMA, MIMO, MINIMAX, MISTRAL, MIXTRAL,
    PARALLEL, QWEN2, WINDOWED,
)
from latent import (
    DEEPSEEK2, DEEPSEEK2_LITE, DEEPSEEK3, GEMMA3_IMAGES, GEMMA4,
    GEMMA4_EXPERTS, GEMMA4_LARGE, GLM_LITE, GLM_PREDICTING, GLM_SPARSE,
    HYBRID_PREDICTING, KIMI, MIMO_PREDICTING,
)

pytestmark = needs_tools

HEADER_BYTES = 112


def side(geometry: dict) -> dict:
    """Sizes of a case as the keys of model.json."""
    keys = {
        key: value
        for key, value in geometry.items()
        if key in ("tp", "ep", "etp", "pp", "vpp", "cp")
    }
    keys["vocab_multiple"] = geometry["make_vocab_size_divisible_by"]
    provider = geometry.get("provider", {})
    if not provider.get("moe_grouped_gemm", True):
        keys["experts"] = "sequential"
    if "mtp_num_layers" in provider:
        keys["mtp_layers"] = provider["mtp_num_layers"]
    # MiMo-V2-Flash: what a key list says of prediction layers.
    listed = geometry.get("keys", {}).get("add", {})
    if any(name.startswith("model.mtp.") for name in listed):
        keys["mtp_layers"] = 2
    if "pp_layout" in geometry:
        keys["pp_layout"] = layout(geometry["pp_layout"], geometry)
    return keys


def layout(value: object, geometry: dict) -> object:
    """Layers of each chunk of each stage; a pattern stays one."""
    if isinstance(value, str):
        return value
    pp, vpp = geometry["pp"], geometry.get("vpp", 1)
    # In pipeline order, by counts or by the contents of each chunk.
    counts = [
        chunk if isinstance(chunk, int) else chunk.count("decoder")
        for chunk in value
    ]
    assert len(counts) == pp * vpp
    return [counts[stage::pp] for stage in range(pp)]


def model_of(case: Case) -> dict:
    model = {"config": case.config, "trainer": side(case.sides[0])}
    if len(case.sides) == 2:
        model["rollout"] = {"engine": "megatron", **side(case.sides[1])}
    return model


def compile_plan(folder: Path, model: dict) -> list:
    """Plan and reference program, as arguments of delta-run."""
    path = write_json(folder / "model.json", model)
    plan, reference = folder / "plan.so", folder / "reference.json"
    for arguments in (["-o", plan], ["-o", reference, "--emit=reference"]):
        result = tool("delta-compile", path, *arguments)
        assert result.returncode == 0, result.stderr
    return ["--plan", plan, "--reference", reference]


def run(folder: Path, *arguments: object) -> dict:
    """Counts of a run that ends well."""
    report = folder / "report.json"
    result = tool("delta-run", *arguments, "--json", report)
    assert result.returncode == 0, result.stderr
    return json.loads(report.read_text())


def test_every_family_has_five_geometries_and_both_destinations() -> None:
    towers = (SEEING_DELTA_NET, SEEING_SPARSE, SEEING_DENSE, SEEING_EXPERTS)
    latent = [config for _, config, _ in LATENT]
    for config in (
        DENSE, EXPERTS, HYBRID, BIASED, NEXT, *towers, *FURTHER, *latent
    ):
        # The hybrid has two kinds of layers in one family; a model with a tower
        # and one without are of one family.
        kind = config["model_type"]
        cases = [
            case for case in [*CASES, *EXTRA]
            if case.config["model_type"] in (kind, f"{kind}_text")
        ]
        assert len(cases) >= 5
        # Nothing in a checkpoint feeds the values that Gemma 4 drops.
        drops = kind == "gemma4_text"
        assert {len(case.sides) for case in cases} == ({1} if drops else {1, 2})


def sized(multiple: int, **sizes: object) -> dict:
    return {**sizes, "make_vocab_size_divisible_by": multiple}


# What the data folder has too few of.
EXTRA = [
    Case("run_gpt_oss_uneven_pp2_vpp2", BIASED,
         sized(4, pp=2, vpp=2, pp_layout=[2, 0, 1, 1])),
    Case("run_gpt_oss_ep8_to_tp4", BIASED, sized(1, ep=8), sized(3, tp=4)),
    Case("run_gpt_oss_sequential_ep2_to_tp2_ep4", BIASED,
         {**sized(0, ep=2), **SEQUENTIAL}, sized(128, tp=2, ep=4)),
    Case("run_nemotron_h_moe_tp2_cp2_etp3", HYBRID_EXPERTS,
         sized(4, tp=2, cp=2, etp=3)),
    Case("run_qwen3_next_mtp_uneven_pp3", NEXT,
         {**sized(4, tp=2, ep=4, pp=3, pp_layout=[1, 1, 2]), **MTP}),
    Case("run_qwen3_next_tp2_etp2_pp2_vpp2_to_ep4", NEXT,
         sized(4, tp=2, etp=2, pp=2, vpp=2), sized(1, ep=4)),
    Case("run_qwen3_5_tp4_to_tp1", SEEING_DELTA_NET, sized(4, tp=4), sized(3)),
    Case("run_qwen3_5_tied_to_tp2_pp4", tied(DELTA_NET), sized(4),
         sized(4, tp=2, pp=4)),
    Case("run_qwen3_5_moe_tp2_ep2_etp2_pp2_vpp2", SEEING_SPARSE,
         sized(4, tp=2, ep=2, etp=2, pp=2, vpp=2)),
    Case("run_qwen3_5_moe_sequential_to_tp4_ep2_pp2_vpp2", SEEING_SPARSE,
         {**sized(4, ep=2), **SEQUENTIAL}, sized(4, tp=4, ep=2, pp=2, vpp=2)),
    Case("run_qwen3_vl_tp4_pp2_vpp2", SEEING_DENSE,
         sized(4, tp=4, pp=2, vpp=2)),
    Case("run_qwen3_vl_tied_tp2_pp2_to_pp4", tied(SEEING_DENSE),
         sized(4, tp=2, pp=2), sized(8, pp=4)),
    Case("run_qwen3_vl_cp2_to_pp2_vpp2", SEEING_DENSE, sized(4, tp=2, cp=2),
         sized(4, pp=2, vpp=2)),
    Case("run_qwen3_vl_moe_tp2_ep2_etp2_pp2_vpp2", SEEING_EXPERTS,
         sized(4, tp=2, ep=2, etp=2, pp=2, vpp=2)),
    Case("run_qwen3_vl_moe_ep4_to_tp4_pp4", SEEING_EXPERTS, sized(4, ep=4),
         sized(4, tp=4, pp=4)),
    Case("run_qwen3_vl_moe_pp2_to_tp2_ep2_etp2_pp2_vpp2", SEEING_EXPERTS,
         sized(4, pp=2), sized(4, tp=2, ep=2, etp=2, pp=2, vpp=2)),
]

FURTHER_EXPERTS = (MIXTRAL, MINIMAX, ERNIE, WINDOWED, GLM)
FURTHER = (
    LLAMA, MISTRAL, QWEN2, GEMMA2, GEMMA3, PARALLEL, MIMO, *FURTHER_EXPERTS,
)
# What no converter needs to have built: uneven stages, copies, experts one by
# one.
SIDES = {
    "tp2": (sized(3, tp=2),),
    "uneven_pp2": (sized(4, pp=2, pp_layout=[3, 1]),),
    "tp2_cp2_to_pp4": (sized(1, tp=2, cp=2), sized(5, pp=4)),
}
EXPERT_SIDES = {
    "sequential_ep2_etp2_pp2_vpp2": (
        {**sized(4, ep=2, etp=2, pp=2, vpp=2), **SEQUENTIAL},),
    "ep8_to_tp2_ep4_etp3": (sized(4, ep=8), sized(7, tp=2, ep=4, etp=3)),
}
for configs, sides in ((FURTHER, SIDES), (FURTHER_EXPERTS, EXPERT_SIDES)):
    EXTRA += [
        Case(f"run_{config['model_type']}_{name}", config, *geometries)
        for config in configs for name, geometries in sides.items()
    ]

# Latent attention and prediction layers, and models of several kinds.
HYBRID_MTP = {**HYBRID_EXPERTS, **HYBRID_PREDICTING}
LATENT_SIDES = {
    "uneven_pp2": SIDES["uneven_pp2"],
    "tp2_cp2_to_pp4": SIDES["tp2_cp2_to_pp4"],
    **EXPERT_SIDES,
}
SMALL_SIDES = {
    "tp4_cp2": (sized(4, tp=4, cp=2),),
    "tp2_cp2": (sized(16, tp=2, cp=2),),
}
LARGE_SIDES = {
    "uneven_pp2": (sized(4, pp=2, pp_layout=[1, 5]),),
    "sequential_ep2_etp2_pp2_vpp3": (
        {**sized(4, ep=2, etp=2, pp=2, vpp=3), **SEQUENTIAL},),
}
HYBRID_SIDES = {
    "tp2_pp2": (sized(4, tp=2, pp=2, pp_layout="MEM*|EME"),),
    "ep8_to_tp2_etp3": (sized(4, ep=8), sized(7, tp=2, etp=3)),
}
LATENT = (
    ("deepseek_v2", DEEPSEEK2, LATENT_SIDES),
    ("deepseek_v2_lite", DEEPSEEK2_LITE, LATENT_SIDES),
    ("deepseek_v3", DEEPSEEK3, LATENT_SIDES),
    ("kimi_k2", KIMI, LATENT_SIDES),
    ("glm4_moe_lite", GLM_LITE, LATENT_SIDES),
    ("glm_moe_dsa", {**GLM_SPARSE, "num_nextn_predict_layers": 1},
     LATENT_SIDES),
    ("glm4_moe_mtp", GLM_PREDICTING, LATENT_SIDES),
    ("mimo_mtp", MIMO_PREDICTING, SIDES),
    ("nemotron_h_mtp", HYBRID_MTP, HYBRID_SIDES),
    ("gemma3_images", GEMMA3_IMAGES, SIDES),
    ("gemma4", GEMMA4, SMALL_SIDES),
    ("gemma4_large", GEMMA4_LARGE, SMALL_SIDES),
    ("gemma4_moe", GEMMA4_EXPERTS, LARGE_SIDES),
)
EXTRA += [
    Case(f"run_{name}_{key}", config, *geometries)
    for name, config, sides in LATENT for key, geometries in sides.items()
]


# Between them these have every kind of index function.
EVERY_SEED = ("qwen3", "qwen3_moe", "gpt_oss", "nemotron_h")


@pytest.mark.parametrize(
    "case", [*CASES, *EXTRA], ids=lambda case: case.name)
def test_no_element_is_missed_extra_or_wrong(case: Case, tmp_path) -> None:
    plan = compile_plan(tmp_path, model_of(case))
    runs = list(product((0, 0.03, 1, 100), (11, 12, 13)))
    if case.config["model_type"] not in EVERY_SEED:
        runs = runs[::4] + runs[-1:]  # each share of changes and each seed
    for changed, seed in runs:
        report = run(
            tmp_path, *plan, "--steps", 5, "--changed", changed,
            "--seed", seed)
        assert report["mismatches"] == 0
        assert report["steps"] == 5
        if changed == 0:
            assert report["changed"] == 0
            assert report["wire_bytes"] % (5 * HEADER_BYTES) == 0
        if changed == 100:
            assert report["changed"] >= 0.99 * 5 * report["elements"]


# ===--- bytes ------------------------------------------------------------===

# Rank pairs, counted by hand, at least and at most: which rank sends what
# several hold, here norms of one tile, is the plan's choice.
PAIRS = [
    # Each of the four ranks to the one receiver, and to each of three.
    ({"tp": 2, "pp": 2}, {"engine": "hf"}, (4, 4)),
    ({"tp": 2, "pp": 2}, {"engine": "hf", "replicas": 3}, (12, 12)),
    # Way t of two becomes ways 2t and 2t + 1 of four: 4 pairs. Norms go to all
    # four, from one rank: 2 more pairs, or from both: 4 more.
    ({"tp": 2}, {"engine": "megatron", "tp": 4}, (6, 8)),
    # Rank to rank, norms to both ranks of a stage.
    ({"tp": 2, "pp": 2}, {"engine": "megatron", "tp": 2, "pp": 2}, (6, 8)),
    ({"pp": 4}, {"engine": "megatron", "pp": 4}, (4, 4)),
    # Layers 0, 1 | 2, 3 to layers 0, 2 | 1, 3.
    ({"pp": 2}, {"engine": "megatron", "pp": 2, "vpp": 2}, (4, 4)),
]


@pytest.mark.parametrize("trainer,rollout,pairs", PAIRS)
def test_unchanged_sync_is_one_header_a_rank_pair(
    trainer, rollout, pairs, tmp_path
) -> None:
    plan = compile_plan(
        tmp_path,
        {"config": DENSE, "trainer": trainer, "rollout": rollout})
    report = run(tmp_path, *plan, "--steps", 3, "--changed", 0)
    assert report["changed"] == 0
    count, rest = divmod(report["wire_bytes"], 3 * HEADER_BYTES)
    assert rest == 0
    least, most = pairs
    assert least <= count <= most


MIDDLE = {
    "dense": (
        {**DENSE, "head_dim": 64, "hidden_size": 768,
         "intermediate_size": 2304, "vocab_size": 16000},
        {"tp": 2, "pp": 2}, {"engine": "megatron", "tp": 4}),
    "experts": (
        {**EXPERTS, "head_dim": 64, "hidden_size": 512,
         "moe_intermediate_size": 384, "vocab_size": 16000},
        {"tp": 2, "ep": 4}, {"engine": "megatron", "ep": 2, "etp": 2}),
    "stacked": (
        {**BIASED, "head_dim": 64, "hidden_size": 512,
         "intermediate_size": 384, "vocab_size": 16000},
        {"ep": 4}, {"engine": "megatron", "tp": 2, "ep": 2}),
}


@pytest.mark.parametrize("size", MIDDLE)
def test_one_percent_costs_four_and_a_half_bytes(size, tmp_path) -> None:
    config, trainer, rollout = MIDDLE[size]
    plan = compile_plan(
        tmp_path, {"config": config, "trainer": trainer, "rollout": rollout})
    report = run(tmp_path, *plan, "--steps", 2, "--changed", 1)
    assert report["mismatches"] == 0
    assert report["elements"] > 2e7
    assert report["changed"] > 0.009 * 2 * report["elements"]
    # Offset and value are four bytes; less means that something is missing.
    per_element = report["wire_bytes"] / report["changed"]
    assert 4 <= per_element <= 4.5
