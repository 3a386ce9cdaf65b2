# ===- test_check_rollout.py - Plans against an engine's own loader -------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""delta-check agrees with what the engines' loaders did, and notices changes of
it."""

import json
import shutil
from pathlib import Path

import pytest

from support import (
    SHARED, needs_shared, needs_tools, read_tags, tool, write_json,
)

pytestmark = [needs_tools, needs_shared]

ROOT = SHARED / "golden-rollout" if SHARED else None
CASES = sorted(
    path.parent.name for path in ROOT.glob("*/layout.json")
) if ROOT else []
# Families that a second rank of the trainer can share.
SPLIT = [
    case for case in CASES
    if case in (
        "sglang-deepseek_v3-tp2-sharedfused", "sglang-gpt_oss-tp2",
        "sglang-qwen3_moe-tp2-ep2-red2", "sglang-qwen3_next-tp2",
        "vllm-deepseek_v3-tp2-ep2-roundrobin", "vllm-nemotron_h-tp2",
        "vllm-qwen2-tp4", "vllm-qwen3-tp1-pp2", "vllm-qwen3_moe-tp2-dp2",
        "vllm-qwen3_moe-tp2-trtllmpad",
    )
]
# Scales that a quantized engine has and no tensor fills: of the attention, a
# number each, and of the router, four.
UNBOUND = {
    "vllm-qwen3-tp2-fp8block8": 8, "vllm-qwen3_moe-tp2-fp8block8": 16,
}


def check(tmp_path: Path, *arguments: object) -> tuple[int, dict, str]:
    report = tmp_path / "report.json"
    result = tool(
        "delta-check", "--golden-rollout", *arguments, "--json", report)
    counts = json.loads(report.read_text()) if report.exists() else {}
    return result.returncode, counts, result.stderr


def params_of(case: Path) -> list[dict]:
    return json.loads((case / "params.json").read_text())


def size(param: dict) -> int:
    count = 1
    for extent in param["shape"]:
        count *= extent
    return count


def check_case(tmp_path: Path, case: str, *arguments: object) -> dict:
    code, report, errors = check(tmp_path, ROOT / case, *arguments)
    assert code == 0, errors
    assert report["first"] is None, report
    assert report["mismatches"] == 0
    held = [line for line in params_of(ROOT / case) if "offset" in line]
    assert report["tensors"] == len(held)
    tags = read_tags(ROOT / case / "params.tags")
    assert report["elements"] == len(tags) == sum(map(size, held))
    assert report["unbound"] == UNBOUND.get(case, 0)
    return report


@pytest.mark.parametrize("case", CASES)
def test_rollout(case: str, tmp_path: Path) -> None:
    check_case(tmp_path, case)


@pytest.mark.parametrize("case", SPLIT)
def test_rollout_from_a_split_trainer(case: str, tmp_path: Path) -> None:
    config = json.loads((ROOT / case / "config.json").read_text())
    experts = {"qwen3_moe", "deepseek_v3", "gpt_oss", "qwen3_next"}
    trainer = {"tp": 2, "ep": 2 if config["model_type"] in experts else 1}
    geometry = write_json(tmp_path / "model.json", {"trainer": trainer})
    check_case(tmp_path, case, "--geometry", geometry)


# ===--- data that is wrong must be noticed ---------------------------------===


def copy_case(tmp_path: Path, case: str) -> Path:
    copy = tmp_path / case
    shutil.copytree(ROOT / case, copy)
    for path in copy.iterdir():
        path.chmod(0o644)
    return copy


def change_tags(case: Path, change) -> None:
    tags = read_tags(case / "params.tags")
    change(tags)
    (case / "params.tags").write_bytes(tags.tobytes())


def change_json(path: Path, change) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def find(case: Path, name: str, rank: int = 0) -> dict:
    return next(
        line for line in params_of(case)
        if line["rank"] == rank and line["name"].endswith(name)
        and "offset" in line
    )


MOE = "vllm-qwen3_moe-tp2"


def test_one_tag_changed(tmp_path: Path) -> None:
    case = copy_case(tmp_path, MOE)
    param = find(case, "qkv_proj.weight", rank=1)
    columns = param["shape"][1]

    def change(tags) -> None:
        tags[param["offset"] + 3 * columns + 4] += 1

    change_tags(case, change)
    code, report, errors = check(tmp_path, case)
    assert code == 1
    assert report["mismatches"] == 1
    assert report["first"]["tensor"] == f"rank 1 {param['name']}"
    assert report["first"]["element"] == [3, 4]
    assert "q_proj.weight" in report["first"]["expected"]
    assert "q_proj.weight" in report["first"]["found"]
    assert param["name"] in errors


def test_tag_that_no_tensor_has(tmp_path: Path) -> None:
    case = copy_case(tmp_path, MOE)

    def change(tags) -> None:
        tags[0] = max(tags) + 1

    change_tags(case, change)
    code, report, errors = check(tmp_path, case)
    assert code == 1
    assert report["tensors"] == 0
    assert "is no tag" in errors


@pytest.mark.parametrize("fill", [False, True])
def test_element_without_a_tensor(fill: bool, tmp_path: Path) -> None:
    """A row of padding that should be filled, and the other way round."""
    case = copy_case(tmp_path, MOE)
    param = find(case, "embed_tokens.weight", rank=1)
    tags = read_tags(case / "params.tags")
    span = range(param["offset"], param["offset"] + size(param))
    at = next(i for i in span if (tags[i] == -1) == fill)

    def change(tags) -> None:
        tags[at] = 1 if fill else -1

    change_tags(case, change)
    code, report, _ = check(tmp_path, case)
    assert code == 1
    assert report["mismatches"] == 1
    side = report["first"]["found" if fill else "expected"]
    assert side == "nothing"


def test_two_parameters_swapped(tmp_path: Path) -> None:
    case = copy_case(tmp_path, "sglang-qwen3-tp2")
    names = [
        f"model.layers.0.{part}_layernorm.weight"
        for part in ("input", "post_attention")
    ]

    def change(lines) -> None:
        first, second = [
            next(line for line in lines
                 if line["rank"] == 1 and line["name"] == name)
            for name in names
        ]
        first["offset"], second["offset"] = second["offset"], first["offset"]

    change_json(case / "params.json", change)
    code, report, _ = check(tmp_path, case)
    assert code == 1
    assert report["mismatches"] == 2 * 32
    assert report["first"]["tensor"] == f"rank 1 {names[0]}"


@pytest.mark.parametrize(
    "case, changes",
    [
        (MOE, {"tp": 1, "moe_tp": 1}),
        ("vllm-qwen3-tp1-pp2", {"pp": 1}),
        ("vllm-qwen3_moe-tp2-dp2", {"dp": 1, "moe_tp": 2}),
        ("vllm-deepseek_v3-tp2-ep2-roundrobin",
         {"expert_placement": "linear"}),
        ("vllm-qwen3_moe-tp2-ficutlass", {"w13_order": "gate_up"}),
        ("sglang-qwen3_moe-tp2", {"w13_order": "up_gate"}),
        ("vllm-qwen3_moe-tp2-trtllmpad", {"moe_pad": 64}),
        ("sglang-qwen3_moe-tp2-ep2-red2", {"redundant_experts": 0}),
        ("sglang-qwen3_moe-tp2-ep2-dpattn2",
         {"attention_dp": 1, "attention_tp": 2}),
        ("sglang-deepseek_v3-tp2-sharedfused", {"fused_shared_experts": 0}),
        ("vllm-nemotron_h-tp2", {"value_ops": {}}),
        ("sglang-falcon_h1-tp2",
         {"value_ops": {"model.layers.0.mamba.A": "neg_exp",
                        "model.layers.0.mamba.D": "neg_exp"}}),
    ],
)
def test_layout_that_says_something_else(
    case: str, changes: dict, tmp_path: Path
) -> None:
    copy = copy_case(tmp_path, case)
    change_json(copy / "layout.json", lambda layout: layout.update(changes))
    code, report, _ = check(tmp_path, copy)
    assert code == 1
    assert report["mismatches"] > 0, "compared, and found to differ"


def test_value_op_of_no_parameter(tmp_path: Path) -> None:
    case = copy_case(tmp_path, "vllm-nemotron_h-tp2")
    change_json(
        case / "layout.json",
        lambda layout: layout["value_ops"].update({"absent.A": "neg_exp"}))
    code, _, errors = check(tmp_path, case)
    assert code == 1
    assert 'value op of "absent.A", which no rank has' in errors


def test_parameter_that_the_engine_has_not(tmp_path: Path) -> None:
    case = copy_case(tmp_path, "sglang-llama-tp2")
    name = "model.norm.weight"

    def change(lines) -> None:
        lines[:] = [
            line for line in lines
            if line["rank"] == 0 or line["name"] != name
        ]

    # The tags stay, so that the file is as long as the lines say.
    change_json(case / "params.json", change)
    change_tags(case, lambda tags: None)
    code, report, errors = check(tmp_path, case)
    assert code == 1
    assert report["mismatches"] == 1, errors
    assert report["first"]["tensor"] == f"rank 1 {name}"
    assert report["first"]["found"] == "a parameter"


def test_parameter_that_the_plan_has_not(tmp_path: Path) -> None:
    case = copy_case(tmp_path, "sglang-llama-tp2")
    extra = find(case, "model.norm.weight", rank=1)
    change_json(
        case / "params.json",
        lambda lines: lines.append({**extra, "name": "model.more.weight"}))
    code, report, _ = check(tmp_path, case)
    assert code == 1
    assert report["mismatches"] == 1
    assert report["first"]["expected"] == "32 elements"


def test_parameter_without_tensor_that_has_tags(tmp_path: Path) -> None:
    """What the plan leaves out must have no tag."""
    case = copy_case(tmp_path, "sglang-falcon_h1-tp2")
    param = find(case, "q_norm.weight")
    assert param["mapped"] == 0

    def change(tags) -> None:
        tags[param["offset"] + 2] = 7

    change_tags(case, change)
    code, report, _ = check(tmp_path, case)
    assert code == 1
    assert report["mismatches"] == 1
    assert report["first"]["element"] == [2]


def test_strides_that_differ(tmp_path: Path) -> None:
    case = copy_case(tmp_path, "sglang-deepseek_v3-tp2")

    def change(lines) -> None:
        line = next(line for line in lines if line["name"].endswith("w_kc"))
        assert line["stride"] == [96, 1, 8]
        line["stride"] = [96, 12, 1]

    change_json(case / "params.json", change)
    code, report, _ = check(tmp_path, case)
    assert code == 1
    assert report["mismatches"] == 1
    assert report["first"]["expected"] == "strides [96, 12, 1]"
    assert report["first"]["found"] == "strides [96, 1, 8]"


def test_second_name_of_storage(tmp_path: Path) -> None:
    """A plan that binds what the engine holds under another name is wrong."""
    case = copy_case(tmp_path, "vllm-llama-tp2")

    def change(lines) -> None:
        line = next(
            line for line in lines
            if line["rank"] == 0 and line["name"] == "model.norm.weight")
        line["alias_of"] = "model.layers.0.input_layernorm.weight"

    change_json(case / "params.json", change)
    code, report, _ = check(tmp_path, case)
    assert code == 1
    assert report["mismatches"] == 1
    assert "a second name of" in report["first"]["expected"]


def test_block_scales_swapped(tmp_path: Path) -> None:
    """Scales lie as their weights do, on the grid of blocks."""
    case = copy_case(tmp_path, "vllm-qwen3_moe-tp2-fp8block8")
    param = find(case, "w13_weight_scale_inv", rank=1)

    def change(tags) -> None:
        a = param["offset"]
        tags[a], tags[a + 1] = tags[a + 1], tags[a]

    change_tags(case, change)
    code, report, _ = check(tmp_path, case)
    assert code == 1
    assert report["mismatches"] == 2
    assert report["first"]["tensor"] == f"rank 1 {param['name']}"


def test_several_cases_at_once(tmp_path: Path) -> None:
    some = [case for case in CASES if "llama" in case]
    code, report, errors = check(tmp_path, *(ROOT / case for case in some))
    assert code == 0, errors
    assert report["elements"] == sum(
        len(read_tags(ROOT / case / "params.tags")) for case in some)
