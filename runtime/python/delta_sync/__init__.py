# ===- __init__.py - Plans from Python ------------------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Opens plans that delta-compile made. Nothing is loaded at import."""

from ._abi import Dtype, Side, Snapshot, Status, Target, ValueOp
from .error import DeltaError
from .plan import ParamInfo, Place, Plan
from .receiver import Mismatches, Receiver, Refresh
from .sender import ReplicaSum, Sender, SyncStats
from .transport import DeviceBytes, Inproc, Transport

__all__ = [
    "DeltaError",
    "DeviceBytes",
    "Dtype",
    "Inproc",
    "Mismatches",
    "ParamInfo",
    "Place",
    "Plan",
    "Receiver",
    "Refresh",
    "ReplicaSum",
    "Sender",
    "Side",
    "Snapshot",
    "Status",
    "SyncStats",
    "Target",
    "Transport",
    "ValueOp",
]
