# ===- test_cases_table.py - The table of reported failures ---------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The table of test/README.md names tests that exist, and has a row for every
entry of the collection whose kind is built."""

import os
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

# Main kinds of entries that have to have a test.
KINDS = {
    "attention", "vocab", "tied", "pipeline", "moe", "gate-up", "hybrid", "mla",
    "mtp", "dtype", "names", "hf-config", "diff", "index width",
}


def table() -> dict[int, tuple[str, str]]:
    """Number -> kind and tests of a row."""
    rows = {}
    for line in (TESTS / "README.md").read_text().splitlines():
        if match := re.match(r"\| (\d+) \| ([^|]+) \| (.*) \|$", line):
            assert int(match[1]) not in rows, f"case {match[1]} twice"
            rows[int(match[1])] = (match[2], match[3])
    return rows


def test_tests_of_the_table_exist() -> None:
    rows = table()
    assert len(rows) > 30
    sources = {
        path: path.read_text()
        for path in [*TESTS.glob("unit/**/*.cpp"), *TESTS.glob("tools/*.py")]
    }
    missing = []
    for number, (_, tests) in rows.items():
        names = [
            name for name in re.findall(r"`([^`]+)`", tests) if "/" not in name
        ]
        assert names, f"case {number} has no test"
        for name in names:
            if "::" in name:
                file, function = name.split("::")
                pattern = rf"^def {function}\("
                found = [
                    text for path, text in sources.items() if path.name == file]
            else:
                suite, case = name.split(".")
                pattern = rf"TEST(_F|_P)?\(\s*{suite},\s*{case}\)"
                found = list(sources.values())
            if not any(re.search(pattern, text, re.M) for text in found):
                missing.append(f"case {number}: {name}")
    assert not missing, "\n".join(missing)


def test_python_tests_of_all_tables_exist() -> None:
    text = (TESTS / "README.md").read_text()
    named = set(re.findall(r"`(\w+\.py)::(\w+)`", text))
    assert len(named) > 20
    missing = [
        f"{file}::{function}" for file, function in sorted(named)
        if not re.search(rf"^def {function}\(",
                         (TESTS / "tools" / file).read_text(), re.M)
    ]
    assert not missing, "\n".join(missing)


@pytest.mark.skipif(
    "DELTA_SHARED" not in os.environ,
    reason="no data folder: DELTA_SHARED is not set")
def test_every_entry_of_a_built_kind_has_a_row() -> None:
    text = (Path(os.environ["DELTA_SHARED"]) / "cases.md").read_text()
    entries = re.findall(r"^### (\d+) · ([^·]+) ·", text, re.M)
    assert len(entries) > 50
    rows = table()
    missing = [
        f"case {number} ({kinds})" for number, kinds in entries
        if kinds.split(" / ")[0] in KINDS and int(number) not in rows
    ]
    assert not missing, "\n".join(missing)
