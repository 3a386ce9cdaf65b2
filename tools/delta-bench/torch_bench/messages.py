# ===- messages.py - Messages applied by torch ----------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Checks what ranks send where no receiver fits: a second reader of messages,
in torch, from the formats of runtime/Wire.h and codegen/device/PackFormat.h and
the boxes of the plan. It writes each element to its place in the neutral
layout.

    header 112 bytes | section: 32 bytes | bitmap codes offsets values | ...
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from delta_sync import Plan, Side, _abi

from .exports import Converter, Wrong
from .memory import Buffer, Source, allocate, bits

HEADER_BYTES = 112
SECTION_BYTES = 32
DENSE = 0xFFFF
# Elements that are placed at a time.
PIECE = 1 << 25


def align(size: int) -> int:
    return -(-size // 16) * 16


class Tiles:
    """Where the tiles of a source rank begin, as tensors; a plan to the neutral
    layout, one receiver, nothing that changes values."""

    def __init__(
        self, plan: Plan, rank: int, target: Buffer, device: torch.device
    ) -> None:
        tables = plan.tables
        if not tables.destination_is_hf or plan.num_ranks(Side.DESTINATION) > 1:
            raise ValueError("required is a plan to one neutral receiver")
        names = [info.name for info in plan.parameters(Side.HF, 0)]
        first = [target.tensors[name].storage_offset() for name in names]
        self.loops = max(tables.boxes[b].num_loops
                         for b in range(tables.num_boxes))  # fmt: skip
        self._shapes: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        rows = []
        row = number = -1
        for tile, info in enumerate(plan.tiles(rank)):
            box = tables.boxes[info.box]
            source, place = plan.element(rank, tile, 0)
            if place.value_op:
                raise ValueError(f"{names[place.param]}: values change")
            run, column, starts = self._shape(info.box, box)
            if info.row != row:
                # A rank may own a part of a row's tiles only.
                expert = self._expert_offset(plan, rank, source)
                begin = source.element - box.source_offset - expert
                number = int(np.flatnonzero(starts == begin)[0])
                row = info.row
            else:
                number += 1
            image = tables.images[box.hf_image]
            last = box.num_loops - 1
            columns = min(
                box.tile_columns, box.extent[last] - int(column[number])
            )
            base = first[place.param] + place.element - offset_of(
                box, image.stride, int(run[number]), int(column[number])
            )
            rows.append((info.num_elements, info.box, run[number],
                         column[number], columns, base))  # fmt: skip
        self.num_tiles = len(rows)
        table = torch.tensor(
            np.array(rows, dtype=np.int64).reshape(-1, 6).T.copy()
        ).to(device)
        self.size, self.box, self.run, self.column, self.columns, self.base = (
            table
        )
        self.extent, self.stride = self._boxes(tables, device)

    def _shape(self, number: int, box: Any) -> (
        tuple[np.ndarray, np.ndarray, np.ndarray]
    ):  # fmt: skip
        """First run, first column and first source element of each tile."""
        if number not in self._shapes:
            last = box.num_loops - 1
            across = -(-box.extent[last] // box.tile_columns)
            tiles = np.arange(box.num_tiles)
            run = tiles // across * box.tile_runs
            column = tiles % across * box.tile_columns
            starts = np.array([
                offset_of(box, box.source_stride, int(u), int(c))
                for u, c in zip(run, column)
            ])  # fmt: skip
            self._shapes[number] = run, column, starts
        return self._shapes[number]

    @staticmethod
    def _expert_offset(plan: Plan, rank: int, source: Any) -> int:
        info = plan.parameters(Side.SOURCE, rank)[source.param]
        kind = plan.tables.source.classes[info.class_index]
        if not kind.expert_stride:
            return 0
        return source.element // kind.expert_stride * kind.expert_stride

    def _boxes(self, tables: Any, device: torch.device) -> (
        tuple[torch.Tensor, torch.Tensor]
    ):  # fmt: skip
        """Extents and strides of the neutral layout, the columns last: loop i
        of a box that has fewer is 1 long."""
        extent = np.ones((self.loops, tables.num_boxes), np.int64)
        stride = np.zeros_like(extent)
        for number in range(tables.num_boxes):
            box = tables.boxes[number]
            image = tables.images[box.hf_image]
            for loop in range(box.num_loops):
                at = loop + self.loops - box.num_loops
                extent[at, number] = box.extent[loop]
                stride[at, number] = image.stride[loop]
        return torch.tensor(extent).to(device), torch.tensor(stride).to(device)

    def places(
        self, tiles: torch.Tensor, offsets: torch.Tensor
    ) -> torch.Tensor:
        """Of elements, by tile and offset in it, in the target's buffer."""
        columns, box = self.columns[tiles], self.box[tiles]
        run = self.run[tiles] + offsets // columns
        column = self.column[tiles] + offsets % columns
        found = self.base[tiles] + column * self.stride[-1][box]
        for loop in range(self.loops - 2, -1, -1):
            extent = self.extent[loop][box]
            found += run % extent * self.stride[loop][box]
            run //= extent
        return found


def offset_of(box: Any, stride: Sequence[int], run: int, column: int) -> int:
    """Of a run and a column of a box, from where the box begins."""
    last = box.num_loops - 1
    found = column * stride[last]
    for loop in range(last - 1, -1, -1):
        run, index = divmod(run, box.extent[loop])
        found += index * stride[loop]
    return found


class Applied:
    """A transport that writes what is sent."""

    def __init__(self, tiles: Tiles, target: Buffer) -> None:
        self.tiles, self.target = tiles, target
        self.num_elements = 0

    def send(self, source: int, destination: int, parts: Sequence[Any]) -> None:
        device = self.target.flat.device
        message = torch.cat([
            torch.as_tensor(part, device=device)
            if hasattr(part, "__cuda_array_interface__")
            else torch.frombuffer(bytearray(part), dtype=torch.uint8)
            for part in parts
        ])  # fmt: skip
        at = HEADER_BYTES
        sections = int(message[56:60].view(torch.int32))
        for _ in range(sections):
            size = int(message[at + 8 : at + 16].view(torch.int64))
            self._section(message[at + SECTION_BYTES : at + size])
            at += size
        if at != message.numel():
            raise Wrong(f"rank {source}: {message.numel() - at} bytes left")

    def receive(self, source: int, destination: int) -> Any:
        raise LookupError("nothing is kept")

    def _section(self, body: torch.Tensor) -> None:
        tiles = self.tiles
        end = align(-(-tiles.num_tiles // 8))
        steps = torch.arange(8, device=body.device, dtype=torch.uint8)
        flags = (body[:end, None] >> steps & 1).view(-1)
        present = flags[: tiles.num_tiles].nonzero().view(-1)
        begin, end = end, end + align(2 * len(present))
        codes = body[begin:end].view(torch.int16)[: len(present)].long() & DENSE
        is_dense = codes == DENSE
        counts = torch.where(is_dense, tiles.size[present], codes)
        sparse = torch.where(is_dense, 0, codes)
        num_offsets, num_values = int(sparse.sum()), int(counts.sum())
        begin, end = end, end + align(2 * num_offsets)
        offsets = body[begin:end].view(torch.int16)[:num_offsets]
        values = body[end:].view(torch.int16)
        if values.numel() * 2 != align(2 * num_values):
            raise Wrong(f"{values.numel()} values, counts say {num_values}")
        first = counts.cumsum(0) - counts
        first_offset = sparse.cumsum(0) - sparse
        limits = first.cpu()
        start = 0
        while start < len(present):
            bound = int(limits[start]) + PIECE
            stop = max(int(torch.searchsorted(limits, bound)), start + 1)
            part = slice(start, stop)
            self._write(
                present[part], counts[part], is_dense[part], first[part],
                first_offset[part], offsets, values,
            )  # fmt: skip
            start = stop
        self.num_elements += num_values

    def _write(
        self,
        tiles: torch.Tensor,
        counts: torch.Tensor,
        is_dense: torch.Tensor,
        first: torch.Tensor,
        first_offset: torch.Tensor,
        offsets: torch.Tensor,
        values: torch.Tensor,
    ) -> None:
        row = torch.arange(len(tiles), device=tiles.device)
        row = row.repeat_interleave(counts)
        begin = int(first[0])
        within = torch.arange(len(row), device=row.device) + begin - first[row]
        if len(offsets):
            place = (first_offset[row] + within).clamp_(max=len(offsets) - 1)
            sparse = offsets[place].long() & DENSE
            within = torch.where(is_dense[row], within, sparse)
        places = self.tiles.places(tiles[row], within)
        bits(self.target.flat).index_copy_(
            0, places, values[begin : begin + len(row)]
        )


def check_ranks(
    plan: Plan,
    source: Source,
    converter: Converter,
    share: float,
    say: Any,
    *,
    run: int,
) -> int:
    """Full syncs and deltas of all source ranks, one after the other, against
    the converter's whole export before and after. All ranks have the memory of
    rank 0, so that one GPU holds them: experts of different ranks have equal
    values. Returns the elements of the export."""
    first = source.ranks[0]
    ranks = range(plan.num_ranks(Side.SOURCE))
    for rank in ranks:
        shapes = {i.name: i.shape for i in plan.parameters(Side.SOURCE, rank)}
        if shapes != {name: tuple(t.shape) for name, t in first.items()}:
            raise Wrong(f"rank {rank} has other parameters than rank 0")
    converter.bind([first for _ in ranks])
    device = source.buffers[0].flat.device
    target = allocate(plan.parameters(Side.DESTINATION, 0), device)
    parts = {rank: Tiles(plan, rank, target, device) for rank in ranks}

    def full(sender: Any, to: Applied) -> None:
        sender.seed()
        sender.send(to)
        sender.acknowledge()

    sent = 0
    for rank in ranks:
        to = Applied(parts[rank], target)
        with plan.sender(rank, first, run=run) as sender:
            full(sender, to)
        sent += to.num_elements
    count = converter.check(target.tensors)
    say(f"full syncs of {len(ranks)} ranks, applied by torch: {sent} elements "
        f"sent, {count} equal the export before")  # fmt: skip
    sent = 0
    for rank in ranks:
        with plan.sender(rank, first, run=run) as sender:
            full(sender, Applied(parts[rank], target))
            source.flip(share, seed=5)
            to = Applied(parts[rank], target)
            sender.diff()
            sender.send(to)
            sender.abort()
            source.flip(share, seed=5)
        sent += to.num_elements
    source.flip(share, seed=5)
    count = converter.check(target.tensors)
    say(f"deltas of {len(ranks)} ranks at {share:g}, applied by torch: {sent} "
        f"elements sent, {count} equal the export after")  # fmt: skip
    source.flip(share, seed=5)
    return count
