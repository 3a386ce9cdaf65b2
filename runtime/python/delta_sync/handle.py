# ===- handle.py - What senders and receivers share -----------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""One rank that is bound to its tensors: addresses, stream, transport."""

import ctypes
import sys
from array import array
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import _abi
from ._abi import Dtype, Side, Status, Target
from .error import Caller, DeltaError
from .tensors import Binding, Params
from .transport import Bridge, Inproc, Transport

if TYPE_CHECKING:
    from .plan import ParamInfo, Plan

Self = TypeVar("Self", bound="Handle")
# A stream: its address, or an object with `cuda_stream`, as torch has.
Stream = Any


def stream_address(stream: Stream) -> int:
    return int(getattr(stream, "cuda_stream", stream))


def current_stream(device: str) -> int:
    """The stream that torch works on, where it is loaded and uses the device;
    else the default one."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return 0
    return cuda.current_stream(device).cuda_stream


class Handle:
    """A sender or a receiver. Holds the tensors and the transport. For one
    thread at a time; `close`, or the end of a `with`, frees it."""

    _side: Side
    _kind: str
    _handle: ctypes.c_void_p | None = None

    def __init__(
        self,
        plan: "Plan",
        rank: int,
        params: Params,
        transport: Transport | Inproc | None,
        *,
        run: int,
        threads: int,
        stream: Stream | None,
    ) -> None:
        self.rank = rank
        self._plan = plan
        self._api = plan.api  # outlives the plan's own close()
        self._call = Caller(self._api)
        self._target = plan.target
        self._numbers: dict[tuple[int, str], int] | None = None
        self._transport = transport
        self._bridge = (
            None
            if transport is None or isinstance(transport, Inproc)
            else Bridge(transport, self._target)
        )
        self._fixed_stream = None if stream is None else stream_address(stream)
        self._stream = 0
        self._binding = self._bind(params)
        handle = ctypes.c_void_p()
        self._call(
            f"{self._kind}_create", rank, self._binding.array,
            len(self._binding), run, threads, ctypes.byref(handle),
        )  # fmt: skip
        self._handle = handle
        try:
            self._use_stream()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Frees it; the tensors are no longer held."""
        if self._handle is not None:
            getattr(self._api, f"{self._kind}_destroy")(self._handle)
        self._handle = None

    def __del__(self) -> None:
        # At the end of the process its memory goes anyway, and the driver may
        # have gone before.
        if not sys.is_finalizing():
            self.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- memory --------------------------------------------------------------

    def rebind(self, params: Params) -> None:
        """Binds the same parameters at other addresses, after the checks of a
        bind; on failure the old ones stay."""
        binding = self._bind(params)
        self._run("rebind", binding.array, len(binding))
        self._binding = binding

    def check_bound(self) -> None:
        """BIND_MISMATCH, naming the first parameter, where a tensor has other
        memory than when it was bound."""
        binding = self._binding.refreshed()
        self._run("check_bound", binding.array, len(binding))

    def set_placement(self, tables: Sequence[Sequence[int]]) -> None:
        """Where an engine's experts are from now on: a row of logical experts
        by slot, one for all layers or one for each."""
        slots = len(tables[0]) if tables else 0
        if any(len(row) != slots for row in tables):
            raise DeltaError(
                Status.INVALID_ARGUMENT,
                f"rank {self.rank}: set_placement: rows of different lengths",
            )
        flat = [expert for row in tables for expert in row]
        numbers = (ctypes.c_uint32 * max(len(flat), 1))(*flat)
        self._run("set_placement", numbers, len(tables), slots)

    # --- streams -------------------------------------------------------------

    def set_stream(self, stream: Stream | None) -> None:
        """What follows is enqueued there; None: on torch's current stream, or
        the default one where torch is not loaded."""
        self._fixed_stream = None if stream is None else stream_address(stream)
        self._use_stream()

    def _use_stream(self) -> None:
        if self._fixed_stream is not None:
            stream = self._fixed_stream
        elif self._target == Target.CUDA:
            stream = current_stream(self._binding.device)
        else:
            stream = 0
        if stream != self._stream:
            self._run("set_stream", stream or None)
            self._stream = stream

    # --- calls ---------------------------------------------------------------

    def _run(self, name: str, *arguments: Any) -> None:
        """A function of the handle, which is its first argument."""
        if self._handle is None:
            raise DeltaError(
                Status.INVALID_ARGUMENT,
                f"rank {self.rank}: {name}: the {self._kind} is closed",
            )
        self._call(f"{self._kind}_{name}", self._handle, *arguments)

    def _exchange(
        self, name: str, transport: Transport | Inproc | None
    ) -> None:
        """A function that uses a transport: this one, or the handle's."""
        if transport is None:
            transport, bridge = self._transport, self._bridge
        elif isinstance(transport, Inproc):
            bridge = None
        else:
            bridge = Bridge(transport, self._target)
        if isinstance(transport, Inproc):
            self._run(name, ctypes.byref(transport.raw))
            return
        if bridge is None:
            raise DeltaError(
                Status.INVALID_ARGUMENT,
                f"rank {self.rank}: {name}: no transport was given",
            )
        bridge.raised = None
        self._keep(bridge)
        try:
            self._run(name, ctypes.byref(bridge.raw))
        except DeltaError as error:
            if isinstance(bridge.raised, Exception):
                raise error from bridge.raised
            if bridge.raised is not None:
                raise bridge.raised from error
            raise

    def _keep(self, bridge: Bridge) -> None:
        """Messages that it lends are given back later than the call ends."""

    def _sums(self, name: str, *arguments: Any) -> array:
        """A list of 64-bit numbers, whose length is asked first."""
        count = ctypes.c_uint64()
        self._use_stream()
        self._run(name, *arguments, None, 0, ctypes.byref(count))
        out = array("Q", bytes(8 * count.value))
        if count.value:
            memory = (ctypes.c_uint64 * count.value).from_buffer(out)
            self._run(
                name, *arguments, memory, count.value, ctypes.byref(count)
            )
        return out

    # --- parameters ----------------------------------------------------------

    def _bind(self, params: Params) -> Binding:
        return Binding(
            self.rank, params, target=self._target, required=self._required,
            is_written=self._side == Side.DESTINATION,
        )  # fmt: skip

    def _parameters(self) -> "list[ParamInfo]":
        return self._plan.parameters(self._side, self.rank)

    def _number(self, chunk: int, name: str) -> int | None:
        """The parameter's number in the plan, None where it has no such."""
        if self._numbers is None:
            self._numbers = {
                (info.chunk, known): number
                for number, info in enumerate(self._parameters())
                for known in info.names
            }
        return self._numbers.get((chunk, name))

    def _required(self, chunk: int, name: str) -> Dtype | None:
        number = self._number(chunk, name)
        return None if number is None else self._parameters()[number].dtype
