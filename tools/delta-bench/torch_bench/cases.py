# ===- cases.py - The models that are measured ----------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The shards of `baseline`, and their plans for each snapshot.

A of its own: rank 0 of A holds 10.33 GB, of which it compares 7.63: eight
replicas share the dense parameters out. `A1` is the same shard as the whole of
a trainer: 16 experts on one rank. Its 10.31 GB are compared by one rank and fit
a receiver on the same GPU, so that every element can be checked there. `A18K`
has ten times as many parameters on one rank, in about as many bytes.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from baseline.geometry import TABLE, Geometry, geometry
from delta_sync import Snapshot
from delta_sync.cases import find_compiler

NAMES = (*TABLE, "A1", "A18K")
SNAPSHOTS = tuple(kind.name.lower() for kind in Snapshot)


def case(name: str, *, tiny: bool = False) -> Geometry:
    """The geometry of a name of NAMES; KeyError for another."""
    if name in TABLE:
        return geometry(name, tiny=tiny)
    whole = geometry("A", tiny=tiny)
    if name == "A1":
        label = f"{whole.label}: one rank's shard alone"
        experts = whole.config["num_experts"] // whole.trainer["ep"]
        changed = {"num_experts": experts}
        size = (1875, 5_153_961_984)
    elif name == "A18K":
        label = "Qwen3-30B-A3B with 192 experts of 64 columns, one rank"
        changed = {"num_experts": 192, "moe_intermediate_size": 64}
        size = (18_771, 5_171_263_488)
    else:
        raise KeyError(name)
    return replace(
        whole, name=name, label=label, config={**whole.config, **changed},
        trainer={}, num_parameters=size[0], num_elements=size[1],
    )  # fmt: skip


def plan_name(name: str, snapshot: str, *, tiny: bool = False) -> str:
    return f"{name.lower()}{'-tiny' if tiny else ''}-{snapshot}.so"


def compile_plans(
    names: Sequence[str],
    snapshots: Sequence[str],
    folder: Path,
    options: Sequence[str],
    *,
    tiny: bool = False,
) -> None:
    """Writes model files and plans; `options` go to delta-compile."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        for snapshot in snapshots:
            plan = folder / plan_name(name, snapshot, tiny=tiny)
            model = case(name, tiny=tiny).model
            if snapshot != "device":
                model["sync"] = {"snapshot": snapshot}
            file = plan.with_suffix(".json")
            file.write_text(json.dumps(model, indent=1) + "\n")
            command = [str(find_compiler()), str(file), "-o", str(plan)]
            subprocess.run([*command, *options], check=True, stdout=sys.stderr)
