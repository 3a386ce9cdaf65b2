# ===- model.py - The trainer's model, as one rank builds it --------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""From `config` and `trainer` of a model.json to the published packages.

Nothing here knows an architecture: the converter that the packages register
for the config's architecture makes the trainer's settings, and its provider
builds the model.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from megatron.bridge.models.conversion.auto_bridge import AutoBridge
from megatron.bridge.models.conversion.utils import (
    persistent_buffers,
    unwrap_model,
)
from megatron.bridge.models.hf_pretrained.causal_lm import PreTrainedCausalLM
from megatron.core import parallel_state
from megatron.core.process_groups_config import ProcessGroupCollection
from transformers import AutoConfig, PretrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

DTYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
DTYPE_NAMES[torch.int64] = "int64"

# Settings that ask for kernels; none changes a parameter.
FUSIONS = (
    "apply_rope_fusion",
    "bias_activation_fusion",
    "bias_dropout_fusion",
    "cross_entropy_loss_fusion",
    "gradient_accumulation_fusion",
    "masked_softmax_fusion",
    "moe_permute_fusion",
    "moe_router_fusion",
    "moe_shared_expert_overlap",
)


@dataclass(frozen=True)
class Job:
    """What the packages are asked to build and to convert."""

    config: Mapping[str, Any]
    trainer: Mapping[str, Any]  # every key of the schema, defaults filled in
    world: int
    # Names and shapes of the checkpoint; None: the converter knows the
    # configuration only.
    keys: Mapping[str, Sequence[int]] | None = None
    # Looked up instead of the config's architecture.
    architecture: str | None = None
    # Settings of the provider that a model.json has no key for.
    provider: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Parameter:
    """A parameter or persistent buffer of one rank."""

    rank: int
    chunk: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    tensor: torch.Tensor


@dataclass
class RankModel:
    """What one rank built."""

    bridge: AutoBridge
    chunks: list[torch.nn.Module]
    parameters: list[Parameter]


class KeySource:
    """The names of a checkpoint, as a converter asks for them."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)

    def get_all_keys(self) -> list[str]:
        return list(self._names)

    def has_glob(self, pattern: str) -> bool:
        from fnmatch import fnmatchcase

        return any(fnmatchcase(name, pattern) for name in self._names)


class KeyState(dict):
    """The tensors of a checkpoint without their values."""

    def __init__(self, keys: Mapping[str, Sequence[int]]) -> None:
        super().__init__(
            (name, torch.empty(*shape, device="meta"))
            for name, shape in keys.items()
        )
        self.source = KeySource(list(keys))


class ListedCheckpoint(PreTrainedCausalLM):
    """A published checkpoint of which only the config and the list of tensors
    are known."""

    # Looked up where one is loaded from; this one is not.
    model_name_or_path = None
    trust_remote_code = False
    generation_config = None
    config = None
    state = None

    def __init__(
        self, config: PretrainedConfig, keys: Mapping[str, Sequence[int]]
    ) -> None:
        self.config = config
        self.state = KeyState(keys)


def published_config(job: Job) -> PretrainedConfig:
    """The config as the class of its `model_type`; one whose class comes with
    the checkpoint keeps its keys as they are."""
    entries = dict(job.config)
    model_type = entries.pop("model_type")
    if job.architecture is not None:
        entries["architectures"] = [job.architecture]
    if model_type in CONFIG_MAPPING:
        return AutoConfig.for_model(model_type, **entries)
    remote = type("RemoteConfig", (PretrainedConfig,), {})
    remote.model_type = model_type
    config = remote()
    for name, value in entries.items():
        setattr(config, name, value)
    return config


def make_bridge(job: Job) -> AutoBridge:
    """The converter that is registered for the architecture."""
    config = published_config(job)
    if job.keys is None:
        return AutoBridge.from_hf_config(config)
    AutoBridge._validate_config(config)
    return AutoBridge(ListedCheckpoint(config, job.keys))


def start_parallel_state(trainer: Mapping[str, Any]) -> None:
    """The process groups of this rank."""
    vpp = trainer["vpp"]
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=trainer["tp"],
        pipeline_model_parallel_size=trainer["pp"],
        virtual_pipeline_model_parallel_size=vpp if vpp > 1 else None,
        context_parallel_size=trainer["cp"],
        expert_model_parallel_size=trainer["ep"],
        expert_tensor_parallel_size=trainer["etp"],
    )


def set_geometry(provider: Any, job: Job) -> None:
    """What a model.json says of the trainer, in the provider's words."""
    trainer = job.trainer
    vpp = trainer["vpp"]
    provider.tensor_model_parallel_size = trainer["tp"]
    provider.pipeline_model_parallel_size = trainer["pp"]
    provider.virtual_pipeline_model_parallel_size = vpp if vpp > 1 else None
    provider.context_parallel_size = trainer["cp"]
    provider.expert_model_parallel_size = trainer["ep"]
    provider.expert_tensor_parallel_size = trainer["etp"]
    has_experts = bool(getattr(provider, "num_moe_experts", None))
    # Experts with tensor parallelism are built in this mode only.
    provider.sequence_parallel = trainer["tp"] > 1 and has_experts
    if has_experts:
        provider.moe_grouped_gemm = trainer["experts"] == "grouped"
    if trainer["mtp_layers"] is not None:
        provider.mtp_num_layers = trainer["mtp_layers"] or None
    multiple = trainer["vocab_multiple"]
    provider.should_pad_vocab = multiple > 0
    provider.make_vocab_size_divisible_by = multiple or 1
    provider.account_for_embedding_in_pipeline_split = trainer[
        "account_for_embedding"
    ]
    provider.account_for_loss_in_pipeline_split = trainer["account_for_loss"]
    set_layout(provider, trainer)


