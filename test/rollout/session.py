# ===- session.py - A whole sync through the ABI of a plan ----------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""All ranks of a plan in this process: memory in numpy arrays, messages that
are counted, one phase after the other. A test can change any element."""

from __future__ import annotations

import ctypes
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path

import numpy as np
from delta_sync import DeltaError, Plan, Side, Status, _abi
from delta_sync.elements import ElementMap

from .check import read_tensors
from .parameters import Tensor

DTYPES = {1: "bf16", 2: "fp16", 3: "fp32"}
STORES = {1: np.uint16, 2: np.uint16, 3: np.uint32}

# What a receiver's memory holds before the seed; padding keeps it.
UNTOUCHED = {1: 0xA5C3, 2: 0xA5C3, 3: 0xA5C3963C}


class Held:
    """A parameter of one rank: memory, and the view by its dimensions."""

    def __init__(self, info: _abi.delta_param_info_t):
        rank = info.rank
        self.info = info
        self.name = info.name.decode().split("\n")[0]
        self.chunk, self.dtype = info.chunk, info.dtype
        self.shape = tuple(info.shape[:rank])
        self.stride = tuple(info.stride[:rank])
        self.memory = np.full(
            info.num_elements, UNTOUCHED[info.dtype], STORES[info.dtype])
        width = self.memory.itemsize
        self.view = np.lib.stride_tricks.as_strided(
            self.memory, self.shape, [step * width for step in self.stride])

    def tensor(self) -> Tensor:
        return Tensor(self.view.copy(), DTYPES[self.dtype])


def infos(plan: Plan, side: Side, rank: int) -> list:
    index, api = plan._expanded(), plan._api
    found = []
    for number in range(api.param_count(index, side, rank)):
        info = _abi.delta_param_info_t()
        assert api.param_info(
            index, side, rank, number, ctypes.byref(info)) == Status.OK
        found.append(info)
    return found


def bindings(held: list[Held]) -> ctypes.Array:
    array = (_abi.delta_param_t * max(len(held), 1))()
    for entry, one in zip(array, held):
        entry.name = one.name.encode()
        entry.chunk, entry.dtype = one.chunk, one.dtype
        entry.rank = len(one.shape)
        entry.shape[: len(one.shape)] = one.shape
        entry.stride[: len(one.shape)] = one.stride
        entry.data = one.memory.ctypes.data
    return array


class Memory:
    """What the trainer's ranks of a plan hold."""

    def __init__(self, path: str | Path):
        with Plan.open(path) as plan:
            self.ranks = [
                [Held(info) for info in infos(plan, Side.SOURCE, rank)]
                for rank in range(plan.num_ranks(Side.SOURCE))
            ]

    def read(self, folder: Path) -> None:
        """What delta-run has written of one moment."""
        for rank, held in enumerate(self.ranks):
            saved = read_tensors(folder / f"source-{rank}.safetensors")
            assert len(saved) == len(held)
            for one in held:
                tensor = saved[f"chunk{one.chunk}.{one.name}"]
                one.memory[:] = tensor.data.reshape(-1)


