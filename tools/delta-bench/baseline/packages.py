# ===- packages.py - What the published peer imports ----------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Lets the unpacked wheels be imported where their dependencies are not.

Real are the modules of REAL and all of Megatron. What they import besides is
either installed (torch, transformers) or a stand-in: a module in which every
name is an empty class. A stand-in computes nothing, so a result that needed
one is an error, not a number.
"""

import contextlib
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path

from . import fetch
from .geometry import MODULES

ROOT = Path(__file__).resolve().parents[3]

# Packages of verl whose __init__ imports all that they have.
ENTERED = (
    "verl",
    "verl.checkpoint_engine",
    "verl.plugin",
    "verl.utils",
    "verl.workers",
    "verl.workers.engine",
    "verl.workers.engine.megatron",
    "verl.workers.rollout",
    "verl.workers.rollout.sglang_rollout",
)
# Modules of verl that are run as published; every other one is a stand-in.
REAL = (
    *ENTERED,
    "verl.checkpoint_engine.base",
    "verl.checkpoint_engine.delta_checkpoint_engine",
    "verl.checkpoint_engine.nccl_checkpoint_engine",
    "verl.utils.device",
    "verl.workers.engine.base",
    "verl.workers.engine.megatron.delta_export",
    "verl.workers.engine.megatron.transformer_impl",
    "verl.workers.engine.spec",
    "verl.workers.engine.utils",
    "verl.workers.rollout.sglang_rollout.delta_loader",
)
REAL_BELOW = ("verl.checkpoint_engine.delta_sync", "verl.plugin.platform")
# Libraries that a steady sync of one rank does not reach, installed or not.
LIBRARIES = ("cupy", "omegaconf", "ray", "tensordict", "zmq")


class PackagesError(RuntimeError):
    """What is not there, and what makes it."""


def is_stand_in(name: str) -> bool:
    """Whether a module is answered by a stand-in."""
    top = name.partition(".")[0]
    if top != "verl":
        return top in LIBRARIES
    below = any(name == p or name.startswith(p + ".") for p in REAL_BELOW)
    return not below and name not in REAL


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers the imports of stand-ins."""

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not is_stand_in(name):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(
        self, spec: importlib.machinery.ModuleSpec
    ) -> types.ModuleType:
        from delta_sync.converter.standins import Library

        return Library(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def check() -> Path:
    """The folder of the unpacked wheels; fails where something is missing."""
    site = fetch.folder() / "site"
    if not (site / "verl").is_dir():
        raise PackagesError(
            f"{site}: no published packages; run "
            f"{Path(fetch.__file__).relative_to(ROOT)}"
        )
    missing = [
        name
        for name in ("torch", "transformers", "numpy", "einops")
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise PackagesError(
            f"not installed for {sys.executable}: {', '.join(missing)}"
        )
    return site


@functools.cache
def install() -> None:
    """Imports the peer, once a process. torch stays as it is: see
    without_device()."""
    sys.path[:0] = [str(check()), str(ROOT / "runtime" / "python")]
    # Read by the packages: no look at their sources' history, no network.
    os.environ.setdefault("NO_VCS_VERSION", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.filterwarnings("ignore")
    logging.getLogger("megatron").setLevel(logging.ERROR)
    from delta_sync.converter import standins

    sys.meta_path[:0] = [Finder(), standins.LibraryFinder()]
    standins.provide_override()
    standins.claim_versions()
    standins.enter_packages()
    for name in ENTERED:
        standins.enter(name)
    for name in (*MODULES, *REAL):
        importlib.import_module(name)
    random = importlib.import_module("megatron.core.tensor_parallel.random")
    standins.without_random_states(random.CudaRNGStatesTracker)


@contextlib.contextmanager
def without_device() -> Iterator[None]:
    """For a while no question and no move reaches the device: the CPU answers.
    Afterwards torch is as it was."""
    import torch

    from delta_sync.converter import standins

    names = ("current_device", "set_device", "synchronize", "Stream", "Event")
    places = [(torch.cuda, name) for name in names] + [(torch.Tensor, "cuda")]
    before = [(p, name, vars(p).get(name)) for p, name in places]
    standins.as_device_less()
    try:
        yield
    finally:
        for place, name, value in before:
            # Tensor inherits `cuda`: it has none of its own.
            if value is None:
                delattr(place, name)
            else:
                setattr(place, name, value)
