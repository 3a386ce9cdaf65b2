# ===- check.py - What the peer sends, bit for bit ------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Compares the peer with itself and with its converter, on the device.

A measurement of a peer that sends the wrong thing says nothing: what a sync
yields must be the difference of the exports before and after it, and the
export of the shard must be this rank's part of the converter's whole one.
"""

from collections.abc import Iterable, Mapping

import torch

from .engine import PeerError, whole_export
from .peer import Entry, Export, Peer, bits


def by_tensor(
    entries: Iterable[Entry],
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Positions and values of each tensor that has any, as int64."""
    found: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    for slots, _, counts, positions, values, _ in entries:
        sizes = counts.tolist()
        if sum(sizes) != positions.numel() or len(slots) != len(sizes):
            raise PeerError(f"{slots[0][0]}: counts and positions disagree")
        parts = zip(slots, positions.split(sizes), values.split(sizes))
        for (name, _), place, value in parts:
            if not place.numel():
                continue
            if name in found:
                raise PeerError(f"{name}: sent twice")
            found[name] = (place.to(torch.int64), value)
    return found


def check_sync(
    entries: Iterable[Entry],
    before: Mapping[str, torch.Tensor],
    after: Mapping[str, torch.Tensor],
) -> int:
    """Fails unless the entries are the changes between two exports, positions
    ascending; returns how many elements changed."""
    sent = by_tensor(entries)
    count = 0
    for name, positions, values in Peer.changes(before, after):
        seen = sent.pop(name, None)
        if seen is None:
            if positions.numel():
                raise PeerError(
                    f"{name}: {positions.numel()} elements changed, none sent"
                )
            continue
        if not torch.equal(seen[0], positions):
            raise PeerError(
                f"{name}: {seen[0].numel()} positions sent, "
                f"{positions.numel()} changed, or at other places"
            )
        if not torch.equal(bits(seen[1]), bits(values)):
            raise PeerError(f"{name}: other values than the export has")
        count += positions.numel()
    if sent:
        raise PeerError(f"sent, but not exported: {', '.join(sent)}")
    return count


def export_fault(part: torch.Tensor | None, whole: torch.Tensor) -> str:
    """What is wrong with the shard's part of a tensor, or nothing."""
    if part is None:
        none = bool(whole.isnan().all())
        return "" if none else "the shard holds a part of it"
    if part.shape != whole.shape:
        return (
            f"{tuple(part.shape)} from the shard, {tuple(whole.shape)} from "
            "all ranks"
        )
    same = torch.equal(bits(part), bits(whole.contiguous()))
    return "" if same else "other elements in the whole export"


def check_export(peer: Peer, export: Export) -> tuple[int, int]:
    """Fails unless an export of the shard is its part of the converter's whole
    one. Returns tensors of the whole one, and elements that are the shard's."""
    left = dict(export)
    seen = [0, 0]
    # Raised when all ranks are through: one that stops leaves them waiting.
    faults: list[str] = []

    def take(name: str, tensor: torch.Tensor) -> None:
        part = left.pop(name, None)
        seen[0] += 1
        seen[1] += 0 if part is None else int((~part.isnan()).sum())
        fault = export_fault(part, tensor)
        if fault:
            faults.append(f"{name}: {fault}")

    whole_export(peer.trainer, take)
    if left:
        faults.append(f"not in the whole export: {', '.join(left)}")
    if not faults and seen[1] != peer.num_elements:
        faults.append(
            f"{seen[1]} elements exported of {peer.num_elements} of the shard"
        )
    if faults:
        raise PeerError(faults[0])
    return seen[0], seen[1]
