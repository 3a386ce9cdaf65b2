# ===- exports.py - What receivers have to hold ---------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The published converter's export of all ranks, compared on the device."""

from collections.abc import Mapping

import torch
from baseline.engine import whole_export
from baseline.geometry import Geometry
from baseline.trainer import Trainer, build, put

from .memory import Buffer, Tensors, bits


class Wrong(RuntimeError):
    """Where a receiver holds something else."""


class Converter:
    """Megatron-Bridge over all ranks of a trainer; knows nothing of plans."""

    def __init__(self, geometry: Geometry, device: torch.device) -> None:
        self.geometry = geometry
        self.built: Trainer = build(geometry, device)

    @property
    def first(self) -> Buffer:
        """Rank 0's memory."""
        tensors = {p.name: p.tensor for p in self.built.parameters}
        return Buffer(self.built.flat, tensors)

    def bind(self, ranks: list[Tensors]) -> None:
        """The memory of the ranks; rank 0 has its own already."""
        from delta_sync.converter.model import unwrap_model

        for rank, tensors in enumerate(ranks):
            (chunk,) = unwrap_model(self.built.models[rank])
            known = dict(chunk.named_parameters())
            if known.keys() != tensors.keys():
                odd = min(known.keys() ^ tensors.keys())
                raise Wrong(f"rank {rank}: {odd}: not on both sides")
            for name, tensor in tensors.items():
                if rank == 0:
                    if known[name].data_ptr() != tensor.data_ptr():
                        raise Wrong(f"rank 0: {name}: other memory")
                    continue
                put(chunk, name, tensor)

    def check(self, held: Mapping[str, torch.Tensor]) -> int:
        """Fails unless `held` is the whole export, bit for bit; returns how
        many elements that are."""
        left = dict(held)
        count, wrong = 0, []

        def take(name: str, tensor: torch.Tensor) -> None:
            nonlocal count
            found = left.pop(name, None)
            if text := difference(found, tensor):
                wrong.append(f"{name}: {text}")
            count += tensor.numel()

        # Whatever is wrong, the ranks go through to the end together.
        whole_export(self.built, take)
        wrong += [f"{name}: received, and not exported" for name in left]
        if wrong:
            more = f", and {len(wrong) - 1} tensors more" * (len(wrong) > 1)
            raise Wrong(wrong[0] + more)
        return count


def difference(found: torch.Tensor | None, wanted: torch.Tensor) -> str:
    """What is wrong with a received tensor; empty: nothing."""
    if found is None:
        return "exported, and not received"
    if found.shape != wanted.shape:
        return (
            f"{tuple(found.shape)} received, {tuple(wanted.shape)} exported"
        )
    differs = bits(found.contiguous()) != bits(wanted.contiguous())
    if not bool(differs.any()):
        return ""
    places = differs.view(-1).nonzero()
    return f"{len(places)} elements differ, first {int(places[0])}"
