# ===- clock.py - Times, launches and what the machine can do -------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Marks on the device's stream and on the host's clock, in one."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from baseline.measure import DeviceWork, device_work, warm_up

from .memory import Buffer, changed_places


class Clock:
    """Of a device; of the host alone where that is the device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def wait(self) -> None:
        if self.is_cuda:
            torch.cuda.synchronize(self.device)

    def warm_up(self) -> None:
        """Works until the clocks are up; returns when nothing is under way."""
        warm_up(self.device)

    def mark(self) -> tuple[Any, float]:
        """Now, on the current stream and on the host."""
        event = None
        if self.is_cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
        return event, time.perf_counter()

    def on_device(self, start: tuple[Any, float], end: tuple[Any, float]) -> (
        float
    ):  # fmt: skip
        """Seconds between two marks of the stream, after `wait`."""
        if not self.is_cuda:
            return self.on_host(start, end)
        return start[0].elapsed_time(end[0]) / 1000

    @staticmethod
    def on_host(start: tuple[Any, float], end: tuple[Any, float]) -> float:
        return end[1] - start[1]

    def times(self, run: Callable[[], object], count: int) -> list[float]:
        """Seconds on the device of `count` runs after one that is not
        counted."""
        found = []
        self.warm_up()
        for number in range(count + 1):
            self.wait()
            start = self.mark()
            run()
            end = self.mark()
            self.wait()
            if number:
                found.append(self.on_device(start, end))
        return found

    def work(
        self, run: Callable[[], object], *, may_be_idle: bool = False
    ) -> DeviceWork | None:
        """What a run puts on the device, as CUPTI sees it; None without."""
        if not self.is_cuda:
            return None
        return device_work(
            SimpleNamespace(device=self.device, synchronize=self.wait),
            run,
            may_be_idle=may_be_idle,
        )

    def trim(self) -> None:
        """Gives back what torch keeps for later: a plan allocates by itself."""
        if self.is_cuda:
            torch.cuda.empty_cache()

    def used_bytes(self) -> int:
        """Of the device, by everyone; 0 without one."""
        if not self.is_cuda:
            return 0
        self.wait()
        free, total = torch.cuda.mem_get_info(self.device)
        return total - free


def random_bytes(clock: Clock, num_bytes: int) -> torch.Tensor:
    """Memory of the device as weights are: zeros may be copied otherwise."""
    return torch.randint(
        256, (num_bytes,), dtype=torch.uint8, device=clock.device
    )


def copy_times(clock: Clock, num_bytes: int, count: int) -> list[float]:
    """Of a copy from device to device: as much is read as is written."""
    source = random_bytes(clock, num_bytes)
    target = torch.empty_like(source)
    return clock.times(lambda: target.copy_(source), count)


def link_times(
    clock: Clock, num_bytes: int, count: int
) -> tuple[list[float], list[float]]:
    """Of copies between pinned memory and the device: up, down."""
    on_device = random_bytes(clock, num_bytes)
    host = torch.empty(num_bytes, dtype=torch.uint8, pin_memory=True)
    host.copy_(on_device)
    up = clock.times(lambda: on_device.copy_(host, non_blocking=True), count)
    down = clock.times(lambda: host.copy_(on_device, non_blocking=True), count)
    return up, down


def scatter_times(
    clock: Clock, buffer: Buffer, share: float, count: int
) -> list[float]:
    """Of torch's `index_copy_` of a share of a buffer's elements, at ascending
    places (int64). Writes what is there."""
    places = changed_places(buffer, share, seed=77)
    values = buffer.flat[places]
    return clock.times(
        lambda: buffer.flat.index_copy_(0, places, values), count
    )
