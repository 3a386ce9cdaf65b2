# ===- test_handles.py - Memory, placements and streams of ranks ----------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What a sender or a receiver is bound to, and what an engine asks of it."""

import gc
import shutil
from pathlib import Path

import pytest

np = pytest.importorskip("numpy", reason="ranks are numpy arrays here")

from ranks import World, by_chunk, compile_plan, fakes  # noqa: E402
from delta_sync import (
    DeltaError, Plan, Refresh, Side, Snapshot, Status, Target,
)
from rollout.configs import EXPERTS, NEXT
from rollout.session import Held, infos
from support import CONFIGS, needs_tools, tool, write_json

pytestmark = needs_tools


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_plan(
        tmp_path_factory.mktemp("plan"), CONFIGS["qwen3_moe"],
        {"tp": 2, "ep": 2, "pp": 2},
    )


# --- memory ------------------------------------------------------------------


def test_rebind_takes_other_memory(plan_file: Path) -> None:
    with World(plan_file) as world:
        world.sync()
        sender, held = world.senders[0], world.trainer.ranks[0]
        sender.check_bound()
        chunks = by_chunk(held)
        name = next(iter(chunks[0]))
        chunks[0] = {**chunks[0], name: chunks[0][name].copy()}
        sender.rebind(chunks)
        sender.check_bound()
        chunks[0][name][0, 0] ^= 1
        assert sender.sync().changed == 1
        sender.abort()
        # The old ones stay where the new ones do not fit.
        with pytest.raises(DeltaError, match=f'"{name}".*missing'):
            sender.rebind([{k: v for k, v in chunks[0].items() if k != name}])
        assert sender.sync().changed == 1


class Movable:
    """An array that can be re-allocated, as a parameter of a module."""

    def __init__(self, data: "np.ndarray") -> None:
        self.data = data

    def __getattr__(self, name: str) -> object:
        return getattr(self.data, name)


def test_a_tensor_that_moved_is_named(plan_file: Path) -> None:
    with World(plan_file) as world:
        params = {
            name: Movable(array)
            for name, array in by_chunk(world.held[0])[0].items()
        }
        receiver = world.plan.receiver(0, params, world.transport)
        receiver.check_bound()
        params["model.norm.weight"].data = params["model.norm.weight"].copy()
        with pytest.raises(
            DeltaError, match=r'"model.norm.weight" \(chunk 0\): check: moved'
        ) as caught:
            receiver.check_bound()
        assert caught.value.status is Status.BIND_MISMATCH
        receiver.close()


def test_bound_tensors_stay(plan_file: Path) -> None:
    """A sender over arrays that nobody else holds."""
    with World(plan_file) as world:
        copies = [
            {name: array.copy() for name, array in chunk.items()}
            for chunk in by_chunk(world.trainer.ranks[0])
        ]
        world.senders[0].close()
        world.senders[0] = world.plan.sender(
            0, copies, world.transport, run=3
        )
        del copies
        gc.collect()
        junk = [np.full(4096, 7, np.uint16) for _ in range(64)]
        world.sync()
        world.check()
        assert len(junk) == 64


def test_closed_handles_say_so(plan_file: Path) -> None:
    with World(plan_file) as world:
        sender, receiver = world.senders[0], world.receivers[0]
        sender.close()
        receiver.close()
        sender.close()
        with pytest.raises(DeltaError, match="rank 0: seed: the sender is c"):
            sender.seed()
        with pytest.raises(DeltaError, match="commit: the receiver is closed"):
            receiver.commit()
        assert sender.rounds == 0 and receiver.version == 0
        world.inproc.close()
        with pytest.raises(DeltaError, match="mailboxes are closed"):
            world.senders[1].sync()
        world.plan.close()
        with pytest.raises(DeltaError, match="the plan is closed"):
            world.plan.sender(0, {})


# --- engines -----------------------------------------------------------------


class Engine:
    """All ranks of a plan into an engine; the trainer's are random bits, the
    same ones on all ranks that hold a parameter whole."""

    def __init__(self, path: Path) -> None:
        self.plan = Plan.open(path)
        self.inproc = self.plan.inproc()
        self.source, self.target = (
            [[Held(info) for info in infos(self.plan, side, rank)]
             for rank in range(self.plan.num_ranks(side))]
            for side in (Side.SOURCE, Side.DESTINATION)
        )
        random, common = np.random.default_rng(3), {}
        for rank, held in enumerate(self.source):
            for one in held:
                is_expert = one.info.expert != 0xFFFFFFFF
                key = (rank if is_expert else 0, one.name)
                bits = common.setdefault(key, random.integers(
                    1 << 16, size=one.memory.size, dtype=np.uint16))
                one.memory[:] = bits
        self.senders = [
            self.plan.sender(rank, by_chunk(held), self.inproc)
            for rank, held in enumerate(self.source)
        ]
        self.receivers = [
            self.plan.receiver(rank, by_chunk(held), self.inproc)
            for rank, held in enumerate(self.target)
        ]

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        for handle in (*self.senders, *self.receivers):
            handle.close()
        self.inproc.close()
        self.plan.close()

    def deliver(self) -> None:
        for sender in self.senders:
            sender.send()
        for receiver in self.receivers:
            receiver.receive()
            receiver.commit()
        for sender in self.senders:
            sender.acknowledge()

    def slots(self, name: str) -> list:
        """The experts of layer 0 in the order of all ranks' slots."""
        return [
            slot.copy()
            for held in self.target
            for one in held
            if one.name.endswith(name) and ".layers.0." in one.name
            for slot in one.view
        ]


