# ===- export.py - The converter's own export, seen element by element ----=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Runs the real export over all ranks with contents that tell where they went.

The export is the converter's streaming one as a whole: name resolution, the
moves across pipeline, tensor and expert ranks, stacking, tied copies and the
hooks of a family.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from megatron.bridge.models.conversion.utils import unwrap_model
from megatron.core import parallel_state

from ..report import Exported, Held
from .lockstep import Ranks
from .model import DTYPE_NAMES, Job, Parameter, RankModel, build

Fill = Callable[[Held], np.ndarray]
Stream = list[tuple[str, torch.Tensor]]


@dataclass
class Converter:
    """A trainer whose ranks all live here."""

    job: Job
    ranks: Ranks
    models: list[RankModel]
    # Parameters that the converter has no rule for: global names.
    unmapped: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(
        default_factory=lambda: {"build": 0.0, "export": 0.0}
    )

    @property
    def parameters(self) -> list[Parameter]:
        """Of all ranks, in their order."""
        return [
            parameter for model in self.models for parameter in model.parameters
        ]

    def held(self) -> list[Held]:
        """All parameters as a comparison wants them, tags counted through."""
        held, tag = [], 0
        for p in self.parameters:
            held.append(Held(p.rank, p.chunk, p.name, p.shape, p.dtype, tag))
            tag += held[-1].size
        return held

    def export_tags(self) -> list[Exported]:
        """Every element holds twice its tag, as an exact double."""

        def tags(held: Held) -> np.ndarray:
            numbers = np.arange(held.first_tag, held.first_tag + held.size)
            return 2.0 * numbers

        return self._export(tags, stored=False)

    def export_values(self, fill: Fill) -> list[Exported]:
        """The parameters hold `fill`, in their own types; whole numbers have
        no NaN and are 0 there."""
        return self._export(fill, stored=True)

    def _export(self, fill: Fill, *, stored: bool) -> list[Exported]:
        """Exports on all ranks with other contents; puts the parameters
        back."""
        start = time.monotonic()
        before = [p.tensor.data for p in self.parameters]
        try:
            for parameter, held in zip(self.parameters, self.held()):
                data = torch.from_numpy(fill(held)).reshape(held.shape)
                dtype = parameter.tensor.dtype
                if stored and not dtype.is_floating_point:
                    data = torch.nan_to_num(data, nan=0.0)
                parameter.tensor.data = data.to(dtype) if stored else data
            streams = self.ranks.run(self._export_rank)
        finally:
            for parameter, data in zip(self.parameters, before):
                parameter.tensor.data = data
        self.seconds["export"] += time.monotonic() - start
        return joined(streams)

    def _export_rank(self, rank: int) -> Stream:
        model = self.models[rank]
        bridge = model.bridge._model_bridge
        tasks = bridge.build_conversion_tasks(
            model.bridge.hf_pretrained, unwrap_model(model.chunks)
        )
        # The export as it is stops at the first parameter without a rule.
        names = bridge._cached_param_names
        self.unmapped = [n for n, task in zip(names, tasks) if task is None]
        stream = model.bridge.export_hf_weights(
            model.chunks,
            cpu=True,
            show_progress=False,
            conversion_tasks=[task for task in tasks if task is not None],
        )
        return [(name, tensor.detach().clone()) for name, tensor in stream]


def joined(streams: list[Stream]) -> list[Exported]:
    """The ranks' streams as one list. They hold the same names and shapes."""

    def described(stream: Stream) -> list[tuple]:
        return [(name, tensor.shape, tensor.dtype) for name, tensor in stream]

    first = described(streams[0])
    for rank, stream in enumerate(streams):
        if described(stream) != first:
            raise RuntimeError(f"ranks 0 and {rank} export different tensors")
    return [
        Exported(
            name, tuple(shape), DTYPE_NAMES.get(dtype, str(dtype)),
            [s[i][1].to(torch.float64).numpy().reshape(-1) for s in streams],
        )
        for i, (name, shape, dtype) in enumerate(first)
    ]  # fmt: skip


def open_converter(job: Job) -> Converter:
    """Builds the models of all ranks."""
    start = time.monotonic()
    torch.set_num_threads(1)
    ranks = Ranks(job.world, [parallel_state])
    models = ranks.run(lambda _: build(job))
    converter = Converter(job, ranks, models)
    converter.seconds["build"] = time.monotonic() - start
    return converter
