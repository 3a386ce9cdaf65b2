# ===- test_linking.py - What the tools link ------------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""MLIR and LLVM are linked shared, by the compiler alone.

A tool that holds static LLVM code beside the shared library starts and parses,
and crashes when it generates code: only its symbols tell.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

BIN = Path(os.environ.get("DELTA_BIN", "build/bin"))
COMPILERS = ("delta-compile", "delta-opt")
PLAIN = ("delta-run", "delta-check", "delta-bench")


def output(*command: str) -> str:
    return subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout


def llvm_libraries(tool: str) -> set[str]:
    """Shared libraries of MLIR and LLVM that the loader would take."""
    return set(re.findall(r"lib(MLIR|LLVM)\S* =>", output("ldd", BIN / tool)))


def own_llvm_functions(tool: str) -> int:
    """Functions of LLVM that the executable itself defines."""
    symbols = output("nm", "-C", "--defined-only", BIN / tool)
    return len(re.findall(r" T llvm::", symbols))


@pytest.mark.parametrize("tool", COMPILERS)
def test_compiler_links_shared_libraries(tool: str) -> None:
    assert llvm_libraries(tool) == {"MLIR", "LLVM"}


@pytest.mark.parametrize("tool", COMPILERS)
def test_compiler_holds_no_static_llvm(tool: str) -> None:
    assert own_llvm_functions(tool) < 20


@pytest.mark.parametrize("tool", PLAIN)
def test_plain_tool_starts_without_llvm(tool: str) -> None:
    assert llvm_libraries(tool) == set()
    assert own_llvm_functions(tool) == 0
    output(BIN / tool, "--help")


def test_bench_opens_libraries_of_gpus_itself() -> None:
    libraries = output("ldd", BIN / "delta-bench")
    assert "libc.so" in libraries
    assert not re.search(r"libcuda|libcudart|libcupti|libnv", libraries)
