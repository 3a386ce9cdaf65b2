# ===- test_tensors.py - What a bind reads of a tensor --------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Arrays, tensors of torch, and what is refused with which words. Tensors of a
GPU are stood in for: nothing of a bind reads their memory."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="ranks are numpy arrays here")

from ranks import (  # noqa: E402
    FakeTensor, World, by_chunk, compile_plan, fakes,
)
from delta_sync import DeltaError, Dtype, Plan, Side, Status, Target
from delta_sync.handle import current_stream, stream_address
from delta_sync.tensors import Binding, floats_of, view
from support import CONFIGS, needs_tools

EMBEDDING = "embedding.word_embeddings.weight"


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_plan(
        tmp_path_factory.mktemp("plan"), CONFIGS["qwen3"], {"tp": 2}
    )


def bind(target: Target, params: Any, dtype: Dtype | None = None) -> Binding:
    return Binding(3, params, target=target, required=lambda *_: dtype)


# --- alone -------------------------------------------------------------------


def test_a_binding_says_what_tensors_are() -> None:
    params = [{"a": FakeTensor((3, 4))}, {"b": FakeTensor((5,), address=64)}]
    found = bind(Target.CUDA, params)
    assert len(found) == 2 and found.device == "cuda:1"
    first, second = found.array
    assert (first.name, first.chunk, first.dtype) == (b"a", 0, Dtype.BF16)
    assert (first.rank, first.data) == (2, 0x7F0000001000)
    assert list(first.shape[:2]) == [3, 4] and list(first.stride[:2]) == [4, 1]
    assert (second.name, second.chunk, second.data) == (b"b", 1, 64)


def test_arrays_have_strides_in_elements() -> None:
    array = np.zeros((4, 6), np.float32)
    found = view(array[:, ::2])
    assert found.shape == (4, 3) and found.stride == (6, 2)
    assert found.address == array.ctypes.data and found.is_of_host
    assert view(np.broadcast_to(array, (2, 4, 6))).is_read_only


@pytest.mark.parametrize(
    ("array", "planned", "expected"),
    [
        ("float16", None, Dtype.FP16),
        ("float32", Dtype.BF16, Dtype.FP32),
        ("int64", None, Dtype.INT64),
        ("uint16", None, Dtype.BF16),
        ("uint16", Dtype.FP16, Dtype.FP16),
        ("uint16", Dtype.FP32, Dtype.BF16),
        ("uint32", Dtype.FP32, Dtype.FP32),
    ],
)
def test_bits_have_the_type_of_the_plan(
    array: str, planned: Dtype | None, expected: Dtype
) -> None:
    found = bind(Target.HOST, {"a": np.zeros(2, array)}, planned)
    assert found.array[0].dtype == expected


@pytest.mark.parametrize(
    ("target", "tensor", "message"),
    [
        (Target.HOST, FakeTensor((2,)),
         "memory of cuda:1, required: memory of the host"),
        (Target.CUDA, FakeTensor((2,), device="cpu"),
         "memory of the host, required: memory of a CUDA device"),
        (Target.CUDA, np.zeros(2, np.uint16),
         "memory of the host, required: memory of a CUDA device"),
        (Target.CUDA, FakeTensor((2,), device="meta"),
         "memory of meta, required: memory of a CUDA device"),
        (Target.HOST, FakeTensor((2,), "cpu", "torch.float64"),
         "dtype float64; a plan has bfloat16, float16, float32, int64, or "
         "their bits as unsigned integers"),
        (Target.HOST, np.zeros(2, ">u2"), "dtype byte-swapped uint16; a plan"),
        (Target.HOST, [1, 2], "list, required is a tensor with data_ptr() or "
         "an array with __array_interface__"),
    ],
)  # fmt: skip
def test_what_no_bind_takes(
    target: Target, tensor: Any, message: str
) -> None:
    with pytest.raises(DeltaError) as caught:
        bind(target, [{}, {"b.w": tensor}])
    assert caught.value.status is Status.BIND_MISMATCH
    prefix = 'rank 3: "b.w" (chunk 1): bind: '
    assert caught.value.message.startswith(prefix + message)


