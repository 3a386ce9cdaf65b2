# ===- faults.py - The peer on tiny shards, with faults planted -----------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Runs in an environment that has torch, with the folder of the package
`baseline` in PYTHONPATH. Prints what was found as JSON, by geometry."""

import json
import sys
from collections.abc import Callable

import torch
from baseline.check import check_export, check_sync
from baseline.engine import PeerError
from baseline.geometry import TABLE, geometry
from baseline.measure import STAGES, DeviceWork, stages, timed
from baseline.peer import Entry, Export, Peer
from baseline.receiver import Destination, apply, payloads


def refusal(run: Callable[[], object]) -> str:
    """What a check says, or nothing."""
    try:
        run()
    except PeerError as error:
        return str(error)
    return ""


def altered(entries: list[Entry], fault: str) -> list[Entry]:
    """The entries with one thing wrong in the first that is not empty."""
    number = next(n for n, e in enumerate(entries) if e[3].numel() > 1)
    slots, dtype, counts, positions, values, group = entries[number]
    positions, values = positions.clone(), values.clone()
    if fault == "value":
        values[0] += 1
    elif fault == "position":
        positions[0] += 1 if positions[1] > positions[0] + 1 else 2
    elif fault == "order":
        positions[:2], values[:2] = positions[:2].flip(0), values[:2].flip(0)
    elif fault == "dropped":
        return entries[:number] + entries[number + 1 :]
    entry = (slots, dtype, counts, positions, values, group)
    return [*entries[:number], entry, *entries[number + 1 :]]


def export_faults(peer: Peer, export: Export) -> dict[str, str]:
    """A tensor of the export with another element, with one that is not
    there, with another shape, and none of it."""
    name, tensor = next(item for item in export.items() if item[1].dim() > 1)
    other = tensor.clone()
    other.view(-1)[0] += 1
    less = tensor.clone()
    less.view(-1)[0] = torch.nan
    faults = {
        "element": {**export, name: other},
        "missing element": {**export, name: less},
        "shape": {**export, name: tensor.reshape(-1)},
        "tensor": {n: t for n, t in export.items() if n != name},
        "name": {**export, "nobody": tensor},
    }
    return {
        fault: refusal(lambda: check_export(peer, changed))
        for fault, changed in faults.items()
    }


def received(peer: Peer, before: Export, entries: list[Entry]) -> str:
    """What the receiver holds after the peer's payload is compared with the
    export, and what it holds before it."""
    destination = Destination(before)
    early = refusal(lambda: destination.check(peer.export()))
    apply(destination, payloads(entries))
    destination.check(peer.export())
    return early


def found(name: str) -> dict[str, object]:
    """All of one geometry."""
    peer = Peer.open(geometry(name, tiny=True), device="cpu")
    before = peer.export()
    result: dict[str, object] = {
        "parameters": {p.name: p.shape for p in peer.parameters},
        "tensors": {n: tuple(t.shape) for n, t in before.items()},
        "elements": peer.num_elements,
        "whole": check_export(peer, before),
        "export": export_faults(peer, before),
        "pinned": refusal(lambda: peer.snapshot("pinned")),
        "changed": {},
    }
    for mode in ("pageable", "device"):
        for share in (0.0, 0.03, 1.0):
            before = peer.export()
            peer.snapshot(mode)
            peer.flip(share)
            entries = list(peer.sync())
            after = peer.export()
            changed = check_sync(entries, before, after)
            back = check_sync(peer.sync(), after, after)
            result["changed"][f"{mode} {share}"] = (changed, back)
    faults = ("value", "position", "order", "dropped")
    result["sync"] = {
        fault: refusal(
            lambda: check_sync(altered(entries, fault), before, after)
        )
        for fault in faults
    }
    result["received"] = received(peer, before, entries)
    seconds, sent = timed(peer, 0.03, 2)
    result["timed"] = (len(seconds), min(seconds) > 0, sent)
    marked = stages(peer, 0.03, 2)
    result["stages"] = sorted(marked) == sorted(STAGES) and all(
        min(part) > 0 for part in marked.values()
    )
    # The marks are gone: what follows is the published code again.
    result["unmarked"] = "_hf_delta_entry" not in vars(peer.engine) and not any(
        "megatron_to_hf" in vars(row.probe) for row in peer.rows
    )
    return result


def device_work() -> dict[str, object]:
    """How events of the profiler are counted."""
    work = DeviceWork()
    for event, on_device in (
        ("void at::native::elementwise_kernel<128, 4>", True),
        ("Memcpy HtoD (Pageable -> Device)", True),
        ("Memset (Device)", True),
        ("cudaLaunchKernel", False),
        ("cudaStreamSynchronize", False),
    ):
        work.add(event, on_device, 0.5)
    return {"counts": work.counts, "busy": work.busy}


if __name__ == "__main__":
    torch.set_num_threads(1)
    all_found = {name: found(name) for name in TABLE}
    print(json.dumps({**all_found, "work": device_work()}), file=sys.stderr)
