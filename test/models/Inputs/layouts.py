# ===- layouts.py - The table of layouts against their texts --------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The table of models/README.md names every family that an engine has a layout
for, and no other; its head names the versions."""

import re
import sys
from pathlib import Path

ENGINES = {"vllm": "vLLM", "sglang": "SGLang"}


def main() -> int:
    models = Path(sys.argv[1])
    page = (models / "README.md").read_text()
    head, *lines = re.search(
        r"^\| family \| (.*?)\n\n", page, re.M | re.S)[1].splitlines()
    # The names of the first column; `a*` adds a remark to rows of others.
    told = {
        name for line in lines[1:] if "no layout" not in line
        for name in re.findall(r"`(\w+)`", line.split(" | ")[0])
    }
    problems = []
    for engine, name in ENGINES.items():
        served = set()
        versions = set()
        for file in sorted((models / engine).glob("*.mlir")):
            text = file.read_text()
            family = re.search(
                r'engine "(\w+)" versions \["([^"]+)"\]\s+model_types \[(.*?)\]',
                text, re.S)
            if not family:
                continue
            served |= {
                re.sub("_text$", "", kind) if kind.startswith("qwen") else kind
                for kind in re.findall(r'"(\w+)"', family[3])
            }
            versions.add(family[2])
            if family[1] != engine:
                problems.append(f"{file.name} is the layout of {family[1]}")
        if served != told:
            problems.append(
                f"{engine}: without a row {sorted(served - told)}, "
                f"without a layout {sorted(told - served)}")
        if [f"{name} {version}" in head for version in versions] != [True]:
            problems.append(f"{engine}: versions {sorted(versions)}")
    print("\n".join(problems) or f"{len(told)} families of two engines as told")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
