# ===- __init__.py - Plans from Python ------------------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Opens plans that delta-compile made. Nothing is loaded at import."""

from ._abi import Dtype, Side, Status, ValueOp
from .plan import DeltaError, ParamInfo, Place, Plan

__all__ = [
    "DeltaError",
    "Dtype",
    "ParamInfo",
    "Place",
    "Plan",
    "Side",
    "Status",
    "ValueOp",
]
