# ===- memory.py - Parameters of trainers and receivers -------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What the ranks of a plan hold, as tensors of torch in few buffers."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import torch
from baseline.trainer import fill, lay_out, pieces
from delta_sync import Dtype, ParamInfo, Plan, Side, _abi

Tensors = dict[str, torch.Tensor]


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Elements as 16-bit integers: NaN equals itself."""
    return tensor.view(torch.int16)


def identity(plan: Plan, rank: int, info: ParamInfo) -> Hashable:
    """What is the same for ranks that hold the same values."""
    side = plan.tables.source
    kind = side.classes[info.class_index]
    at = rank % (side.tp * side.cp * side.dp)
    expert: int | None = info.expert
    if kind.num_experts and expert is None:
        expert = at // side.etp % side.ep
    way = 0
    if kind.axis == _abi.Axis.TP:
        way = at % side.tp // (side.tp // kind.ways)
    elif kind.axis == _abi.Axis.ETP:
        way = at % side.etp // (side.etp // kind.ways)
    return info.class_index, info.layer, expert, way


@dataclass
class Buffer:
    """Parameters one behind the other."""

    flat: torch.Tensor
    tensors: Tensors

    @property
    def num_elements(self) -> int:
        return sum(tensor.numel() for tensor in self.tensors.values())


def allocate(infos: list[ParamInfo], device: torch.device) -> Buffer:
    """Zeros, each parameter at a multiple of 128 bytes."""
    for info in infos:
        if info.dtype != Dtype.BF16:
            raise ValueError(f"{info.name} is {info.dtype.name}, not bf16")
    flat, parts = lay_out([(i.name, i.shape) for i in infos], device)
    return Buffer(flat, {part.name: part.tensor for part in parts})


class Source:
    """The trainer's ranks. What several of them hold is one tensor, bound by
    all of them: a change reaches every replica."""

    def __init__(
        self,
        plan: Plan,
        ranks: range,
        device: torch.device,
        first: Buffer | None = None,
    ) -> None:
        """`first` is rank 0's memory, where there is some already."""
        self.ranks: list[Tensors] = []
        self.buffers: list[Buffer] = []
        known: dict[Hashable, torch.Tensor] = {}
        for rank in ranks:
            infos = plan.parameters(Side.SOURCE, rank)
            keys = {info.name: identity(plan, rank, info) for info in infos}
            own = [info for info in infos if keys[info.name] not in known]
            made = first if rank == 0 and first else allocate(own, device)
            self.buffers.append(made)
            for info in own:
                known[keys[info.name]] = made.tensors[info.name]
            self.ranks.append({i.name: known[keys[i.name]] for i in infos})

    def fill(self, seed: int) -> None:
        """N(0, 0.02)."""
        for number, buffer in enumerate(self.buffers):
            fill(buffer.flat, seed + number)

    def masks(
        self, share: float, seed: int
    ) -> Iterator[tuple[int, slice, torch.Tensor]]:
        """By buffer and part of it, what to flip: one ulp of each element with
        probability `share`, other ones for each seed."""
        if share <= 0:
            return
        device = self.buffers[0].flat.device
        generator = torch.Generator(device).manual_seed(seed)
        for number, buffer in enumerate(self.buffers):
            for piece in pieces(buffer.flat.numel()):
                size = buffer.flat[piece].numel()
                if share >= 1:
                    chosen = torch.ones(size, dtype=torch.int16, device=device)
                else:
                    drawn = torch.rand(
                        size, generator=generator, device=device
                    )
                    chosen = (drawn < share).to(torch.int16)
                yield number, piece, chosen

    def flip(self, share: float, seed: int) -> None:
        """Twice with the same seed leaves all as it was."""
        for number, piece, mask in self.masks(share, seed):
            bits(self.buffers[number].flat)[piece].bitwise_xor_(mask)

    def flipped(self, share: float, seed: int) -> dict[int, torch.Tensor]:
        """What `flip` would write, by the address of each tensor."""
        copies = [buffer.flat.clone() for buffer in self.buffers]
        for number, piece, mask in self.masks(share, seed):
            bits(copies[number])[piece].bitwise_xor_(mask)
        found = {}
        for copy, buffer in zip(copies, self.buffers):
            for tensor in buffer.tensors.values():
                start = tensor.storage_offset() - buffer.flat.storage_offset()
                part = copy[start : start + tensor.numel()]
                found[tensor.data_ptr()] = part.view(tensor.shape)
        return found


def changed_places(
    buffer: Buffer, share: float, seed: int
) -> torch.Tensor:
    """Places of a random share of a buffer, ascending."""
    device = buffer.flat.device
    generator = torch.Generator(device).manual_seed(seed)
    found = []
    for piece in pieces(buffer.flat.numel()):
        drawn = torch.rand(
            buffer.flat[piece].numel(), generator=generator, device=device
        )
        found.append((drawn < share).nonzero().view(-1) + piece.start)
    return torch.cat(found)
