# ===- parameters.py - Parameters of an engine and how they load ----------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Layer classes that both engines share. A parameter takes whole Hugging Face
tensors, one at a time and by shard id, and keeps this rank's part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .geometry import WHOLE, Group

# Width of an element; a tag stands for a value whose origin is asked for.
STORES = {
    "bf16": np.uint16, "fp16": np.uint16, "fp32": np.uint32, "tag": np.int32,
}


@dataclass(frozen=True)
class Tensor:
    """Elements as bits, and what they mean."""

    data: np.ndarray
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    def of(self, data: np.ndarray) -> Tensor:
        return Tensor(data, self.dtype)


def widen(bits: np.ndarray, dtype: str) -> np.ndarray:
    """The values, as float32. A NaN keeps its payload."""
    if dtype == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    if dtype == "fp16":
        return bits.view(np.float16).astype(np.float32)
    return bits.view(np.float32)


def narrow(values: np.ndarray, dtype: str) -> np.ndarray:
    """Bits of the nearest values, ties to even; a NaN becomes quiet."""
    if dtype == "fp16":
        return values.astype(np.float16).view(np.uint16)
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    if dtype == "fp32":
        return bits
    half = (bits + (0x7FFF + ((bits >> 16) & 1)).astype(np.uint32)) >> 16
    return np.where(
        np.isnan(values), (bits >> 16) | 0x40, half).astype(np.uint16)


def converted(tensor: Tensor, dtype: str) -> np.ndarray:
    """Tensor.copy_ into a parameter of another type."""
    if tensor.dtype in (dtype, "tag"):
        return tensor.data
    return narrow(widen(tensor.data, tensor.dtype), dtype)


def negated_exponential(tensor: Tensor) -> Tensor:
    """-exp(x) in single precision. A tag stays what it is, and so does a NaN,
    made quiet: what an engine makes of its bits depends on the device."""
    if tensor.dtype == "tag":
        return tensor
    values = widen(tensor.data, tensor.dtype)
    with np.errstate(over="ignore"):
        result = (-np.exp(values.astype(np.float64))).astype(np.float32)
    bits = np.where(
        np.isnan(values), values.view(np.uint32) | 0x400000,
        result.view(np.uint32))
    return Tensor(bits.astype(np.uint32), "fp32")


class Parameter:
    """A parameter of one rank, and which elements a tensor has filled."""

    def __init__(
        self, name: str, shape: tuple[int, ...], dtype: str, store: str
    ):
        self.name = name
        self.dtype = dtype
        self.data = np.zeros(shape, STORES[store])
        self.filled = np.zeros(shape, bool)
        # Of a memory order that is not that of the dimensions.
        self.stride: tuple[int, ...] | None = None
        self.load: Callable[..., None] = self.whole

    def put(self, where: tuple, tensor: Tensor) -> None:
        assert self.data[where].shape == tensor.shape, (
            f"{self.name}: {tensor.shape} into {self.data[where].shape}")
        assert not self.filled[where].any(), f"{self.name} is loaded twice"
        self.data[where] = converted(tensor, self.dtype)
        self.filled[where] = True

    def whole(self, tensor: Tensor, shard: object = None) -> None:
        assert shard is None, self.name
        self.put((), tensor)


def cut(data: np.ndarray, group: Group, dim: int) -> np.ndarray:
    """This rank's of `group.size` equal slices along a dimension."""
    size, rest = divmod(data.shape[dim], group.size)
    assert rest == 0, f"{data.shape}: {group.size} ranks along {dim}"
    begin = group.rank * size
    return data[(slice(None),) * dim + (slice(begin, begin + size),)]


@dataclass(frozen=True)
class Section:
    """Rows of one tensor in a fused parameter; `shard` is its id."""

    shard: object
    rows: int
    group: Group


class Layers:
    """The parameters of one rank, made by layer class."""

    def __init__(self, dtype: str, tagged: bool):
        self.dtype = dtype
        self.tagged = tagged
        self.parameters: dict[str, Parameter] = {}

    def add(
        self, name: str, shape: tuple[int, ...], dtype: str | None = None
    ) -> Parameter:
        assert name not in self.parameters, name
        dtype = dtype or self.dtype
        self.parameters[name] = Parameter(
            name, shape, dtype, "tag" if self.tagged else dtype)
        return self.parameters[name]

    def vector(
        self, name: str, size: int, group: Group = WHOLE,
        dtype: str | None = None,
        value: Callable[[Tensor], Tensor] = lambda tensor: tensor,
    ) -> None:
        """sharded_weight_loader(0), with a function of the values."""
        parameter = self.add(name, (size // group.size,), dtype)

        def load(tensor: Tensor, shard: object = None) -> None:
            assert shard is None and tensor.shape == (size,)
            parameter.put((), value(tensor.of(cut(tensor.data, group, 0))))

        parameter.load = load

    def rows(
        self, name: str, sections: list[Section], tail: tuple[int, ...] = (),
        dtype: str | None = None,
    ) -> None:
        """Column, merged column and QKV parallel: each section is cut by
        itself. A tensor that is fused on disk is cut into sections first."""
        parts = {}
        begin = 0
        for section in sections:
            size, rest = divmod(section.rows, section.group.size)
            assert rest == 0, f"{name}: {section}"
            parts[section.shard] = (section, slice(begin, begin + size))
            begin += size
        parameter = self.add(name, (begin, *tail), dtype)

        def load(tensor: Tensor, shard: object = None) -> None:
            ids = [shard]
            if shard is None:
                ids = list(parts)
            elif isinstance(shard, tuple):
                ids = list(shard)
            at = 0
            for key in ids:
                section, where = parts[key]
                piece = tensor.data[at : at + section.rows]
                assert len(piece) == section.rows, name
                at += section.rows
                parameter.put(
                    (where,), tensor.of(cut(piece, section.group, 0)))
            assert at == tensor.shape[0], f"{name}: {tensor.shape}, {at} used"

        parameter.load = load

    def columns(
        self, name: str, rows: int, columns: int, group: Group,
        dtype: str | None = None,
    ) -> None:
        """Row parallel: cut along the input."""
        parameter = self.add(name, (rows, columns // group.size), dtype)

        def load(tensor: Tensor, shard: object = None) -> None:
            assert shard is None and tensor.shape == (rows, columns)
            parameter.put((), tensor.of(cut(tensor.data, group, 1)))

        parameter.load = load

    def vocabulary(
        self, name: str, rows: int, columns: int, group: Group
    ) -> None:
        """Padded to a multiple of 64, then cut; no tensor has the padding."""
        padded = -(-rows // 64) * 64
        assert padded % group.size == 0
        local = padded // group.size
        parameter = self.add(name, (local, columns))

        def load(tensor: Tensor, shard: object = None) -> None:
            assert shard is None and tensor.shape == (rows, columns)
            begin = group.rank * local
            piece = tensor.data[begin : min(begin + local, rows)]
            parameter.put((slice(0, len(piece)),), tensor.of(piece))

        parameter.load = load

    def copy(
        self, name: str, data: np.ndarray, filled: np.ndarray,
        stride: tuple[int, ...], dtype: str,
    ) -> None:
        """What an engine derives after loading."""
        parameter = self.add(name, data.shape, dtype)
        parameter.data, parameter.filled = data, filled
        parameter.stride = stride

