# ===- transport.py - Transports of a plan, and written in Python ---------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Messages between ranks: the in-process mailboxes of a plan, or an object of
the caller's, called back for each message."""

import contextlib
import ctypes
import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from . import _abi
from ._abi import Status, Target
from .error import Caller, DeltaError
from .tensors import view

if TYPE_CHECKING:
    from .plan import Plan

logger = logging.getLogger(__name__)

# Of the first byte of a message, which its parts are aligned by.
ALIGNMENT = 16


@dataclass(frozen=True)
class DeviceBytes:
    """Bytes in memory of the device. `torch.as_tensor(part, device="cuda")`
    sees them without a copy; they are only to be read."""

    address: int
    size: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.size,),
            "typestr": "|u1",
            "data": (self.address, False),
            "version": 3,
        }


Part = memoryview | DeviceBytes


class Transport(Protocol):
    """What a caller's own transport has. An exception of a method fails the
    call that it was made for, with its text.

    `release(source, destination, message)` may be there too: it gets what
    `receive` returned when it is not needed any more.
    """

    def send(
        self, source: int, destination: int, parts: Sequence[Part]
    ) -> None:
        """Takes a message: the parts one after the other, valid until it
        returns. Memory of the host is a memoryview, of a CUDA plan's device
        DeviceBytes, which are complete."""

    def receive(self, source: int, destination: int) -> Any:
        """Waits for the next message: bytes or another buffer; for a CUDA plan
        also DeviceBytes or a tensor of bytes. It stays as it is until it is
        released."""


class Inproc:
    """Mailboxes between all ranks of one process; `plan.inproc()` makes one.
    Sending copies and does not wait; receiving waits in a thread of its own or
    after the send. Close it last."""

    def __init__(self, plan: "Plan", api: _abi.delta_plan_api_t) -> None:
        self._plan = plan  # what its functions belong to
        self._api = api
        handle = ctypes.c_void_p()
        Caller(api)("inproc_create", ctypes.byref(handle))
        self._handle: ctypes.c_void_p | None = handle

    @property
    def raw(self) -> _abi.delta_transport_t:
        """As the plan takes it."""
        if self._handle is None:
            raise DeltaError(
                Status.INVALID_ARGUMENT, "the mailboxes are closed"
            )
        return self._api.inproc_transport(self._handle)

    def close(self) -> None:
        """Wakes those that wait, with REFUSED, and frees the mailboxes."""
        if self._handle is not None:
            self._api.inproc_destroy(self._handle)
        self._handle = None

    def __enter__(self) -> "Inproc":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Bridge:
    """A caller's transport as the functions of the ABI. One for each handle:
    what is raised in a call belongs to it."""

    def __init__(self, transport: Transport, target: Target) -> None:
        self._transport = transport
        self._target = target
        self._lent: dict[int, list[Any]] = defaultdict(list)
        self.raised: BaseException | None = None
        kinds = dict(_abi.delta_transport_t._fields_)
        self._functions = (
            kinds["send"](self._send),
            kinds["receive"](self._receive),
            kinds["release"](self._release),
        )
        self.raw = _abi.delta_transport_t(None, *self._functions)

    def _send(
        self,
        context: int | None,
        source: int,
        destination: int,
        parts: Any,
        count: int,
        error: _abi.delta_error_t,
    ) -> int:
        views: list[Part] = []
        try:
            for part in parts[:count]:
                if part.size:
                    views.append(self._part(part.data, part.size))
            self._transport.send(source, destination, views)
        except BaseException as raised:
            return self._failed(raised, error)
        finally:
            for found in views:
                if isinstance(found, memoryview):
                    # Someone who kept a part of it reads freed memory.
                    with contextlib.suppress(BufferError):
                        found.release()
        return Status.OK

    def _receive(
        self,
        context: int | None,
        source: int,
        destination: int,
        out_message: Any,
        error: _abi.delta_error_t,
    ) -> int:
        try:
            message = self._transport.receive(source, destination)
            address, size, kept = lend(message, self._target)
        except BaseException as raised:
            return self._failed(raised, error)
        self._lent[address].append((message, kept))
        out_message[0].data, out_message[0].size = address, size
        return Status.OK

    def _release(
        self,
        context: int | None,
        source: int,
        destination: int,
        message: _abi.delta_bytes_t,
    ) -> None:
        held = self._lent.get(message.data)
        if not held:
            return
        given, _ = held.pop()
        if not held:
            del self._lent[message.data]
        release = getattr(self._transport, "release", None)
        if release is None:
            return
        try:
            release(source, destination, given)
        except Exception:
            # A commit is done by then: there is nothing to fail.
            logger.exception("release of a message from rank %d", source)

    def _part(self, address: int, size: int) -> Part:
        if self._target == Target.CUDA:
            return DeviceBytes(address, size)
        memory = (ctypes.c_ubyte * size).from_address(address)
        return memoryview(memory).cast("B").toreadonly()

    def _failed(
        self, raised: BaseException, error: _abi.delta_error_t
    ) -> int:
        self.raised = raised
        text = raised.message if isinstance(raised, DeltaError) else (
            f"{type(raised).__name__}: {raised}"
        )  # fmt: skip
        if error.text and error.size:
            encoded = text.encode()[: error.size - 1] + b"\0"
            ctypes.memmove(error.text, encoded, len(encoded))
        known = isinstance(raised, DeltaError)
        return raised.status if known else Status.REFUSED


def lend(message: Any, target: Target) -> tuple[int, int, Any]:
    """Address and size of a message, and what keeps them valid besides it."""
    if isinstance(message, DeviceBytes):
        check_place("device", target)
        return message.address, message.size, None
    if callable(getattr(message, "data_ptr", None)):
        found = view(message)
        check_place("cpu" if found.is_of_host else "device", target)
        if not message.is_contiguous():
            raise ValueError("a message that is not contiguous")
        size = message.numel() * message.element_size()
        return found.address, size, None
    if isinstance(message, bytes):
        address = ctypes.cast(message, ctypes.c_void_p).value or 0
        if address % ALIGNMENT == 0:
            return address, len(message), None
    data = memoryview(message).cast("B")
    size = data.nbytes
    if not data.readonly and size:
        memory = (ctypes.c_ubyte * size).from_buffer(data)
        if ctypes.addressof(memory) % ALIGNMENT == 0:
            return ctypes.addressof(memory), size, memory
    memory = (ctypes.c_ubyte * (size + ALIGNMENT))()
    address = -(-ctypes.addressof(memory) // ALIGNMENT) * ALIGNMENT
    ctypes.memmove(address, bytes(data), size)
    return address, size, memory


def check_place(place: str, target: Target) -> None:
    if target == Target.HOST and place != "cpu":
        raise TypeError("a message in memory of a device, for a host plan")
