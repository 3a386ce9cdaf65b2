# ===- test_check.py - Plans against data made elsewhere ------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""delta-check agrees with the golden maps, and notices changes of them."""

import json
import shutil
from pathlib import Path

import pytest

from support import (
    SHARED, check, needs_shared, needs_tools, read_tags, tool,
)

pytestmark = [needs_tools, needs_shared]

FAMILIES = (
    "qwen2", "qwen3", "nemotron_h", "gpt_oss", "llama3", "mixtral", "gemma3",
    "glm4_moe", "deepseek_v3", "kimi_k2",
)


def cases(folder: str) -> list[str]:
    if SHARED is None:
        return []
    return sorted(
        path.name
        for path in (SHARED / folder).iterdir()
        if path.is_dir() and path.name.startswith(FAMILIES)
    )


@pytest.mark.parametrize("case", cases("golden"))
def test_golden(case: str, tmp_path: Path) -> None:
    folder = SHARED / "golden" / case
    code, report, errors = check(tmp_path, "--golden", folder)
    tensors = json.loads((folder / "tensors.json").read_text())
    assert report["first"] is None, report
    assert code == 0, errors
    assert report["mismatches"] == 0
    assert report["tensors"] == len(tensors)
    tags = read_tags(folder / "hf.tags")
    assert report["elements"] + report["bridge_padding"] == len(tags)
    # Padded rows of the embedding, 6 rows of 32.
    padding = 192 if case.startswith("nemotron_h") else 0
    assert report["bridge_padding"] == padding


@pytest.mark.parametrize("case", cases("golden-reshard"))
def test_golden_reshard(case: str, tmp_path: Path) -> None:
    folder = SHARED / "golden-reshard" / case
    code, report, errors = check(tmp_path, "--golden-reshard", folder)
    assert report["first"] is None, report
    assert code == 0, errors
    assert report["elements"] == len(read_tags(folder / "map.tags"))
    sources = json.loads((folder / "destination" / "sources.json").read_text())
    assert report["tensors"] == len(sources)


# ===--- data that is wrong must be noticed ---------------------------------===


def copy_case(tmp_path: Path, folder: str, case: str) -> Path:
    copy = tmp_path / case
    shutil.copytree(SHARED / folder / case, copy)
    return copy


def swap_tags(path: Path, a: int, b: int) -> None:
    tags = read_tags(path)
    tags[a], tags[b] = tags[b], tags[a]
    path.chmod(0o644)
    path.write_bytes(tags.tobytes())


def test_two_tags_swapped(tmp_path: Path) -> None:
    case = copy_case(tmp_path, "golden", "qwen3_tp4")
    tensor = next(
        line
        for line in json.loads((case / "tensors.json").read_text())
        if line["name"].endswith("1.mlp.up_proj.weight")
    )
    columns = tensor["shape"][1]
    at = tensor["offset"] + 5 * columns + 7
    swap_tags(case / "hf.tags", at, at + 1)
    code, report, errors = check(tmp_path, "--golden", case)
    assert code == 1
    assert report["mismatches"] == 2
    assert report["first"]["tensor"] == tensor["name"]
    assert report["first"]["element"] == [5, 7]
    assert report["first"]["expected"] != report["first"]["found"]
    assert tensor["name"] in errors


def test_padding_out_of_order(tmp_path: Path) -> None:
    case = copy_case(tmp_path, "golden", "nemotron_h_tp2")
    tensor = next(
        line
        for line in json.loads((case / "tensors.json").read_text())
        if line["shape"][0] == 256
    )
    end = tensor["offset"] + 256 * tensor["shape"][1]
    swap_tags(case / "hf.tags", end - 2, end - 1)
    code, report, _ = check(tmp_path, "--golden", case)
    assert code == 1
    assert report["mismatches"] == 2
    assert report["bridge_padding"] == 190
    assert report["first"]["tensor"] == tensor["name"]


def change_line(path: Path, pick, change) -> dict:
    lines = json.loads(path.read_text())
    line = next(line for line in lines if pick(line))
    change(line)
    path.chmod(0o644)
    path.write_text(json.dumps(lines))
    return line


