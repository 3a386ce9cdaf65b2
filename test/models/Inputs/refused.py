# ===- refused.py - Inputs that the compiler must refuse ------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Compiles each NAME.json of a folder that has a NAME.says.

NAME.says is all that the compiler prints, word for word; %models stands for
the folder of the installed families, whose lines are not told, since they
change for other reasons, %types for the list of their types. A first line
`$ ...` holds more arguments. Every input must end with exit code 1, leave the
output file that is there untouched, and leave no other file behind.
"""

import re
import subprocess
import sys
from pathlib import Path

BEFORE = "an older plan\n"


def compile_here(folder: Path, arguments: list[str]) -> tuple[int, str, str]:
    """Exit code and what delta-compile prints to its two streams."""
    run = subprocess.run(
        ["delta-compile", *arguments],
        cwd=folder, capture_output=True, text=True, timeout=60,
    )
    return run.returncode, run.stdout, run.stderr


def check(folder: Path, models: str, says: Path, run=compile_here) -> str:
    """What differs, or nothing."""
    expected = says.read_text()
    arguments = []
    if expected.startswith("$ "):
        line, expected = expected.split("\n", 1)
        arguments = line[2:].split()
    expected = expected.rstrip("\n") + "\n"
    output = folder / "out"
    output.write_text(BEFORE)
    before = sorted(folder.iterdir())
    code, out, errors = run(
        folder,
        [says.stem + ".json", "--emit=maps", "-o", "out", *arguments])
    printed = re.sub(
        re.escape(models) + r"(/\S+?):\d+:\d+:", r"%models\1:", errors
    )
    printed = re.sub(
        r"(known types are |has layouts for )[^;]+", r"\1%types", printed
    )
    if code != 1:
        return f"exit code {code}, required 1\n{printed}"
    if out or output.read_text() != BEFORE:
        return "something was written"
    if sorted(folder.iterdir()) != before:
        return "files were left behind"
    if printed != expected:
        return f"printed:\n{printed}required:\n{expected}"
    return ""


def main() -> int:
    folder, models = Path(sys.argv[1]).resolve(), sys.argv[2]
    cases = sorted(folder.glob("*.says"))
    failures = 0
    for says in cases:
        problem = check(folder, models, says)
        if problem:
            print(f"{says.stem}: {problem}")
            failures += 1
    print(f"{len(cases) - failures} of {len(cases)} inputs refused as they say")
    return 1 if failures or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
