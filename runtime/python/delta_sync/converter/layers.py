# ===- layers.py - Layers that have parameters and compute nothing --------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What a converter sees of the kernel libraries' layers: the names of their
parameters and the shapes of one rank's share."""

from collections.abc import Sequence

import torch


def share(size: int, ways: int) -> int:
    """The part of a split dimension that one of `ways` ranks holds."""
    part, rest = divmod(size, ways)
    if rest:
        raise ValueError(f"{size} rows or columns do not divide by {ways} ways")
    return part


def parameter(
    shape: Sequence[int],
    dtype: torch.dtype | None,
    split: int | None = None,
) -> torch.nn.Parameter:
    """An empty parameter; `split` is the dimension that ranks share out."""
    made = torch.nn.Parameter(torch.empty(*shape, dtype=dtype))
    made.tensor_model_parallel = split is not None
    made.partition_dim = split if split is not None else -1
    made.partition_stride = 1
    return made


class Layer(torch.nn.Module):
    """What all layers of the library answer to."""

    def set_tensor_parallel_group(self, group: object) -> None:
        self.tp_group = group

    def reset_parameters(self, *_: object, **__: object) -> None:
        """The values do not matter."""


class Linear(Layer):
    """A weight of (out, in): rows are split if column-parallel, else columns;
    the bias follows the rows."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        parallel_mode: str | None = None,
        tp_size: int = 1,
        params_dtype: torch.dtype | None = None,
        **_: object,
    ) -> None:
        super().__init__()
        self._measure(in_features, out_features, parallel_mode, tp_size)
        self.use_bias = bias
        for suffix in self._suffixes():
            weight = parameter(
                (self.out_features, self.in_features), params_dtype, self._split
            )
            self.register_parameter(f"weight{suffix}", weight)
            rows = None
            if bias:
                split = 0 if self._split == 0 else None
                rows = parameter((self.out_features,), params_dtype, split)
            self.register_parameter(f"bias{suffix}", rows)

    def _measure(
        self, inputs: int, outputs: int, mode: str | None, ways: int
    ) -> None:
        self._split = {"column": 0, "row": 1}.get(mode or "")
        self.parallel_mode = mode
        self.out_features = share(outputs, ways if self._split == 0 else 1)
        self.in_features = share(inputs, ways if self._split == 1 else 1)

    def _suffixes(self) -> list[str]:
        return [""]


class LayerNormLinear(Linear):
    """A linear layer and the norm of its input, which every rank holds."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        normalization: str = "LayerNorm",
        params_dtype: torch.dtype | None = None,
        **rest: object,
    ) -> None:
        super().__init__(
            in_features, out_features, params_dtype=params_dtype, **rest
        )
        self.layer_norm_weight = parameter((in_features,), params_dtype)
        offset = None
        if normalization == "LayerNorm":
            offset = parameter((in_features,), params_dtype)
        self.register_parameter("layer_norm_bias", offset)


class GroupedLinear(Linear):
    """As many linear layers as this rank has experts, numbered."""

    def __init__(self, num_gemms: int, *rest: object, **named: object) -> None:
        # Read while the parameters are made, before there is a module.
        object.__setattr__(self, "num_gemms", num_gemms)
        super().__init__(*rest, **named)

    def _suffixes(self) -> list[str]:
        return [str(number) for number in range(self.num_gemms)]


class RMSNorm(Layer):
    """One weight an element."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int] | None = None,
        *_: object,
        hidden_size: int | Sequence[int] | None = None,
        dtype: torch.dtype | None = None,
        params_dtype: torch.dtype | None = None,
        **__: object,
    ) -> None:
        super().__init__()
        size = hidden_size if normalized_shape is None else normalized_shape
        shape = (size,) if isinstance(size, int) else tuple(size)
        self.weight = parameter(shape, dtype or params_dtype)
        self.register_parameter("bias", None)


class LayerNorm(RMSNorm):
    """One weight and one offset an element."""

    def __init__(self, *rest: object, **named: object) -> None:
        super().__init__(*rest, **named)
        self.bias = parameter(self.weight.shape, self.weight.dtype)


class DotProductAttention(Layer):
    """No parameters, but for an offset a head where the softmax has one."""

    def __init__(
        self,
        num_attention_heads: int = 0,
        *_: object,
        softmax_type: str = "vanilla",
        tp_size: int = 1,
        **__: object,
    ) -> None:
        super().__init__()
        self.softmax_type = softmax_type
        if softmax_type == "learnable":
            heads = share(num_attention_heads, tp_size)
            self.softmax_offset = parameter((heads,), torch.float32, 0)

    def set_context_parallel_group(self, *_: object, **__: object) -> None:
        """Nothing is computed."""
