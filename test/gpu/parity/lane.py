# ===- lane.py - All ranks of one plan ------------------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Senders and receivers of a plan with their memory, and a transport that
keeps every message."""

import random
import struct
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

from delta_sync import (
    DeltaError, Plan, Receiver, Sender, Side, Snapshot, Status,
)
from delta_sync.transport import DeviceBytes, Part

from . import bits
from .driver import Cuda
from .memory import Block, Parameter, by_chunk, cuda_of, floats

RUN = 7
# Casts of more elements than this are checked at so many places.
CHECKED = 65536
Messages = dict[tuple[int, int], list[bytes]]


class Post:
    """A transport: queues of messages, as bytes of the host. Every other one
    is received in memory of the device, where the plan is of one."""

    def __init__(self, cuda: Cuda | None) -> None:
        self._cuda = cuda
        self._queues: dict[tuple[int, int], deque[bytes]] = defaultdict(deque)
        self._lent: list[Block] = []
        self._num_received = 0
        self.sent: Messages = defaultdict(list)
        self.left: int | None = None  # messages until the cable breaks

    def send(
        self, source: int, destination: int, parts: Sequence[Part]
    ) -> None:
        if self.left is not None:
            if self.left == 0:
                raise ConnectionError("cable")
            self.left -= 1
        message = b"".join(self._bytes(part) for part in parts)
        self.sent[source, destination].append(message)
        self._queues[source, destination].append(message)

    def receive(self, source: int, destination: int) -> Any:
        queue = self._queues[source, destination]
        if not queue:
            raise LookupError("no message")
        self._num_received += 1
        return self.lend(queue.popleft(), on_device=self._num_received % 2 == 0)

    def lend(self, message: bytes, *, on_device: bool) -> Any:
        """A message as a receiver may get it; valid until `clear`."""
        if self._cuda is None or not on_device:
            return message
        block = Block(len(message), self._cuda)
        block.write(message)
        self._lent.append(block)
        return DeviceBytes(block.address, len(message))

    def clear(self) -> Messages:
        """Drops what is on its way; gives what was sent since."""
        for block in self._lent:
            block.free()
        self._lent.clear()
        self._queues.clear()
        self.left = None
        sent, self.sent = self.sent, defaultdict(list)
        return sent

    def _bytes(self, part: Part) -> bytes:
        if isinstance(part, DeviceBytes):
            assert self._cuda is not None
            return self._cuda.read(part.address, part.size)
        return bytes(part)


class Lane:
    """A plan, its ranks and what they hold. Free it with `close`."""

    def __init__(self, plan: Plan, cuda: Cuda | None, *, exact: bool) -> None:
        self.plan = plan
        self.cuda = cuda_of(plan.target, cuda)
        self.exact = exact
        #: The plan's fingerprint as messages have it.
        self.name = struct.pack("<2Q", *plan.fingerprint)
        self.post = Post(self.cuda)
        self.sources = self._allocated(Side.SOURCE)
        self.destinations = self._allocated(Side.DESTINATION)
        self.senders: list[Sender] = []
        self.receivers: list[Receiver] = []

    def _allocated(self, side: Side) -> list[list[Parameter]]:
        return [
            self.parameters(side, rank)
            for rank in range(self.plan.num_ranks(side))
        ]

    def parameters(
        self, side: Side, rank: int, shift: int = 0
    ) -> list[Parameter]:
        """Memory for a rank. Of the parameters of odd numbers some begin where
        nothing is aligned; `shift` moves those."""
        return [
            Parameter(
                self.cuda, info, exact=self.exact,
                shift=number % 2 and (number // 2 + shift) % 7,
            )
            for number, info in enumerate(self.plan.parameters(side, rank))
        ]  # fmt: skip

    def open(self) -> None:
        """Binds all ranks; their memory has its values by then. Senders work on
        a stream of their own, receivers on the default one."""
        stream = None if self.cuda is None else self.cuda.stream
        for rank, held in enumerate(self.sources):
            self.senders.append(self.plan.sender(
                rank, by_chunk(held), self.post, run=RUN, stream=stream
            ))  # fmt: skip
        for rank, held in enumerate(self.destinations):
            self.receivers.append(
                self.plan.receiver(rank, by_chunk(held), self.post, run=RUN)
            )

    @property
    def is_bitmap(self) -> bool:
        return (
            self.cuda is not None and self.plan.snapshot == Snapshot.BITMAP
        )

    def put(
        self, rank: int, number: int, data: bytes, rng: random.Random
    ) -> bytes:
        """Other values of a parameter of the trainer, as an optimizer has them:
        what it holds then."""
        held = self.sources[rank][number]
        if self.is_bitmap and held.dtype in ("bfloat16", "float16"):
            return self._cast(rank, held, data, rng)
        held.write(data)
        return data

    def _cast(
        self, rank: int, held: Parameter, data: bytes, rng: random.Random
    ) -> bytes:
        wide = as_floats(held.dtype, data, rng)
        count = held.num_elements
        # In pieces: a cast begins and ends anywhere.
        cuts = sorted({0, min(count, 5), max(count - 13, count // 2), count})
        for first, last in zip(cuts, cuts[1:]):
            piece = floats(self.cuda, wide[first * 4 : last * 4])
            self.senders[rank].cast(held.name, piece, first, chunk=held.chunk)
            held.read()  # waits for the cast: the piece goes
            piece.free()
        got = held.read()
        check_cast(held, wide, got, rng)
        return got

    def close(self) -> None:
        for handle in (*self.senders, *self.receivers):
            handle.close()
        self.post.clear()
        for held in (*self.sources, *self.destinations):
            for one in held:
                one.free()
        self.plan.close()


def as_floats(dtype: str, data: bytes, rng: random.Random) -> bytes:
    """Values of fp32 for a cast: of bf16 mostly values between two."""
    count = len(data) // 2
    out = bytearray(4 * count)
    if dtype == "bfloat16":
        if rng.randrange(4):
            low = rng.randbytes(2 * count)
            out[0::4], out[1::4] = low[0::2], low[1::2]
        out[2::4], out[3::4] = data[0::2], data[1::2]
        return bytes(out)
    for at in range(count):
        value = int.from_bytes(data[2 * at : 2 * at + 2], "little")
        wide = bits.widened(dtype, value)
        out[4 * at : 4 * at + 4] = wide.to_bytes(4, "little")
    return bytes(out)


def check_cast(
    held: Parameter, wide: bytes, got: bytes, rng: random.Random
) -> None:
    """Against a cast written from what a cast is."""
    count = held.num_elements
    places = range(count)
    for at in places if count <= CHECKED else rng.choices(places, k=CHECKED):
        value = int.from_bytes(wide[4 * at : 4 * at + 4], "little")
        found = int.from_bytes(got[2 * at : 2 * at + 2], "little")
        if held.dtype == "bfloat16":
            wanted = bits.rounded(value)
        else:
            # Exact, but for a NaN.
            sign, rest = value >> 31 << 15, value & 0x7FFFFFFF
            wanted = bits.quiet(held.dtype, sign | narrow(rest))
        if found != wanted:
            raise DeltaError(
                Status.INTERNAL,
                f'"{held.name}": cast: element {at}: {value:08x} became '
                f"{found:04x}, required {wanted:04x}",
            )


def narrow(value: int) -> int:
    """The fp16 of a positive fp32 that has it exactly."""
    exponent, rest = value >> 23, value & 0x7FFFFF
    if exponent == 255:
        return 0x7C00 | rest >> 13
    if exponent >= 113:
        return (exponent - 112) << 10 | rest >> 13
    if exponent == 0:
        return 0
    return (0x800000 | rest) >> (126 - exponent)
