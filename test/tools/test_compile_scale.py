# ===- test_compile_scale.py - What a large model costs to compile --------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Kimi-K2, a trillion parameters on 256 ranks: its source takes at most 3
seconds of a processor and 1 GiB."""

import resource
import subprocess
from pathlib import Path

import pytest

from support import BIN, needs_tools

pytestmark = needs_tools

EXAMPLE = (
    Path(__file__).resolve().parents[2]
    / "models" / "examples" / "kimi-k2-tp8-ep32-pp8-vpp2-to-hf.json"
)


def cost(*arguments: object) -> tuple[float, int]:
    """Processor seconds, and bytes at most, of one run that ends well."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(
        [str(BIN / "delta-compile"), *map(str, arguments)],
        capture_output=True, text=True, timeout=600,
    )
    assert result.returncode == 0, result.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = (after.ru_utime - before.ru_utime) + (
        after.ru_stime - before.ru_stime)
    return seconds, after.ru_maxrss * 1024


def test_kimi_k2_compiles_in_three_seconds(tmp_path: Path) -> None:
    source = tmp_path / "plan.cpp"
    seconds, size = cost(EXAMPLE, "--emit=host", "-o", source)
    assert seconds <= 3
    assert size < 1 << 30
    # Layers and experts are instances: the text does not grow with them.
    assert 10_000 < source.stat().st_size < 200_000


def test_kimi_k2_has_every_rank_and_layer(tmp_path: Path) -> None:
    maps = tmp_path / "plan.mlir"
    cost(EXAMPLE, "--emit=maps", "-o", maps)
    text = maps.read_text()
    assert "layers 61 experts 384" in text
    assert "ep = 32" in text and "vpp = 2" in text
