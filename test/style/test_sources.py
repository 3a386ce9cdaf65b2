# ===- test_sources.py - Rules that a search can check --------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What holds for every source file of the tree, found by reading it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("dialect", "passes", "codegen", "runtime", "models", "tools")
CPP = (".cpp", ".h", ".cuh", ".c")

# Words that only a family file may hold: trainer parameters, tensors of the
# neutral layout, architectures.
MODEL_WORDS = re.compile(
    r"[qkvo]_proj|(gate|up|down)_proj|qkv_proj|embed_tokens|lm_head|linear_qkv"
    r"|linear_fc[12]|linear_proj|word_embeddings|output_layer|experts\.linear"
    r"|local_experts|self_attn|self_attention|input_layernorm|q_norm|k_norm"
    r"|mixer\.|in_proj|conv1d|A_log|dt_bias|qwen|nemotron|gpt_oss|gpt-oss"
    r"|llama|deepseek|mixtral|gemma|falcon|mamba",
    re.IGNORECASE,
)

# Paths of one machine, and hosts that a build could depend on. Debian's LLVM
# and the usual place of CUDA are hints, not requirements.
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(work|root|home|mnt|data|scratch)/\w")
HOST = re.compile(r"https?://([\w.-]+)")
KNOWN_HOSTS = {"www.apache.org", "llvm.org"}


def tracked_files() -> list[Path]:
    """All files of the tree that git knows or would add."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("not a git checkout")
    listing = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "ls-files",
         "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True, text=True,
    ).stdout
    files = [ROOT / name for name in listing.split("\0") if name]
    return [file for file in files if file.is_file()]


def sources(*suffixes: str) -> list[Path]:
    """Source files of the pipeline folders with one of the suffixes."""
    files = [
        file
        for file in tracked_files()
        if file.relative_to(ROOT).parts[0] in FOLDERS
        and file.suffix in suffixes
    ]
    assert files, "the search found nothing"
    return files


def hits(files: list[Path], pattern: re.Pattern) -> list[str]:
    """`file:line: text` of every line that matches."""
    found = []
    for file in files:
        lines = file.read_text(errors="replace").splitlines()
        for number, line in enumerate(lines, 1):
            if pattern.search(line):
                place = file.relative_to(ROOT)
                found.append(f"{place}:{number}: {line.strip()}")
    return found


def test_search_finds_what_it_looks_for(tmp_path: Path) -> None:
    sample = ROOT / "models" / "qwen3.mlir"
    assert hits([sample], MODEL_WORDS)
    bad = 'include "/home/someone/x"\n'
    assert MACHINE_PATH.search(bad)
    assert not MACHINE_PATH.search("../share/data/x ${root}/data/x")


def test_no_model_name_outside_families() -> None:
    # A plan holds names: the one written by hand does, as emitted ones do.
    plan = ROOT / "runtime" / "demo_plan.c"
    files = [file for file in sources(*CPP, ".td") if file != plan]
    found = hits(files, MODEL_WORDS)
    assert not found, "\n".join(found)


def test_mlir_headers_in_a_dozen_files() -> None:
    include = re.compile(r'#include [<"]mlir/')
    files = [file for file in sources(*CPP) if hits([file], include)]
    names = [str(file.relative_to(ROOT)) for file in files]
    assert 0 < len(names) <= 12, "\n".join(names)


def test_runtime_and_plain_tools_know_nothing_of_mlir() -> None:
    plain = ("runtime", "codegen")
    tools = ("reference", "report", "delta-check", "delta-run", "delta-bench")
    include = re.compile(r'#include [<"](mlir|llvm|dialect|passes)/')
    files = []
    for file in sources(*CPP):
        parts = file.relative_to(ROOT).parts
        if parts[0] in plain or (parts[0] == "tools" and parts[1] in tools):
            files.append(file)
    found = hits(files, include)
    assert not found, "\n".join(found)


def test_runtime_shares_only_the_abi_and_kernels_with_codegen() -> None:
    include = re.compile(r'#include "(codegen/(?!device/)|tools/|models/)')
    files = [
        file
        for file in sources(*CPP)
        if file.relative_to(ROOT).parts[0] == "runtime"
    ]
    found = hits(files, include)
    assert not found, "\n".join(found)


def opens_well(file: Path) -> bool:
    """A banner line with the name; a family opens with a sentence instead."""
    head = file.read_text().splitlines()[:2]
    if head and head[0].startswith("#!"):
        head = head[1:]
    if not head:
        return False
    if file.suffix == ".mlir":
        return head[0].startswith("// ")
    if file.name == "CMakeLists.txt":
        return head[0].startswith("#===- ")
    return "===- " in head[0] and file.name in head[0]


def test_every_source_opens_with_a_banner() -> None:
    families = (ROOT / "models").glob("*.mlir")
    files = [
        file
        for file in tracked_files()
        if file.suffix in (*CPP, ".td", ".py") or file.name == "CMakeLists.txt"
    ]
    missing = [
        str(file.relative_to(ROOT))
        for file in [*files, *families]
        if not opens_well(file)
    ]
    assert not missing, "\n".join(missing)


def test_no_place_of_one_machine_in_the_tree() -> None:
    files = [
        file
        for file in tracked_files()
        if file.name != "LICENSE" and file != Path(__file__).resolve()
    ]
    found = hits(files, MACHINE_PATH)
    assert not found, "\n".join(found)
    for hit in hits(files, HOST):
        host = HOST.search(hit).group(1)
        assert host in KNOWN_HOSTS, hit


def test_labels_stand_in_three_places() -> None:
    """Definition, check and negative test carry the same label."""
    label = re.compile(r"- \((\w+_c\d+)\)")
    labels = set()
    for file in sources(".td"):
        labels.update(label.findall(file.read_text()))
    assert labels, "no constraint has a label"
    checks = "".join(file.read_text() for file in sources(".cpp"))
    tests = "".join(
        file.read_text()
        for folder in ("dialect", "passes")
        for file in (ROOT / "test" / folder).glob("*.mlir")
    )
    missing = [
        f"{name}: no {place}"
        for name in sorted(labels)
        for place, text in (("check", checks), ("test", tests))
        if not re.search(rf"\b{name}\b", text)
    ]
    assert not missing, "\n".join(missing)


def test_lines_fit_eighty_columns() -> None:
    files = [
        file
        for file in tracked_files()
        if file.suffix in (*CPP, ".td", ".py", ".cmake")
        or file.name in ("CMakeLists.txt", "dev")
        or (file.suffix == ".mlir" and file.parent == ROOT / "models")
    ]
    # String literals may have to be long.
    found = [
        hit
        for hit in hits(files, re.compile(r"^.{81,}$"))
        if '"' not in hit and "'" not in hit
    ]
    assert not found, "\n".join(found)


def test_scripts_pass_shellcheck() -> None:
    if not shutil.which("shellcheck"):
        pytest.skip("no shellcheck")
    scripts = [
        file
        for file in tracked_files()
        if file.suffix == "" and file.read_bytes()[:15] == b"#!/usr/bin/env "
    ]
    assert ROOT / "tools" / "dev" in scripts
    result = subprocess.run(
        ["shellcheck", *map(str, scripts)], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout


def test_sources_are_formatted() -> None:
    if not shutil.which("clang-format-22"):
        pytest.skip("no clang-format-22")
    result = subprocess.run(
        [ROOT / "tools" / "dev", "format", "--check"],
        capture_output=True, text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
