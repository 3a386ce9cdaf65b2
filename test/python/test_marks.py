# ===- test_marks.py - Marks that replicas share --------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The exchange that runtime/python/README.md shows, run as it stands there,
over processes with gloo; and the form in which marks are handed out."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "runtime/python"))

from delta_sync.sender import Marks  # noqa: E402


def share(torch: Any, marks: Any, piece: int) -> None:
    """Runs the example on memory of the host."""
    readme = (ROOT / "runtime/python/README.md").read_text()
    found = re.search(r"```python\n(def share.*?)\n\n", readme, re.DOTALL)
    assert found
    code = found.group(1)
    assert code.count('device="cuda"') == 1
    names: dict[str, Any] = {"torch": torch, "dist": torch.distributed}
    exec(code.replace('device="cuda"', 'device="cpu"'), names)
    names["share"](marks, torch.distributed.group.WORLD, piece)


def marks_of(torch: Any, rank: int, size: int) -> Any:
    """A quarter of the bits, as likely in the same byte as in another."""
    random = torch.Generator().manual_seed(rank)
    first, second = (
        torch.randint(0, 256, (size,), dtype=torch.uint8, generator=random)
        for _ in range(2)
    )
    return first & second


def run_rank(rank: int, ways: int, size: int, piece: int, at: str) -> None:
    import torch

    torch.distributed.init_process_group(
        "gloo", f"file://{at}", rank=rank, world_size=ways
    )
    marks = marks_of(torch, rank, size)
    wanted = torch.zeros_like(marks)
    for other in range(ways):
        wanted |= marks_of(torch, other, size)
    assert not torch.equal(marks, wanted)
    share(torch, marks, piece)
    assert torch.equal(marks, wanted)
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    "ways, size, piece",
    [(2, 1024, 1 << 26), (3, 1003, 100), (4, 34, 32)],
    ids=["even", "uneven", "fewer bytes than ranks"],
)
def test_the_example_shares_every_mark(
    tmp_path: Path, ways: int, size: int, piece: int
) -> None:
    torch = pytest.importorskip("torch")
    torch.multiprocessing.spawn(
        run_rank, (ways, size, piece, str(tmp_path / "store")), nprocs=ways
    )


def test_marks_are_bytes_of_the_device() -> None:
    sender: Any = object()
    marks = Marks(sender, 4096, 96)
    interface = marks.__cuda_array_interface__
    assert interface["data"] == (4096, False)
    assert interface["shape"] == (96,) and interface["typestr"] == "|u1"
    assert marks._sender is sender
    # An array without elements has no address.
    nothing = Marks(sender, 4096, 0).__cuda_array_interface__
    assert nothing["data"] == (0, False) and nothing["shape"] == (0,)
