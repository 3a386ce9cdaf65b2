# ===- standins.py - What a machine without a GPU lacks -------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Lets the published packages be imported, and models be built, on a CPU.

The kernel libraries of the trainer cannot be installed without a GPU. Of what
they hold, a converter sees only the parameters of their layers: their names
and the shapes of one rank's share. The layers here have those and compute
nothing; every other name of such a library is an empty class.

Packages whose `__init__` imports all that they have are entered without it.
"""

import contextlib
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import pkgutil
import sys
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from . import layers

# Libraries that are taken for installed, and the version each claims.
LIBRARIES = {
    "transformer_engine": "2.9.0",
    "transformer_engine_torch": "2.9.0",
    "mamba_ssm": "2.2.4",
    "causal_conv1d": "1.5.0",
    "fla": "0.3.0",
}

# Packages that are entered without their `__init__`, with all below them that
# lie one folder deep.
ENTERED = (
    "megatron.bridge",
    "megatron.bridge.data",
    "megatron.bridge.diffusion",
    "megatron.bridge.models",
    "megatron.bridge.peft",
    "megatron.bridge.recipes",
    "megatron.bridge.training",
    "megatron.bridge.training.utils",
)
FAMILIES = "megatron.bridge.models"
# These hold code of their own in `__init__`, or nothing that costs.
KEPT = {"common", "decorators", "hf_pretrained"}


# Names that are more than an empty class, by module.
CONTENT: dict[str, dict[str, object]] = {
    "transformer_engine.pytorch": {
        "Linear": layers.Linear,
        "LayerNormLinear": layers.LayerNormLinear,
        "GroupedLinear": layers.GroupedLinear,
        "RMSNorm": layers.RMSNorm,
        "LayerNorm": layers.LayerNorm,
        "DotProductAttention": layers.DotProductAttention,
    },
    "transformer_engine.pytorch.module.base": {
        "TransformerEngineBaseModule": layers.Layer,
    },
    # Types that tensors are tested for: no tensor is one.
    "transformer_engine.pytorch.tensor": {
        "QuantizedTensor": type("QuantizedTensor", (torch.Tensor,), {}),
    },
    "transformer_engine.pytorch.float8_tensor": {
        "Float8Tensor": type("Float8Tensor", (torch.Tensor,), {}),
    },
    "transformer_engine.pytorch.cpu_offload": {
        "get_cpu_offload_context": (
            lambda *_, **__: (contextlib.nullcontext(), lambda value: value)
        ),
    },
    "mamba_ssm.ops.triton.layernorm_gated": {"RMSNorm": layers.RMSNorm},
}


# --- libraries that are not there --------------------------------------------


class EveryName(type):
    """A class that has every name, each an empty class."""

    def __getattr__(cls, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return EveryName(name, (Empty,), {"__module__": cls.__module__})


class Empty(metaclass=EveryName):
    """Every other name of a library: may be made and called, and decorates."""

    def __new__(cls, *arguments: object, **named: object) -> object:
        if len(arguments) == 1 and not named and callable(arguments[0]):
            return arguments[0]
        return super().__new__(cls)

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __call__(self, *_: object, **__: object) -> None:
        return None


class Library(types.ModuleType):
    """A module that has every name."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        value = EveryName(name, (Empty,), {"__module__": self.__name__})
        setattr(self, name, value)
        return value


class LibraryFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers imports of anything inside the libraries."""

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in LIBRARIES:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(
        self, spec: importlib.machinery.ModuleSpec
    ) -> types.ModuleType:
        module = Library(spec.name)
        if spec.name in LIBRARIES:
            module.__version__ = LIBRARIES[spec.name]
        vars(module).update(CONTENT.get(spec.name, {}))
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def claim_versions() -> None:
    """The libraries are asked for by distribution name too."""
    installed = importlib.metadata.version

    def version(name: str) -> str:
        claimed = LIBRARIES.get(name.replace("-", "_"))
        return claimed if claimed else installed(name)

    importlib.metadata.version = version


# --- packages without their __init__ -----------------------------------------


def enter(name: str) -> None:
    """Puts a package in place as its folder alone."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return
    package = types.ModuleType(name)
    package.__path__ = list(spec.submodule_search_locations)
    package.__spec__ = importlib.machinery.ModuleSpec(
        name, None, is_package=True
    )
    package.__spec__.submodule_search_locations = package.__path__
    sys.modules[name] = package
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, package)


def enter_packages() -> None:
    """Enters the packages of the converter, and those of its families."""
    for name in ENTERED:
        enter(name)
    for entry in pkgutil.iter_modules(sys.modules[FAMILIES].__path__):
        if entry.ispkg and entry.name not in KEPT:
            enter(f"{FAMILIES}.{entry.name}")


def import_converters() -> dict[str, str]:
    """Imports the converter of every family, which registers it; returns why
    for those that cannot be, by file."""
    reasons = {}
    for folder in sorted(Path(sys.modules[FAMILIES].__path__[0]).iterdir()):
        for file in sorted(folder.glob("*_bridge.py")):
            try:
                importlib.import_module(f"{FAMILIES}.{folder.name}.{file.stem}")
            # Whatever a family raises concerns that family only.
            except Exception as error:  # noqa: BLE001
                reasons[file.name] = f"{type(error).__name__}: {error}"
    return reasons


# --- the device --------------------------------------------------------------


def as_device_less() -> None:
    """Questions for the device are answered by the CPU; nothing is moved."""
    torch.cuda.current_device = lambda: "cpu"
    torch.cuda.set_device = lambda *_, **__: None
    torch.cuda.synchronize = lambda *_, **__: None
    torch.cuda.Stream = EveryName("Stream", (Empty,), {})
    torch.cuda.Event = EveryName("Event", (Empty,), {})
    torch.Tensor.cuda = lambda self, *_, **__: self


def without_random_states(tracker: type) -> None:
    """No random state is forked: values do not matter."""

    @contextlib.contextmanager
    def fork(self: object, *_: object, **__: object) -> Iterator[None]:
        yield

    tracker.fork = fork


def provide_override() -> None:
    """Python 3.11 and older have no typing.override."""

    def override(method: Callable) -> Callable:
        return method

    if not hasattr(typing, "override"):
        typing.override = override


@functools.cache
def install() -> dict[str, str]:
    """All of it, once a process; returns import_converters()."""
    # Read by the packages: no look at their sources' history, no network.
    os.environ.setdefault("NO_VCS_VERSION", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    provide_override()
    sys.meta_path.insert(0, LibraryFinder())
    claim_versions()
    as_device_less()
    enter_packages()
    reasons = import_converters()
    random = importlib.import_module("megatron.core.tensor_parallel.random")
    without_random_states(random.CudaRNGStatesTracker)
    return reasons
