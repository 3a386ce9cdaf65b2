# ===- peer.py - The published peer on one shard --------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""One rank's shard, and verl's trainer engine over it.

    peer = Peer.open(geometry("A"), device="cuda")
    before = peer.export()
    peer.snapshot("pageable")
    peer.flip(0.01)
    for entry in peer.sync(): ...
    after = peer.export()

The engine is verl's `MegatronEngine`, without the parts that its constructor
starts (processes, optimizer, data): its snapshots, its index and its steady
export are called as its checkpoint engine calls them.
"""

from collections.abc import Iterator, Mapping

import torch

from . import engine, trainer
from .engine import PeerError
from .geometry import Geometry
from .trainer import Parameter, Trainer

MODES = ("pageable", "pinned", "device")

# As verl yields it: tensors' names and shapes, type, changed elements of each,
# their positions and values, the group that gathers.
Entry = tuple[list, str, torch.Tensor, torch.Tensor, torch.Tensor, object]
Export = dict[str, torch.Tensor]


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Elements as 16-bit integers, flat: NaN equals itself."""
    return tensor.reshape(-1).view(torch.int16)


class Peer:
    """The shard of rank 0 and the peer's state. Use one at a time."""

    def __init__(self, geometry: Geometry, built: Trainer) -> None:
        self.geometry = geometry
        self.trainer = built
        self.flat = built.flat
        self.parameters: list[Parameter] = built.parameters
        self._mask: tuple[float, int, torch.Tensor] | None = None
        self._mode: str | None = None
        self.engine = engine.make_engines(built)[0]
        engine.start_process_group(geometry.num_ranks)
        self.rows = self.engine._delta_export_index

    @classmethod
    def open(
        cls, geometry: Geometry, *, device: str = "cuda", seed: int = 1
    ) -> "Peer":
        """Builds the trainer and fills rank 0's shard with N(0, 0.02)."""
        peer = cls(geometry, trainer.build(geometry, torch.device(device)))
        peer.fill(seed)
        return peer

    @property
    def device(self) -> torch.device:
        return self.flat.device

    @property
    def num_elements(self) -> int:
        """Of all parameters, without the gaps between them."""
        return sum(p.tensor.numel() for p in self.parameters)

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    # --- data ----------------------------------------------------------------

    def fill(self, seed: int) -> None:
        """New values; gaps between parameters become values too."""
        trainer.fill(self.flat, seed)

    def flip(self, share: float, seed: int = 2) -> None:
        """Moves each element of a fixed random choice by one ulp: the lowest
        bit of the mantissa, back and forth from call to call."""
        if self._mask is None or self._mask[:2] != (share, seed):
            self._mask = None
            mask = trainer.bernoulli(
                self.flat.numel(), share, self.device, seed
            )
            self._mask = (share, seed, mask)
        if share > 0:
            self.flat.view(torch.int16).bitwise_xor_(self._mask[2])
        self.synchronize()

    # --- the converter -------------------------------------------------------

    def export(self) -> Export:
        """What the converter makes of this shard: whole tensors under their
        published names, NaN where other ranks hold the elements. Copies."""
        found: Export = {}
        for row in self.rows:
            made = row.probe.megatron_to_hf(row.param.data, row.module)
            for name, tensor in made.items():
                if name in found:
                    raise PeerError(f"{name}: exported twice")
                found[name] = tensor.detach().clone().contiguous()
        return found

    @staticmethod
    def changes(
        before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor]
    ) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
        """Of each tensor: name, changed positions (ascending), new values."""
        if list(before) != list(after):
            raise PeerError("two exports name different tensors")
        for name, old in before.items():
            differs = bits(old) != bits(after[name])
            positions = differs.nonzero().view(-1)
            yield name, positions, after[name].reshape(-1)[positions]

    # --- a steady sync -------------------------------------------------------

    def snapshot(self, mode: str) -> None:
        """The diff base becomes the shard as it is. `pageable` is the engine's
        default, `pinned` its option, `device` a buffer that it finds there."""
        if mode not in MODES:
            raise PeerError(f"snapshot {mode!r}: one of {', '.join(MODES)}")
        if mode == "pinned" and self.device.type != "cuda":
            raise PeerError("a pinned snapshot needs a GPU")
        verl = self.engine
        if mode != self._mode:
            verl._delta_shard_snap = {}
            verl.delta_pin_snapshots = mode == "pinned"
            if mode == "device":
                verl._delta_shard_snap = self._device_snapshots()
            self._mode = mode
        verl.prime_delta_snapshots()
        self.synchronize()
        wanted = self.device.type if mode == "device" else "cpu"
        for name, held in verl._delta_shard_snap.items():
            pinned = held.device.type == "cpu" and held.is_pinned()
            if held.device.type != wanted or pinned != (mode == "pinned"):
                raise PeerError(
                    f"{name}: its snapshot is on {held.device}, pinned "
                    f"{pinned}; required is {mode}"
                )

    def sync(self) -> Iterator[Entry]:
        """A steady sync's entries; the snapshot moves as they are taken."""
        stream, _ = self.engine.get_per_tensor_param_delta_shard()
        return stream

    def _device_snapshots(self) -> dict[str, torch.Tensor]:
        copy = torch.empty_like(self.flat)
        names = {p.tensor.data_ptr(): p for p in self.parameters}
        found = {}
        for row in self.rows:
            p = names[row.param.data_ptr()]
            found[row.megatron_name] = copy[p.offset :][: p.tensor.numel()]
        return found
