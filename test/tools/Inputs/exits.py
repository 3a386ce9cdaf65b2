# ===- exits.py - Commands, their exit codes and what they say ------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Runs delta-compile in a folder for every line `CODE TEXT | ARGUMENTS`.

It must end with the code and print the text. The folder must stay as it was.
"""

import subprocess
import sys
from pathlib import Path


def content(folder: Path) -> dict[str, bytes]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path): path.read_bytes() for path in files}


def main() -> int:
    folder = Path(sys.argv[1])
    before = content(folder)
    lines = [line.strip() for line in sys.stdin if line.strip()]
    good = 0
    for line in lines:
        says, arguments = line.split(" | ", 1)
        code, text = says.split(" ", 1)
        run = subprocess.run(
            ["delta-compile", *arguments.split()],
            cwd=folder, capture_output=True, text=True, timeout=60,
        )
        if run.returncode != int(code):
            print(f"{line}: exit code {run.returncode}")
        elif text not in run.stdout + run.stderr:
            print(f"{line}: printed {run.stdout}{run.stderr}")
        elif content(folder) != before:
            print(f"{line}: changed files")
        else:
            good += 1
    print(f"{good} of {len(lines)} commands end as they say")
    return 0 if good == len(lines) > 0 else 1


sys.exit(main())
