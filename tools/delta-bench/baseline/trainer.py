# ===- trainer.py - The trainer's model, rank 0 in one buffer -------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Builds every rank with the published packages and gives rank 0 its memory.

All ranks take turns in this process, so what they tell each other once (names
of parameters, tables of tensors) is what they would tell in a trainer. Only
rank 0 has values: the parameters of the others are one NaN, seen in their
shape.
"""

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from . import packages
from .geometry import Geometry

# Elements: a parameter starts at a multiple of 128 bytes, as in the buffer of
# Megatron's distributed optimizer.
ALIGNMENT = 64
# Elements made at a time: the numbers are drawn as fp32.
PIECE = 1 << 26


@dataclass(frozen=True)
class Parameter:
    """A parameter of rank 0: the trainer's own name, and its part of the
    buffer, contiguous and row-major."""

    name: str
    shape: tuple[int, ...]
    offset: int
    tensor: torch.Tensor


@dataclass(frozen=True)
class Trainer:
    """All ranks, built. `bridges` and `models` by rank."""

    ranks: Any
    models: list[list[torch.nn.Module]]
    bridges: list[Any]
    flat: torch.Tensor
    parameters: list[Parameter]


class Names(list):
    """The names of a checkpoint: a list, but found at once."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._known = frozenset(names)

    def __contains__(self, name: object) -> bool:
        return name in self._known


def owner_of(model: torch.nn.Module, name: str) -> tuple[torch.nn.Module, str]:
    """The module that a parameter is an attribute of, and its name there."""
    path, _, last = name.rpartition(".")
    return model.get_submodule(path), last


def put(model: torch.nn.Module, name: str, tensor: torch.Tensor) -> None:
    """Puts other memory under a parameter, which keeps what the trainer says
    of it: how it is split."""
    module, last = owner_of(model, name)
    before = getattr(module, last)
    after = torch.nn.Parameter(tensor, requires_grad=False)
    vars(after).update(vars(before))
    setattr(module, last, after)


def lay_out(
    sizes: Sequence[tuple[str, tuple[int, ...]]], device: torch.device
) -> tuple[torch.Tensor, list[Parameter]]:
    """One bf16 buffer of zeros, and its parts in order."""
    offsets, end = [], 0
    for _, shape in sizes:
        offsets.append(end)
        size = torch.Size(shape).numel()
        end += -(-size // ALIGNMENT) * ALIGNMENT
    flat = torch.zeros(end, dtype=torch.bfloat16, device=device)
    return flat, [
        Parameter(name, shape, offset,
                  flat[offset : offset + torch.Size(shape).numel()].view(shape))
        for (name, shape), offset in zip(sizes, offsets)
    ]  # fmt: skip


def pieces(size: int) -> Iterator[slice]:
    """A buffer in parts of PIECE elements."""
    for start in range(0, size, PIECE):
        yield slice(start, min(start + PIECE, size))


def fill(flat: torch.Tensor, seed: int) -> None:
    """N(0, 0.02)."""
    generator = torch.Generator(flat.device).manual_seed(seed)
    for piece in pieces(flat.numel()):
        part = flat[piece]
        drawn = torch.randn(
            part.numel(), generator=generator, device=flat.device
        )
        part.copy_(drawn.mul_(0.02))


def bernoulli(size: int, share: float, device: torch.device, seed: int) -> (
    torch.Tensor
):  # fmt: skip
    """One bit for each element, as int16 to be added without carry: 1 with
    probability `share`."""
    generator = torch.Generator(device).manual_seed(seed)
    mask = torch.zeros(size, dtype=torch.int16, device=device)
    for piece in pieces(size) if share > 0 else ():
        drawn = torch.rand(
            mask[piece].numel(), generator=generator, device=device
        )
        mask[piece] = drawn < share
    return mask


def checkpoint_names(ranks: Any, models: list[Any]) -> Names:
    """All tensors of the checkpoint, as the converter names them where it
    knows the configuration only."""
    from delta_sync.converter.model import unwrap_model

    def names(rank: int) -> list[str]:
        model = models[rank]
        tasks = model.bridge._model_bridge.build_conversion_tasks(
            model.bridge.hf_pretrained, unwrap_model(model.chunks)
        )
        found = []
        for task in tasks:
            if task is None:
                raise packages.PackagesError(
                    f"rank {rank}: a parameter without a rule"
                )
            part = task.mapping.hf_param
            found += [part] if isinstance(part, str) else list(part.values())
        return found

    return Names(dict.fromkeys(sum(ranks.run(names), [])))


def make_bridges(job: Any, names: Names, count: int) -> list[Any]:
    """Converters that know the checkpoint's names, as one made from a
    published checkpoint does."""
    from delta_sync.converter.model import KeyState, make_bridge

    state = KeyState({name: (0,) for name in names})
    state.source.get_all_keys = lambda: names
    bridges = []
    for _ in range(count):
        bridge = make_bridge(replace(job, keys={}))
        bridge.hf_pretrained.state = state
        bridges.append(bridge)
    return bridges


def build(geometry: Geometry, device: torch.device) -> Trainer:
    """Builds all ranks; the buffer of rank 0 holds zeros."""
    packages.install()
    from delta_sync.cases import TRAINER
    from delta_sync.converter.lockstep import Ranks
    from delta_sync.converter.model import Job, unwrap_model
    from delta_sync.converter.model import build as build_rank
    from delta_sync.crosscheck import kept_environment, quiet

    parallel_state = importlib.import_module("megatron.core.parallel_state")
    job = Job(
        config=geometry.config,
        trainer={**TRAINER, **geometry.trainer},
        world=geometry.num_ranks,
    )
    ranks = Ranks(job.world, [parallel_state])

    def build_without_device(_: int) -> Any:
        with torch.device("meta"):
            return build_rank(job)

    with quiet(), kept_environment(), packages.without_device():
        models = ranks.run(build_without_device)
        names = checkpoint_names(ranks, models)
        bridges = make_bridges(job, names, job.world)
    sizes = [(p.name, p.shape) for p in models[0].parameters]
    flat, parameters = lay_out(sizes, device)
    one = torch.full((1,), torch.nan, dtype=torch.bfloat16, device=device)
    own = {p.name: p.tensor for p in parameters}
    for rank, model in enumerate(models):
        (chunk,) = unwrap_model(model.chunks)
        for p in model.parameters:
            if p.dtype != "bf16":
                raise packages.PackagesError(f"{p.name} is {p.dtype}")
            put(chunk, p.name, one.expand(p.shape) if rank else own[p.name])
    chunks = [model.chunks for model in models]
    return Trainer(ranks, chunks, bridges, flat, parameters)
