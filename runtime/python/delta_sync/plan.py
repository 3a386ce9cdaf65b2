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
from ._abi import Dtype, Side, Snapshot, Status, Target, ValueOp
from .error import Caller, DeltaError
from .handle import Stream
from .receiver import Receiver
from .sender import Sender, row
from .tensors import Params
from .transport import Inproc, Transport


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
    stride: tuple[int, ...] = ()
    """Of memory, in elements."""

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

    Nothing is loaded before `open`. Not to be shared among threads, but the
    senders, receivers and mailboxes that it makes may each have one.
    """

    def __init__(self, path: Path, api: _abi.delta_plan_api_t) -> None:
        self.path = path
        self._api = api
        self._known: dict[tuple[Side, int], list[ParamInfo]] = {}
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
    def api(self) -> _abi.delta_plan_api_t:
        """The functions of the plan, for ctypes."""
        self._check_open()
        return self._api

    def offers(self, function: str) -> bool:
        """Whether the plan has a function of delta_abi.h: one of an earlier
        compiler has less."""
        return Caller(self.api).offers(function)

    @property
    def target(self) -> Target:
        """What it runs on, whether that is here or not."""
        try:
            return self.check_device()
        except DeltaError as error:
            if error.status != Status.NO_DEVICE:
                raise
            return Target.CUDA

    @property
    def snapshot(self) -> Snapshot:
        """Where a sender of a CUDA plan keeps what the receivers hold."""
        return Snapshot(self.tables.snapshot)

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
        if (side, rank) not in self._known:
            index = self._expanded()
            self._known[side, rank] = [
                self._parameter(index, side, rank, number)
                for number in range(self._api.param_count(index, side, rank))
            ]
        return list(self._known[side, rank])

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

    # --- syncs ---------------------------------------------------------------

    def check_device(self) -> Target:
        """What the plan runs on; NO_DEVICE, in a sentence, where there is no
        driver or no GPU that it has code for."""
        target = ctypes.c_uint32()
        if not self.offers("check_device"):
            return Target.HOST
        Caller(self.api)("check_device", ctypes.byref(target))
        return Target(target.value)

    def sender(
        self,
        rank: int,
        params: Params,
        transport: Transport | Inproc | None = None,
        *,
        run: int = 0,
        threads: int = 1,
        stream: Stream | None = None,
        capacity: int | None = None,
    ) -> Sender:
        """A trainer rank over its tensors: a dict of local names, or a list of
        them, one for each chunk. Shapes, types, strides and the kind of memory
        are checked here, by name. `run` tells one training from another and is
        the same on both ends; `threads` share the work of a host plan; `stream`
        is a CUDA stream or an object with `cuda_stream`, by default torch's
        current one at each call; `capacity` is the largest number of changed
        elements of one round."""
        return Sender(
            self, rank, params, transport, run=run, threads=threads,
            stream=stream, capacity=capacity,
        )  # fmt: skip

    def receiver(
        self,
        rank: int,
        params: Params,
        transport: Transport | Inproc | None = None,
        *,
        run: int = 0,
        threads: int = 1,
        stream: Stream | None = None,
    ) -> Receiver:
        """A destination rank over its tensors; see `sender`."""
        return Receiver(
            self, rank, params, transport, run=run, threads=threads,
            stream=stream,
        )  # fmt: skip

    def inproc(self) -> Inproc:
        """Mailboxes for senders and receivers of this process."""
        return Inproc(self, self.api)

    # --- details -------------------------------------------------------------

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
            stride=tuple(info.stride[: info.rank]),
        )

    def _expanded(self) -> ctypes.c_void_p:
        """The index, made by the first question for it."""
        self._check_open()
        if self._index is None:
            index = ctypes.c_void_p()
            try:
                Caller(self._api)("index_create", ctypes.byref(index))
            except DeltaError as error:
                self._check(error.status, error.message)
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


def place(found: _abi.delta_place_t) -> Place:
    return Place(
        found.rank, found.param, found.element, ValueOp(found.value_op)
    )
