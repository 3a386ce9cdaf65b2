# ===- engine.py - verl's engine on every rank ----------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Makes verl's engines over a trainer whose ranks take turns here, and runs
the converter's whole export on them."""

import contextlib
import functools
import logging
from collections.abc import Callable

import torch

from . import packages
from .trainer import Trainer


class PeerError(RuntimeError):
    """What the peer did, and what is required of it."""


class Complaints(logging.Handler):
    """Keeps what a logger says: where the peer goes on with less than it
    should, it only logs that."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def start_process_group(num_ranks: int) -> None:
    """This process is rank 0 of a trainer: the packages ask torch whether
    there is one. Its group can be asked and moves nothing."""
    from torch.testing._internal.distributed import fake_pg

    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    torch.distributed.init_process_group(
        "fake", store=fake_pg.FakeStore(), rank=0, world_size=num_ranks
    )


@functools.cache
def without_platform() -> None:
    """verl answers what its device is where there is none: the CPU."""
    from verl.plugin import platform
    from verl.plugin.platform.platform_cuda import PlatformCUDA

    none = PlatformCUDA()
    none.current_device = lambda: "cpu"
    platform.set_platform(none)


def make_engines(built: Trainer) -> list:
    """verl's engine on every rank, each with its index of rows: the ranks
    exchange their tables of tensors."""
    from verl.workers.engine.megatron import delta_export
    from verl.workers.engine.megatron.transformer_impl import MegatronEngine

    if built.flat.device.type != "cuda":
        without_platform()
    complaints = Complaints()
    delta_export.logger.addHandler(complaints)
    engines = []
    for bridge, model in zip(built.bridges, built.models):
        engine = object.__new__(MegatronEngine)
        engine.bridge, engine.module = bridge, model
        engine.vanilla_bridge, engine.peft_cls = False, None
        engines.append(engine)
    built.ranks.run(lambda rank: engines[rank]._mcore_export_index())
    delta_export.logger.removeHandler(complaints)
    if complaints.texts:
        raise PeerError("the index: " + "; ".join(complaints.texts))
    own = {p.tensor.data_ptr(): p.shape for p in built.parameters}
    index = engines[0]._delta_export_index
    seen = {r.param.data_ptr(): tuple(r.param.shape) for r in index}
    if seen != own:
        raise PeerError(
            f"the index has {len(seen)} of {len(own)} parameters of rank 0, or "
            "with other shapes"
        )
    return engines


def whole_export(
    built: Trainer, take: Callable[[str, torch.Tensor], None]
) -> None:
    """Runs the converter's own export on all ranks, gathers included, and
    hands rank 0's stream to `take`, a whole tensor at a time. What other ranks
    hold is NaN."""

    def export(rank: int) -> None:
        stream = built.bridges[rank].export_hf_weights(
            built.models[rank], cpu=False, show_progress=False
        )
        for name, tensor in stream:
            if rank == 0:
                take(name, tensor)

    on_device = built.flat.device.type == "cuda"
    no_device = contextlib.nullcontext if on_device else packages.without_device
    with no_device():
        built.ranks.run(export)
