# ===- test_sync.py - Syncs from Python, on the host ----------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Senders and receivers of compiled plans over numpy arrays, bit for bit."""

import threading
from pathlib import Path

import pytest

np = pytest.importorskip("numpy", reason="ranks are numpy arrays here")

from ranks import Capture, World, by_chunk, compile_plan  # noqa: E402
from delta_sync import DeltaError, Status  # noqa: E402
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


def test_a_sync_in_parts(plans: dict[str, Path]) -> None:
    with World(plans["experts"]) as world:
        world.sync()
        for seed in range(3):
            world.change(0.05, seed)
            for sender in world.senders:
                sender.compare()
                stats = sender.read()
                assert stats.changed > 0 and sender.version == seed + 1
                with pytest.raises(DeltaError, match="is not sealed"):
                    sender.send()
                sender.seal()
                sender.send()
            for receiver in world.receivers:
                receiver.receive()
                receiver.commit()
            for sender in world.senders:
                sender.confirm()
                assert sender.version == seed + 2
                sender.advance()
            world.check()


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
