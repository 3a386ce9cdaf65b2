# ===- geometry.py - Where a rank of an engine stands ---------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Ranks, groups, stages and expert slots as vLLM and SGLang derive them from
their command lines."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Group:
    """Ranks among which a dimension is cut, and the place of one of them."""

    size: int = 1
    rank: int = 0


WHOLE = Group()


@dataclass(frozen=True)
class Geometry:
    """An engine's command line; the names are those of model.json.

    `placement`: "linear", "round_robin", or the logical expert of each
    physical slot: one table, or one a layer.
    """

    engine: str
    tp: int = 1
    ep: int = 1
    pp: int = 1
    dp: int = 1
    attention_dp: int = 1
    placement: str | list = "linear"
    redundant_experts: int = 0
    w13_order: str = "gate_up"
    moe_pad: int = 0
    fuse_shared_experts: bool = False
    pp_layout: list[int] | None = None

    def world(self) -> int:
        return self.tp * self.dp * self.pp

    def stages(self, layers: int) -> list[range]:
        """Layers of each stage."""
        each, rest = divmod(layers, self.pp)
        counts = [each] * self.pp
        for extra in range(rest):
            # vLLM spares the last stage, SGLang begins with it.
            last = self.pp - (2 if self.engine == "vllm" else 1)
            counts[last - extra] += 1
        if self.pp_layout is not None:
            counts = list(self.pp_layout)
        assert len(counts) == self.pp and sum(counts) == layers
        begins = [sum(counts[:stage]) for stage in range(self.pp)]
        return [range(b, b + count) for b, count in zip(begins, counts)]

    def ranks(self, layers: int) -> list[Rank]:
        return [
            Rank(self, number, self.stages(layers))
            for number in range(self.world())
        ]


@dataclass
class Rank:
    """One process: its groups, its layers, its experts."""

    geometry: Geometry
    number: int
    stages: list[range]
    tp: Group = field(init=False)
    attention: Group = field(init=False)
    moe: Group = field(init=False)
    expert: Group = field(init=False)
    stage: int = field(init=False)

    def __post_init__(self) -> None:
        # (pp, dp, tp), tp runs fastest.
        g = self.geometry
        rest, t = divmod(self.number, g.tp)
        self.stage, d = divmod(rest, g.dp)
        self.tp = Group(g.tp, t)
        if g.engine == "vllm":
            self.attention = self.tp
            flat = Group(g.dp * g.tp, d * g.tp + t)
            assert g.ep in (1, flat.size), "all ranks or no expert parallelism"
            self.expert = flat if g.ep > 1 else WHOLE
            self.moe = WHOLE if g.ep > 1 else flat
        else:
            assert g.dp == 1
            heads = g.tp // g.attention_dp
            assert heads * g.attention_dp == g.tp and g.tp % g.ep == 0
            self.attention = Group(heads, t % heads)
            self.moe = Group(g.tp // g.ep, t % (g.tp // g.ep))
            self.expert = Group(g.ep, t // (g.tp // g.ep))

    @property
    def layers(self) -> range:
        return self.stages[self.stage]

    @property
    def first(self) -> bool:
        return self.stage == 0

    @property
    def last(self) -> bool:
        return self.stage == self.geometry.pp - 1

    def experts(self, logical: int, layer: int) -> list[int]:
        """Logical expert of each physical slot of this rank."""
        g, count, p = self.geometry, self.expert.size, self.expert.rank
        if g.placement == "round_robin":
            assert g.redundant_experts == 0
            return list(range(p, logical, count))
        total = logical + g.redundant_experts
        table = [slot % logical for slot in range(total)]
        if isinstance(g.placement, list):
            table = g.placement
            if isinstance(table[0], list):
                table = table[layer]
            total = len(table)
            assert set(table) == set(range(logical))
        each, rest = divmod(total, count)
        assert rest == 0 or g.engine == "vllm", "SGLang cuts evenly"
        begin = p * each + min(p, rest)
        return table[begin : begin + each + (p < rest)]