def test_strides_of_part_of_an_element_are_refused() -> None:
    record = np.zeros(4, np.dtype([("a", np.uint16), ("b", np.uint8)]))
    with pytest.raises(DeltaError, match="strides of .3,. bytes"):
        bind(Target.HOST, {"a": record["a"]})


def test_values_of_a_cast_are_contiguous_floats() -> None:
    values = np.zeros((3, 5), np.float32)
    address, count = floats_of(values, Target.HOST)
    assert count == 15
    address[14] = 2.5
    assert values[2, 4] == 2.5
    for wrong, message in (
        (values.T, "strides"), (values[:, ::2], "strides"),
        (values.astype(np.float16), "values of float16, required: float32"),
        (FakeTensor((3,), dtype="torch.float32"), "memory of cuda:1, required"),
    ):
        with pytest.raises(TypeError, match=message):
            floats_of(wrong, Target.HOST)


# --- streams -----------------------------------------------------------------


def test_a_stream_is_an_address_or_has_one() -> None:
    assert stream_address(0x1234) == 0x1234
    assert stream_address(types.SimpleNamespace(cuda_stream=77)) == 77


def test_the_stream_is_torchs_where_torch_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def stream(device: str) -> object:
        asked.append(device)
        return types.SimpleNamespace(cuda_stream=4711)

    cuda = types.SimpleNamespace(
        is_initialized=lambda: True, current_stream=stream
    )
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    assert current_stream("cuda:1") == 4711 and asked == ["cuda:1"]
    cuda.is_initialized = lambda: False
    assert current_stream("cuda:1") == 0
    monkeypatch.setitem(sys.modules, "torch", None)
    assert current_stream("cuda:1") == 0


# --- by a plan ---------------------------------------------------------------


@needs_tools
def test_a_plan_names_what_does_not_fit(plan_file: Path) -> None:
    with World(plan_file) as world:
        good = by_chunk(world.trainer.ranks[0])[0]
        embedding = good[EMBEDDING]
        for tensor, message in (
            (embedding.astype(np.float32), "dtype fp32, required bf16"),
            (embedding[1:], r"shape .*, required "),
            (embedding.reshape(-1), r"shape .*, required "),
            (np.asfortranarray(embedding), "are not row-major"),
            (np.zeros((1,) * 7, np.uint16), "7 dimensions"),
            (np.zeros(2 * embedding.nbytes, np.uint8)[1:][: embedding.nbytes]
             .view(np.uint16).reshape(embedding.shape), "not aligned"),
        ):
            with pytest.raises(DeltaError, match=message) as caught:
                world.plan.sender(0, {**good, EMBEDDING: tensor})
            assert caught.value.status is Status.BIND_MISMATCH
            assert f'rank 0: "{EMBEDDING}" (chunk 0): bind: ' in str(
                caught.value)
        with pytest.raises(DeltaError, match='"x".*not a parameter of this'):
            world.plan.sender(0, {**good, "x": embedding.copy()})
        with pytest.raises(DeltaError, match="rank 2"):
            world.plan.sender(2, good)


@needs_tools
def test_tensors_of_a_gpu_are_not_for_a_host_plan(plan_file: Path) -> None:
    with Plan.open(plan_file) as plan:
        for side, make in (
            (Side.SOURCE, plan.sender), (Side.DESTINATION, plan.receiver),
        ):
            tensors = fakes(plan, side)
            name = next(iter(tensors))
            with pytest.raises(DeltaError) as caught:
                make(0, tensors)
            assert caught.value.status is Status.BIND_MISMATCH
            assert caught.value.message == (
                f'rank 0: "{name}" (chunk 0): bind: memory of cuda:1, '
                "required: memory of the host"
            )


