# ===- test_heads.py - Value and score heads of every family --------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""`trainer.head` is an option of every family: the trainer holds rows of a
value or of scores in place of the LM head, and the checkpoint `score.weight`.
"""

import json
import subprocess
from pathlib import Path

import pytest

from support import BIN

CONFIGS = Path(__file__).resolve().parents[1] / "python" / "crosscheck" / "configs"


def compiled(folder: Path, config: dict, trainer: dict) -> str:
    """The bound text of a model that every element was compared of."""
    model = folder / "model.json"
    model.write_text(json.dumps({"config": config, "trainer": trainer}))
    for arguments in (["--emit=maps", "--cross-check=full"], ["--emit=import"]):
        run = subprocess.run(
            [BIN / "delta-compile", model, *arguments, "-o", folder / "out"],
            capture_output=True, text=True, timeout=120,
        )
        assert run.returncode == 0, run.stderr
    return (folder / "out").read_text()


@pytest.mark.parametrize("head, rows", [("value", 1), ({"score": 3}, 3)])
@pytest.mark.parametrize(
    "name", sorted(path.stem for path in CONFIGS.glob("*.json"))
)
def test_every_family_has_value_and_score_heads(
    tmp_path: Path, name: str, head: str | dict, rows: int
) -> None:
    config = json.loads((CONFIGS / f"{name}.json").read_text())
    text = compiled(tmp_path, config, {"head": head})
    lines = [line for line in text.splitlines() if "output_layer.weight" in line]
    assert len(lines) == 1 and f"[{rows}, " in lines[0]
    assert "on last" in lines[0]
    assert 'score.weight" = ' in text and 'tensor "lm_head' not in text


def test_two_stages_hold_no_tied_output(tmp_path: Path) -> None:
    """The copy of a tied table makes way for the scores."""
    config = json.loads((CONFIGS / "qwen3_tied.json").read_text())
    text = compiled(tmp_path, config, {"head": "value", "pp": 2})
    assert "delta.copy" not in text
    assert "delta.copy" in compiled(tmp_path, config, {"pp": 2})
