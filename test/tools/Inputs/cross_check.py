# ===- cross_check.py - Many geometries of small models -------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Compiles NAME.json, a config, for each line of NAME.geometries.

A line is a trainer, or `trainer -> destination`; the interpreter must agree
with every element.
"""

import json
import re
import subprocess
import sys
from pathlib import Path


def agrees(folder: Path, config: str, line: str) -> str:
    """The compiler's error, or nothing."""
    trainer, _, rollout = line.partition(" -> ")
    model = {"config": config, "trainer": json.loads(trainer)}
    if rollout:
        model["rollout"] = {"engine": "megatron", **json.loads(rollout)}
    (folder / "model.json").write_text(json.dumps(model))
    run = subprocess.run(
        ["delta-compile", "model.json", "--emit=host", "--cross-check=full",
         "-o", "plan.cpp"],
        cwd=folder, capture_output=True, text=True, timeout=120,
    )
    said = re.search(r"cross-check: ([1-9]\d*) elements .* agree", run.stderr)
    return "" if run.returncode == 0 and said else run.stderr or "no check"


def main() -> int:
    folder = Path(sys.argv[1])
    good = total = 0
    for file in sorted(folder.glob("*.geometries")):
        for line in file.read_text().splitlines():
            if not line.strip():
                continue
            total += 1
            error = agrees(folder, file.stem + ".json", line)
            good += not error
            if error:
                print(f"{file.stem} {line}: {error}")
    print(f"{good} of {total} geometries agree")
    return 0 if good == total > 0 else 1


sys.exit(main())
