# ===- receiver.py - One rollout rank -------------------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The receiving end of a sync: stage everything, then one commit."""

import ctypes
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _abi
from ._abi import Side
from .handle import Handle, Stream
from .tensors import Params
from .transport import Bridge, Inproc, Transport, lend

if TYPE_CHECKING:
    from .plan import Plan


@dataclass(frozen=True)
class Refresh:
    """A method that the engine has to call after a commit: of the module that
    the parameter belongs to."""

    parameter: str
    method: str

    @property
    def module(self) -> str:
        return self.parameter.rpartition(".")[0]


@dataclass(frozen=True)
class Mismatches:
    """Elements that differ from what was staged, and the first in words."""

    count: int
    first: str


class Receiver(Handle):
    """A destination rank; `plan.receiver(...)` makes one.

        receiver.receive()     # staged and checked; the old weights serve
        receiver.commit()      # the new ones do
    """

    _side = Side.DESTINATION
    _kind = "receiver"

    def __init__(
        self,
        plan: "Plan",
        rank: int,
        params: Params,
        transport: Transport | Inproc | None = None,
        *,
        run: int = 0,
        threads: int = 1,
        stream: Stream | None = None,
    ) -> None:
        # Of messages that are staged, besides the handle's own.
        self._kept: list[Bridge] = []
        super().__init__(
            plan, rank, params, transport, run=run, threads=threads,
            stream=stream,
        )  # fmt: skip

    @property
    def version(self) -> int:
        """Of the weights that it holds, 0 before the first full sync."""
        if self._handle is None:
            return 0
        return self._api.receiver_version(self._handle)

    def receive(self, transport: Transport | Inproc | None = None) -> None:
        """Waits for all messages of every source that sends here, checks and
        stages them. Where one does not fit, nothing stays staged."""
        self._use_stream()
        self._exchange("receive", transport)

    def stage(self, message: Any) -> None:
        """Checks one message and keeps a copy; see `Transport.receive` for what
        it may be."""
        self._use_stream()
        address, size, _ = lend(message, self._target)
        self._run("stage", _abi.delta_bytes_t(address, size))

    def commit(self) -> None:
        """Writes what is staged. Refused unless all of it is there."""
        self._use_stream()
        self._run("commit")
        self._kept.clear()

    def discard(self) -> None:
        """Drops what is staged."""
        if self._handle is not None:
            self._use_stream()
            self._api.receiver_discard(self._handle)
        self._kept.clear()

    def compare(self) -> Mismatches:
        """Compares what is staged with memory instead of writing it, and drops
        it."""
        self._use_stream()
        count = ctypes.c_uint64()
        self._run("compare", ctypes.byref(count))
        self._kept.clear()
        return Mismatches(count.value, self._call.text if count.value else "")

    def check_layout(self, share: float = 0.5) -> None:
        """Before a full sync is committed over weights that the engine has
        loaded: BIND_MISMATCH, naming the first parameter of which more than
        `share` of a few elements differ. What is staged stays."""
        self._use_stream()
        self._run("check_layout", share)

    def refreshes(self) -> list[Refresh]:
        """What the last commit asks the engine to recompute."""
        count = ctypes.c_uint64()
        self._run("refreshes", None, 0, ctypes.byref(count))
        calls = (_abi.delta_refresh_call_t * max(count.value, 1))()
        if count.value:
            self._run("refreshes", calls, count.value, ctypes.byref(count))
        parameters = self._parameters() if count.value else []
        methods = self._plan.tables.refreshes
        return [
            Refresh(parameters[call.param].name,
                    methods[call.refresh].method.decode())
            for call in calls[: count.value]
        ]  # fmt: skip

    def fingerprints(self, source: int, key: int) -> array:
        """A sum for each row that a source rank sends here."""
        return self._sums("fingerprints", source, key)

    def close(self) -> None:
        """Frees it, and gives back what is staged."""
        super().close()
        self._kept.clear()

    def _keep(self, bridge: Bridge) -> None:
        if bridge is not self._bridge:
            self._kept.append(bridge)