@needs_tools
def test_a_receiver_needs_memory_to_write(plan_file: Path) -> None:
    with World(plan_file) as world:
        for held in world.trainer.ranks[0]:
            held.view.flags.writeable = False
        world.plan.sender(0, by_chunk(world.trainer.ranks[0])).close()
        name = world.held[0][1].name
        world.held[0][1].view.flags.writeable = False
        with pytest.raises(DeltaError, match=f'"{name}".*bind: read-only'):
            world.plan.receiver(0, by_chunk(world.held[0]))


@needs_tools
def test_casts_and_marks_name_a_parameter(plan_file: Path) -> None:
    with World(plan_file) as world:
        sender = world.senders[0]
        with pytest.raises(
            DeltaError, match='rank 0: "x" .chunk 0.: mark: not a parameter'
        ):
            sender.mark("x")
        for values, message in (
            (np.zeros(4), "values of float64, required: float32"),
            ([1.0], "list, required is a tensor"),
        ):
            with pytest.raises(DeltaError, match=f"cast: {message}") as caught:
                sender.cast(EMBEDDING, values)
            assert caught.value.status is Status.INVALID_ARGUMENT
        # This plan keeps a copy and no bits.
        with pytest.raises(DeltaError):
            sender.cast(EMBEDDING, np.zeros(4, np.float32))
        for call, name in ((sender.marks, "marks"),
                           (sender.drop_marks, "drop_marks")):  # fmt: skip
            with pytest.raises(
                DeltaError, match=f"rank 0: {name}: the plan is for the host"
            ):
                call()


# --- torch -------------------------------------------------------------------


@needs_tools
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_tensors_of_torch_need_no_copy(tmp_path: Path, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
    path = compile_plan(
        tmp_path, CONFIGS["qwen3"], {"tp": 2, "dtype": dtype}
    )
    with Plan.open(path) as plan, plan.inproc() as inproc:
        def make(side: Side, rank: int) -> dict:
            return {
                info.name: torch.nn.Parameter(
                    torch.randn(info.shape).to(kind), requires_grad=False
                )
                for info in plan.parameters(side, rank)
            }

        source = [make(Side.SOURCE, rank) for rank in range(2)]
        # What both ranks hold is the same.
        for name, tensor in source[0].items():
            if "norm" in name:
                source[1][name].copy_(tensor)
        target = make(Side.DESTINATION, 0)
        norm = "model.norm.weight"
        before = target[norm].data_ptr()
        with (
            plan.sender(0, source[0], inproc) as first,
            plan.sender(1, source[1], inproc) as second,
            plan.receiver(0, target, inproc) as receiver,
        ):
            for _ in range(2):
                for sender in (first, second):
                    sender.sync()
                receiver.receive()
                receiver.commit()
                for sender in (first, second):
                    sender.acknowledge()
                assert target[norm].data_ptr() == before
                assert torch.equal(
                    target[norm], source[0]["decoder.final_layernorm.weight"]
                )
                whole = torch.cat([one[EMBEDDING] for one in source])
                held = target["model.embed_tokens.weight"]
                assert torch.equal(held, whole[: len(held)])
                source[1][EMBEDDING].mul_(1.5)


@needs_tools
def test_messages_may_be_tensors(plan_file: Path) -> None:
    torch = pytest.importorskip("torch")
    queues: dict = {}

    class Tensors:
        def send(self, source: int, destination: int, parts: Any) -> None:
            message = bytearray(b"".join(parts))
            queues[source, destination] = torch.frombuffer(
                message, dtype=torch.uint8
            )

        def receive(self, source: int, destination: int) -> Any:
            return queues.pop((source, destination))

    with World(plan_file, Tensors()) as world:
        for seed in range(3):
            world.change(0.02, seed)
            world.sync()
            world.check()
