# ===- check.py - Compare an engine's memory with the plain loader's ------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What delta-run leaves in the memory of an engine's ranks, against the loader
fed with the checkpoint that the same trainer exports."""

from __future__ import annotations

import json
import struct
from math import prod
from pathlib import Path

import numpy as np

from .geometry import Geometry
from .parameters import STORES, Parameter, Tensor

DTYPES = {"BF16": "bf16", "F16": "fp16", "F32": "fp32"}


def read_tensors(path: Path) -> dict[str, Tensor]:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        dtype = DTYPES[entry["dtype"]]
        begin = 8 + length + entry["data_offsets"][0]
        bits = np.frombuffer(
            data, STORES[dtype], prod(entry["shape"]), begin)
        tensors[name] = Tensor(bits.reshape(entry["shape"]), dtype)
    return tensors


def geometry_of(rollout: dict) -> Geometry:
    """Of the keys of model.json."""
    placement = rollout.get("expert_placement", "linear")
    if isinstance(placement, dict):
        placement = placement["physical_to_logical"]
    same = ("engine", "tp", "ep", "pp", "dp", "attention_dp", "w13_order",
            "redundant_experts", "moe_pad", "fuse_shared_experts", "pp_layout")
    return Geometry(
        placement=placement,
        **{key: rollout[key] for key in same if key in rollout})


def differences(
    expected: list[dict[str, Parameter]], held: list[dict[str, Tensor]],
    before: list[dict[str, Tensor]] | None = None,
) -> tuple[int, list[str]]:
    """Elements compared, and what differs. An element that no tensor fills
    must have kept its value from `before`. Ranks of further replicas follow
    those of the first."""
    compared, wrong = 0, []
    for rank, memory in enumerate(held):
        parameters = expected[rank % len(expected)]
        for name in memory.keys() - parameters.keys():
            wrong.append(f"rank {rank}: the engine has no {name}")
        for name, parameter in parameters.items():
            where = f"rank {rank}: {name}"
            if name not in memory:
                if parameter.filled.any():
                    wrong.append(f"{where}: missing")
                continue
            got = memory[name]
            if (got.shape, got.dtype) != (
                parameter.data.shape, parameter.dtype
            ):
                wrong.append(
                    f"{where}: {got.dtype} {got.shape}, the loader has "
                    f"{parameter.dtype} {parameter.data.shape}")
                continue
            compared += got.data.size
            bad = parameter.filled & (got.data != parameter.data)
            start = parameter.data
            if before is not None:
                start = before[rank][name].data
                bad |= ~parameter.filled & (got.data != start)
            if bad.any():
                at = tuple(int(i) for i in np.argwhere(bad)[0])
                value = parameter.data if parameter.filled[at] else start
                wrong.append(
                    f"{where}: {int(bad.sum())} of {bad.size} differ, first "
                    f"{list(at)}: {int(got.data[at]):#x}, not "
                    f"{int(value[at]):#x}")
    return compared, wrong
