# ===- test_baseline.py - The published peer, beside the benchmark --------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The shards that are measured are those of our plans, and the peer on them
sends what its own converter says.

The second half runs where `tools/delta-bench/baseline/fetch.py` has put the
wheels and a Python with torch is there: this one, or the cross-check's.
"""

import functools
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "tools" / "delta-bench"
sys.path[:0] = [
    str(BENCH), str(ROOT / "runtime" / "python"), str(ROOT / "test" / "tools"),
]  # fmt: skip

from baseline import fetch, packages  # noqa: E402
from baseline.geometry import SHARDS, TABLE, geometry  # noqa: E402
from delta_sync import Plan, Side  # noqa: E402
from support import needs_tools, tool, write_json  # noqa: E402

ENVIRONMENT = Path(
    os.environ.get("DELTA_CROSSCHECK_ENV")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    / "delta-crosscheck"
)  # fmt: skip


def interpreter() -> Path | None:
    """A Python that has torch."""
    if find_spec("torch") is not None:
        return Path(sys.executable)
    python = ENVIRONMENT / "bin" / "python"
    return python if python.exists() else None


needs_packages = pytest.mark.skipif(
    not (fetch.folder() / "site").is_dir() or interpreter() is None,
    reason=f"no wheels in {fetch.folder()} (baseline/fetch.py), or no torch "
    f"here and in {ENVIRONMENT} (tools/dev crosscheck)",
)


def plan_of(model: Path, folder: Path) -> Plan:
    path = folder / f"{model.stem}.so"
    result = tool("delta-compile", model, "-o", path)
    assert result.returncode == 0, result.stderr
    return Plan.open(path)


# --- the shards --------------------------------------------------------------


@needs_tools
@pytest.mark.parametrize("name", TABLE)
def test_shard_has_the_size_that_was_measured(
    name: str, tmp_path: Path
) -> None:
    known = geometry(name)
    with plan_of(SHARDS / f"{name.lower()}.json", tmp_path) as plan:
        held = plan.parameters(Side.SOURCE, 0)
        assert plan.num_ranks(Side.SOURCE) == known.num_ranks
    assert len(held) == known.num_parameters
    assert sum(p.num_elements for p in held) == known.num_elements
    assert {p.chunk for p in held} == {0}


@needs_tools
@pytest.mark.parametrize("name", TABLE)
def test_host_text_of_a_shard(name: str, tmp_path: Path) -> None:
    out = tmp_path / "plan.cpp"
    model = SHARDS / f"{name.lower()}.json"
    result = tool("delta-compile", model, "--emit=host", "-o", out)
    assert result.returncode == 0, result.stderr
    assert out.stat().st_size > 0


def test_tiny_form_changes_sizes_only() -> None:
    for name in TABLE:
        full, tiny = geometry(name), geometry(name, tiny=True)
        assert full.trainer == tiny.trainer
        assert set(full.config) == set(tiny.config)
        assert full.config["architectures"] == tiny.config["architectures"]
        assert full.config["hidden_size"] > tiny.config["hidden_size"]
        assert full.num_ranks == tiny.num_ranks


# --- the wheels --------------------------------------------------------------


def test_every_wheel_has_a_version_and_a_hash() -> None:
    pins = fetch.pins()
    versions = {name: version for name, (version, _) in pins.items()}
    assert versions == {
        "verl": "0.9.1", "megatron-bridge": "0.6.2", "megatron-core": "0.19.2",
    }  # fmt: skip
    assert len({digest for _, digest in pins.values()}) == len(pins)


def test_a_wheel_that_is_missing_or_another_is_refused(tmp_path: Path) -> None:
    with pytest.raises(fetch.FetchError, match=r"no wheel of verl 0\.9\.1"):
        fetch.check(tmp_path)
    assert len(fetch.missing(tmp_path)) == len(fetch.pins())
    other = tmp_path / "verl-0.9.1-py3-none-any.whl"
    other.write_bytes(b"not what was published")
    seen = hashlib.sha256(b"not what was published").hexdigest()
    with pytest.raises(fetch.FetchError, match=f"has SHA-256 {seen}, required"):
        fetch.check(tmp_path)


def test_sources_and_metadata_are_unpacked(tmp_path: Path) -> None:
    wheel, site = tmp_path / "a.whl", tmp_path / "site"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in (
            "verl/a.py", "verl/a.so", "tests/b.py", "megatron/core/c.py",
            "x-1.dist-info/METADATA",
        ):  # fmt: skip
            archive.writestr(name, name)
    (site / "old").mkdir(parents=True)
    assert fetch.unpack([wheel], site) == 3
    files = {str(f.relative_to(site)) for f in site.rglob("*") if f.is_file()}
    assert files == {
        "verl/a.py", "megatron/core/c.py", "x-1.dist-info/METADATA",
    }  # fmt: skip
    assert not (site / "old").exists()


def test_what_is_measured_is_no_stand_in() -> None:
    for name in (
        "verl.workers.engine.utils",
        "verl.workers.engine.megatron.delta_export",
        "verl.workers.engine.megatron.transformer_impl",
        "verl.checkpoint_engine.delta_sync.sparse_gather",
        "verl.workers.rollout.sglang_rollout.delta_loader",
        "megatron.bridge.models.conversion.param_mapping",
        "megatron.core.parallel_state",
        "torch",
        "transformers",
    ):
        assert not packages.is_stand_in(name), name
    for name in ("ray.util.collective", "verl.trainer", "verl.utils.model"):
        assert packages.is_stand_in(name), name


# --- the peer ----------------------------------------------------------------


@functools.cache
def peer_found() -> dict[str, Any]:
    """What test/python/baseline/faults.py saw, once for all tests."""
    script = ROOT / "test" / "python" / "baseline" / "faults.py"
    result = subprocess.run(
        [str(interpreter()), str(script)],
        capture_output=True, text=True, timeout=600,
        env={**os.environ, "PYTHONPATH": str(BENCH)},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return json.loads(result.stderr.splitlines()[-1])


@needs_packages
@needs_tools
@pytest.mark.parametrize("name", TABLE)
def test_names_and_shapes_are_the_plan_s(name: str, tmp_path: Path) -> None:
    found = peer_found()[name]
    model = write_json(tmp_path / "m.json", geometry(name, tiny=True).model)
    with plan_of(model, tmp_path) as plan:
        held = {p.name: p.shape for p in plan.parameters(Side.SOURCE, 0)}
        tensors = {p.name: p.shape for p in plan.parameters(Side.HF, 0)}
    parameters = {n: tuple(shape) for n, shape in found["parameters"].items()}
    exported = {n: tuple(shape) for n, shape in found["tensors"].items()}
    assert parameters == held
    assert exported.items() <= tensors.items()
    assert found["whole"] == [len(tensors), found["elements"]]


@needs_packages
@pytest.mark.parametrize("name", TABLE)
def test_a_sync_sends_what_changed(name: str) -> None:
    found = peer_found()[name]
    for mode in ("pageable", "device"):
        some = found["changed"][f"{mode} 0.03"][0]
        assert found["changed"][f"{mode} 0.0"] == [0, 0]
        assert found["changed"][f"{mode} 0.03"] == [some, 0]
        assert 0.02 < some / found["elements"] < 0.04
        assert found["changed"][f"{mode} 1.0"] == [found["elements"], 0]
    assert found["timed"] == [2, True, some]


@needs_packages
@pytest.mark.parametrize("name", TABLE)
def test_planted_faults_are_found(name: str) -> None:
    found = peer_found()[name]
    wanted = {
        "sync": {
            "value": "other values than the export has",
            "position": "or at other places",
            "order": "or at other places",
            "dropped": "elements changed, none sent",
        },
        "export": {
            "element": "other elements in the whole export",
            "missing element": "other elements in the whole export",
            "shape": "from all ranks",
            "tensor": "the shard holds a part of it",
            "name": "not in the whole export: nobody",
        },
    }
    for check, faults in wanted.items():
        assert set(found[check]) == set(faults)
        for fault, text in faults.items():
            assert text in found[check][fault], (check, fault)
    assert "received other elements" in found["received"]
    assert found["pinned"] == "a pinned snapshot needs a GPU"


@needs_packages
@pytest.mark.parametrize("name", TABLE)
def test_marks_see_every_stage_and_go(name: str) -> None:
    assert peer_found()[name]["stages"]
    assert peer_found()[name]["unmarked"]


@needs_packages
def test_work_on_the_device_is_counted_by_kind() -> None:
    assert peer_found()["work"] == {
        "counts": {"kernel": 1, "copy": 1, "set": 1, "wait": 1},
        "busy": 1.5,
    }


@needs_packages
def test_command_writes_every_sample(tmp_path: Path) -> None:
    out = tmp_path / "b.json"
    result = subprocess.run(
        [str(interpreter()), str(BENCH / "baseline" / "run.py"), "--geometry",
         "B", "--tiny", "--device", "cpu", "--syncs", "2", "--p", "0", "0.01",
         "--out", str(out)],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    written = json.loads(out.read_text())
    assert written["verl"] == "0.9.1" and written["elements"] == 95104
    syncs = [r for r in written["rows"] if r["what"] == "sync"]
    assert {(r["snapshot"], r["p"]) for r in syncs} == {
        (mode, share) for mode in ("pageable", "device") for share in (0, 0.01)
    }
    assert all(len(r["seconds"]) == 2 for r in syncs)
    assert {r["what"] for r in written["rows"]} == {
        "prime", "sync", "stage", "apply_delta", "torch scatter",
    }  # fmt: skip


@needs_packages
@pytest.mark.parametrize(
    "arguments", [["--device", "cpu"], ["--device", "cuda", "--tiny"]]
)
def test_command_without_its_device(
    arguments: list[str], tmp_path: Path
) -> None:
    result = subprocess.run(
        [str(interpreter()), str(BENCH / "baseline" / "run.py"), "--geometry",
         "B", *arguments, "--out", str(tmp_path / "b.json")],
        capture_output=True, text=True, timeout=600,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert result.returncode == 2, result.stderr
    assert result.stderr.splitlines()[-1].startswith("run.py: ")
