# ===- report.py - What was measured, as text and as JSON -----------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""A line for each median, printed at once; all samples go to a file."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any


class Report:
    """Lines and samples; both files are written again with every line, so that
    what was measured before a failure is there."""

    def __init__(self, out: Path | None, facts: dict[str, Any]) -> None:
        self._out = out
        self.rows: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self.facts = facts
        for name, value in facts.items():
            self.say(f"# {name}: {value}")

    def say(self, line: str) -> None:
        print(line, flush=True)
        self.lines.append(line)
        self._write()

    def add(
        self,
        what: str,
        seconds: Sequence[float],
        *,
        snapshot: str = "",
        p: float | None = None,
        num_bytes: int | None = None,
        against: tuple[str, float] | None = None,
        note: str = "",
    ) -> float:
        """Samples of one thing; returns their median. With bytes, GB/s;
        `against` is a name and bytes a second, of which the share is said, or,
        without bytes, seconds, of which the multiple is."""
        middle = median(seconds)
        line = f"{what:<32}{snapshot:<9}{'' if p is None else f'{p:g}':<8}"
        line += f"{middle * 1e3:12.4f} ms"
        line += f"  [{min(seconds) * 1e3:.4f} - {max(seconds) * 1e3:.4f}]"
        line += f" n={len(seconds)}"
        row: dict[str, Any] = {
            "what": what, "snapshot": snapshot, "p": p, "median": middle,
            "seconds": list(seconds), "note": note,
        }  # fmt: skip
        if num_bytes is not None:
            rate = num_bytes / middle
            line += f"  {rate / 1e9:9.1f} GB/s"
            row["bytes_per_second"] = rate
            if against:
                row[f"of_{against[0]}"] = rate / against[1]
                line += f"  {100 * rate / against[1]:6.1f} % of {against[0]}"
        elif against:
            row[f"times_{against[0]}"] = middle / against[1]
            line += f"  {middle / against[1]:8.2f} x {against[0]}"
        self.rows.append(row)
        self.say(line + (f"  {note}" if note else ""))
        return middle

    def find(self, what: str, **facts: Any) -> float | None:
        """The median of a row, None where there is none."""
        for row in self.rows:
            if row["what"] == what and facts.items() <= row.items():
                return row["median"]
        return None

    def _write(self) -> None:
        if self._out is None:
            return
        self._out.mkdir(parents=True, exist_ok=True)
        name = self.facts["geometry"].lower()
        (self._out / f"{name}.txt").write_text("\n".join(self.lines) + "\n")
        content = {**self.facts, "rows": self.rows}
        (self._out / f"{name}.json").write_text(json.dumps(content) + "\n")


def machine(device: Any) -> dict[str, Any]:
    """What the figures belong to."""
    import platform
    import sys

    import torch

    facts = {
        "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "command": " ".join(sys.argv),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": "the host",
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        facts["device"] = (
            f"{properties.name}, {properties.multi_processor_count} "
            f"multiprocessors, {properties.total_memory >> 20} MiB"
        )
        facts["driver"] = driver()
    return facts


def driver() -> str:
    """The version that the driver's own table gives."""
    import subprocess

    try:
        found = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.mem",
             "--format=csv,noheader"],
            capture_output=True, text=True, check=True, timeout=30,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return found.stdout.strip().splitlines()[0]
