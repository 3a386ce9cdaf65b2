# ===- plan.py - A compiled plan, opened ----------------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Opens the shared object of a plan and answers what it says of both sides."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from . import _abi
from ._abi import Dtype, Side, Status, ValueOp


class DeltaError(Exception):
    """A status that is not OK, and what was wrong."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True)
class ParamInfo:
    """A parameter of a rank; a tensor on the neutral side. `layer` and
    `expert` are rows of the plan's tables, None where there is none."""

    names: tuple[str, ...]
    chunk: int
    dtype: Dtype
    shape: tuple[int, ...]
    num_elements: int
    class_index: int
    layer: int | None
    expert: int | None
    is_copy: bool

    @property
    def name(self) -> str:
        """The usual name."""
        return self.names[0]


@dataclass(frozen=True)
class Place:
    """One element: a rank, its parameter's number, and the row-major number of
    the element in it. `value_op` happens on the way there."""

    rank: int
    param: int
    element: int
    value_op: ValueOp


class Plan:
    """An open plan.

        with Plan.open("plan.so") as plan:
            print(plan.model, plan.num_ranks(Side.SOURCE))

    Nothing is loaded before `open`. Not to be shared among threads.
    """

    def __init__(self, path: Path, api: _abi.delta_plan_api_t) -> None:
        self.path = path
        self._api = api
        self._index: ctypes.c_void_p | None = None
        self._closed = False

    @classmethod
    def open(cls, path: str | Path) -> "Plan":
        """Loads the plan; fails with REFUSED where it is none, or one of
        another version."""
        path = Path(path).resolve()
        name, result, arguments, _ = _abi.QUERY
        try:
            query = getattr(ctypes.CDLL(str(path)), name)
        except (OSError, AttributeError) as error:
            raise DeltaError(
                Status.REFUSED, f"{path}: not a plan: {error}"
            ) from error
        query.restype, query.argtypes = result, list(arguments)
        found = query(_abi.ABI_VERSION)
        if not found:
            raise DeltaError(
                Status.REFUSED,
                f"{path}: offers no version up to {_abi.ABI_VERSION}, which is "
                "required",
            )
        return cls(path, found.contents)

    def __enter__(self) -> "Plan":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frees what was made for questions; the plan answers no more."""
        if self._index is not None:
            self._api.index_destroy(self._index)
        self._index = None
        self._closed = True

    @property
    def model(self) -> str:
        """Family and geometry, for people."""
        return self._api.name.decode()

    @property
    def fingerprint(self) -> tuple[int, int]:
        """Identity of compiler, model and geometry."""
        first, second = self._api.fingerprint
        return first, second

    @property
    def tables(self) -> _abi.delta_tables_t:
        """The plan as data; borrowed, constant."""
        self._check_open()
        return self._api.tables.contents

    def num_ranks(self, side: Side) -> int:
        """Ranks of a side, replicas included."""
        self._check_open()
        return self._api.num_ranks(side)

    def parameters(self, side: Side, rank: int) -> list[ParamInfo]:
        """The parameters of a rank, in the order in which they are numbered."""
        self._check_rank(side, rank)
        index = self._expanded()
        return [
            self._parameter(index, side, rank, number)
            for number in range(self._api.param_count(index, side, rank))
        ]

    def tiles(self, rank: int) -> Iterator[_abi.delta_tile_info_t]:
        """The tiles that a source rank compares and sends."""
        self._check_rank(Side.SOURCE, rank)
        index = self._expanded()
        for tile in range(self._api.tile_count(index, rank)):
            info = _abi.delta_tile_info_t()
            self._check(
                self._api.tile_info(index, rank, tile, ctypes.byref(info)),
                f"tile_info(rank {rank}, tile {tile})",
            )
            yield info

    def element(self, rank: int, tile: int, offset: int) -> tuple[Place, Place]:
        """Source and neutral place of one element of a tile."""
        self._check_rank(Side.SOURCE, rank)
        source, neutral = _abi.delta_place_t(), _abi.delta_place_t()
        count = ctypes.c_uint32()
        status = self._api.tile_element(
            self._expanded(), rank, tile, offset, ctypes.byref(source),
            ctypes.byref(neutral), None, 0, ctypes.byref(count),
        )  # fmt: skip
        self._check(
            status, f"tile_element(rank {rank}, tile {tile}, offset {offset})"
        )
        return place(source), place(neutral)

    def _parameter(
        self, index: ctypes.c_void_p, side: Side, rank: int, number: int
    ) -> ParamInfo:
        info = _abi.delta_param_info_t()
        status = self._api.param_info(
            index, side, rank, number, ctypes.byref(info)
        )
        self._check(status, f"param_info({side.name}, {rank}, {number})")
        return ParamInfo(
            names=tuple(info.name.decode().split("\n")),
            chunk=info.chunk,
            dtype=Dtype(info.dtype),
            shape=tuple(info.shape[: info.rank]),
            num_elements=info.num_elements,
            class_index=info.class_index,
            layer=row(info.layer),
            expert=row(info.expert),
            is_copy=bool(info.is_copy),
        )

    def _expanded(self) -> ctypes.c_void_p:
        """The index, made by the first question for it."""
        self._check_open()
        if self._index is None:
            index = ctypes.c_void_p()
            text = ctypes.create_string_buffer(1024)
            error = _abi.delta_error_t(
                ctypes.cast(text, ctypes.c_void_p), len(text)
            )
            status = self._api.index_create(ctypes.byref(index), error)
            self._check(status, text.value.decode() or "index_create")
            self._index = index
        return self._index

    def _check_open(self) -> None:
        if self._closed:
            raise DeltaError(
                Status.INVALID_ARGUMENT, f"{self.path}: the plan is closed"
            )

    def _check_rank(self, side: Side, rank: int) -> None:
        ranks = self.num_ranks(side)
        if not 0 <= rank < ranks:
            raise DeltaError(
                Status.INVALID_ARGUMENT,
                f"{self.path}: rank {rank} of {side.name.lower()}, which has "
                f"{ranks}",
            )

    def _check(self, status: int, text: str) -> None:
        if status != Status.OK:
            raise DeltaError(Status(status), f"{self.path}: {text}")


def row(number: int) -> int | None:
    """A row of a table, or None."""
    return None if number == _abi.NONE else number


def place(found: _abi.delta_place_t) -> Place:
    return Place(
        found.rank, found.param, found.element, ValueOp(found.value_op)
    )
