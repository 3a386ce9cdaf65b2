# ===- script.py - What both plans are told -------------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Full syncs and deltas, whole and in rounds, aborted, damaged, moved, bound
anew: every call that a plan offers, on both plans of a pair."""

import random
from collections.abc import Callable

from delta_sync import Side, Target

from . import bits, wire
from .lane import Lane
from .memory import by_chunk
from .parts import KEYS, Parts, found, status

# Elements that a damaged message has, about: its checksums are formed in
# Python.
DAMAGED = 1500


class Script(Parts):
    """Runs the steps on a pair; `brief` for a sanitizer: fewer of each."""

    def run(self) -> None:
        steps: tuple[Callable[[], None], ...] = (
            self.create, self.first, self.rounds, self.in_one_round,
            self.small_rounds, self.fingerprints, self.abort, self.broken,
            self.damage, self.replay, self.rebind, self.move, self.mailboxes,
            self.marks,
        )  # fmt: skip
        for step in steps:
            self.pair.step = step.__name__
            step()
            for lane in self.pair.lanes:
                lane.post.clear()
        self.pair.step = "end"
        self.pair.sources("the end")

    # --- steps ---------------------------------------------------------------

    def create(self) -> None:
        pair = self.pair
        pair.fill()
        for lane in pair.lanes:
            lane.open()
        # A sender of a CUDA plan has as much without being told.
        for rank, (usual, _, _) in enumerate(self.capacities):
            for lane in pair.lanes:
                if lane.plan.check_device() == Target.HOST and usual:
                    lane.senders[rank].set_capacity(usual)
        pair.senders("diff", lambda s: s.diff(), fails=True)
        pair.senders("send", lambda s: s.send(), fails=True)
        pair.senders("acknowledge", lambda s: s.acknowledge(3), fails=True)
        pair.receivers("commit", lambda r: r.commit(), fails=True)
        pair.receivers("compare", lambda r: found(r), fails=None)
        pair.unchanged("refused")

    def first(self) -> None:
        """A full sync into memory that holds something else."""
        pair = self.pair
        self.pack(full=True)
        self.send()
        self.receive()
        pair.receivers("layout", lambda r: r.check_layout(0.5), fails=None)
        pair.receivers("layout", lambda r: r.check_layout(1.0), fails=None)
        pair.unchanged("staged")
        self.commit()
        # The same again, into memory that holds it.
        self.sync(full=True, layout=True)

    def rounds(self) -> None:
        """With the room that a sender of a CUDA plan has, once it is made."""
        for share in (0, 0.01) if self.brief else (0, 0.004, 0.05, 0.4, 1):
            self.pair.change(share)
            self.sync(halves=share == 0.05)

    def in_one_round(self) -> None:
        self.set_capacity(lambda usual, most, largest: most)
        self.change_tile()
        self.sync()
        for share in (1,) if self.brief else (0.02, 0.6, 1, 0):
            self.pair.change(share)
            self.sync()
        self.sync(full=True)

    def small_rounds(self) -> None:
        self.pair.senders("capacity", lambda s: s.set_capacity(1), fails=None)
        self.set_capacity(lambda usual, most, largest: max(largest, most // 40))
        self.pair.change(0.3)
        self.sync()
        if not self.brief:
            self.sync(full=True)
        self.set_capacity(lambda usual, most, largest: most)

    def fingerprints(self) -> None:
        """Of what was sent, and of memory that changed since."""
        self.compare_sums(KEYS[:1])
        self.pair.change(0.05)
        self.compare_sums(KEYS[1:])
        self.pair.senders("replicas", lambda s: s.replica_sums(KEYS[1]))
        self.sync()
        self.compare_sums(KEYS[1:])

    def abort(self) -> None:
        """As if nothing had been sent; all of it comes with the next."""
        pair = self.pair
        pair.change(0.1)
        pair.keep()
        self.pack()
        self.send()
        self.receive()
        pair.receivers("discard", lambda r: r.discard())
        pair.senders("abort", lambda s: s.abort())
        pair.receivers("commit", lambda r: r.commit(), fails=True)
        pair.unchanged("aborted")
        self.sync(counted=False)

    def broken(self) -> None:
        """The cable breaks while rounds are sent."""
        pair = self.pair
        self.set_capacity(lambda usual, most, largest: max(largest, most // 5))
        pair.change(0.5)
        self.pack()
        for left in (0, 3):
            for lane in pair.lanes:
                lane.post.clear()
                lane.post.left = left
            pair.senders("send", lambda s: s.send(), fails=None)
            pair.messages()
            pair.senders("abort", lambda s: s.abort())
            for lane in pair.lanes:
                lane.post.clear()
            self.pack(counted=False)
        pair.senders("abort", lambda s: s.abort())
        # Not a delta of nothing: what was sent is sent again.
        self.sync(counted=False)
        self.set_capacity(lambda usual, most, largest: most)

    def damage(self) -> None:
        pair = self.pair
        most = max(
            sum(p.num_elements for p in held) for held in pair.host.sources
        )
        pair.change(min(0.05, DAMAGED / max(most, 1)))
        pair.keep()
        self.pack()
        self.send()
        sent = pair.host.post.sent
        ways = sorted(sent, key=lambda way: -len(sent[way][0]))
        count = 8 if self.brief else 60
        for source, destination in (ways[0], ways[len(ways) // 2]):
            message = sent[source, destination][0]
            rng = random.Random(len(message))
            kinds = [wire.torn(message, rng, count)]
            kinds.append(wire.forged(message, rng, count // 2))
            for kind in kinds:
                cases = list(kind)
                if self.brief and len(cases) > 40:
                    cases = rng.sample(cases, 40)
                for number, (what, bad) in enumerate(cases):
                    self.refuse(destination, f"{source}: {what}", bad, number)
        pair.unchanged("damaged")
        self.receive()
        self.commit()

    def refuse(
        self, destination: int, what: str, message: bytes, number: int
    ) -> None:
        """A message to one receiver, in memory of the host or of the GPU."""
        def stage(lane: Lane) -> None:
            own = wire.of_plan(message, pair.host.name, lane.name)
            lane.receivers[destination].stage(
                lane.post.lend(own, on_device=number % 3 > 0)
            )

        pair = self.pair
        answer = pair.both(f"stage of {what}", stage, fails=None)
        pair.counts["damaged"] += 1
        if answer is None:
            # Other values may be right: nobody can tell.
            pair.both("discard", lambda l: l.receivers[destination].discard())

    def replay(self) -> None:
        """Memory against what is sent, right and with a wrong element."""
        pair = self.pair
        for wrong in (False, True):
            if wrong:
                self.plant()
            pair.senders("replay", lambda s: s.seed(s.version))
            self.send()
            self.receive()
            counts = pair.receivers("compare", found)
            total = sum(count for count, _ in counts)
            if (total > 0) != wrong:
                pair.differ(f"compare: {counts}")
            pair.senders("abort", lambda s: s.abort())
            for lane in pair.lanes:
                lane.post.clear()
        self.sync(full=True)

    def plant(self) -> None:
        """One other element in some parameters of every receiver."""
        rng = self.pair.rng
        for rank, held in enumerate(self.pair.host.destinations):
            for number, one in enumerate(held):
                if one.num_elements == 0 or (number and rng.randrange(4)):
                    continue
                at = rng.randrange(one.num_elements) * one.width
                data = one.read()[at : at + one.width]
                for lane in self.pair.lanes:
                    lane.destinations[rank][number].write(
                        bits.inverted(data), at
                    )

    def rebind(self) -> None:
        """Other addresses, on other alignments."""
        pair = self.pair
        pair.change(0.02)
        for lane in pair.lanes:
            for side, every, handles in (
                (Side.SOURCE, lane.sources, lane.senders),
                (Side.DESTINATION, lane.destinations, lane.receivers),
            ):
                for rank, handle in enumerate(handles):
                    fresh = lane.parameters(side, rank, shift=3)
                    for old, new in zip(every[rank], fresh):
                        new.write(old.read())
                    handle.rebind(by_chunk(fresh))
                    for old in every[rank]:
                        old.free()
                    every[rank] = fresh
        pair.senders("bound", lambda s: s.check_bound())
        pair.receivers("bound", lambda r: r.check_bound())
        if self.is_bitmap:
            # All is marked: more is sent, and the receivers hold the same.
            self.sync(alike=False)
        self.sync()
        pair.change(0.02)
        self.sync()

    def move(self) -> None:
        """Experts go to other slots, where there are slots."""
        pair = self.pair
        slots = pair.host.plan.tables.slots
        if not slots.num_slots:
            pair.both(
                "placement", lambda l: l.senders[0].set_placement([[0]]),
                fails=True,
            )  # fmt: skip
            return
        size = slots.num_slots
        tables = [
            [slots.expert[row * size + slot] for slot in range(size)]
            for row in range(slots.num_tables)
        ]
        for turn in (1, size // 2):
            moved = [row[turn:] + row[:turn] for row in tables]
            if turn == 1:
                moved[0][0], moved[0][-1] = moved[0][-1], moved[0][0]
            pair.senders("placement", lambda s: s.set_placement(moved))
            pair.receivers("placement", lambda r: r.set_placement(moved))
            pair.senders("diff", lambda s: s.diff(), fails=None)
            pair.senders("abort", lambda s: s.abort())
            if self.is_bitmap:
                self.sync(full=True)
            else:
                pair.senders("move", lambda s: s.begin_moved())
                self.send()
                self.receive()
                self.commit(moved=True)
            pair.change(0.03)
            self.sync()
        self.compare_sums(KEYS[:1])

    def mailboxes(self) -> None:
        """Through the mailboxes of the plans: no message is seen."""
        pair = self.pair
        boxes = [lane.plan.inproc() for lane in pair.lanes]
        for share in (0.05, 0.5):
            pair.change(share)
            self.pack()
            for lane, box in zip(pair.lanes, boxes):
                for sender in lane.senders:
                    sender.send(box)
                for receiver in lane.receivers:
                    receiver.receive(box)
            self.commit()
        for box in boxes:
            box.close()

    def marks(self) -> None:
        """A parameter that someone else has written, where bits say that."""
        pair = self.pair
        if not self.is_bitmap:
            one = pair.host.sources[0][0]
            # Each says what it is.
            pair.both("mark", lambda l: status(
                lambda: l.senders[0].mark(one.name, chunk=one.chunk)))
            pair.both("drop", lambda l: status(
                lambda: l.senders[0].drop_marks()))
            return
        for rank, held in enumerate(pair.host.sources):
            for number, one in enumerate(held):
                data = bits.inverted(pair.values[rank][number])
                if number % 3:
                    continue
                for lane in pair.lanes:
                    lane.sources[rank][number].write(data)
                pair.values[rank][number] = data
                pair.other.senders[rank].mark(one.name, chunk=one.chunk)
        # What is marked of tiles that other ranks send is not needed.
        for sender in pair.other.senders:
            sender.drop_marks()
        self.sync(alike=False)
        self.sync()
