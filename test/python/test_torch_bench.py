# ===- test_torch_bench.py - The benchmark on torch tensors ---------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What is measured is what is said to be, and what is wrong is found.

The second half runs small models on the host, where torch and the wheels of
`tools/delta-bench/baseline/fetch.py` are.
"""

import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / folder)
    for folder in ("runtime/python", "test/tools", "tools/delta-bench")
]

from baseline import fetch, packages  # noqa: E402
from delta_sync import Plan, Side  # noqa: E402
from support import BIN, needs_tools  # noqa: E402
from torch_bench import cases, run  # noqa: E402

needs_torch = pytest.mark.skipif(
    find_spec("torch") is None or not (fetch.folder() / "site").is_dir(),
    reason=f"no torch here, or no wheels in {fetch.folder()}",
)
# A node of four ranks has every axis that shares parameters.
TINY = ("A", "A1", "B", "C")


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plans")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DELTA_BIN", str(BIN))
        cases.compile_plans(TINY, ["device"], folder, [], tiny=True)
        cases.compile_plans(["A", "A1", "A18K"], ["device"], folder, [])
    return folder


# --- the shards --------------------------------------------------------------


@needs_tools
def test_one_rank_alone_holds_the_shard(plans: Path) -> None:
    """Of A1: names and shapes of A's rank 0, but for the router's rows."""
    with (
        Plan.open(plans / "a-device.so") as whole,
        Plan.open(plans / "a1-device.so") as alone,
    ):
        held = {p.name: p.shape for p in whole.parameters(Side.SOURCE, 0)}
        own = {p.name: p.shape for p in alone.parameters(Side.SOURCE, 0)}
        assert held.keys() == own.keys() and len(held) == 1875
        different = {name for name in held if held[name] != own[name]}
        assert len(different) == 48
        assert all(name.endswith("router.weight") for name in different)
        compared = [
            sum(tile.num_elements for tile in plan.tiles(0))
            for plan in (whole, alone)
        ]
        assert compared == [3_816_515_072, 5_153_961_984]
        size = sum(p.num_elements for p in alone.parameters(Side.SOURCE, 0))
        assert compared[1] == size


@needs_tools
def test_a_rank_of_many_parameters(plans: Path) -> None:
    with Plan.open(plans / "a18k-device.so") as plan:
        held = plan.parameters(Side.SOURCE, 0)
        known = cases.case("A18K")
        assert len(held) == known.num_parameters == 18_771
        assert sum(p.num_elements for p in held) == known.num_elements


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--syncs", "0"], "0: a number of 1 or more is required"),
        (["--p", "0.01", "1.5"], "1.5 is no share of the elements"),
        (["--p", "nan"], "nan is no share of the elements"),
        (["--p", "x"], "x is no share of the elements"),
        (["--checks", "-1"], "-1: a number of 0 or more is required"),
        (["--peer-snapshots", "host"], "invalid choice: 'host'"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["measure", "--geometry", "B", "--plans", "p", "--out", "o"]
    with pytest.raises(SystemExit) as refused:
        run.parser().parse_args([*given, *options])
    assert refused.value.code == 2
    assert said in capsys.readouterr().err


def test_a_report_divides_by_what_it_says(tmp_path: Path) -> None:
    from torch_bench.report import Report

    report = Report(tmp_path, {"geometry": "B"})
    report.add(
        "diff+pack", [0.003, 0.001, 0.002], snapshot="device", p=0.01,
        num_bytes=4_000_000_000, against=("copy", 4e12),
    )  # fmt: skip
    report.add("advance", [0.004], snapshot="device", against=("scatter", 2e-3))
    assert report.find("diff+pack", p=0.01) == 0.002
    assert report.find("diff+pack", p=0.03) is None
    text = (tmp_path / "b.txt").read_text()
    assert "2.0000 ms  [1.0000 - 3.0000] n=3" in text
    assert "2000.0 GB/s    50.0 % of copy" in text
    assert "2.00 x scatter" in text
    rows = json.loads((tmp_path / "b.json").read_text())["rows"]
    assert rows[0]["of_copy"] == 0.5 and rows[1]["times_scatter"] == 2


# --- small models ------------------------------------------------------------


@needs_tools
@needs_torch
@pytest.mark.parametrize("geometry", TINY)
def test_measures_and_checks(
    plans: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, geometry: str
) -> None:
    monkeypatch.setattr(sys, "argv", [
        "run.py", "measure", "--geometry", geometry, "--tiny", "--device",
        "cpu", "--plans", str(plans), "--out", str(tmp_path), "--syncs", "2",
        "--copy-bytes", "65536", "--p", "0", "0.02", "1",
        *(["--peer"] if geometry == "B" else []),
    ])  # fmt: skip
    assert run.main() == 0
    found = json.loads((tmp_path / f"{geometry.lower()}.json").read_text())
    rows = {(row["what"], row["p"]): row for row in found["rows"]}
    assert {p for what, p in rows if what == "diff+pack"} == {0, 0.02, 1}
    assert all(len(row["seconds"]) == 2 for row in rows.values())
    if geometry != "A":
        for share in (0, 0.02, 1):
            note = rows["receiver commit", share]["note"]
            # Three syncs, all tensors of the checkpoint each.
            assert int(note.split()[1]) > 3 * 90_000, note
    text = (tmp_path / f"{geometry.lower()}.txt").read_text()
    assert ("x ours" in text) == (geometry == "B")


@pytest.fixture(scope="module")
def synced(plans: Path) -> Iterator[object]:
    """Both ranks of a small B and a receiver, after a full sync."""
    packages.install()
    import torch
    from torch_bench.clock import Clock
    from torch_bench.exports import Converter
    from torch_bench.memory import Source
    from torch_bench.report import Report
    from torch_bench.syncs import Syncs

    device = torch.device("cpu")
    chosen = cases.case("B", tiny=True)
    converter = Converter(chosen, device)
    with Plan.open(plans / "b-tiny-device.so") as plan:
        source = Source(plan, range(2), device, converter.first)
        source.fill(3)
        converter.bind(source.ranks)
        with Syncs(
            plan, source, Clock(device), Report(None, {"geometry": "B"}),
            check=converter.check, with_receiver=True,
        ) as syncs:
            assert syncs.seed() > 180_000
            yield syncs


@needs_tools
@needs_torch
def test_one_wrong_element_is_named(synced: object) -> None:
    from torch_bench.exports import Wrong

    name = "model.layers.1.self_attn.k_proj.weight"
    held = synced.destination.tensors[name].view(-1)
    kept = held[7].clone()
    held[7] += 1
    with pytest.raises(Wrong, match=f"{name}: 1 elements differ, first 7"):
        synced.checked()
    held[7] = kept
    assert synced.checked()


@needs_tools
@needs_torch
def test_a_change_that_is_not_sent_is_found(synced: object) -> None:
    from torch_bench.exports import Wrong

    for rank in range(2):
        weight = synced.source.ranks[rank][
            "decoder.layers.0.mlp.linear_fc2.weight"]
        weight[0, 0] += 1
        with pytest.raises(Wrong, match="layers.0.mlp.down_proj.weight: 1 el"):
            synced.checked()
        synced.one(0.0, seed=1)
        assert synced.checked()


@needs_tools
@needs_torch
def test_flips_are_one_bit_of_a_share(synced: object) -> None:
    import torch
    from torch_bench.memory import bits

    source = synced.source
    before = [bits(buffer.flat).clone() for buffer in source.buffers]
    predicted = source.flipped(0.1, seed=9)
    source.flip(0.1, seed=9)
    count = size = 0
    for buffer, old in zip(source.buffers, before):
        changed = bits(buffer.flat) ^ old
        assert set(changed.unique().tolist()) == {0, 1}
        count += int(changed.sum())
        size += changed.numel()
        for tensor in buffer.tensors.values():
            assert torch.equal(bits(tensor), bits(predicted[tensor.data_ptr()]))
    assert 0.09 < count / size < 0.11
    source.flip(0.1, seed=10)
    source.flip(0.1, seed=10)
    source.flip(0.1, seed=9)
    for buffer, old in zip(source.buffers, before):
        assert torch.equal(bits(buffer.flat), old)


@needs_tools
@needs_torch
def test_ranks_share_what_is_replicated(synced: object) -> None:
    first, second = synced.source.ranks
    norm = "decoder.final_layernorm.weight"
    assert first[norm].data_ptr() == second[norm].data_ptr()
    fc1 = "decoder.layers.0.mlp.linear_fc1.weight"
    assert first[fc1].data_ptr() != second[fc1].data_ptr()


@needs_tools
@needs_torch
def test_messages_are_read_in_rounds_and_none_is_missed(plans: Path) -> None:
    """The reader of `messages.py`: seeds and deltas, in one round and in many;
    without the message of a rank something is wrong."""
    packages.install()
    import torch
    from torch_bench.exports import Converter, Wrong
    from torch_bench.memory import Source, allocate
    from torch_bench.messages import Applied, Tiles

    device = torch.device("cpu")
    converter = Converter(cases.case("A", tiny=True), device)
    with Plan.open(plans / "a-tiny-device.so") as plan:
        source = Source(plan, range(1), device, converter.first)
        source.fill(4)
        first = source.ranks[0]
        converter.bind([first] * 8)
        target = allocate(plan.parameters(Side.DESTINATION, 0), device)
        rounds = []

        def send(rank: int) -> None:
            to = Applied(Tiles(plan, rank, target, device), target)
            with plan.sender(rank, first, capacity=16384) as sender:
                sender.seed()
                rounds.append(sender.rounds)
                sender.send(to)
                sender.acknowledge()
                source.flip(0.3, seed=rank)
                sender.diff()
                rounds.append(sender.rounds)
                sender.send(to)
                sender.acknowledge()
                source.flip(0.3, seed=rank)
                # Back again: the receiver holds what is there now.
                sender.diff()
                sender.send(to)

        for rank in range(8):
            if rank != 5:
                send(rank)
        with pytest.raises(Wrong, match=", and [0-9]+ tensors more"):
            converter.check(target.tensors)
        send(5)
        assert converter.check(target.tensors) > 200_000
        assert max(rounds) > 1
