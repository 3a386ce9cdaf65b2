# ===- report.py - What a comparison takes and finds ----------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The trainer and the export that are compared, and the findings."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

AGREES, DIFFERS, NOT_COVERED = "agrees", "differs", "not covered"


@dataclass(frozen=True)
class Held:
    """A parameter that a rank of the real trainer has, and its first tag."""

    rank: int
    chunk: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    first_tag: int

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True)
class Exported:
    """One tensor of the export as every rank got it, flat, by rank."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    values: Sequence[np.ndarray]


@dataclass(frozen=True)
class Difference:
    """One element, or a whole parameter or tensor where `element` is None."""

    rank: int | None
    parameter: str
    element: list[int] | None
    found: str
    expected: str
    in_pass: str = "tags"

    def __str__(self) -> str:
        rank = "" if self.rank is None else f"rank {self.rank}, "
        at = "" if self.element is None else str(self.element)
        return (
            f"{rank}{self.parameter}{at}: found {self.found}, "
            f"expected {self.expected}"
        )


@dataclass
class ClassReport:
    """What is known of one class of the trainer's parameters."""

    name: str
    parameters: int = 0
    elements: int = 0
    mismatches: int = 0
    first: Difference | None = None
    first_number: int | None = None
    reason: str = ""

    @property
    def status(self) -> str:
        if self.mismatches:
            return DIFFERS
        return NOT_COVERED if self.reason else AGREES


@dataclass
class Report:
    """The whole comparison."""

    classes: list[ClassReport]
    tensors: int = 0
    elements: int = 0
    mismatches: int = 0
    bridge_padding: int = 0
    survivors: int = 0
    copies: list[str] = field(default_factory=list)
    # What belongs to no class: parameters and tensors that the plan lacks.
    others: list[Difference] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """An empty comparison is a failure."""
        return self.mismatches == 0 and self.elements > 0

    @property
    def first(self) -> Difference | None:
        firsts = [c.first for c in self.classes if c.first is not None]
        return next(iter([*firsts, *self.others]), None)

    def json(self) -> dict[str, Any]:
        """As delta-check writes it, with the classes."""
        return {
            "tensors": self.tensors,
            "elements": self.elements,
            "mismatches": self.mismatches,
            "bridge_padding": self.bridge_padding,
            "survivors": self.survivors,
            "copies": self.copies,
            "first": None if self.first is None else vars(self.first),
            "others": [vars(other) for other in self.others],
            "classes": [
                {
                    "name": c.name,
                    "status": c.status,
                    "parameters": c.parameters,
                    "elements": c.elements,
                    "mismatches": c.mismatches,
                    "first": None if c.first is None else vars(c.first),
                    "reason": c.reason,
                }
                for c in self.classes
            ],
        }
