# ===- graph_ranks.py - Ranks whose syncs are captured --------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What `graphs.py` works on: a plan's ranks twice, and graphs of one of them.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools" / "delta-bench"))
sys.path.insert(0, str(HERE.parents[1] / "runtime" / "python"))

from delta_sync import DeltaError, Plan, Side, Snapshot  # noqa: E402
from torch_bench.memory import Buffer, Source, allocate, bits  # noqa: E402

RUN = 31


class Wrong(Exception):
    """What was checked is not so."""


class Graph:
    """Calls that are captured once; on a CPU the calls themselves."""

    # Where the driver may refuse a capture, it is said, and called instead.
    may_be_refused: ClassVar[bool] = False
    refused: ClassVar[set[str]] = set()

    def __init__(
        self, name: str, device: torch.device, run: Callable[[], object]
    ) -> None:
        self.run, self.graph = run, None
        if device.type != "cuda" or name in self.refused:
            return
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                run()
        except (DeltaError, RuntimeError) as error:
            if not self.may_be_refused:
                raise
            first = error.__context__ or error
            print(f"  {name}: not captured: {str(first).splitlines()[0]}")
            self.refused.add(name)
            torch.cuda.synchronize()
        else:
            self.graph = graph

    def replay(self) -> None:
        if self.graph is None:
            self.run()
        else:
            self.graph.replay()


class Pair:
    """Senders and receivers of all ranks."""

    def __init__(
        self, plan: Plan, source: Source, device: torch.device
    ) -> None:
        self.inproc = plan.inproc()
        self.senders = [
            plan.sender(rank, tensors, self.inproc, run=RUN)
            for rank, tensors in enumerate(source.ranks)
        ]
        self.memory: list[Buffer] = []
        self.receivers = []
        for rank in range(plan.num_ranks(Side.DESTINATION)):
            infos = plan.parameters(Side.DESTINATION, rank)
            made = allocate(infos, device)
            self.memory.append(made)
            self.receivers.append(
                plan.receiver(rank, made.tensors, self.inproc, run=RUN)
            )

    def close(self) -> None:
        for handle in (*self.senders, *self.receivers):
            handle.close()
        self.inproc.close()

    def deliver(self) -> None:
        for sender in self.senders:
            sender.send()
        for receiver in self.receivers:
            receiver.receive()
            receiver.commit()

    def full(self) -> None:
        for sender in self.senders:
            sender.seed()
        self.deliver()
        for sender in self.senders:
            sender.acknowledge()


class Case:
    """A plan, its weights, and two pairs: one syncs from graphs, the other one
    shows what has to arrive."""

    def __init__(self, plan: Plan, device: torch.device) -> None:
        self.plan, self.device = plan, device
        # Copies from ordinary memory.
        Graph.may_be_refused = plan.snapshot is Snapshot.PAGEABLE
        self.source = Source(
            plan, range(plan.num_ranks(Side.SOURCE)), device
        )
        self.source.fill(seed=1)
        self.is_bitmap = (
            device.type == "cuda" and plan.snapshot is Snapshot.BITMAP
        )
        self.masks = [
            torch.zeros_like(bits(buffer.flat))
            for buffer in self.source.buffers
        ]
        self.pair = Pair(plan, self.source, device)
        self.other = Pair(plan, self.source, device)
        self.seed = 0
        self.num_checked = self.num_changed = 0

    def close(self) -> None:
        self.pair.close()
        self.other.close()

    @property
    def senders(self) -> list[Any]:
        return self.pair.senders

    def draw(self, share: float) -> None:
        """New masks of what the next step flips."""
        self.seed += 1
        for mask in self.masks:
            mask.zero_()
        for number, piece, chosen in self.source.masks(share, self.seed):
            self.masks[number][piece].copy_(chosen)

    def step(self) -> None:
        """What stands for a step of the trainer; always the same calls."""
        for buffer, mask in zip(self.source.buffers, self.masks):
            bits(buffer.flat).bitwise_xor_(mask)

    def change(self, share: float) -> None:
        """New weights. A sender with bits is told by a cast, as an optimizer
        does; what ranks share is cast by the first, marked by the others."""
        self.draw(share)
        if not self.is_bitmap:
            self.step()
            return
        values, written = self.source.flipped(share, self.seed), set()
        for sender, held in zip(self.senders, self.source.ranks):
            for name, tensor in held.items():
                address = tensor.data_ptr()
                if address in written:
                    sender.mark(name)
                    continue
                written.add(address)
                sender.cast(name, values[address].float())
        torch.cuda.synchronize()

    def check(self, what: str) -> None:
        """The receivers hold what a full sync gives."""
        self.other.full()
        for mine, theirs in zip(self.pair.memory, self.other.memory):
            found = (bits(mine.flat) != bits(theirs.flat)).sum().item()
            if found:
                raise Wrong(f"{what}: {found} elements differ")
            self.num_checked += mine.num_elements

    def read(self, share: float) -> None:
        changed = sum(sender.read().changed for sender in self.senders)
        # What was marked counts, whether it changed or not.
        if not self.is_bitmap and (changed > 0) != (share > 0):
            raise Wrong(f"{changed} elements changed, share {share:g}")
        self.num_changed += changed

    def confirm(self) -> None:
        for sender in self.senders:
            sender.confirm()


class Parts:
    """A graph of each part of a sync, for all senders or for one."""

    def __init__(self, case: Case, *senders: Any) -> None:
        senders = senders or tuple(case.senders)

        def of(name: str) -> Graph:
            calls = [getattr(sender, name) for sender in senders]
            return Graph(
                name, case.device, lambda: [call() for call in calls]
            )

        self.compare, self.seal, self.advance = map(
            of, ("compare", "seal", "advance")
        )
