# ===- bench_model.py - Small models for delta-bench ----------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Writes tiny forms of the geometries that are measured into a folder."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tools" / "delta-bench"))

from baseline.geometry import geometry

MODELS = {
    "one": ("A", {}),
    "two": ("C", {}),
    "device": ("B", {}),
    "bitmap": ("B", {"sync": {"snapshot": "bitmap"}}),
}


def main() -> None:
    folder = Path(sys.argv[1])
    for name, (letter, options) in MODELS.items():
        model = {**geometry(letter, tiny=True).model, **options}
        (folder / f"{name}.json").write_text(json.dumps(model))


if __name__ == "__main__":
    main()
