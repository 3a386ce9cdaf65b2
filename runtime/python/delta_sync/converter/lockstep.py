# ===- lockstep.py - All ranks of a trainer in one process ----------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Runs the ranks of a trainer as threads of which one moves at a time.

Code that asks `torch.distributed` who it is, and that exchanges tensors with
its peers, then runs unchanged without processes: a rank that enters a
collective leaves its part there and hands the turn on, until every member of
the group has left one. Only the collectives that a conversion uses are here.

Some code keeps its process groups in module variables. These are put aside
when a rank hands the turn on, and put back when its turn comes.

    ranks    0 ──build──┐gather        ┌───────> ...
             1          └──build──┐    │
             2                    └──build──gather complete
"""

import contextlib
import functools
import pickle
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch.distributed as distributed

Result = TypeVar("Result")


class LockstepError(RuntimeError):
    """A rank failed, or ranks wait for each other; says which and where."""


class Abandoned(BaseException):
    """Unwinds the threads of the other ranks after one has failed."""


@dataclass(frozen=True)
class Group:
    """A process group: global ranks, in the order of their group ranks."""

    ranks: tuple[int, ...]

    def size(self) -> int:
        return len(self.ranks)

    def rank(self) -> int:
        return self.ranks.index(running().rank)


@dataclass
class Turn:
    """One rank: its thread, its wait, and its own module variables."""

    rank: int
    variables: list[dict[str, Any]]
    wake: threading.Semaphore = field(
        default_factory=lambda: threading.Semaphore(0)
    )
    waits_for: tuple[Group, int] | None = None
    entered: dict[Group, int] = field(default_factory=dict)
    done: bool = False
    result: Any = None
    error: BaseException | None = None


_running: "Ranks | None" = None


def running() -> "Ranks":
    """The ranks that run now."""
    if _running is None:
        raise LockstepError("no ranks are running")
    return _running


class Ranks:
    """`world` ranks. `modules` keep variables that differ between ranks; they
    must be as after their import."""

    def __init__(
        self, world: int, modules: Sequence[types.ModuleType] = ()
    ) -> None:
        self.world = Group(tuple(range(world)))
        self._modules = modules
        self._initial = self._variables()
        self._turns = [
            Turn(rank, [copied(part) for part in self._initial])
            for rank in self.world.ranks
        ]
        self._current: Turn | None = None
        self._back = threading.Semaphore(0)
        self._failed = False
        self._letters: dict[tuple[Group, int], dict[int, Any]] = {}

    @property
    def rank(self) -> int:
        """The rank whose turn it is."""
        if self._current is None:
            raise LockstepError("no rank has the turn")
        return self._current.rank

    def run(self, body: Callable[[int], Result]) -> list[Result]:
        """`body(rank)` on every rank; what each returned. Module variables are
        kept from one call to the next."""
        global _running
        threads = []
        for turn in self._turns:
            turn.done, turn.result, turn.error = False, None, None
            thread = threading.Thread(
                target=self._thread, args=(turn, body), daemon=True
            )
            thread.start()
            threads.append(thread)
        before, _running = _running, self
        try:
            with replaced_collectives():
                self._take_turns()
        finally:
            _running = before
            self._put(self._initial)
        for thread in threads:
            thread.join()
        return [turn.result for turn in self._turns]

    def exchange(self, group: Group, part: Any) -> list[Any]:
        """Leaves `part`; returns those of all members once they are there."""
        turn = self._current
        number = turn.entered.get(group, 0)
        turn.entered[group] = number + 1
        place = (group, number)
        letters = self._letters.setdefault(place, {})
        letters[turn.rank] = part
        while len(letters) < group.size():
            turn.waits_for = place
            self._hand_on(turn)
        turn.waits_for = None
        parts = [letters[rank] for rank in group.ranks]
        # The last one to read clears the place.
        letters.setdefault(-1, set()).add(turn.rank)
        if len(letters[-1]) == group.size():
            del self._letters[place]
        return parts

    def _thread(self, turn: Turn, body: Callable[[int], Result]) -> None:
        turn.wake.acquire()
        try:
            if not self._failed:
                turn.result = body(turn.rank)
        except Abandoned:
            pass
        # Raised again, with the rank, by the thread that called run().
        except BaseException as error:  # noqa: BLE001
            turn.error = error
        turn.done = True
        self._back.release()

    def _hand_on(self, turn: Turn) -> None:
        self._back.release()
        turn.wake.acquire()
        if self._failed:
            raise Abandoned

    def _give_turn(self, turn: Turn) -> None:
        self._put(turn.variables)
        self._current = turn
        turn.wake.release()
        self._back.acquire()
        self._current = None
        turn.variables = self._variables()

    def _take_turns(self) -> None:
        while waiting := [turn for turn in self._turns if not turn.done]:
            ready = [turn for turn in waiting if self._is_ready(turn)]
            if not ready:
                self._abandon(waiting)
                raise LockstepError("; ".join(map(describe_wait, waiting)))
            for turn in ready:
                self._give_turn(turn)
                if turn.error is not None:
                    self._abandon([t for t in waiting if not t.done])
                    raise LockstepError(
                        f"rank {turn.rank}: {type(turn.error).__name__}: "
                        f"{turn.error}"
                    ) from turn.error

    def _is_ready(self, turn: Turn) -> bool:
        if turn.waits_for is None:
            return True
        group, _ = turn.waits_for
        letters = self._letters[turn.waits_for]
        return all(rank in letters for rank in group.ranks)

    def _abandon(self, turns: Sequence[Turn]) -> None:
        self._failed = True
        for turn in turns:
            self._give_turn(turn)

    def _variables(self) -> list[dict[str, Any]]:
        return [
            {
                name: value
                for name, value in vars(module).items()
                if not name.startswith("__")
                and not callable(value)
                and not isinstance(value, types.ModuleType)
            }
            for module in self._modules
        ]

    def _put(self, variables: Sequence[dict[str, Any]]) -> None:
        for module, part in zip(self._modules, variables):
            vars(module).update(part)


def copied(variables: dict[str, Any]) -> dict[str, Any]:
    """The variables, with lists and tables of their own."""
    return {
        name: value.copy() if isinstance(value, (dict, list)) else value
        for name, value in variables.items()
    }


def describe_wait(turn: Turn) -> str:
    """`rank 2 waits in collective 7 of the ranks [0, 2]`."""
    if turn.waits_for is None:
        return f"rank {turn.rank} has not started"
    group, number = turn.waits_for
    return (
        f"rank {turn.rank} waits in collective {number} of the ranks "
        f"{list(group.ranks)}"
    )


# --- what replaces torch.distributed -----------------------------------------


def members(group: Group | None) -> Group:
    return running().world if group is None else group


def get_rank(group: Group | None = None) -> int:
    rank = running().rank
    ranks = members(group).ranks
    return ranks.index(rank) if rank in ranks else -1


def get_world_size(group: Group | None = None) -> int:
    return members(group).size()


def new_group(ranks: Sequence[int] | None = None, **_: object) -> object:
    group = running().world if ranks is None else Group(tuple(ranks))
    if running().rank in group.ranks:
        return group
    return distributed.GroupMember.NON_GROUP_MEMBER


def get_process_group_ranks(group: Group | None) -> list[int]:
    return list(members(group).ranks)


def get_global_rank(group: Group | None, group_rank: int) -> int:
    return members(group).ranks[group_rank]


def get_group_rank(group: Group | None, global_rank: int) -> int:
    return members(group).ranks.index(global_rank)


def barrier(group: Group | None = None, **_: object) -> None:
    running().exchange(members(group), None)


def all_gather(
    tensor_list: list[torch.Tensor],
    tensor: torch.Tensor,
    group: Group | None = None,
    async_op: bool = False,
) -> None:
    parts = running().exchange(members(group), tensor.detach().clone())
    for out, part in zip(tensor_list, parts, strict=True):
        same_size(out, part)
        out.copy_(part)


def broadcast(
    tensor: torch.Tensor,
    src: int | None = None,
    group: Group | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> None:
    group = members(group)
    root = group.ranks.index(src) if group_src is None else group_src
    mine = group.rank() == root
    part = tensor.detach().clone() if mine else None
    part = running().exchange(group, part)[root]
    if not mine:
        same_size(tensor, part)
        tensor.copy_(part)


def all_reduce(
    tensor: torch.Tensor,
    op: object = distributed.ReduceOp.SUM,
    group: Group | None = None,
    async_op: bool = False,
) -> None:
    if op != distributed.ReduceOp.SUM:
        raise NotImplementedError(f"all_reduce with {op}")
    parts = running().exchange(members(group), tensor.detach().clone())
    for part in parts:
        same_size(tensor, part)
    tensor.copy_(torch.stack(parts).sum(dim=0))


def all_gather_object(
    object_list: list[Any], obj: Any, group: Group | None = None
) -> None:
    parts = running().exchange(members(group), pickle.dumps(obj))
    object_list[:] = [pickle.loads(part) for part in parts]


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group | None = None,
    device: object = None,
    group_src: int | None = None,
) -> None:
    group = members(group)
    root = group.ranks.index(src) if group_src is None else group_src
    mine = group.rank() == root
    part = pickle.dumps(list(object_list)) if mine else None
    part = running().exchange(group, part)[root]
    if not mine:
        object_list[:] = pickle.loads(part)


def same_size(out: torch.Tensor, part: torch.Tensor) -> None:
    """A collective moves whole tensors: sizes that differ are an error there,
    where a copy would repeat values."""
    if out.numel() != part.numel() or out.dtype != part.dtype:
        raise ValueError(
            f"a tensor of {tuple(part.shape)} {part.dtype} is received as "
            f"{tuple(out.shape)} {out.dtype}"
        )


REPLACED: dict[str, Callable] = {
    function.__name__: function
    for function in (
        get_rank,
        get_world_size,
        new_group,
        get_process_group_ranks,
        get_global_rank,
        get_group_rank,
        barrier,
        all_gather,
        all_reduce,
        broadcast,
        all_gather_object,
        broadcast_object_list,
    )
}
REPLACED["is_available"] = REPLACED["is_initialized"] = lambda: True
REPLACED["get_backend"] = lambda group=None: "lockstep"


@contextlib.contextmanager
def replaced_collectives() -> Iterator[None]:
    """Puts the functions above in the place of the real ones for a while."""
    places = (distributed, distributed.distributed_c10d)
    before = [
        (place, name, getattr(place, name))
        for place in places
        for name in REPLACED
        if hasattr(place, name)
    ]
    for place, name, function in before:
        setattr(place, name, functools.wraps(function)(REPLACED[name]))
    try:
        yield
    finally:
        for place, name, function in before:
            setattr(place, name, function)
