# ===- test_sync.py - Syncs from Python, on the host ----------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Senders and receivers of compiled plans over numpy arrays, bit for bit."""

import gc
import threading
from pathlib import Path

import pytest

np = pytest.importorskip("numpy", reason="ranks are numpy arrays here")

from ranks import Capture, World, by_chunk, compile_plan  # noqa: E402
from delta_sync import (  # noqa: E402
    DeltaError, Plan, Refresh, Side, Status, Target,
)
from rollout.configs import EXPERTS, NEXT  # noqa: E402
from rollout.session import Held, infos  # noqa: E402
from support import CONFIGS, needs_tools  # noqa: E402

pytestmark = needs_tools

GEOMETRIES = {
    "experts": ("qwen3_moe", {"tp": 2, "ep": 2, "pp": 2}),
    "chunks": ("qwen3", {"tp": 2, "pp": 2, "vpp": 2}),
    "mamba": ("nemotron_h", {"tp": 2, "ep": 2}),
    "replicas": ("qwen3", {"tp": 2, "dp": 2}),
}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("plans")
    return {
        name: compile_plan(folder, CONFIGS[config], trainer, name=name)
        for name, (config, trainer) in GEOMETRIES.items()
    }


# --- syncs -------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_seed_and_deltas_arrive(
    plans: dict[str, Path], name: str, threads: int
) -> None:
    with World(plans[name], threads=threads) as world:
        assert [receiver.version for receiver in world.receivers] == [0]
        world.sync()
        world.check()
        for version, share in ((2, 0.01), (3, 0.9), (4, 0.0)):
            changed = world.change(share, seed=version)
            world.sync()
            world.check()
            assert sum(s.stats.changed for s in world.senders) == changed
            assert all(s.version == version for s in world.senders)
            assert all(r.version == version for r in world.receivers)


def test_chunks_are_a_list_of_dicts(plans: dict[str, Path]) -> None:
    with World(plans["chunks"]) as world:
        chunks = by_chunk(world.trainer.ranks[0])
        assert len(chunks) == 2 and chunks[0].keys() & chunks[1].keys()
        flat = {**chunks[0], **chunks[1]}
        with pytest.raises(DeltaError, match=r"\(chunk [01]\): bind: ") as e:
            world.plan.sender(0, flat, world.transport)
        assert e.value.status is Status.BIND_MISMATCH


def test_stats_say_what_was_packed(plans: dict[str, Path]) -> None:
    transport = Capture()
    with World(plans["experts"], transport) as world:
        world.sync()
        sizes = []
        send = transport.send

        def counted(source, destination, parts):
            sizes.append(sum(part.nbytes for part in parts))
            send(source, destination, parts)

        transport.send = counted
        world.change(0.02, seed=1)
        sender = world.senders[1]
        stats = sender.sync()
        tiles = list(world.plan.tiles(1))
        assert stats.elements == sum(tile.num_elements for tile in tiles)
        assert 0 < stats.changed < stats.elements
        assert 0 < stats.tiles <= len(tiles)
        assert stats.message_bytes == sum(sizes)
        assert sender.stats == stats and sender.rounds == 1
        sender.abort()
        assert sender.rounds == 0


