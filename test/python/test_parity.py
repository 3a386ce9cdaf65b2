# ===- test_parity.py - The driver of test/gpu/parity ---------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Host plans in the place of CUDA plans: all that is told is answered alike,
and a planted difference is found. What the list of models has."""

import ctypes
import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / folder) for folder in ("runtime/python", "test/tools")
]
sys.path.append(str(ROOT / "test" / "gpu"))

from delta_sync import (  # noqa: E402
    DeltaError, Dtype, Plan, Sender, Status, Target, ValueOp,
)
from delta_sync._abi import NONE  # noqa: E402
from parity import bits, kernels, lane, models, pair, run, wire  # noqa: E402
from support import BIN, needs_tools  # noqa: E402

EMULATED = BIN.parent / "lib" / "libdelta_emulated_cuda.so"
SMALL = ("smallest-device", "vllm-slots-device", "forms-bf16-device")


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of the list but the largest, for the host."""
    folder = tmp_path_factory.mktemp("plans")
    names = [c.name for c in models.all_cases() if c.name != models.LARGE]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DELTA_BIN", str(BIN))
        models.compile_plans(folder, names, [])
    return folder


def chosen(folder: Path, name: str) -> models.Pair:
    return next(p for p in models.read_pairs(folder) if p.name == name)


def compared(folder: Path, name: str = SMALL[0]) -> pair.Pair:
    return run.compare(chosen(folder, name), 1, brief=True, exact=False)[0]


# --- the list ----------------------------------------------------------------


@needs_tools
def test_models_have_all_that_a_plan_can_hold(plans: Path) -> None:
    ops, casts, kinds = set(), set(), set()
    for one in models.read_pairs(plans):
        with Plan.open(one.other) as plan:
            tables = plan.tables
            for box in tables.boxes[: tables.num_boxes]:
                source = tables.source.classes[box.source_class]
                kinds |= kinds_of(source, "source")
                first = box.first_image
                for image in tables.images[first : first + box.num_images]:
                    target = tables.destination.classes[image.class_index]
                    kinds |= kinds_of(target, "destination")
                    ops |= {op for op in ValueOp if image.value_op & op}
                    via = image.value_op >> 8
                    if via:
                        ops.add(Dtype(via))
                    casts.add((Dtype(source.dtype), Dtype(target.dtype)))
            kinds |= {"slots"} if tables.slots.num_slots else set()
            kinds |= {"refresh"} if tables.num_refreshes else set()
    assert ops >= {
        ValueOp.ADD_ONE, ValueOp.NEG_EXP, ValueOp.PLUS_ONE, Dtype.BF16,
        Dtype.FP32,
    }  # fmt: skip
    narrow = (Dtype.BF16, Dtype.FP16)
    assert casts >= {(one, one) for one in (*narrow, Dtype.FP32)}
    assert casts >= {(one, Dtype.FP32) for one in narrow}
    assert casts >= {(Dtype.FP32, one) for one in narrow}
    assert kinds >= {
        "slots", "refresh", "destination stack", "destination part",
        "destination order", "destination extra slots",
    }  # fmt: skip


def kinds_of(row: object, side: str) -> set[str]:
    found = {
        "stack": row.expert_stride > 0, "part": row.part_of != NONE,
        "order": row.order != 0, "extra slots": row.extra_slots > 0,
    }  # fmt: skip
    return {f"{side} {kind}" for kind, has in found.items() if has}


def test_every_snapshot_and_kernel_is_sanitized_or_compared() -> None:
    cases = models.all_cases()
    for snapshot in models.SNAPSHOTS:
        assert sum(snapshot in case.snapshots for case in cases) >= 4
    names = {f"{c.name}-{kind}" for c in cases for kind in c.snapshots}
    assert names >= set(run.SANITIZED)
    assert len(kernels.known()) == 16
    assert {"delta_diff", "delta_fingerprint"} <= set(kernels.known())


# --- the script --------------------------------------------------------------


