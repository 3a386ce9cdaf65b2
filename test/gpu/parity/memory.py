# ===- memory.py - Parameters in memory of the host or of a GPU -----------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Blocks of memory with the same interface on both, and the parameters of a
rank in them, as `delta_sync` binds them."""

import ctypes
from collections.abc import Sequence

from delta_sync import ParamInfo, Target
from delta_sync.tensors import NAMES, WIDTHS

from .driver import Cuda

# Before and behind each parameter: what is written there is found.
GUARD = bytes([0xA5]) * 64
TYPES = {dtype: name for name, dtype in NAMES.items()}


class Block:
    """Bytes of the host, or of the GPU where there is a driver."""

    def __init__(self, num_bytes: int, cuda: Cuda | None) -> None:
        self.num_bytes = num_bytes
        self._cuda = cuda
        if cuda is None:
            self._memory = (ctypes.c_ubyte * max(num_bytes, 1))()
            self.address = ctypes.addressof(self._memory)
        else:
            self.address = cuda.allocate(max(num_bytes, 1))

    def write(self, data: bytes, at: int = 0) -> None:
        assert at + len(data) <= self.num_bytes
        if self._cuda is None:
            ctypes.memmove(self.address + at, bytes(data), len(data))
        else:
            self._cuda.write(self.address + at, bytes(data))

    def read(self, at: int, num_bytes: int) -> bytes:
        assert at + num_bytes <= self.num_bytes
        if self._cuda is None:
            return ctypes.string_at(self.address + at, num_bytes)
        return self._cuda.read(self.address + at, num_bytes)

    def free(self) -> None:
        if self._cuda is not None and self.address:
            self._cuda.free(self.address)
        self.address = 0


class Tensor:
    """What `delta_sync` reads of a tensor of torch, over a block."""

    def __init__(
        self,
        cuda: Cuda | None,
        dtype: str,
        width: int,
        shape: Sequence[int],
        stride: Sequence[int],
        num_elements: int,
        *,
        guard: bytes = b"",
        shift: int = 0,
    ) -> None:
        self.dtype, self.width = dtype, width
        self.shape, self._stride = tuple(shape), tuple(stride)
        self.num_elements = num_elements
        self.num_bytes = num_elements * width
        self.device = "cpu" if cuda is None else "cuda:0"
        self._guard = guard
        self._begin = len(guard) + shift
        self._head = guard + bytes(shift)
        self._block = Block(self._begin + self.num_bytes + len(guard), cuda)
        self._block.write(self._head)
        self._block.write(guard, self._begin + self.num_bytes)

    def data_ptr(self) -> int:
        return self._block.address + self._begin

    def stride(self) -> tuple[int, ...]:
        return self._stride

    def read(self) -> bytes:
        return self._block.read(self._begin, self.num_bytes)

    def write(self, data: bytes, at: int = 0) -> None:
        """Bytes, from byte `at` on."""
        assert at + len(data) <= self.num_bytes
        self._block.write(data, self._begin + at)

    def is_intact(self) -> bool:
        """Whether nothing was written around it."""
        end = self._begin + self.num_bytes
        return (
            self._block.read(0, self._begin) == self._head
            and self._block.read(end, len(self._guard)) == self._guard
        )

    def free(self) -> None:
        self._block.free()


class Parameter(Tensor):
    """A parameter of a rank."""

    def __init__(
        self, cuda: Cuda | None, info: ParamInfo, *, exact: bool, shift: int
    ) -> None:
        """Begins `shift` elements behind what is aligned. `exact`: nothing
        around it, so that a sanitizer sees its ends."""
        width = WIDTHS[info.dtype]
        super().__init__(
            cuda, TYPES[info.dtype], width, info.shape, info.stride,
            info.num_elements, guard=b"" if exact else GUARD,
            shift=shift * width,
        )  # fmt: skip
        self.name, self.chunk = info.name, info.chunk


def floats(cuda: Cuda | None, data: bytes) -> Tensor:
    """Values of fp32, row by row."""
    count = len(data) // 4
    made = Tensor(cuda, "float32", 4, [count], [1], count)
    made.write(data)
    return made


def by_chunk(held: Sequence[Parameter]) -> list[dict[str, Parameter]]:
    """As `Plan.sender` and `Plan.receiver` take them."""
    chunks: list[dict[str, Parameter]] = [
        {} for _ in range(1 + max((one.chunk for one in held), default=0))
    ]
    for one in held:
        chunks[one.chunk][one.name] = one
    return chunks


def cuda_of(target: Target, cuda: Cuda | None) -> Cuda | None:
    """The driver where a plan runs on it."""
    return cuda if target == Target.CUDA else None