def set_layout(provider: Any, trainer: Mapping[str, Any]) -> None:
    """`pp_layout`: a hybrid's pattern, or the layers of each stage and chunk,
    which the trainer wants in the order of the pipeline: all first chunks,
    then all second ones."""
    layout = trainer["pp_layout"]
    if layout is None:
        return
    if isinstance(layout, str):
        provider.hybrid_layer_pattern = layout
        return
    stages = [part if isinstance(part, list) else [part] for part in layout]
    order = [
        ["decoder"] * stages[stage][chunk]
        for chunk in range(trainer["vpp"])
        for stage in range(trainer["pp"])
    ]
    order[0].insert(0, "embedding")
    order[-1] += ["mtp"] * (getattr(provider, "mtp_num_layers", None) or 0)
    order[-1].append("loss")
    provider.pipeline_model_parallel_layout = order


def set_storage(provider: Any, dtype: str) -> None:
    """Types of the parameters; no kernels, no values."""
    provider.params_dtype = provider.pipeline_dtype = DTYPES[dtype]
    provider.bf16, provider.fp16 = dtype == "bf16", dtype == "fp16"
    provider.perform_initialization = False
    provider.use_cpu_initialization = True
    for name in FUSIONS:
        if hasattr(provider, name):
            setattr(provider, name, False)


def build(job: Job) -> RankModel:
    """Builds the model of the rank whose turn it is."""
    start_parallel_state(job.trainer)
    bridge = make_bridge(job)
    provider = bridge.to_megatron_provider(load_weights=False)
    set_storage(provider, job.trainer["dtype"])
    set_geometry(provider, job)
    for name, value in job.provider.items():
        setattr(provider, name, value)
    provider.finalize()
    chunks = provider.provide_distributed_model(
        wrap_with_ddp=False,
        use_cpu_initialization=True,
        pg_collection=ProcessGroupCollection.use_mpu_process_groups(),
    )
    rank = torch.distributed.get_rank()
    parameters = []
    for number, chunk in enumerate(unwrap_model(chunks)):
        for name, tensor in named_tensors(chunk):
            parameters.append(
                Parameter(
                    rank=rank,
                    chunk=number,
                    name=name,
                    shape=tuple(tensor.shape),
                    dtype=DTYPE_NAMES.get(tensor.dtype, str(tensor.dtype)),
                    tensor=tensor.requires_grad_(False),
                )
            )
    return RankModel(bridge, chunks, parameters)


def named_tensors(
    chunk: torch.nn.Module,
) -> Iterator[tuple[str, torch.Tensor]]:
    """What a checkpoint of the trainer holds of a chunk, less the state that
    is no weight."""
    for name, tensor in chunk.named_parameters():
        yield name, tensor
    for name, tensor in persistent_buffers(chunk):
        if tensor is not None and not name.endswith("_extra_state"):
            yield name, tensor
