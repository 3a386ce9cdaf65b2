# ===- receiver.py - The published receiver -------------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""verl's `apply_delta` on plain tensors of published shapes, on one device.

The payload is made by verl's checkpoint engine from the entries of a sync, as
it would send it; the broadcast is left out. The model's loader copies each
tensor to the one of its name and does nothing else.
"""

import json
import time
from collections.abc import Callable, Iterable, Sequence

import torch

from .check import by_tensor
from .engine import PeerError
from .measure import warm_up
from .peer import Entry, Export, bits

BUCKET = 2048 << 20  # bytes: verl's `update_weights_bucket_megabytes`

Payload = list[tuple[str, torch.Tensor]]


class Destination:
    """Tensors of published shapes in one buffer, as a model that loads."""

    def __init__(self, export: Export) -> None:
        """Holds an export; elements of other ranks are 0."""
        total = sum(tensor.numel() for tensor in export.values())
        first = next(iter(export.values()))
        self.flat = torch.empty(total, dtype=first.dtype, device=first.device)
        self.tensors: dict[str, torch.Tensor] = {}
        self.starts: dict[str, int] = {}
        end = 0
        for name, tensor in export.items():
            self.starts[name] = end
            part = self.flat[end:][: tensor.numel()].view(tensor.shape)
            part.copy_(tensor.nan_to_num(nan=0.0))
            self.tensors[name] = part
            end += tensor.numel()

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """What `apply_delta` calls."""
        for name, tensor in weights:
            self.tensors[name].copy_(tensor)

    def check(self, export: Export) -> None:
        """Fails unless it holds an export, and 0 where that has NaN."""
        for name, tensor in export.items():
            wanted = tensor.nan_to_num(nan=0.0)
            if not torch.equal(bits(self.tensors[name]), bits(wanted)):
                raise PeerError(f"{name}: received other elements")


def payloads(entries: Sequence[Entry]) -> list[Payload]:
    """What verl's engine sends for the entries of rank 0, a list a flush."""
    from verl.checkpoint_engine import delta_checkpoint_engine as published

    engine = object.__new__(published.DeltaShardedCheckpointEngine)
    engine.encoding = "indices"
    found: list[Payload] = []

    def publish(flush: object, is_last: bool) -> None:
        spec = {
            "encoding": engine.encoding,
            "params": [vars(p) for p in flush.params],
            "checksum": int(flush.checksum),
        }
        text = bytearray(json.dumps(spec).encode())
        device = flush.values_gpu.device
        found.append([
            ("__delta_spec__",
             torch.frombuffer(text, dtype=torch.uint8).to(device)),
            ("__positions__", flush.positions_cpu),
            ("__values__", flush.values_gpu),
        ])  # fmt: skip

    bucket = published._FlushBucket(BUCKET, engine._assemble_flush, publish)
    for slots, dtype, counts, positions, values, _ in entries:
        sizes = counts.tolist()
        parts = zip(slots, positions.split(sizes), values.split(sizes))
        for (name, shape), place, value in parts:
            if place.numel():
                published._bucket_sliced(
                    bucket, name, dtype, shape, place, value
                )
    bucket.seal()
    bucket.emit(is_last=True)
    return found


def apply(destination: Destination, sent: Sequence[Payload]) -> None:
    """One sync at the receiver."""
    from verl.workers.rollout.sglang_rollout.delta_loader import apply_delta

    for payload in sent:
        apply_delta(destination, payload)


def scatter_plan(
    destination: Destination, entries: Iterable[Entry]
) -> tuple[torch.Tensor, torch.Tensor]:
    """All changed elements as places in the destination's buffer (int64) and
    values."""
    places, values = [], []
    for name, (positions, value) in by_tensor(entries).items():
        places.append(positions + destination.starts[name])
        values.append(value)
    return torch.cat(places), torch.cat(values)


def seconds_of(
    run: Callable[[], object], device: torch.device, count: int
) -> list[float]:
    """Of `count` runs after one that is not counted, the device waited for."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    found = []
    warm_up(device)
    for number in range(count + 1):
        wait()
        start = time.perf_counter()
        run()
        wait()
        if number:
            found.append(time.perf_counter() - start)
    return found