def test_ranks_may_be_threads(plans: dict[str, Path]) -> None:
    with World(plans["experts"]) as world:
        failed = []

        def run(work) -> None:
            try:
                work()
            except Exception as error:  # shown by the assertion below
                failed.append(error)

        def receive() -> None:
            world.receivers[0].receive()
            world.receivers[0].commit()

        for seed in range(3):
            world.change(0.05, seed)
            threads = [
                threading.Thread(target=run, args=(work,))
                for work in (receive, *(s.sync for s in world.senders))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not failed
            for sender in world.senders:
                sender.acknowledge()
            world.check()


def test_halves_of_a_diff(plans: dict[str, Path]) -> None:
    with World(plans["experts"]) as world:
        if not world.plan.offers("sender_compare"):
            pytest.skip("the run time has no sender_compare yet")
        world.sync()
        changed = world.change(0.03, seed=8)
        for sender in world.senders:
            sender.compare()
        packed = sum(sender.pack().changed for sender in world.senders)
        assert packed == changed
        for sender in world.senders:
            sender.send()
        world.receivers[0].receive()
        world.receivers[0].commit()
        for sender in world.senders:
            sender.acknowledge()
        world.check()


def test_capacity_cuts_a_sync_into_rounds(plans: dict[str, Path]) -> None:
    with World(plans["experts"]) as world:
        world.sync()
        with pytest.raises(DeltaError, match="the largest tile") as caught:
            world.senders[0].set_capacity(1)
        assert caught.value.status is Status.INVALID_ARGUMENT
        for sender in world.senders:
            sender.set_capacity(8192)
        world.change(1.0, seed=2)
        for sender in world.senders:
            sender.diff()
        assert max(sender.rounds for sender in world.senders) > 1
        for sender in world.senders:
            sender.send()
        world.receivers[0].receive()
        world.receivers[0].commit()
        for sender in world.senders:
            sender.acknowledge()
        world.check()


# --- what fails --------------------------------------------------------------


def test_an_aborted_sync_leaves_everything(plans: dict[str, Path]) -> None:
    with World(plans["experts"]) as world:
        world.sync()
        before = world.expected()
        first = world.change(0.02, seed=1)
        for sender in world.senders:
            sender.sync()
        world.receivers[0].receive()
        world.receivers[0].discard()
        for sender in world.senders:
            sender.abort()
        world.check(before)
        with pytest.raises(DeltaError, match="commit") as caught:
            world.receivers[0].commit()
        assert caught.value.status is Status.REFUSED
        # All of it, and not only what changed since, comes with the next.
        world.sync()
        world.check()
        assert sum(s.stats.changed for s in world.senders) == first
        assert world.receivers[0].version == 2


def test_a_send_that_fails_is_aborted(plans: dict[str, Path]) -> None:
    transport = Capture()
    with World(plans["experts"], transport) as world:
        world.sync()
        changed = world.change(0.02, seed=1)

        def broken(source, destination, parts):
            raise ConnectionError("cable")

        working, transport.send = transport.send, broken
        with pytest.raises(
            DeltaError, match="rank 0: send to destination rank 0: "
            "ConnectionError: cable",
        ) as caught:
            world.senders[0].sync()
        assert isinstance(caught.value.__cause__, ConnectionError)
        transport.send = working
        world.sync()
        world.check()
        assert sum(s.stats.changed for s in world.senders) == changed


def refusal(world: World, status: Status, pattern: str) -> None:
    """The receiver refuses what is in the transport, and holds what it held."""
    before = [one.memory.copy() for one in world.held[0]]
    with pytest.raises(DeltaError, match=pattern) as caught:
        world.receivers[0].receive()
    assert caught.value.status is status, caught.value
    with pytest.raises(DeltaError):
        world.receivers[0].commit()
    for one, kept in zip(world.held[0], before):
        assert np.array_equal(one.memory, kept)


def test_messages_that_do_not_fit_are_refused(plans: dict[str, Path]) -> None:
    transport = Capture()
    with World(plans["experts"], transport) as world:
        world.sync()
        world.change(0.02, seed=1)
        # Another run.
        with world.plan.sender(
            0, by_chunk(world.trainer.ranks[0]), transport, run=4
        ) as stranger:
            stranger.sync()
        for sender in world.senders[1:]:
            sender.sync()
        refusal(world, Status.REFUSED, "run")
        for sender in world.senders[1:]:
            sender.abort()
        # A changed bit, then a part that is missing.
        for tamper, text in (
            (lambda data: data[:-20] + bytes([data[-20] ^ 1]) + data[-19:],
             "rank 0: source 0: stage: .*checksum"),
            (lambda data: data[:-16],
             "rank 0: source 0: stage: .* bytes follow the header"),
        ):
            for sender in world.senders:
                sender.sync()
            queue = transport.queues[0, 0]
            assert len(queue[0]) > 200
            queue.append(tamper(queue.popleft()))
            refusal(world, Status.CORRUPT, text)
            for sender in world.senders:
                sender.abort()
        # A delta that was lost: the next one has a base that nobody holds.
        for sender in world.senders:
            sender.sync()
            sender.acknowledge()
        transport.queues.clear()
        world.change(0.02, seed=2)
        for sender in world.senders:
            sender.sync()
        refusal(world, Status.REFUSED, "version|base")
        for sender in world.senders:
            sender.abort()
        # A full sync heals it.
        for sender in world.senders:
            sender.sync(full=True)
        world.receivers[0].receive()
        world.receivers[0].commit()
        world.check()


def test_a_delta_before_the_seed_is_refused(plans: dict[str, Path]) -> None:
    with World(plans["experts"]) as world:
        with pytest.raises(DeltaError, match="rank 1: diff: no full sync") as e:
            world.senders[1].diff()
        assert e.value.status is Status.NOT_SEEDED
        with pytest.raises(DeltaError, match="rank 1: acknowledge: version"):
            world.senders[1].acknowledge()
        with pytest.raises(DeltaError, match="rank 1: send: nothing is packed"):
            world.senders[1].send()


# --- checks ------------------------------------------------------------------


def test_fingerprints_tell_what_a_receiver_holds(
    plans: dict[str, Path],
) -> None:
    with World(plans["experts"]) as world:
        world.sync()
        receiver = world.receivers[0]
        for rank, sender in enumerate(world.senders):
            sums = sender.fingerprints(0, key=99)
            assert len(sums) and sums == receiver.fingerprints(rank, key=99)
            assert sums != receiver.fingerprints(rank, key=98)
        # Of one changed element one sum tells, and only one.
        world.held[0][0].memory[0] ^= 1
        wrong = [
            a != b
            for rank, sender in enumerate(world.senders)
            for a, b in zip(
                sender.fingerprints(0, key=99),
                receiver.fingerprints(rank, key=99),
            )
        ]
        assert sum(wrong) == 1


def test_replay_compares_with_memory(plans: dict[str, Path]) -> None:
    with World(plans["experts"]) as world:
        world.sync()
        for broken in (False, True):
            if broken:
                world.held[0][2].memory[7] ^= 4
            for sender in world.senders:
                sender.seed(sender.version)
                sender.send()
            world.receivers[0].receive()
            found = world.receivers[0].compare()
            assert found.count == int(broken)
            assert (world.held[0][2].name in found.first) == broken
            for sender in world.senders:
                sender.abort()


def test_replicas_have_equal_sums(plans: dict[str, Path]) -> None:
    with World(plans["replicas"]) as world:
        def sums(rank: int) -> dict:
            return {
                (one.box, one.layer, one.expert): one.sum
                for one in world.senders[rank].replica_sums(key=4)
            }

        # Ranks 0 and 2 hold the same shard.
        assert len(sums(0)) and sums(0) == sums(2)
        assert any(layer is None for _, layer, _ in sums(0))
        world.trainer.ranks[2][0].memory[3] ^= 1
        assert sum(a != b for a, b in
                   zip(sums(0).values(), sums(2).values())) == 1


# --- memory ------------------------------------------------------------------


def test_rebind_takes_other_memory(plans: dict[str, Path]) -> None:
    with World(plans["experts"]) as world:
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


def test_a_tensor_that_moved_is_named(plans: dict[str, Path]) -> None:
    with World(plans["experts"]) as world:
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


def test_bound_tensors_stay(plans: dict[str, Path]) -> None:
    """A sender over arrays that nobody else holds."""
    with World(plans["experts"]) as world:
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


def test_closed_handles_say_so(plans: dict[str, Path]) -> None:
    with World(plans["experts"]) as world:
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


def test_layout_of_loaded_weights_is_checked(plans: dict[str, Path]) -> None:
    with World(plans["experts"]) as world:
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


def test_a_host_plan_runs_anywhere(plans: dict[str, Path]) -> None:
    with Plan.open(plans["experts"]) as plan:
        assert plan.check_device() is Target.HOST
        assert plan.target is Target.HOST
    with World(plans["experts"]) as world:
        for handle in (world.senders[0], world.receivers[0]):
            handle.set_stream(None)
            handle.set_stream(0)
            with pytest.raises(DeltaError, match="stream") as caught:
                handle.set_stream(16)
            assert caught.value.status is Status.INVALID_ARGUMENT
