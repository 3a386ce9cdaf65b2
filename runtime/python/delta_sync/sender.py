# ===- sender.py - One trainer rank ---------------------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The sending end of a sync: compare, pack, send; advance when acknowledged."""

import ctypes
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _abi
from ._abi import Side, Status
from .error import DeltaError
from .handle import Handle, Stream
from .tensors import Params, floats_of
from .transport import Inproc, Transport

if TYPE_CHECKING:
    from .plan import Plan


@dataclass(frozen=True)
class SyncStats:
    """Of what was packed; see delta_sync_stats_t in delta_abi.h."""

    elements: int
    changed: int
    tiles: int
    dense_tiles: int
    message_bytes: int
    launches: int
    diff_seconds: float
    pack_seconds: float


@dataclass(frozen=True)
class ReplicaSum:
    """The sum of one row that another rank holds too: equal where both hold
    the same. `layer` and `expert` are None where there is none."""

    box: int
    layer: int | None
    expert: int | None
    param: int
    sum: int


class Marks:
    """Bytes in memory of the device, as `torch.as_tensor(marks, device="cuda")`
    and others take them, without a copy. Keeps the sender; its `close` frees
    them."""

    def __init__(self, sender: "Sender", address: int, num_bytes: int) -> None:
        self._sender = sender
        self.__cuda_array_interface__ = {
            "shape": (num_bytes,),
            "typestr": "|u1",
            "data": (address if num_bytes else 0, False),
            "version": 3,
        }


