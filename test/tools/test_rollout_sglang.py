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

from rollout.syncs import (  # noqa: E402, F401
    cases_of, check, checkpoints, unknown_layouts,
)

pytestmark = needs_tools


def test_every_layout_has_a_model() -> None:
    assert not unknown_layouts("sglang")


@pytest.mark.parametrize("case", cases_of("sglang"), ids=lambda case: case.name)
def test_engine_holds_what_its_loader_would(
    case, checkpoints, tmp_path  # noqa: F811
) -> None:
    check(case, checkpoints, tmp_path)
