# ===- elements.py - A plan, element by element ---------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Where each trainer element lies in the neutral tensors, as arrays.

Every distinct trainer element gets a *number*: ranks that hold the same shard
share it. Numbers run through *units*, one for each (class, layer, expert, way):

    number = unit's first + row-major place in the unit

A parameter of a rank is one unit, or one for each of its experts where they
are stacked. A class that repeats another shares its units. Needs numpy; for
small models, whose elements fit in memory several times.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from . import _abi
from ._abi import Axis, Dtype, Side, ValueOp
from .plan import ParamInfo, Plan

# In an array of numbers: no element of the trainer.
NOTHING = -1

Unit = tuple[int, int | None, int | None, int]  # class, layer, expert, way


@dataclass(frozen=True)
class Coordinates:
    """Where a rank is on the axes that place parameters."""

    tp: int
    etp: int
    ep: int
    pp: int


@dataclass(frozen=True)
class Tensor:
    """A neutral tensor: the number that belongs in each place, flat and
    row-major, and what happens to the value on its way."""

    name: str
    shape: tuple[int, ...]
    dtype: Dtype
    numbers: np.ndarray
    value_ops: np.ndarray
    repeats: str | None = None
    """The tensor of which it is a second name."""


class ElementMap:
    """The whole of a plan."""

    def __init__(self, plan: Plan) -> None:
        self._tables = plan.tables
        side = self._tables.source
        self.classes = [side.classes[i] for i in range(side.num_classes)]
        self.class_names = [
            side.names[kind.first_name].decode() for kind in self.classes
        ]
        self.parameters = [
            plan.parameters(Side.SOURCE, rank)
            for rank in range(plan.num_ranks(Side.SOURCE))
        ]
        self._first: dict[Unit, int] = {}
        self._units: list[Unit] = []
        self._firsts: list[int] = []
        self.num_numbers = 0
        self._number_units()
        self._boxes = self._boxes_of_classes()
        self.tensors = self._neutral_tensors(plan)

    # --- the trainer's side --------------------------------------------------

    def coordinates(self, rank: int) -> Coordinates:
        side = self._tables.source
        pp, at = divmod(rank, side.tp * side.cp * side.dp)
        return Coordinates(
            tp=at % side.tp,
            etp=at % side.etp,
            ep=at // side.etp % side.ep,
            pp=pp,
        )

    def way(self, class_index: int, rank: int) -> int:
        """Which shard of the class the rank holds."""
        kind, at = self.classes[class_index], self.coordinates(rank)
        side = self._tables.source
        if kind.axis == Axis.TP:
            return at.tp // (side.tp // kind.ways)
        if kind.axis == Axis.ETP:
            return at.etp // (side.etp // kind.ways)
        return 0

    def numbers(self, rank: int, param: int) -> np.ndarray:
        """Of every element of a rank's parameter, flat."""
        info = self.parameters[rank][param]
        parts = [
            np.arange(self._unit_size(unit[0]), dtype=np.int64)
            + self._first[unit]
            for unit in self._units_of(rank, info)
        ]
        return np.concatenate(parts)

    def owner(self, number: int) -> tuple[Unit, int]:
        """The unit of a number and the place in it."""
        row = int(np.searchsorted(self._firsts, number, side="right")) - 1
        return self._units[row], int(number) - self._firsts[row]

    def units(self) -> Iterator[tuple[int, int]]:
        """First number and size of every unit that repeats no other."""
        for unit, first in zip(self._units, self._firsts):
            if self._original(unit) == unit:
                yield first, self._unit_size(unit[0])

    def classes_of(self, numbers: np.ndarray) -> np.ndarray:
        """The class of each number."""
        rows = np.searchsorted(self._firsts, numbers, side="right") - 1
        by_row = np.array([unit[0] for unit in self._units], dtype=np.int64)
        return by_row[rows]

    def holder(self, number: int) -> tuple[int, ParamInfo, int]:
        """The first rank that holds the element: its rank, parameter, and the
        element's place there."""
        unit, place = self.owner(number)
        for rank, parameters in enumerate(self.parameters):
            for info in parameters:
                if info.class_index != unit[0]:
                    continue
                units = list(self._units_of(rank, info))
                if unit in units:
                    size = self._unit_size(unit[0])
                    return rank, info, units.index(unit) * size + place
        raise LookupError(f"no rank holds element {number}")

    def _number_units(self) -> None:
        for rank, parameters in enumerate(self.parameters):
            for info in parameters:
                for unit in self._units_of(rank, info):
                    self._number_unit(unit)
        # Copies share the numbers of what they repeat.
        for unit in list(self._first):
            self._first[unit] = self._first[self._original(unit)]

    def _number_unit(self, unit: Unit) -> None:
        if unit in self._first:
            return
        self._first[unit] = self.num_numbers
        self._units.append(unit)
        self._firsts.append(self.num_numbers)
        self.num_numbers += self._unit_size(unit[0])

    def _original(self, unit: Unit) -> Unit:
        while (copied := self.classes[unit[0]].copy_of) != _abi.NONE:
            unit = (copied, *unit[1:])
        return unit

    def _unit_size(self, class_index: int) -> int:
        kind = self.classes[class_index]
        if kind.expert_stride:
            return kind.expert_stride
        return int(np.prod(kind.shape[: kind.rank], dtype=np.int64))

    def _units_of(self, rank: int, info: ParamInfo) -> Iterator[Unit]:
        kind, way = info.class_index, self.way(info.class_index, rank)
        if not self.classes[kind].expert_stride:
            yield kind, info.layer, info.expert, way
            return
        # Rows of the table are in the order of local numbers on each rank.
        for expert in range(self.classes[kind].num_experts):
            if (
                self._tables.source.experts[expert].ep
                == self.coordinates(rank).ep
            ):
                yield kind, info.layer, expert, way

    # --- the neutral side ----------------------------------------------------

    def _boxes_of_classes(self) -> dict[tuple[int, int], list[int]]:
        """Rows of the box table by class and way."""
        boxes: dict[tuple[int, int], list[int]] = {}
        for row in range(self._tables.num_boxes):
            box = self._tables.boxes[row]
            key = (box.source_class, box.source_way)
            boxes.setdefault(key, []).append(row)
        return boxes

    def _neutral_tensors(self, plan: Plan) -> dict[str, Tensor]:
        infos = plan.parameters(Side.HF, 0)
        self._rows = {
            (info.class_index, info.layer, info.expert): row
            for row, info in enumerate(infos)
        }
        numbers = [
            np.full(info.num_elements, NOTHING, dtype=np.int64)
            for info in infos
        ]
        ops = [np.zeros(info.num_elements, dtype=np.uint8) for info in infos]
        for unit in self._units:
            for row in self._boxes.get((unit[0], unit[3]), []):
                self._write_box(unit, self._tables.boxes[row], numbers, ops)
        self._write_copies(infos, numbers, ops)
        return {
            info.name: Tensor(
                info.name, info.shape, info.dtype, numbers[row], ops[row],
                self._original_name(infos, info),
            )  # fmt: skip
            for row, info in enumerate(infos)
        }

    def _original_name(
        self, infos: list[ParamInfo], info: ParamInfo
    ) -> str | None:
        copied = self._tables.hf.classes[info.class_index].copy_of
        if copied == _abi.NONE:
            return None
        return infos[self._rows[copied, info.layer, info.expert]].name

    def _write_box(
        self,
        unit: Unit,
        box: _abi.delta_box_t,
        numbers: list[np.ndarray],
        ops: list[np.ndarray],
    ) -> None:
        """Writes the numbers of a box of one unit in their places."""
        image = self._tables.images[box.hf_image]
        row, begin = self._neutral_row(image.class_index, unit)
        loops = range(box.num_loops)
        source = strided(
            box.source_offset, [box.extent[i] for i in loops],
            [box.source_stride[i] for i in loops],
        )  # fmt: skip
        target = strided(
            begin + image.offset, [box.extent[i] for i in loops],
            [image.stride[i] for i in loops],
        )  # fmt: skip
        taken = numbers[row][target] != NOTHING
        if taken.any():
            raise ValueError(
                f"two elements go to element {target[taken][0]} of tensor "
                f"{row} of the plan"
            )
        numbers[row][target] = self._first[unit] + source
        ops[row][target] = image.value_op

    def _neutral_row(self, class_index: int, unit: Unit) -> tuple[int, int]:
        """The tensor of a class that takes a unit, and where the slice of its
        expert begins in it."""
        side = self._tables.hf
        kind = side.classes[class_index]
        _, layer, expert, _ = unit
        if kind.layer_kind == _abi.NONE:
            layer = None
        begin = 0
        if kind.expert_stride and expert is not None:
            begin = side.experts[expert].local * kind.expert_stride
        if kind.num_experts == 0 or kind.expert_stride:
            expert = None
        return self._rows[class_index, layer, expert], begin

    def _write_copies(
        self,
        infos: list[ParamInfo],
        numbers: list[np.ndarray],
        ops: list[np.ndarray],
    ) -> None:
        """Tensors that repeat another one."""
        for row, info in enumerate(infos):
            copied = self._tables.hf.classes[info.class_index].copy_of
            if copied != _abi.NONE:
                original = self._rows[copied, info.layer, info.expert]
                numbers[row] = numbers[original]
                ops[row] = ops[original]


