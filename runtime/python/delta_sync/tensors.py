# ===- tensors.py - Tensors as parameters of a plan -----------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Addresses, shapes and types of tensors, without a copy and without asking
any library but the tensor itself.

A tensor of torch is what has `data_ptr()`; an array of the host is what has
`__array_interface__`. Arrays of unsigned integers are bits: of the type that
the plan has for the parameter, where that is as wide.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._abi import Dtype, Status, Target
from .error import DeltaError

# One dict, or one for each chunk (virtual stage): local name to tensor.
Params = Mapping[str, Any] | Sequence[Mapping[str, Any]]
# The type that the plan has for (chunk, name), None where it has no such.
Required = Callable[[int, str], Dtype | None]

NAMES = {
    "bfloat16": Dtype.BF16,
    "float16": Dtype.FP16,
    "float32": Dtype.FP32,
    "int64": Dtype.INT64,
}
WIDTHS = {Dtype.BF16: 2, Dtype.FP16: 2, Dtype.FP32: 4, Dtype.INT64: 8}
KINDS = {"cpu": Target.HOST, "cuda": Target.CUDA}
TARGETS = {Target.HOST: "the host", Target.CUDA: "a CUDA device"}
# Bits, where the plan does not say of what.
BITS = {"uint16": Dtype.BF16, "uint32": Dtype.FP32, "uint64": Dtype.INT64}


@dataclass(frozen=True)
class View:
    """What is known of a tensor. `device` is as torch writes it ("cpu",
    "cuda:0"); strides count elements."""

    address: int
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    device: str
    is_read_only: bool = False

    @property
    def is_of_host(self) -> bool:
        return self.device == "cpu"

    @property
    def kind(self) -> Target | None:
        """Whose plans can use it; None: nobody's."""
        return KINDS.get(self.device.partition(":")[0])


def view(tensor: Any) -> View:
    """Looks at a tensor; TypeError where it is none."""
    if callable(getattr(tensor, "data_ptr", None)):
        return View(
            address=tensor.data_ptr(),
            dtype=str(tensor.dtype).rpartition(".")[2],
            shape=tuple(tensor.shape),
            stride=tuple(tensor.stride()),
            device=str(tensor.device),
        )
    interface = getattr(tensor, "__array_interface__", None)
    if interface is None:
        raise TypeError(
            f"{type(tensor).__name__}, required is a tensor with data_ptr() or "
            "an array with __array_interface__"
        )
    address, is_read_only = interface["data"]
    dtype, shape = tensor.dtype, tuple(interface["shape"])
    size = dtype.itemsize
    strides = tuple(tensor.strides)
    if any(step % size for step in strides):
        raise TypeError(f"strides of {strides} bytes, elements have {size}")
    # Bytes in another order have another meaning.
    name = dtype.name if dtype.isnative else f"byte-swapped {dtype.name}"
    steps = tuple(step // size for step in strides)
    return View(address, name, shape, steps, "cpu", is_read_only)


class Binding:
    """Tensors as the array that a bind takes. Holds them, so that their memory
    stays; the tensors may be re-allocated, see `refreshed`."""

    def __init__(
        self,
        rank: int,
        params: Params,
        *,
        target: Target,
        required: Required,
        is_written: bool = False,
    ) -> None:
        self._rank = rank
        self._target = target
        self._required = required
        self._is_written = is_written
        chunks = [params] if isinstance(params, Mapping) else list(params)
        self.tensors = [
            (chunk, name, tensor)
            for chunk, named in enumerate(chunks)
            for name, tensor in named.items()
        ]
        self.device = "cpu"
        self.array = (_abi.delta_param_t * max(len(self.tensors), 1))()
        self._fill()

    def __len__(self) -> int:
        return len(self.tensors)

    def refreshed(self) -> "Binding":
        """The same tensors, where their memory is now."""
        self._fill()
        return self

    def _fill(self) -> None:
        for entry, (chunk, name, tensor) in zip(self.array, self.tensors):
            try:
                found = view(tensor)
            except TypeError as error:
                raise self._mismatch(chunk, name, str(error)) from error
            self._check(chunk, name, found)
            entry.name = name.encode()
            entry.chunk = chunk
            entry.dtype = self._dtype(chunk, name, found)
            entry.rank = len(found.shape)
            # The plan says how many dimensions are too many.
            held = min(len(found.shape), _abi.MAX_RANK)
            entry.shape[:held] = found.shape[:held]
            entry.stride[:held] = found.stride[:held]
            entry.data = found.address
        if self.tensors:
            self.device = view(self.tensors[0][2]).device

    def _check(self, chunk: int, name: str, found: View) -> None:
        if found.kind != self._target:
            place = "the host" if found.is_of_host else found.device
            required = TARGETS[self._target]
            raise self._mismatch(
                chunk, name,
                f"memory of {place}, required: memory of {required}",
            )  # fmt: skip
        if self._is_written and found.is_read_only:
            raise self._mismatch(chunk, name, "read-only, and is to be written")

    def _dtype(self, chunk: int, name: str, found: View) -> Dtype:
        if (dtype := NAMES.get(found.dtype)) is not None:
            return dtype
        if (bits := BITS.get(found.dtype)) is None:
            raise self._mismatch(
                chunk, name,
                f"dtype {found.dtype}; a plan has {', '.join(NAMES)}, or their "
                "bits as unsigned integers",
            )  # fmt: skip
        planned = self._required(chunk, name)
        if planned is not None and WIDTHS[planned] == WIDTHS[bits]:
            return planned
        return bits

    def _mismatch(self, chunk: int, name: str, what: str) -> DeltaError:
        return DeltaError(
            Status.BIND_MISMATCH,
            f'rank {self._rank}: "{name}" (chunk {chunk}): bind: {what}',
        )


def floats_of(tensor: Any, target: Target) -> tuple[Any, int]:
    """Address and number of row-major fp32 values; TypeError where they are
    none."""
    found = view(tensor)
    step = 1
    for extent, stride in zip(reversed(found.shape), reversed(found.stride)):
        if extent > 1 and stride != step:
            raise TypeError(f"strides {found.stride} are not row-major")
        step *= extent
    if found.dtype != "float32":
        raise TypeError(f"values of {found.dtype}, required: float32")
    if found.kind != target:
        raise TypeError(
            f"values in memory of {found.device}, required: memory of "
            f"{TARGETS[target]}"
        )
    return ctypes.cast(found.address, ctypes.POINTER(ctypes.c_float)), step