def test_trainer_dtype_that_differs(tmp_path: Path) -> None:
    case = copy_case(tmp_path, "golden", "qwen3_moe_tp2_ep4")
    line = change_line(
        case / "sources.json",
        lambda line: line["rank"] == 3 and "router" in line["name"],
        lambda line: line.update(dtype="fp32"),
    )
    code, report, _ = check(tmp_path, "--golden", case)
    assert code == 1
    assert report["first"]["tensor"].endswith(line["name"])
    assert "rank 3" in report["first"]["tensor"]
    assert report["first"]["element"] is None
    assert "fp32" in report["first"]["expected"]


def test_trainer_parameter_that_is_extra(tmp_path: Path) -> None:
    case = copy_case(tmp_path, "golden", "qwen3_tp8")
    path = case / "sources.json"
    lines = json.loads(path.read_text())
    last = lines[-1]
    size = 1
    for extent in last["shape"]:
        size *= extent
    first = last["first_tag"] + size
    lines.append(
        {**last, "name": "decoder.extra", "first_tag": first,
         "replica_of": first}
    )
    path.chmod(0o644)
    path.write_text(json.dumps(lines))
    code, report, _ = check(tmp_path, "--golden", case)
    assert code == 1
    assert report["mismatches"] == 1
    assert report["first"]["tensor"].endswith("decoder.extra")
    assert report["first"]["element"] is None


def test_reshard_entries_swapped(tmp_path: Path) -> None:
    case = copy_case(tmp_path, "golden-reshard", "qwen3_tp8_to_tp2")
    tags = read_tags(case / "map.tags")
    at = next(
        i for i in range(5000, len(tags))
        if tags[i] >= 0 and tags[i + 1] >= 0
    )
    swap_tags(case / "map.tags", at, at + 1)
    code, report, _ = check(tmp_path, "--golden-reshard", case)
    assert code == 1
    assert report["mismatches"] == 2


def test_reshard_padding_that_has_an_image(tmp_path: Path) -> None:
    """An element without an entry may hold anything but a live element."""
    case = copy_case(
        tmp_path, "golden-reshard", "qwen3_moe_tp2_ep4_to_ep2_etp2")
    sources = json.loads((case / "destination" / "sources.json").read_text())
    tags = read_tags(case / "map.tags")
    # A replicated element: one of its copies loses its entry.
    first, second = [
        line["first_tag"] for line in sources
        if line["name"] == "decoder.final_layernorm.weight"
    ][:2]
    assert tags[first] == tags[second] >= 0
    tags[second] = -1
    path = case / "map.tags"
    path.chmod(0o644)
    path.write_bytes(tags.tobytes())
    code, report, _ = check(tmp_path, "--golden-reshard", case)
    assert code == 1
    assert report["mismatches"] == 1
    assert report["first"]["expected"] == "nothing"


def test_family_from_a_path(tmp_path: Path) -> None:
    """A family that is not there is refused, so the option is not ignored."""
    folder = SHARED / "golden" / "qwen3_tp4"
    code, _, errors = check(
        tmp_path, "--golden", folder, "--family", tmp_path / "none.mlir"
    )
    assert code == 1
    assert "none.mlir" in errors


def test_folder_of_cases(tmp_path: Path) -> None:
    for case in ("qwen3_tp4", "qwen3_tp8"):
        copy_case(tmp_path / "all", "golden", case)
    code, report, _ = check(tmp_path, "--golden", tmp_path / "all")
    assert code == 0
    assert report["tensors"] == 25 + 14
    assert report["elements"] == 67376 + 45760


@pytest.mark.parametrize(
    "arguments",
    [[], ["--golden"], ["--config", "x"], ["--manifest", "x"],
     ["--copied", "x"], ["--what"]],
)
def test_usage(arguments: list[str]) -> None:
    assert tool("delta-check", *arguments).returncode == 2


def test_folder_that_is_no_case(tmp_path: Path) -> None:
    code, _, errors = check(tmp_path, "--golden", tmp_path)
    assert code == 1
    assert "cannot read" in errors