class Sender(Handle):
    """A trainer rank; `plan.sender(...)` makes one.

        sender.sync()          # compare, pack, send
        ...                    # all receivers have committed
        sender.acknowledge()   # or abort(): as if nothing had been sent

    `version` is the one that the receivers hold, 0 before the first full sync.
    The parts can be called alone: `seed` or `diff` (or `compare` and `pack`),
    then `send`. For CUDA graphs, `pack` is `read` and `seal`, and `acknowledge`
    is `confirm` and `advance`; see "CUDA graphs" in the README.
    """

    _side = Side.SOURCE
    _kind = "sender"

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
        capacity: int | None = None,
    ) -> None:
        super().__init__(
            plan, rank, params, transport, run=run, threads=threads,
            stream=stream,
        )  # fmt: skip
        self.version = 0
        self.stats: SyncStats | None = None
        self._packed = 0
        if capacity is not None:
            try:
                self.set_capacity(capacity)
            except BaseException:
                self.close()
                raise

    @property
    def rounds(self) -> int:
        """Rounds of what is packed, 0 where nothing is."""
        if self._handle is None:
            return 0
        return self._api.sender_rounds(self._handle)

    def set_capacity(self, elements: int) -> None:
        """Memory for a sync of so many changed elements, taken now; a larger
        one runs in rounds. 0: it grows."""
        self._run("set_capacity", elements)

    # --- a sync --------------------------------------------------------------

    def sync(self, *, full: bool = False) -> SyncStats:
        """Packs and sends what changed since the version that the receivers
        hold; everything where they hold none, or where it is asked for. What
        fails on its way is aborted."""
        if full or self.version == 0:
            stats = self.seed()
        else:
            stats = self.diff()
        try:
            self.send()
        except BaseException:
            self.abort()
            raise
        return stats

    def seed(self, version: int | None = None) -> SyncStats:
        """Packs everything, to the next version or to this one."""
        return self._pack("seed", self._next(version))

    def diff(self, version: int | None = None) -> SyncStats:
        """Compares, and packs what changed."""
        return self._pack("diff", self._next(version))

    def compare(self) -> None:
        """The first half of `diff`: enqueued on the stream, waits for nothing,
        and may be captured in a graph."""
        self._use_stream()
        self._run("compare")

    def pack(self, version: int | None = None) -> SyncStats:
        """The second half: waits for the last `compare` and packs what it
        found."""
        return self._pack("pack", self._next(version))

    def read(self, version: int | None = None) -> SyncStats:
        """`pack` without its `seal`."""
        return self._pack("read", self._next(version))

    def seal(self) -> None:
        """Makes the messages of what was read: enqueued on the stream, and may
        be captured in a graph."""
        self._use_stream()
        self._run("seal")

    def begin_moved(self) -> SyncStats:
        """Packs the experts that newly lie in a slot, at the version that the
        receivers hold; see `set_placement`."""
        return self._pack("begin_moved", self.version)

    def send(self, transport: Transport | Inproc | None = None) -> None:
        """Sends what is packed to every destination rank."""
        self._use_stream()
        self._exchange("send", transport)

    def acknowledge(self, version: int | None = None) -> None:
        """All receivers have committed what was packed: the snapshot advances
        to it."""
        self._receivers_have("acknowledge", version)

    def confirm(self, version: int | None = None) -> None:
        """`acknowledge` without its `advance`."""
        self._receivers_have("confirm", version)

    def advance(self) -> None:
        """The snapshot advances to what was confirmed, if it was: enqueued on
        the stream, and may be captured in a graph."""
        self._use_stream()
        self._run("advance")

    def abort(self) -> None:
        """Drops what is packed; the snapshot and the version stay."""
        if self._handle is not None:
            self._use_stream()
            self._api.sender_abort(self._handle)
        self._packed = 0

    # --- checks --------------------------------------------------------------

    def fingerprints(self, destination: int, key: int) -> array:
        """A sum for each row that this rank sends to a destination rank; the
        receiver's are the same where it holds the same."""
        return self._sums("fingerprints", destination, key)

    def replica_sums(self, key: int) -> list[ReplicaSum]:
        """A sum for each row that another rank holds too, of the parameters as
        they are now."""
        count = ctypes.c_uint64()
        self._use_stream()
        self._run("replica_sums", key, None, 0, ctypes.byref(count))
        sums = (_abi.delta_replica_sum_t * max(count.value, 1))()
        if count.value:
            self._run(
                "replica_sums", key, sums, count.value, ctypes.byref(count)
            )
        return [
            ReplicaSum(one.box, row(one.layer), row(one.expert), one.param,
                       one.sum)
            for one in sums[: count.value]
        ]  # fmt: skip

    # --- a plan whose snapshot is a bitmap -----------------------------------

    def cast(
        self, name: str, values: Any, first: int = 0, *, chunk: int = 0
    ) -> None:
        """The optimizer's copy of fp32 values to the elements of a parameter
        from `first` on: writes those whose bits change, and marks them. The
        values are read on the stream and must stay until it has passed."""
        try:
            address, count = floats_of(values, self._target)
        except TypeError as error:
            raise DeltaError(
                Status.INVALID_ARGUMENT,
                f'rank {self.rank}: "{name}" (chunk {chunk}): cast: {error}',
            ) from error
        number = self._known(chunk, name, "cast")
        self._use_stream()
        self._run("cast", number, address, first, count)

    def mark(self, name: str, *, chunk: int = 0) -> None:
        """Marks a whole parameter, which someone else has written."""
        number = self._known(chunk, name, "mark")
        self._use_stream()
        self._run("mark", number)

    def marks(self, *, experts: bool = False) -> Marks:
        """What was cast or marked on this rank since the last compare, one bit
        an element: of the parameters with experts, or of all others. Where each
        replica of these parameters casts a part of them, combine it over the
        replicas with OR, in place and on the sender's stream, and call
        `drop_marks`."""
        address, count = ctypes.c_void_p(), ctypes.c_uint64()
        self._run("marks", experts, ctypes.byref(address), ctypes.byref(count))
        return Marks(self, address.value or 0, count.value)

    def drop_marks(self) -> None:
        """After the replicas have shared their marks: clears those of what the
        others send."""
        self._use_stream()
        self._run("drop_marks")

    # --- details -------------------------------------------------------------

    def _next(self, version: int | None) -> int:
        return self.version + 1 if version is None else version

    def _pack(self, name: str, version: int) -> SyncStats:
        self._use_stream()
        stats = _abi.delta_sync_stats_t()
        to = () if name == "begin_moved" else (version,)
        self._run(name, *to, ctypes.byref(stats))
        self._packed = version
        self.stats = SyncStats(
            **{field: getattr(stats, field) for field, *_ in stats._fields_}
        )
        return self.stats

    def _receivers_have(self, name: str, version: int | None) -> None:
        self._use_stream()
        packed = self._packed if version is None else version
        self._run(name, packed)
        self.version, self._packed = packed, 0

    def _known(self, chunk: int, name: str, call: str) -> int:
        number = self._number(chunk, name)
        if number is None:
            raise DeltaError(
                Status.INVALID_ARGUMENT,
                f'rank {self.rank}: "{name}" (chunk {chunk}): {call}: not a '
                "parameter of this rank",
            )
        return number


def row(number: int) -> int | None:
    """A row of a table, or None."""
    return None if number == _abi.NONE else number
