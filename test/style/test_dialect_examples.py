# ===- test_dialect_examples.py - The documentation's text parses ---------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Every example of an op and of an attribute is text that the tools read.

An example stands in the place where it belongs: at the top of a file, in a
side, or in a block. Values and symbols that it uses are declared around it.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPT = Path(os.environ.get("DELTA_BIN", ROOT / "build" / "bin")) / "delta-opt"
OP = re.compile(
    r'^def Delta_\w+ : Delta_(?:Region)?Op<"(\w+)".*?^}', re.M | re.S
)
TOP = ("import", "family", "block", "side", "route")
ATTRIBUTE = re.compile(r"`(#delta\.\w+<[^`]*>)`")


def ops() -> dict[str, str]:
    """Name and definition of every op."""
    text = (ROOT / "dialect" / "DeltaOps.td").read_text()
    return {match.group(1): match.group(0) for match in OP.finditer(text)}


def examples(definition: str) -> list[str]:
    return re.findall(r"```mlir\n(.*?)```", definition, re.S)


def wrap(name: str, example: str) -> str:
    """The example where it may stand, with what it uses."""
    if name in TOP:
        return example
    defined = set(re.findall(r"(%\w+)(?:, %\w+)* =", example))
    for group in re.findall(r"((?:%\w+, )+%\w+) =", example):
        defined.update(group.split(", "))
    used = set(re.findall(r"%\w+", example)) - defined
    params = "".join(
        f'  {value} = delta.param "{value[1:]}" [8] : bf16\n'
        for value in sorted(used)
    )
    return f"delta.block @example {{\n{params}{example}}}\n"


def parse(text: str) -> str:
    """The error of delta-opt, or nothing."""
    run = subprocess.run(
        [OPT, "-"], input=text, capture_output=True, text=True, timeout=60
    )
    return run.stderr if run.returncode else ""


def test_there_are_ops() -> None:
    assert len(ops()) > 25


def test_a_wrong_example_is_seen() -> None:
    assert parse(wrap("take", "%t = delta.take %w dim 0 first because\n"))


@pytest.mark.parametrize("name", sorted(ops()))
def test_examples_of_an_op_parse(name: str) -> None:
    found = examples(ops()[name])
    if name != "route":  # No one writes routes.
        assert found, "no example"
    for example in found:
        assert f"delta.{name}" in example
        error = parse(wrap(name, example))
        assert not error, error


def test_examples_of_attributes_parse() -> None:
    text = (ROOT / "dialect" / "DeltaDialect.td").read_text()
    text = re.sub(r"\n\s+", " ", text)
    found = [a for a in ATTRIBUTE.findall(text) if "W, source" not in a]
    assert len(found) == 2
    for attribute in found:
        error = parse(f"delta.block @b {{\n}} {{a = {attribute}}}\n")
        assert not error, error


def test_every_op_is_documented() -> None:
    for name, definition in ops().items():
        summary = re.search(r'let summary = "(.*?)";', definition)
        assert summary, name
        assert summary.group(1)[0].isupper(), name
        assert not summary.group(1).endswith("."), name