def test_experts_can_move(tmp_path: Path) -> None:
    path = compile_plan(
        tmp_path, EXPERTS, {"ep": 2},
        {"engine": "sglang", "tp": 2, "ep": 2, "redundant_experts": 2},
    )
    with Engine(path) as engine:
        for sender in engine.senders:
            sender.seed()
        engine.deliver()
        before = engine.slots("w13_weight")
        # Eight experts in ten slots; the last two repeat others.
        was = [*range(8), 0, 1]
        table = [1, 2, 3, 4, 5, 6, 7, 0, 3, 4]
        first = engine.senders[0]
        with pytest.raises(DeltaError, match="different lengths"):
            first.set_placement([table, table[1:]])
        with pytest.raises(DeltaError, match="set_placement"):
            first.set_placement([[0] * 10])
        for handle in (*engine.senders, *engine.receivers):
            handle.set_placement([table])
        with pytest.raises(DeltaError, match="experts moved") as caught:
            first.diff()
        assert caught.value.status is Status.REFUSED
        for sender in engine.senders:
            assert sender.begin_moved().changed
        engine.deliver()
        assert {sender.version for sender in engine.senders} == {1}
        after = engine.slots("w13_weight")
        assert len(after) == len(table)
        for slot, expert in enumerate(table):
            assert np.array_equal(after[slot], before[was.index(expert)]), slot


def test_refreshes_name_module_and_method(tmp_path: Path) -> None:
    path = compile_plan(tmp_path, NEXT, {}, {"engine": "sglang"})
    norm = "model.layers.2.input_layernorm"
    with Engine(path) as engine:
        for sender in engine.senders:
            sender.seed()
        engine.deliver()
        asked = engine.receivers[0].refreshes()
        assert Refresh(f"{norm}.weight", "refresh_gemma_weight") in asked
        assert norm in {refresh.module for refresh in asked}
        for value in (True, False):
            held = engine.source[0]
            if value:
                (one,) = [h for h in held if h.name.endswith(
                    "layers.2.self_attention.in_proj.layer_norm_weight")]
            else:
                one = held[0]
            one.memory[0] ^= 1
            for sender in engine.senders:
                assert sender.diff().changed == 1
            engine.deliver()
            names = [r.parameter for r in engine.receivers[0].refreshes()]
            assert names == ([f"{norm}.weight"] if value else [])


def test_layout_of_loaded_weights_is_checked(plan_file: Path) -> None:
    with World(plan_file) as world:
        expected = world.expected()
        for one in world.held[0]:
            one.memory[:] = expected[one.name]
        (wrong,) = [o for o in world.held[0] if o.name == "lm_head.weight"]
        for sender in world.senders:
            sender.sync()
        world.receivers[0].receive()
        world.receivers[0].check_layout()
        wrong.memory[:] = wrong.memory.reshape(wrong.shape).T.reshape(-1)
        with pytest.raises(DeltaError, match="lm_head.weight") as caught:
            world.receivers[0].check_layout(0.5)
        assert caught.value.status is Status.BIND_MISMATCH
        # What is staged has stayed.
        world.receivers[0].commit()
        world.check()


# --- the target --------------------------------------------------------------


def test_a_host_plan_runs_anywhere(plan_file: Path) -> None:
    with Plan.open(plan_file) as plan:
        assert plan.check_device() is Target.HOST
        assert plan.target is Target.HOST
    with World(plan_file) as world:
        for handle in (world.senders[0], world.receivers[0]):
            handle.set_stream(None)
            handle.set_stream(0)
            with pytest.raises(DeltaError, match="stream") as caught:
                handle.set_stream(16)
            assert caught.value.status is Status.INVALID_ARGUMENT


@pytest.fixture(scope="module")
def cuda_plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("nvcc") and not Path("/usr/local/cuda/bin").is_dir():
        pytest.skip("no nvcc")
    folder = tmp_path_factory.mktemp("cuda")
    model = write_json(
        folder / "model.json",
        {
            "config": CONFIGS["qwen3"], "trainer": {"tp": 2},
            "sync": {"snapshot": "pinned"},
        },
    )
    result = tool(
        "delta-compile", model, "-o", folder / "plan.so", "--target", "cuda",
        "--arch", "sm_90",
    )
    assert result.returncode == 0, result.stderr
    return folder / "plan.so"


def test_a_cuda_plan_says_what_it_needs(cuda_plan: Path) -> None:
    """Opened, asked and refused by name without a driver."""
    with Plan.open(cuda_plan) as plan:
        assert plan.target is Target.CUDA
        assert plan.snapshot is Snapshot.PINNED
        infos_of = plan.parameters(Side.SOURCE, 0)
        arrays = {i.name: np.zeros(i.shape, np.uint16) for i in infos_of}
        with pytest.raises(DeltaError) as caught:
            plan.sender(0, arrays)
        assert caught.value.status is Status.BIND_MISMATCH
        assert caught.value.message == (
            f'rank 0: "{infos_of[0].name}" (chunk 0): bind: memory of the '
            "host, required: memory of a CUDA device"
        )


def test_a_cuda_plan_without_a_driver_says_so(cuda_plan: Path) -> None:
    with Plan.open(cuda_plan) as plan:
        try:
            plan.check_device()
        except DeltaError as error:
            assert error.status is Status.NO_DEVICE
            assert len(error.message) > 10 and "\n" not in error.message
        else:
            pytest.skip("there is a GPU")
        with pytest.raises(DeltaError) as caught:
            plan.sender(0, fakes(plan, Side.SOURCE))
        assert caught.value.status is Status.NO_DEVICE
