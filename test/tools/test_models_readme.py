# ===- test_models_readme.py - The page for a new architecture ------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""models/README.md is a transcript: its commands are run, in order and in one
shell, and must print what stands below them (`...`: anything); each message of
its table is provoked; blocks and files that it names exist."""

import json
import os
import re
import shlex
import struct
import subprocess
import tarfile
from pathlib import Path

import pytest

from support import BIN, SHARED, needs_tools, tool, write_json

pytestmark = needs_tools

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "models" / "README.md").read_text()
GOLDEN = ROOT / "test" / "data" / "export_qwen3_tp2_cp2.tar.xz"
ENVIRONMENT = Path(
    os.environ.get("DELTA_CROSSCHECK_ENV")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    / "delta-crosscheck"
)

# What a command needs, by a word in it. The listed model needs the checkpoint
# that the converter's environment writes.
MISSING = {
    "$CONVERTER": None if (ENVIRONMENT / "pins.txt").exists()
    else f"no published packages in {ENVIRONMENT}: tools/dev crosscheck",
    "listed.json --family": None if (ENVIRONMENT / "pins.txt").exists()
    else "no checkpoint without the published packages",
    "$SHARED": None if SHARED else "no data folder: DELTA_SHARED is not set",
}


def fenced(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.M | re.S)


def transcript() -> list[tuple[str, list[str]]]:
    """Commands and the lines below each; `$   ` goes on with a command."""
    commands: list[tuple[str, list[str]]] = []
    for block in fenced("console"):
        for line in block.splitlines():
            if line.startswith("$   "):
                commands[-1] = (f"{commands[-1][0]}\n{line[2:]}", [])
            elif line.startswith("$ "):
                commands.append((line[2:], []))
            else:
                commands[-1][1].append(line)
    return commands


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    assert found, title
    return found[1]


def rows(title: str) -> list[list[str]]:
    """Cells of a table without its head."""
    lines = re.findall(r"^\| (.*) \|$", section(title), re.M)
    return [re.split(r" (?<!\\)\| ", line) for line in lines[2:]]


def pattern(lines: list[str]) -> str:
    """`...` is any lines where it is one, else any text of its line."""
    parts = [
        r"(?:.*\n)*?" if line == "..." else
        re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
        for line in lines
    ]
    return "".join(parts)


def reason(command: str) -> str | None:
    found = (why for word, why in MISSING.items() if why and word in command)
    return next(found, None)


COMMANDS = transcript()


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> list[tuple[int, str] | None]:
    """Exit code and text of every command that can run here."""
    folder = tmp_path_factory.mktemp("page")
    (family,) = fenced("mlir")
    (folder / "my.mlir").write_text(family)
    mark = "=== delta page ==="
    script = "".join(
        f"{command}\necho '{mark}' {number} $?\n"
        for number, (command, _) in enumerate(COMMANDS)
        if not reason(command)
    )
    run = subprocess.run(
        ["bash", "-c", f"exec 2>&1\n{script}"],
        cwd=folder, capture_output=True, text=True, timeout=800,
        env={
            **os.environ,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "DELTA": str(ROOT),
            "CONVERTER": str(ENVIRONMENT / "bin" / "python"),
            "SHARED": str(SHARED),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    outcomes: list[tuple[int, str] | None] = [None] * len(COMMANDS)
    parts = re.split(rf"^{mark} (\d+) (\d+)\n", run.stdout, flags=re.M)
    for text, number, code in zip(parts[::3], parts[1::3], parts[2::3]):
        outcomes[int(number)] = int(code), text
    return outcomes


@pytest.mark.parametrize(
    "number", range(len(COMMANDS)),
    ids=[shlex.split(command)[0].split("/")[-1] for command, _ in COMMANDS],
)
def test_command_prints_what_the_page_says(number, outcomes) -> None:
    command, lines = COMMANDS[number]
    if why := reason(command):
        pytest.skip(why)
    assert outcomes[number] is not None, "the shell ended before"
    code, text = outcomes[number]
    differs = any(": differs: " in line for line in lines)
    assert code == (1 if differs else 0), text
    assert re.fullmatch(pattern(lines), text), text


def test_the_transcript_is_found() -> None:
    assert len(COMMANDS) > 15 and len(fenced("mlir")) == 1
    # Lines of output that say something.
    assert sum(line != "..." for _, lines in COMMANDS for line in lines) > 12
    used = {word for word in ("$CONVERTER", "$SHARED") if word in PAGE}
    assert used <= MISSING.keys()


def test_a_pattern_can_fail() -> None:
    assert re.fullmatch(pattern(["a ... b", "..."]), "a 1 b\nx\ny\n")
    assert not re.fullmatch(pattern(["a ... b"]), "a 1 b\nx\n")
    assert not re.fullmatch(pattern(["...", "b"]), "a\nc\n")
    assert not re.fullmatch(pattern([]), "a\n")


# ===--- messages ---------------------------------------------------------===

# For each message of the table a small mistake in the example, and who tells.
MISTAKES = {
    'config has no "ffn_size"':
        ("compile", 'config "intermediate_size"', 'config "ffn_size"'),
    "unknown symbol 'mlp_bias'":
        ("compile", ",\n          mlp_bias = false", ""),
    'parameter "..." way 0: element [9, 0] has no image and is not dropped':
        ("compile", 'delta.tensor "v_proj.weight" = %v as [g * d, H]', ""),
    "shape [24, 3] for a value of shape [4, 2, 3, 20], required 480 elements":
        ("compile", "%q as [n * d, H]", "%q as [n * d, d]"),
    "dim 0 of size 56 has a section of size 28, which is not divisible by "
    "axis 'tp' of size 8": ({"tp": 8}, "", ""),
    'name "..." is the same for all its layers or experts':
        ("compile", 'hf "model.layers.{layer}."', 'hf "model.layers.0."'),
    "num_layers 2 is not divisible by pp x vpp 3; pp_layout gives an uneven "
    "split": ({"pp": 3}, "", ""),
    "ep is 2, the model has no experts": ({"ep": 2}, "", ""),
    "head has 1 scores, the family has no head but the LM head":
        ({"head": "value"}, "delta.use @llama_ends",
         "delta.use @llama_final_norm"),
    'tensor "..." is in the checkpoint, the family does not produce it':
        ("checkpoint", 'delta.use @vector with trained = "k_layernorm.weight",'
         '\n            tensor = "k_norm.weight", size = d', ""),
    'tensor "..." is [3] bf16, required [20] bf16':
        ("checkpoint", 'tensor = "k_norm.weight", size = d',
         'tensor = "k_norm.weight", size = H'),
    "expected shape [20, 12], found shape [20, 24]":
        ("golden", "delta.use @row_parallel", "delta.use @matrix"),
    "expected no such tensor, found one in chunk 0":
        ("golden", '"q_layernorm.weight"', '"q_norm.weight"'),
    "expected a tensor in chunk 0, found none":
        ("golden", 'delta.use @vector with trained = "k_layernorm.weight",'
         '\n            tensor = "k_norm.weight", size = d', ""),
}


def test_every_message_has_its_mistake() -> None:
    told = [cells[0].strip("`") for cells in rows("Messages")]
    assert told == list(MISTAKES)


def header_of(tensors: list[dict], vocabulary: int) -> bytes:
    """A checkpoint of these tensors, zeros; the export pads its tables."""
    entries, at = {}, 0
    for tensor in tensors:
        shape = tensor["shape"]
        if re.search("embed_tokens|lm_head", tensor["name"]):
            shape = [vocabulary, *shape[1:]]
        size = 2
        for extent in shape:
            size *= extent
        entries[tensor["name"]] = {
            "dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + bytes(at)


@pytest.fixture(scope="module")
def golden(tmp_path_factory) -> Path:
    """The golden case of the page, and the checkpoint that it exports."""
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN) as archive:
        for member in archive.getmembers():
            data = archive.extractfile(member).read()
            (folder / member.name).write_bytes(data)
    config = json.loads((folder / "config.json").read_text())
    tensors = json.loads((folder / "tensors.json").read_text())
    (folder / "model.safetensors").write_bytes(
        header_of(tensors, config["vocab_size"]))
    return folder


def say(how: object, family: Path, golden: Path, tmp_path: Path):
    """What the tool that should tell prints about a family."""
    if how == "golden":
        return tool("delta-check", "--golden", golden, "--family", family)
    model = {
        "config": str(golden / "config.json"),
        "trainer": how if isinstance(how, dict) else {"tp": 2},
    }
    if how == "checkpoint":
        model["checkpoint"] = str(golden / "model.safetensors")
    file = write_json(tmp_path / "model.json", model)
    return tool("delta-compile", file, "--family", family, "--emit=maps",
                "-o", tmp_path / "maps")


@pytest.mark.parametrize("message", MISTAKES)
def test_message(message, golden, tmp_path) -> None:
    how, before, after = MISTAKES[message]
    (text,) = fenced("mlir")
    family = tmp_path / "my.mlir"
    family.write_text(text)
    right = {"tp": 2} if isinstance(how, dict) else how
    result = say(right, family, golden, tmp_path)
    assert result.returncode == 0, result.stderr

    assert before in text
    family.write_text(text.replace(before, after, 1))
    result = say(how, family, golden, tmp_path)
    assert result.returncode == 1
    assert re.search(pattern([message])[:-2], result.stderr), result.stderr


def test_a_default_is_told(golden, tmp_path) -> None:
    (note,) = re.findall(r"the config leaves out or nulls: \w+ = \d+", PAGE)
    config = json.loads((golden / "config.json").read_text())
    # Every head then has as many rows as the hidden size gives it.
    del config["head_dim"]
    config["num_attention_heads"] = config["num_key_value_heads"]
    family = tmp_path / "my.mlir"
    family.write_text(*fenced("mlir"))
    model = write_json(tmp_path / "model.json", {"config": config})
    result = tool("delta-compile", model, "--family", family, "--emit=maps",
                  "-o", tmp_path / "maps")
    assert result.returncode == 0 and f"note: {note}\n" in result.stderr


# ===--- names ------------------------------------------------------------===


def test_blocks_are_in_the_files_that_the_page_says() -> None:
    count = 0
    for files, blocks in rows("Blocks"):
        names = re.findall(r"\w+\.mlir", files)
        text = "".join((ROOT / "models" / name).read_text() for name in names)
        known = set(re.findall(r"^delta\.block @(\w+)", text, re.M))
        listed = re.findall(r"@(\w+)", blocks)
        assert set(listed) <= known, files
        count += len(listed)
        if names == ["blocks.mlir"]:
            assert set(listed) == known
    assert count > 25


def test_ops_files_and_links_exist() -> None:
    ops = (ROOT / "dialect" / "DeltaOps.td").read_text()
    known = set(re.findall(r'Delta_\w*Op<"(\w+)"', ops))
    pieces = rows(r"2\. The text")
    for cells in pieces:
        for word in re.findall(r"`(\w+)`", cells[0]):
            assert word in known, word
    assert len(pieces) > 6
    for files, _ in rows("Into the repository"):
        for name in re.findall(r"`([\w/.-]+)`", files):
            folder = Path(files.split("`")[1]).parent
            assert any(
                (ROOT / place / name).exists() for place in ("", folder)), name
    for link in re.findall(r"\]\(([^)]+)\)", PAGE):
        assert (ROOT / "models" / link).exists(), link
