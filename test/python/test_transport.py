# ===- test_transport.py - Transports written in Python -------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What a transport of the caller's gets and gives, and what its failures are
to a sync."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="ranks are numpy arrays here")

from ranks import Capture, World, compile_plan  # noqa: E402
from delta_sync import DeltaError, DeviceBytes, Status, Target  # noqa: E402
from delta_sync.transport import ALIGNMENT, lend  # noqa: E402
from support import CONFIGS, needs_tools  # noqa: E402


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_plan(
        tmp_path_factory.mktemp("plan"), CONFIGS["qwen3"], {"tp": 2}
    )


def unaligned(message: bytes) -> memoryview:
    memory = bytearray(len(message) + ALIGNMENT)
    base = (ctypes.c_char * len(memory)).from_buffer(memory)
    start = (1 - ctypes.addressof(base)) % ALIGNMENT
    del base
    memory[start : start + len(message)] = message
    return memoryview(memory)[start : start + len(message)]


@needs_tools
@pytest.mark.parametrize(
    "form",
    [bytes, bytearray, memoryview, unaligned,
     lambda message: np.frombuffer(message, np.uint8)],
    ids=["bytes", "bytearray", "memoryview", "unaligned", "array"],
)  # fmt: skip
def test_a_message_may_be_any_buffer(
    plan_file: Path, form: Callable[[bytes], Any]
) -> None:
    transport = Capture()
    take = transport.receive
    transport.receive = lambda *pair: form(take(*pair))
    with World(plan_file, transport) as world:
        for seed in range(3):
            world.change(0.1, seed)
            world.sync()
            world.check()
        assert transport.released == 3 * [(0, 0), (1, 0)]


@needs_tools
def test_parts_are_read_only_and_end_with_the_call(plan_file: Path) -> None:
    kept: list[memoryview] = []

    class Keeping(Capture):
        def send(self, source: int, destination: int, parts: Any) -> None:
            assert all(isinstance(part, memoryview) for part in parts)
            assert all(part.nbytes for part in parts)
            with pytest.raises(TypeError, match="read-only"):
                parts[0][0] = 1
            kept.extend(parts)
            super().send(source, destination, parts)

    with World(plan_file, Keeping()) as world:
        world.sync()
        world.check()
        assert kept
        for part in kept:
            with pytest.raises(ValueError, match="released"):
                bytes(part)


@needs_tools
def test_another_transport_for_one_call(plan_file: Path) -> None:
    other = Capture()
    with World(plan_file) as world:
        for sender in world.senders:
            sender.seed()
            sender.send(other)
        assert len(other.queues) == 2
        receiver = world.receivers[0]
        receiver.receive(other)
        receiver.commit()
        assert other.released == [(0, 0), (1, 0)]
        world.check()
        alone = world.plan.sender(0, dict_of(world))
        alone.seed()
        with pytest.raises(DeltaError, match="rank 0: send: no transport"):
            alone.send()
        alone.close()


def dict_of(world: World) -> dict:
    return {one.name: one.view for one in world.trainer.ranks[0]}


@needs_tools
def test_staging_messages_by_hand(plan_file: Path) -> None:
    transport = Capture()
    with World(plan_file, transport) as world:
        for sender in world.senders:
            sender.sync()
        receiver = world.receivers[0]
        receiver.stage(transport.receive(0, 0))
        with pytest.raises(DeltaError, match="source 1: commit: no mes") as e:
            receiver.commit()
        assert e.value.status is Status.REFUSED
        receiver.stage(unaligned(transport.receive(1, 0)))
        receiver.commit()
        world.check()


@needs_tools
def test_failures_of_a_transport(plan_file: Path) -> None:
    transport = Capture()
    with World(plan_file, transport) as world:
        receiver = world.receivers[0]
        with pytest.raises(
            DeltaError, match="rank 0: .*LookupError: 'no message'|no message"
        ) as caught:
            receiver.receive()
        assert caught.value.status is Status.REFUSED
        assert isinstance(caught.value.__cause__, LookupError)

        # A status of its own is kept.
        def corrupt(source: int, destination: int) -> Any:
            raise DeltaError(Status.CORRUPT, "link: bad frame")

        transport.receive = corrupt
        with pytest.raises(DeltaError, match="link: bad frame") as caught:
            receiver.receive()
        assert caught.value.status is Status.CORRUPT

        # What is no message at all.
        transport.receive = lambda source, destination: 7
        with pytest.raises(DeltaError, match="TypeError"):
            receiver.receive()
        transport.receive = lambda source, destination: b"short"
        with pytest.raises(DeltaError) as caught:
            receiver.receive()
        assert caught.value.status is Status.CORRUPT

        # An interrupt goes through, and the sync is aborted.
        def interrupted(source: int, destination: int, parts: Any) -> None:
            raise KeyboardInterrupt

        send, transport.send = transport.send, interrupted
        with pytest.raises(KeyboardInterrupt):
            world.senders[0].sync()
        transport.send = send
        del transport.receive
        transport.queues.clear()
        world.sync()
        world.check()


def test_memory_of_a_device_is_for_its_plans() -> None:
    part = DeviceBytes(4096, 32)
    assert part.__cuda_array_interface__ == {
        "shape": (32,), "typestr": "|u1", "data": (4096, False), "version": 3,
    }
    assert lend(part, Target.CUDA) == (4096, 32, None)
    with pytest.raises(TypeError, match="memory of a device, for a host plan"):
        lend(part, Target.HOST)


@pytest.mark.parametrize("size", [0, 1, 15, 4096])
def test_lent_bytes_are_aligned_and_the_same(size: int) -> None:
    message = bytes(range(256)) * 16
    message = message[:size]
    for form in (message, bytearray(message), unaligned(message),
                 unaligned(message).toreadonly()):
        address, found, kept = lend(form, Target.HOST)
        assert address % ALIGNMENT == 0 and found == size
        assert ctypes.string_at(address, size) == message
        del kept
