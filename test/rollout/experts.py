# ===- experts.py - Stacked experts of a rank -----------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""`w13` and `w2` of the local slots, and how tensors of one expert, or of all
experts, reach them."""

from __future__ import annotations

from dataclasses import dataclass

from .geometry import Group
from .parameters import Layers, Parameter, Tensor, cut

# The slot of an expert that every token visits, behind the routed ones.
SHARED = -1


@dataclass(frozen=True)
class Experts:
    """Sizes of a layer's experts as one rank sees them."""

    path: str
    slots: list[int]
    group: Group
    intermediate: int
    hidden: int
    gated: bool = True
    up_first: bool = False
    pad: int = 0

    @property
    def used(self) -> int:
        size, rest = divmod(self.intermediate, self.group.size)
        assert rest == 0, f"{self.path}: {self.intermediate}, {self.group}"
        return size

    @property
    def local(self) -> int:
        pad = self.pad or 1
        return -(-self.used // pad) * pad

    def of(self, expert: int) -> list[int]:
        """Local slots that hold a logical expert."""
        return [slot for slot, held in enumerate(self.slots) if held == expert]

    def add(self, layers: Layers, suffix: str, block: int = 1) -> None:
        """`suffix` is that of the parameters, and of tensors per expert."""
        halves = 2 if self.gated else 1
        local, hidden = self.local // block, -(-self.hidden // block)
        count = len(self.slots)
        first = layers.add(
            f"{self.path}.w13_{suffix}", (count, halves * local, hidden),
            "fp32" if block > 1 else None)
        second = layers.add(
            f"{self.path}.w2_{suffix}", (count, hidden, local),
            "fp32" if block > 1 else None)
        first.load = lambda tensor, shard: self.load_first(
            first, local, tensor, *shard)
        second.load = lambda tensor, shard: self.load_second(
            second, tensor, *shard)

    def load_first(
        self, to: Parameter, local: int, tensor: Tensor, expert: int | None,
        part: str,
    ) -> None:
        if expert is None:
            for number, each in enumerate(tensor.data):
                self.load_first(to, local, tensor.of(each), number, part)
            return
        if part == "both":
            half = len(tensor.data) // 2
            for name, rows in (("gate", tensor.data[:half]),
                               ("up", tensor.data[half:])):
                self.load_first(to, local, tensor.of(rows), expert, name)
            return
        begin = local if self.gated and (part == "up") != self.up_first else 0
        piece = cut(tensor.data, self.group, 0)
        for slot in self.of(expert):
            to.put((slot, slice(begin, begin + len(piece))), tensor.of(piece))

    def load_second(
        self, to: Parameter, tensor: Tensor, expert: int | None, part: str
    ) -> None:
        assert part == "down"
        if expert is None:
            for number, each in enumerate(tensor.data):
                self.load_second(to, tensor.of(each), number, part)
            return
        piece = cut(tensor.data, self.group, 1)
        for slot in self.of(expert):
            to.put(
                (slot, slice(None), slice(0, piece.shape[1])),
                tensor.of(piece))

    def add_interleaved(
        self, layers: Layers, bias: str, dtype: str | None
    ) -> None:
        """Rows gate 0, up 0, gate 1, ...: the tensor of all experts has them
        as columns and is cut as it stands. All have a bias."""
        assert self.local == self.used and self.gated
        count, local, hidden = len(self.slots), self.local, self.hidden
        first = layers.add(
            f"{self.path}.w13_weight", (count, 2 * local, hidden))
        second = layers.add(f"{self.path}.w2_weight", (count, hidden, local))
        first_bias = layers.add(
            f"{self.path}.w13_{bias}", (count, 2 * local), dtype)
        second_bias = layers.add(
            f"{self.path}.w2_{bias}", (count, hidden), dtype)

        def spread(to: Parameter, tensor: Tensor, dim: int | None) -> None:
            for slot, expert in enumerate(self.slots):
                each = tensor.data[expert]
                each = each.T if each.ndim == 2 else each
                if dim is not None:
                    each = cut(each, self.group, dim)
                to.put((slot,), tensor.of(each))

        first.load = lambda tensor, _: spread(first, tensor, 0)
        second.load = lambda tensor, _: spread(second, tensor, 1)
        first_bias.load = lambda tensor, _: spread(first_bias, tensor, 0)
        # The sum over ranks must have it once.
        if self.group.rank == 0:
            second_bias.load = lambda tensor, _: spread(
                second_bias, tensor, None)
        else:
            second_bias.load = lambda tensor, _: None
