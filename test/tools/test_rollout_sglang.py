# ===- test_rollout_sglang.py - Syncs into SGLang -------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Every element of every SGLang parameter after a seed and after two steps is
what its loader, written again in test/rollout, makes of the checkpoint."""

import sys
from pathlib import Path

import pytest

from support import needs_tools

pytest.importorskip("numpy", reason="the plain loader needs numpy")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rollout.configs import MODELS  # noqa: E402
from rollout.syncs import (  # noqa: E402, F401
    check_refusal, checkpoints, each, layouts, refused, unknown_layouts, verify,
)

pytestmark = needs_tools

FAMILIES = layouts("sglang")

CASES = [
    case for family in FAMILIES for model in MODELS[family]
    for case in each("sglang", family, model)
]


def test_every_layout_has_a_model() -> None:
    assert not unknown_layouts("sglang")
    assert "qwen3_moe" in FAMILIES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_engine_holds_what_its_loader_would(
    case, checkpoints, tmp_path  # noqa: F811
) -> None:
    if refused(case):
        check_refusal(case, tmp_path)
    else:
        verify(case, checkpoints, tmp_path)
