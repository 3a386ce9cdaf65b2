# ===- kernels.py - Which kernels were started ----------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Counts the kernels of a process by CUPTI, and knows which ones there are."""

import contextlib
import ctypes as c
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TABLE = ROOT / "codegen" / "device" / "DeviceKernels.def"
# Of cupti_callbacks.h and cupti_driver_cbid.h.
DRIVER_API, LAUNCH, ENTER = 1, 307, 0


class CallbackData(c.Structure):
    """The first fields of CUpti_CallbackData."""

    _fields_ = [
        ("site", c.c_int),
        ("function", c.c_char_p),
        ("parameters", c.c_void_p),
        ("result", c.c_void_p),
        ("symbol", c.c_char_p),
    ]


Callback = c.CFUNCTYPE(
    None, c.c_void_p, c.c_int, c.c_uint32, c.POINTER(CallbackData)
)


def known() -> list[str]:
    """The kernels that a plan has, as they are called in it."""
    text = re.sub(r"//.*", "", TABLE.read_text())
    rows = re.findall(r"^DELTA_DEVICE_KERNEL\(\w+,\s*(\w+),", text, re.M)
    return [f"delta_{name}" for name in rows]


def libraries() -> Iterator[str]:
    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    for folder in ("lib64", "extras/CUPTI/lib64"):
        yield from map(str, sorted((home / folder).glob("libcupti.so*")))
    for version in (13, 12):
        yield f"libcupti.so.{version}"


class Launches:
    """Counts kernels by name while it is open; `is_counting` is false where
    there is no CUPTI."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._callback = Callback(self._called)
        self._subscriber = c.c_void_p()
        self._library = self._subscribed()

    @property
    def is_counting(self) -> bool:
        return self._library is not None

    def _subscribed(self) -> c.CDLL | None:
        for name in libraries():
            with contextlib.suppress(OSError):
                library = c.CDLL(name)
                if library.cuptiSubscribe(
                    c.byref(self._subscriber), self._callback, None
                ) == 0 and library.cuptiEnableCallback(
                    c.c_uint32(1), self._subscriber, DRIVER_API, LAUNCH
                ) == 0:  # fmt: skip
                    return library
        return None

    def _called(
        self, user: int, domain: int, number: int, data: "c._Pointer"
    ) -> None:
        if data[0].site == ENTER and data[0].symbol:
            self.counts[data[0].symbol.decode()] += 1

    def close(self) -> None:
        if self._library is not None:
            self._library.cuptiUnsubscribe(self._subscriber)
        self._library = None