class Trainer(Memory):
    """Elements that are the same one, on several ranks or in a copy, always
    hold the same value; a test changes any of them by its place in the
    checkpoint."""

    def __init__(self, neutral: str | Path, seed: int):
        """`neutral`: a plan from this trainer to a checkpoint."""
        super().__init__(neutral)
        with Plan.open(neutral) as plan:
            self.map = ElementMap(plan)
        dtypes = np.array([kind.dtype for kind in self.map.classes])
        count = self.map.num_numbers
        random = np.random.default_rng(seed)
        bits = random.normal(0, 0.02, count).astype(np.float32)
        bits = bits.view(np.uint32)
        wide = dtypes[self.map.classes_of(np.arange(count))] == 3
        self.bits = np.where(wide, bits, bits >> 16).astype(np.uint32)
        self.write()

    def write(self) -> None:
        for rank, held in enumerate(self.ranks):
            for number, one in enumerate(held):
                one.memory[:] = self.bits[self.map.numbers(rank, number)]

    def change(
        self, tensor: str, places: np.ndarray,
        value: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        """Elements of a tensor of the checkpoint, by row-major number, where
        nothing happens to values on the way there."""
        found = self.map.tensors[tensor]
        assert not found.value_ops[places].any()
        numbers = found.numbers[places]
        assert (numbers >= 0).all()
        self.bits[numbers] = value(self.bits[numbers])
        self.write()


class Session:
    """Senders and receivers of one plan over a trainer's memory."""

    RUN = 77

    def __init__(self, path: str | Path, trainer: Memory):
        self.plan = Plan.open(path)
        self.api = self.plan._api
        self.trainer = trainer
        self.version = 0
        self.text = ctypes.create_string_buffer(2048)
        self.error = _abi.delta_error_t(
            ctypes.cast(self.text, ctypes.c_void_p), len(self.text))
        self.receivers = [
            [Held(info) for info in infos(self.plan, Side.DESTINATION, rank)]
            for rank in range(self.plan.num_ranks(Side.DESTINATION))
        ]
        self.queues: dict = defaultdict(deque)
        self.lent: dict = {}
        self.bytes: dict[tuple[int, int], int] = defaultdict(int)
        self.transport = self._make_transport()
        self.senders = [
            self._create(self.api.sender_create, rank, held)
            for rank, held in enumerate(trainer.ranks)
        ]
        self.handles = [
            self._create(self.api.receiver_create, rank, held)
            for rank, held in enumerate(self.receivers)
        ]

    def close(self) -> None:
        for sender in self.senders:
            self.api.sender_destroy(sender)
        for handle in self.handles:
            self.api.receiver_destroy(handle)
        self.senders, self.handles = [], []
        self.plan.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def seed(self) -> None:
        self._sync(self.api.sender_seed)

    def sync(self) -> list[int]:
        """One delta; bytes that each receiver got."""
        self.bytes.clear()
        self._sync(self.api.sender_diff)
        return self._received()

    def _received(self) -> list[int]:
        return [
            sum(size for (_, to), size in self.bytes.items() if to == rank)
            for rank in range(len(self.receivers))
        ]

    def place(self, tables: list[list[int]]) -> None:
        """Tells all ranks where the experts are from now on."""
        flat = [expert for table in tables for expert in table]
        array = (ctypes.c_uint32 * len(flat))(*flat)
        shape = (array, len(tables), len(tables[0]))
        for handle in self.handles:
            self._check(self.api.receiver_set_placement(
                handle, *shape, self.error))
        for sender in self.senders:
            self._check(self.api.sender_set_placement(
                sender, *shape, self.error))

    def seed_moved(self) -> list[int]:
        """Seeds the experts that moved; bytes that each receiver got."""
        self.bytes.clear()
        self.version -= 1
        self._sync(lambda sender, _, stats, error:
                   self.api.sender_begin_moved(sender, stats, error))
        return self._received()

    def check_layout(self, share: float = 0.5) -> None:
        """Reads back what the engine has loaded, as before a first seed."""
        self._pack(self.api.sender_seed)
        try:
            for handle in self.handles:
                self._check(self.api.receiver_check_layout(
                    handle, share, self.error))
        finally:
            for handle in self.handles:
                self.api.receiver_discard(handle)
            for sender in self.senders:
                self.api.sender_abort(sender)
            self.version -= 1

    def refreshes(self, rank: int) -> list[tuple[str, str]]:
        """Parameters and methods that the last commit asks for."""
        count = ctypes.c_uint64()
        ask = self.api.receiver_refreshes
        self._check(ask(
            self.handles[rank], None, 0, ctypes.byref(count), self.error))
        calls = (_abi.delta_refresh_call_t * max(count.value, 1))()
        self._check(ask(
            self.handles[rank], calls, count.value, ctypes.byref(count),
            self.error))
        table = self.plan.tables.refreshes
        return [
            (self.receivers[rank][call.param].name,
             table[call.refresh].method.decode())
            for call in calls[: count.value]
        ]

    def held(self, rank: int) -> dict[str, Held]:
        return {one.name: one for one in self.receivers[rank]}

    def tensors(self) -> dict[str, Tensor]:
        """Of a plan to a checkpoint."""
        return {one.name: one.tensor() for one in self.receivers[0]}

    def _sync(self, pack: Callable) -> None:
        self._pack(pack)
        for handle in self.handles:
            self._check(self.api.receiver_commit(handle, self.error))
        for sender in self.senders:
            self._check(self.api.sender_acknowledge(
                sender, self.version, self.error))

    def _pack(self, pack: Callable) -> None:
        """Until all is staged."""
        stats = _abi.delta_sync_stats_t()
        for sender in self.senders:
            self._check(pack(
                sender, self.version + 1, ctypes.byref(stats), self.error))
        self.version += 1
        for sender in self.senders:
            self._check(self.api.sender_send(
                sender, ctypes.byref(self.transport), self.error))
        for handle in self.handles:
            self._check(self.api.receiver_receive(
                handle, ctypes.byref(self.transport), self.error))

    def _create(
        self, create: Callable, rank: int, held: list[Held]
    ) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self._check(create(
            rank, bindings(held), len(held), self.RUN, 1,
            ctypes.byref(handle), self.error))
        return handle

    def _check(self, status: int) -> None:
        if status != Status.OK:
            raise DeltaError(Status(status), self.text.value.decode())

    def _make_transport(self) -> _abi.delta_transport_t:
        def send(_, source, destination, parts, count, error):
            message = b"".join(
                ctypes.string_at(parts[i].data, parts[i].size)
                for i in range(count) if parts[i].size)
            self.bytes[source, destination] += len(message)
            self.queues[source, destination].append(message)
            return Status.OK

        def receive(_, source, destination, out, error):
            queue = self.queues[source, destination]
            if not queue:
                return Status.REFUSED
            message = queue.popleft()
            buffer = ctypes.create_string_buffer(message, len(message))
            out[0].data = ctypes.addressof(buffer)
            out[0].size = len(message)
            self.lent[ctypes.addressof(buffer)] = buffer
            return Status.OK

        def release(_, source, destination, message):
            self.lent.pop(message.data)

        types = dict(_abi.delta_transport_t._fields_)
        self.kept = [
            types["send"](send), types["receive"](receive),
            types["release"](release)]
        return _abi.delta_transport_t(None, *self.kept)
