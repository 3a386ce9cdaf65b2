# ===- compare.py - A plan against what a converter did -------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Compares a plan with an export whose elements tell where they come from.

In the first pass each element of each rank holds a number of its own, its
*tag*, twice: the value 2 * tag survives every move, and a value operation that
adds one shows as the last bit. In the second pass everything is NaN but for a
few elements, and what survives is compared. Nothing here knows a package:
exports are names, shapes and arrays.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ._abi import NONE, ValueOp
from .elements import NOTHING, ElementMap, Tensor
from .plan import ParamInfo
from .report import ClassReport, Difference, Exported, Held, Report

# In an array of numbers: a value that is no tag.
FOREIGN = -2


def position(flat: int, shape: Sequence[int]) -> list[int]:
    """The indices of a row-major place."""
    return [int(i) for i in np.unravel_index(int(flat), tuple(shape))]


def without_numbers(name: str) -> str:
    """A name or a template of names with every number taken out."""
    return re.sub(r"\{[^}]*\}|\d+", "#", name)


class Comparison:
    """A plan and a real trainer. Call `tags` with the first export, then
    `survivors` with the second, and read `report`."""

    def __init__(self, plan: ElementMap, held: Sequence[Held]) -> None:
        self._plan = plan
        self.report = Report([ClassReport(name) for name in plan.class_names])
        self._total = sum(parameter.size for parameter in held)
        # The number of each tag.
        self._numbers = np.full(self._total, FOREIGN, dtype=np.int64)
        self._match_parameters(held)
        self._places()

    # --- the trainer's side --------------------------------------------------

    def _match_parameters(self, held: Sequence[Held]) -> None:
        """Names, shapes and types of every rank, both ways."""
        left = {(h.rank, h.chunk, h.name): h for h in held}
        for rank, parameters in enumerate(self._plan.parameters):
            for number, info in enumerate(parameters):
                keys = [(rank, info.chunk, name) for name in info.names]
                found = [left.pop(key) for key in keys if key in left]
                self.report.classes[info.class_index].parameters += 1
                if len(found) != 1:
                    names = ", ".join(h.name for h in found)
                    self._parameter_differs(
                        rank, info, names or "no such parameter",
                        f"one of {' | '.join(info.names)}",
                    )  # fmt: skip
                    continue
                self._match_parameter(rank, number, found[0])
        for parameter in left.values():
            self.report.mismatches += 1
            self.report.others.append(
                Difference(
                    parameter.rank,
                    f"chunk {parameter.chunk}, {parameter.name}",
                    None,
                    f"{parameter.dtype} {list(parameter.shape)}",
                    "no such parameter",
                )  # fmt: skip
            )

    def _match_parameter(self, rank: int, number: int, held: Held) -> None:
        info = self._plan.parameters[rank][number]
        found = f"{held.dtype} {list(held.shape)}"
        expected = f"{info.dtype.name.lower()} {list(info.shape)}"
        if found != expected:
            self._parameter_differs(rank, info, found, expected)
        if held.shape == info.shape:
            tags = slice(held.first_tag, held.first_tag + held.size)
            self._numbers[tags] = self._plan.numbers(rank, number)

    def _parameter_differs(
        self, rank: int, info: ParamInfo, found: str, expected: str
    ) -> None:
        name = f"chunk {info.chunk}, {info.name}"
        self._differs(
            info.class_index,
            Difference(rank, name, None, found, expected),
            number=-1,
        )
        self.report.mismatches += 1

    # --- the tags ------------------------------------------------------------

    def tags(
        self, export: Sequence[Exported], unmapped: Sequence[str] = ()
    ) -> None:
        """Compares every element of every tensor, as each rank got it."""
        self._export = {tensor.name: tensor for tensor in export}
        self._found = {
            tensor.name: self._numbers_of(tensor) for tensor in export
        }
        self._real_places()
        for name, tensor in self._plan.tensors.items():
            if name in self._found:
                self._compare_tensor(tensor)
            else:
                self._missing(tensor, unmapped)
        for name in self._found:
            if name not in self._plan.tensors:
                self._extra(name)
        self._say_what_is_not_covered(unmapped)

    def _numbers_of(self, tensor: Exported) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and value operations, a row for each rank."""
        values = np.stack([v.reshape(-1) for v in tensor.values])
        whole = np.nan_to_num(values, nan=-1.0, posinf=-1.0, neginf=-1.0)
        tags = np.floor(whole / 2).astype(np.int64)
        ours = (whole == np.floor(whole)) & (tags >= 0) & (tags < self._total)
        numbers = np.full(values.shape, FOREIGN, dtype=np.int64)
        numbers[ours] = self._numbers[tags[ours]]
        return numbers, (whole.astype(np.int64) & 1).astype(np.uint8)

    def _places(self) -> None:
        """The tensor and the element in which the plan puts each number."""
        self._names = list(self._plan.tensors)
        count = self._plan.num_numbers
        self._plan_place = np.full((2, count), NOTHING, dtype=np.int64)
        for row in reversed(range(len(self._names))):
            numbers = self._plan.tensors[self._names[row]].numbers
            valid = np.flatnonzero(numbers >= 0)
            self._plan_place[0, numbers[valid]] = row
            self._plan_place[1, numbers[valid]] = valid

    def _real_places(self) -> None:
        """The same, of the converter."""
        self._real_names = list(self._found)
        count = self._plan.num_numbers
        self._real_place = np.full((2, count), NOTHING, dtype=np.int64)
        for row in reversed(range(len(self._real_names))):
            numbers = self._found[self._real_names[row]][0][0]
            valid = np.flatnonzero(numbers >= 0)
            self._real_place[0, numbers[valid]] = row
            self._real_place[1, numbers[valid]] = valid

    def _compare_tensor(self, tensor: Tensor) -> None:
        report, real = self.report, self._export[tensor.name]
        report.tensors += 1
        padded = (
            len(real.shape) == len(tensor.shape) > 0
            and real.shape[1:] == tensor.shape[1:]
            and real.shape[0] > tensor.shape[0]
        )
        if real.shape != tensor.shape and not padded:
            self._tensor_differs(
                tensor, f"{tensor.name} {list(real.shape)}",
                f"{tensor.name} {list(tensor.shape)}",
            )  # fmt: skip
            return
        numbers, ops = self._found[tensor.name]
        size = tensor.numbers.size
        report.elements += size
        self._count_elements(tensor)
        wrong = (numbers[:, :size] != tensor.numbers) | (
            ops[:, :size] != tensor.value_ops
        )
        places = np.flatnonzero(wrong.any(axis=0))
        if places.size:
            self._elements_differ(tensor, places, wrong)
        if padded:
            self._compare_padding(tensor, numbers[:, size:])

    def _count_elements(self, tensor: Tensor) -> None:
        valid = tensor.numbers[tensor.numbers >= 0]
        for index, count in zip(
            *np.unique(self._plan.classes_of(valid), return_counts=True)
        ):
            self.report.classes[index].elements += int(count)

    def _elements_differ(
        self, tensor: Tensor, places: np.ndarray, wrong: np.ndarray
    ) -> None:
        """Each place concerns the class that is found there and the class that
        belongs there."""
        self.report.mismatches += int(places.size)
        readers = wrong[:, places].argmax(axis=0)
        numbers, ops = self._found[tensor.name]
        there, wanted = numbers[readers, places], tensor.numbers[places]
        seen = self._class_or_nothing(there)
        due = self._class_or_nothing(wanted)
        for index, row, count in lowest_by_class(seen, there):
            spot = self._spot(tensor, places[row])
            expected = self._spot_in(self._plan_place, self._names, there[row])
            if there[row] == wanted[row]:
                op = ops[readers[row], places[row]]
                spot += f" with value op {ValueOp(op).name}"
                op = tensor.value_ops[places[row]]
                expected += f" with value op {ValueOp(op).name}"
            if readers[row]:
                spot += f" on rank {readers[row]}"
            self._number_differs(index, there[row], spot, expected, count)
        due[due == seen] = NOTHING
        for index, row, count in lowest_by_class(due, wanted):
            found = self._spot_in(
                self._real_place, self._real_names, wanted[row]
            )
            spot = self._spot(tensor, places[row])
            self._number_differs(index, wanted[row], found, spot, count)
        stray = np.flatnonzero((seen < 0) & (due < 0) & (wanted < 0))
        if stray.size:
            spot = self._spot(tensor, places[stray[0]])
            self.report.others.append(
                Difference(None, spot, None, "a value of its own", "nothing")
            )

    def _number_differs(
        self, index: int, number: int, found: str, expected: str, count: int
    ) -> None:
        rank, info, place = self._plan.holder(int(number))
        difference = Difference(
            rank, f"chunk {info.chunk}, {info.name}",
            position(place, info.shape), found, expected,
        )  # fmt: skip
        self._differs(index, difference, int(number), count)

    def _class_or_nothing(self, numbers: np.ndarray) -> np.ndarray:
        classes = np.full(numbers.shape, NOTHING, dtype=np.int64)
        valid = numbers >= 0
        classes[valid] = self._plan.classes_of(numbers[valid])
        return classes

    def _spot(self, tensor: Tensor | Exported, place: int) -> str:
        return f"{tensor.name}{position(place, tensor.shape)}"

    def _spot_in(
        self, places: np.ndarray, names: Sequence[str], number: int
    ) -> str:
        row, place = places[:, number]
        if row == NOTHING:
            return "nowhere"
        plan = places is self._plan_place
        tensors = self._plan.tensors if plan else self._export
        return self._spot(tensors[names[row]], place)

    def _differs(
        self, index: int, difference: Difference, number: int, count: int = 1
    ) -> None:
        """Keeps the first one of a class, by the trainer's order."""
        entry = self.report.classes[index]
        entry.mismatches += count
        if entry.first_number is None or number < entry.first_number:
            entry.first, entry.first_number = difference, number

    # --- tensors as a whole --------------------------------------------------

    def _compare_padding(self, tensor: Tensor, surplus: np.ndarray) -> None:
        """Rows beyond the tensor's are those of the trainer's padded one: the
        elements of its class without a place, in order."""
        index = int(self._plan.classes_of(tensor.numbers[:1])[0])
        unplaced = np.flatnonzero(self._plan_place[0] == NOTHING)
        unplaced = unplaced[self._plan.classes_of(unplaced) == index]
        if surplus.shape[1] == unplaced.size and (surplus == unplaced).all():
            self.report.bridge_padding += unplaced.size
            return
        self._tensor_differs(
            tensor, f"{surplus.shape[1]} further elements that are not the "
            f"padding in order",
            f"the {unplaced.size} elements of padding",
        )  # fmt: skip

    def _missing(self, tensor: Tensor, unmapped: Sequence[str]) -> None:
        """A tensor that the converter does not make. Not its fault, nor the
        plan's, where it says that it has no rule for the parameter, or where
        the tensor is a second name of one that it makes."""
        if tensor.repeats in self._export:
            self.report.copies.append(
                f"{tensor.name} repeats {tensor.repeats} in the plan alone"
            )
            return
        numbers = tensor.numbers[tensor.numbers >= 0]
        patterns = set(map(without_numbers, unmapped))
        names = {
            without_numbers(self.report.classes[index].name)
            for index in np.unique(self._plan.classes_of(numbers))
        }
        if not names <= patterns:
            self._tensor_differs(tensor, "no such tensor", tensor.name)

    def _tensor_differs(
        self, tensor: Tensor, found: str, expected: str
    ) -> None:
        """One mismatch, of every class that has elements there."""
        self.report.mismatches += 1
        valid = tensor.numbers[tensor.numbers >= 0]
        classes = self._class_or_nothing(valid)
        for index, row, _ in lowest_by_class(classes, valid):
            self._number_differs(index, valid[row], found, expected, 1)

    def _extra(self, name: str) -> None:
        """A tensor that the plan does not make: a copy of another one, or a
        mismatch."""
        for other in self._plan.tensors:
            if other in self._export and all(
                np.array_equal(a.reshape(-1), b.reshape(-1))
                for a, b in zip(
                    self._export[name].values, self._export[other].values
                )
            ):
                self.report.copies.append(f"{name} repeats {other}")
                return
        self.report.mismatches += 1
        numbers = self._found[name][0][0]
        classes = self._class_or_nothing(numbers)
        for index, row, _ in lowest_by_class(classes, numbers):
            place = self._spot_in(self._plan_place, self._names, numbers[row])
            spot = self._spot(self._export[name], row)
            self._number_differs(index, numbers[row], spot, place, 1)
        if (classes < 0).all():
            shape = list(self._export[name].shape)
            self.report.others.append(
                Difference(None, name, None, f"tensor {shape}", "no such one")
            )

    def _say_what_is_not_covered(self, unmapped: Sequence[str]) -> None:
        patterns = set(map(without_numbers, unmapped))
        for entry, kind in zip(self.report.classes, self._plan.classes):
            if entry.elements or entry.mismatches:
                continue
            if kind.copy_of != NONE:
                copied = self._plan.class_names[kind.copy_of]
                entry.reason = f"repeats {copied}, which is read instead"
            elif without_numbers(entry.name) in patterns:
                entry.reason = "the converter has no rule for it"
            else:
                entry.reason = "neither the plan nor the converter moves it"

    # --- what survives -------------------------------------------------------

    def choose(self, per_unit: int, seed: int) -> dict[int, float]:
        """A few elements of each unit that have a place, and values for them:
        whole numbers that every type holds exactly, and plus one too."""
        random = np.random.default_rng(seed)
        chosen: dict[int, float] = {}
        for first, size in self._plan.units():
            placed = first + np.flatnonzero(
                self._plan_place[0, first : first + size] != NOTHING
            )
            count = min(per_unit, placed.size)
            for number in random.choice(placed, size=count, replace=False):
                chosen[int(number)] = float(random.integers(1, 255))
        return chosen

    def fill(self, held: Held, chosen: Mapping[int, float]) -> np.ndarray:
        """The contents of a parameter: NaN but for what is chosen."""
        numbers = self._numbers[held.first_tag : held.first_tag + held.size]
        table = np.full(self._plan.num_numbers + 1, np.nan)
        table[list(chosen)] = list(chosen.values())
        return table[np.where(numbers >= 0, numbers, -1)]

    def survivors(
        self, export: Sequence[Exported], chosen: Mapping[int, float]
    ) -> None:
        """Compares what is not NaN: its places, values and types."""
        table = np.full(self._plan.num_numbers + 1, np.nan)
        table[list(chosen)] = list(chosen.values())
        for real in export:
            tensor = self._plan.tensors.get(real.name)
            if tensor is None or self._found[real.name][0].shape[1] < (
                tensor.numbers.size
            ):
                continue  # reported by the first pass
            wanted = table[np.where(tensor.numbers >= 0, tensor.numbers, -1)]
            wanted = wanted + tensor.value_ops
            self._compare_survivors(tensor, real, wanted)

    def _compare_survivors(
        self, tensor: Tensor, real: Exported, wanted: np.ndarray
    ) -> None:
        dtype = tensor.dtype.name.lower()
        if real.dtype != dtype:
            self._tensor_differs(
                tensor, f"{tensor.name} of {real.dtype}",
                f"{tensor.name} of {dtype}",
            )  # fmt: skip
        self.report.survivors += int(np.count_nonzero(~np.isnan(wanted)))
        for rank, values in enumerate(real.values):
            values = values.reshape(-1)
            if real.dtype == "int64":
                # There is no such NaN; no value that is chosen is 0.
                values = np.where(values == 0, np.nan, values)
            same = np.isclose(values[: wanted.size], wanted, 0, 0, True)
            places = np.flatnonzero(~same)
            if not places.size and np.isnan(values[wanted.size :]).all():
                continue
            place = places[0] if places.size else wanted.size
            found = values[place]
            due = wanted[place] if place < wanted.size else np.nan
            self._survivor_differs(tensor, real, int(place), rank, found, due)
            return

    def _survivor_differs(
        self, tensor: Tensor, real: Exported, place: int, rank: int,
        found: float, due: float,
    ) -> None:  # fmt: skip
        self.report.mismatches += 1
        number = tensor.numbers[min(place, tensor.numbers.size - 1)]
        spot = f"{self._spot(real, place)} on rank {rank}"
        difference = Difference(
            rank, spot, None, str(found), str(due), in_pass="survivors"
        )
        if number >= 0:
            index = int(self._plan.classes_of(np.array([number]))[0])
            self._differs(index, difference, int(number))
        else:
            self.report.others.append(difference)


def lowest_by_class(
    classes: np.ndarray, numbers: np.ndarray
) -> Iterator[tuple[int, int, int]]:
    """Each class with the row of its lowest number and its count of rows."""
    for index in np.unique(classes[classes >= 0]):
        rows = np.flatnonzero(classes == index)
        yield int(index), int(rows[numbers[rows].argmin()]), int(rows.size)