def strided(offset: int, extents: list[int], strides: list[int]) -> np.ndarray:
    """All places of a box, outermost loop first, flat."""
    places = np.array([offset], dtype=np.int64)
    for extent, stride in zip(extents, strides):
        steps = np.arange(extent, dtype=np.int64) * stride
        places = (places[:, None] + steps).reshape(-1)
    return places


def spot_check(plan: Plan, elements: ElementMap, count: int, seed: int) -> int:
    """Asks the plan itself for the places of random elements; returns how many
    were asked, and fails with ValueError where it answers otherwise."""
    random = np.random.default_rng(seed)
    neutral = plan.parameters(Side.HF, 0)
    asked = 0
    for rank in range(len(elements.parameters)):
        tiles = list(plan.tiles(rank))
        if not tiles:
            continue
        for tile in random.integers(len(tiles), size=count):
            offset = int(random.integers(tiles[tile].num_elements))
            source, target = plan.element(rank, int(tile), offset)
            number = elements.numbers(source.rank, source.param)[source.element]
            tensor = elements.tensors[neutral[target.param].name]
            found = tensor.numbers[target.element]
            op = ValueOp(tensor.value_ops[target.element])
            if (found, op) != (number, target.value_op):
                raise ValueError(
                    f"rank {rank}, tile {tile}, element {offset}: the plan "
                    f"says {target}, its tables say number {found}, {op.name}"
                )
            asked += 1
    return asked