@needs_tools
@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc in the path")
@pytest.mark.skipif(not EMULATED.exists(), reason="no emulated driver here")
def test_a_plan_for_gpus_on_the_emulated_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiled plan's own run time and the text of its kernels, in another
    process: a driver is chosen once."""
    smallest = next(c for c in models.all_cases() if c.name == "smallest")
    bitmap = replace(smallest, snapshots=["bitmap"])
    monkeypatch.setattr(models, "all_cases", lambda: [bitmap])
    monkeypatch.setenv("DELTA_BIN", str(BIN))
    options = ["--target", "cuda", "--arch", "sm_90"]
    models.compile_plans(tmp_path, ["smallest"], options)
    command = [
        sys.executable, str(ROOT / "test/gpu/parity/run.py"), "one",
        "smallest-bitmap", "--plans", str(tmp_path), "--brief",
    ]  # fmt: skip
    told = subprocess.run(
        command, capture_output=True, text=True,
        env=os.environ | {"DELTA_CUDA_DRIVER": str(EMULATED)},
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr
    assert "smallest-bitmap             same" in told.stdout


@needs_tools
def test_host_plans_are_the_same(plans: Path) -> None:
    for one in models.read_pairs(plans):
        if "wide" in one.name:
            continue  # nothing that the others have not, and many elements
        made = compared(plans, one.name)
        assert made.found == [], one.name
        counts = made.counts
        assert counts["syncs"] >= 16 and counts["damaged"] >= 100
        assert counts["refusals"] > 60 and counts["messages"] > 15
        # Most damaged messages are refused; values may be any.
        assert counts["refusals"] > counts["damaged"] // 2


@needs_tools
@pytest.mark.parametrize("name", SMALL)
def test_one_byte_of_a_message_is_found(
    plans: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    sent = 0
    plain = lane.Post.send

    def send(post: lane.Post, source: int, to: int, parts: list) -> None:
        nonlocal sent
        plain(post, source, to, parts)
        sent += 1
        if sent == 40:
            last = post.sent[source, to]
            last[-1] = last[-1][:-1] + bytes([last[-1][-1] ^ 1])

    monkeypatch.setattr(lane.Post, "send", send)
    made = compared(plans, name)
    assert made.num_found == 1
    assert "1 of " in made.found[0] and "message " in made.found[0]


@needs_tools
def test_one_byte_of_a_receiver_is_found(
    plans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = pair.Pair.memory

    def memory(self: pair.Pair, what: str) -> None:
        if self.counts["syncs"] == 5:
            held = self.other.destinations[1][2]
            held.write(bytes([held.read()[3] ^ 0x80]), 3)
        plain(self, what)

    monkeypatch.setattr(pair.Pair, "memory", memory)
    made = compared(plans)
    assert "receiver 1" in made.found[0] and "1 of " in made.found[0]


@needs_tools
@pytest.mark.parametrize("at", [-1, 1])
def test_what_is_written_outside_is_found(
    plans: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    plain = pair.Pair.memory

    def memory(self: pair.Pair, what: str) -> None:
        held = self.other.destinations[0][0]
        place = held._begin + (-1 if at < 0 else held.num_bytes)
        held._block.write(b"x", place)
        plain(self, what)

    monkeypatch.setattr(pair.Pair, "memory", memory)
    assert "other: written outside" in compared(plans).found[0]


@needs_tools
@pytest.mark.parametrize("name,text,number", [
    ("fingerprints", "-> ", 6), ("replica_sums", "replicas", 6),
    ("diff", "pack: ", 6), ("set_capacity", "capacity", 20),
])  # fmt: skip
def test_another_answer_is_found(
    plans: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str,
    number: int,
) -> None:
    """One call that fails, of either plan, once the first ones did not."""
    plain: Callable = getattr(Sender, name)
    calls = 0

    def call(self: Sender, *arguments: object) -> object:
        nonlocal calls
        found = plain(self, *arguments)
        calls += 1
        if calls == number:
            raise DeltaError(Status.CORRUPT, "planted")
        return found

    monkeypatch.setattr(Sender, name, call)
    made = compared(plans, "replicas-device")
    assert any(text in one and "planted" in one for one in made.found)


class StandIn:
    """What `driver.Cuda` does, in memory of the host."""

    stream = 0

    def __init__(self) -> None:
        self.held: dict[int, object] = {}

    def allocate(self, num_bytes: int) -> int:
        memory = (ctypes.c_ubyte * num_bytes)()
        self.held[ctypes.addressof(memory)] = memory
        return ctypes.addressof(memory)

    def free(self, address: int) -> None:
        del self.held[address]

    def write(self, address: int, data: bytes) -> None:
        ctypes.memmove(address, data, len(data))

    def read(self, address: int, num_bytes: int) -> bytes:
        return ctypes.string_at(address, num_bytes)

    def wait(self) -> None:
        pass


@needs_tools
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", SMALL)
def test_memory_of_a_device_is_used_as_such(
    plans: Path, monkeypatch: pytest.MonkeyPatch, name: str, exact: bool
) -> None:
    """The second plan is taken for one of a GPU, whose memory is of the host
    here: parts, messages and parameters go the way of a CUDA plan."""
    one = chosen(plans, name)
    other = plans / f"{name}-as-cuda-{exact}.so"
    shutil.copy(one.other, other)
    made: list[StandIn] = []

    def driver() -> StandIn:
        made.append(StandIn())
        return made[0]

    plain = Plan.target.fget
    monkeypatch.setattr(Plan, "target", property(
        lambda plan: Target.CUDA if plan.path == other else plain(plan)
    ))  # fmt: skip
    monkeypatch.setattr(run, "Cuda", driver)
    pair_of = models.Pair(name, one.host, other, "")
    found, _ = run.compare(pair_of, 1, brief=True, exact=exact)
    assert found.found == []
    assert found.counts["syncs"] >= 16
    assert made and not made[0].held  # all was freed


@needs_tools
def test_check_says_which_pair_differs(
    plans: Path, capfd: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["run.py", "check", "--plans", str(plans), "--brief", "--case"]
    monkeypatch.setattr(sys, "argv", [*arguments, "smallest*", "padding*"])
    assert run.main() == 0
    assert "2 of 2 pairs are the same" in capfd.readouterr().out
    # Another geometry in the place of the second plan.
    index = plans / models.INDEX
    kept = index.read_text()
    index.write_text(kept.replace(
        '"other": "padding-host.so"', '"other": "fp16-host.so"'
    ))  # fmt: skip
    try:
        assert run.main() == 1
    finally:
        index.write_text(kept)
    out = capfd.readouterr().out
    assert "different or failed: padding-device" in out
    monkeypatch.setattr(sys, "argv", [*arguments, "nothing"])
    assert run.main() == 2


# --- bits --------------------------------------------------------------------


def all_halves() -> Iterator[int]:
    yield from range(1 << 16)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_widened_value_is_rounded_back(dtype: str) -> None:
    back = bits.rounded if dtype == "bfloat16" else (
        lambda wide: wide >> 31 << 15 | lane.narrow(wide & 0x7FFFFFFF)
    )  # fmt: skip
    for value in all_halves():
        wide = bits.widened(dtype, value)
        assert bits.quiet(dtype, back(wide)) == bits.quiet(dtype, value)
        if dtype == "float16" and value & 0x7C00 != 0x7C00:
            (number,) = struct.unpack("<e", struct.pack("<H", value))
            assert struct.pack("<f", number) == struct.pack("<I", wide)


def test_casts_that_are_wrong_are_named() -> None:
    rng = random.Random(2)
    data = bits.filled(rng, "bfloat16", 2, 500)
    wide = lane.as_floats("bfloat16", data, rng)
    right = b"".join(
        bits.rounded(value).to_bytes(2, "little")
        for (value,) in struct.iter_unpack("<I", wide)
    )

    class Held:
        name, dtype, num_elements = "w", "bfloat16", 500

    lane.check_cast(Held, wide, right, rng)
    wrong = right[:14] + bytes([right[14] ^ 1]) + right[15:]
    with pytest.raises(Exception, match='"w": cast: element 7: '):
        lane.check_cast(Held, wide, wrong, rng)


@pytest.mark.parametrize("share", [0, 0.01, 0.4, 1])
def test_changes_differ_at_their_places(share: float) -> None:
    rng = random.Random(3)
    for dtype, width in (("float32", 4), ("float16", 2), ("int64", 8)):
        data = bits.filled(rng, dtype, width, 400)
        places = rng.sample(range(400), int(400 * share))
        now = bits.changed(rng, dtype, data, places, width)
        differ = {
            at for at in range(400)
            if data[at * width : (at + 1) * width]
            != now[at * width : (at + 1) * width]
        }  # fmt: skip
        assert differ == set(places)
        assert all(a ^ b == 255 for a, b in zip(data, bits.inverted(data)))


@needs_tools
def test_forged_messages_have_right_checksums(
    plans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages that are sealed again are the same, byte for byte."""
    seen: list[bytes] = []
    plain = lane.Post.send

    def send(post: lane.Post, source: int, to: int, parts: list) -> None:
        plain(post, source, to, parts)
        seen.append(post.sent[source, to][-1])

    monkeypatch.setattr(lane.Post, "send", send)
    compared(plans, "vllm-slots-device")
    assert max(len(wire.sections(message)) for message in seen) > 1
    for message in seen[::7]:
        unsealed = bytearray(message)
        for begin, _ in wire.sections(message):
            unsealed[begin : begin + 8] = bytes(8)
        unsealed[wire.COVERED : wire.HEADER] = bytes(8)
        assert wire.sealed(unsealed) == message
