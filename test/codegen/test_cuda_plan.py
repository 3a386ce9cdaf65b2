# ===- test_cuda_plan.py - A plan for GPUs where there is none ------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What nvcc, and NVRTC, make of the text, and the plan around it: it loads
without a driver, and says so. One plan is compiled for all tests."""

import ctypes
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
COMPILE = Path(os.environ["DELTA_BIN"]) / "delta-compile"
NVCC = os.environ.get("DELTA_TEST_NVCC", "")
MODEL = REPOSITORY / "models/examples/qwen3-30b-a3b-cut-tp2-ep4-to-tp4.json"
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")

pytestmark = pytest.mark.skipif(
    not NVCC, reason="no nvcc in this build, or DELTA_CUDA is off"
)


def compile_plan(
    output: Path, *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMPILE, MODEL, "--cross-check=off", *arguments, "-o", output],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "DELTA_NVCC": NVCC, **(environment or {})},
    )


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The plan for the default architectures."""
    path = tmp_path_factory.mktemp("cuda-plan") / "plan.so"
    result = compile_plan(path, "--target=cuda")
    assert result.returncode == 0, result.stderr
    yield path


def kernel_names() -> list[str]:
    """Entry points of codegen/device/DeviceKernels.def."""
    rows = (REPOSITORY / "codegen/device/DeviceKernels.def").read_text()
    names = re.findall(r"^DELTA_DEVICE_KERNEL\(\w+,\s*(\w+),", rows, re.M)
    assert "diff" in names
    return [f"delta_{name}" for name in names]


class Cubin:
    """An ELF file of 64 bits for EM_CUDA, inside other bytes."""

    def __init__(self, data: bytes, begin: int) -> None:
        (sections,) = struct.unpack_from("<Q", data, begin + 40)
        size, count, _ = struct.unpack_from("<HHH", data, begin + 58)
        self.data = data[begin : begin + sections + size * count]
        (self.flags,) = struct.unpack_from("<I", data, begin + 48)
        self.symbols: dict[str, int] = {}
        headers = [
            struct.unpack_from("<IIQQQQIIQQ", self.data, sections + i * size)
            for i in range(count)
        ]
        for header in headers:
            if header[1] != 2:  # SHT_SYMTAB
                continue
            names = headers[header[6]]
            for at in range(header[4], header[4] + header[5], 24):
                name, info = struct.unpack_from("<IB", self.data, at)
                begin_of_name = names[4] + name
                end = self.data.index(b"\0", begin_of_name)
                text = self.data[begin_of_name:end].decode()
                self.symbols[text] = info & 15


def cubins(path: Path) -> list[Cubin]:
    """The device code inside of a plan, in its order."""
    data = path.read_bytes()
    places = (match.start() for match in re.finditer(rb"\x7fELF", data))
    return [
        Cubin(data, at)
        for at in places
        if struct.unpack_from("<H", data, at + 18)[0] == 190
    ]


def test_has_code_for_each_architecture(plan: Path) -> None:
    found = cubins(plan)
    assert len(found) == len(ARCHITECTURES)
    for cubin in found:
        # 2: a function; 1: an object.
        assert {cubin.symbols.get(name) for name in kernel_names()} == {2}
        assert cubin.symbols.get("delta_boxes") == 1
        assert cubin.symbols.get("delta_images") == 1


def test_needs_and_exports_what_a_plan_of_the_host_does(plan: Path) -> None:
    dynamic = subprocess.run(
        ["readelf", "-d", plan], capture_output=True, text=True, check=True
    ).stdout
    needed = set(re.findall(r"NEEDED.*\[(\w+\+*)\.so", dynamic))
    assert needed <= {"libc", "libm", "libstdc++", "libgcc_s", "libpthread"}
    assert "PATH" not in dynamic
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", plan],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert symbols[1::3] == ["T"] and symbols[2].startswith("delta_plan_query")
    stack = subprocess.run(
        ["readelf", "-lW", plan], capture_output=True, text=True, check=True
    ).stdout
    assert re.search(r"GNU_STACK.*RW ", stack), "an executable stack"


def test_no_path_of_this_machine(plan: Path, tmp_path: Path) -> None:
    data = plan.read_bytes()
    for place in (tmp_path.parent, REPOSITORY, COMPILE.parent, "/usr/local"):
        assert str(place).encode() not in data
    assert b"/delta-" not in data, "a temporary folder"


def test_the_same_code_from_another_place(plan: Path, tmp_path: Path) -> None:
    # Another folder, model path and temporary folder.
    place = tmp_path / "another place"
    place.mkdir()
    for file in (MODEL, *MODEL.parent.glob("*.config.json")):
        shutil.copy(file, place)
    result = subprocess.run(
        [COMPILE, MODEL.name, "--arch=sm_80", "-o", "other.so"],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "DELTA_NVCC": NVCC, "TMPDIR": str(place)},
    )
    assert result.returncode == 0, result.stderr
    (cubin,) = cubins(place / "other.so")
    assert cubin.data == cubins(plan)[0].data
    left = {file.name for file in place.iterdir() if "delta-" in file.name}
    assert not left, "temporary files"


def test_loads_without_a_driver_and_says_so(
    plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "runtime/python"))
    from delta_sync import _abi  # pylint: disable=import-outside-toplevel

    # ctypes does not see what Python alone changes.
    libc = ctypes.CDLL(None)
    libc.setenv(b"DELTA_CUDA_DRIVER", b"libnowhere.so.1", 1)
    library = ctypes.CDLL(str(plan))
    library.delta_plan_query.restype = ctypes.POINTER(_abi.delta_plan_api_t)
    api = library.delta_plan_query(0x7FFFFFFF).contents
    # All that needs no device works.
    assert [api.num_ranks(side) for side in (0, 1)] == [4, 4]
    index = ctypes.c_void_p()
    text = ctypes.create_string_buffer(512)
    error = _abi.delta_error_t(ctypes.addressof(text), len(text))
    assert api.index_create(ctypes.byref(index), error) == 0
    assert api.param_count(index, 0, 0) > 10
    api.index_destroy(index)

    target = ctypes.c_uint32(7)
    sentence = b"no NVIDIA driver: libnowhere.so.1 cannot be opened"
    assert api.check_device(ctypes.byref(target), error) == 8
    assert (target.value, text.value) == (1, sentence)
    handle = ctypes.c_void_p()
    for create in (api.sender_create, api.receiver_create):
        status = create(3, None, 0, 1, 1, ctypes.byref(handle), error)
        assert status == 8 and not handle
        assert text.value == b"rank 3: bind: " + sentence
    libc.unsetenv(b"DELTA_CUDA_DRIVER")


def test_nvrtc_makes_it_too(tmp_path: Path) -> None:
    library = Path(NVCC).parents[1] / "lib64/libnvrtc.so.13"
    if not library.exists():
        pytest.skip(f"no {library}")
    # Without nvcc, or with a library that was chosen.
    chosen = {"DELTA_NVCC": "", "DELTA_NVRTC": str(library)}
    path = tmp_path / "plan.so"
    result = compile_plan(path, "--arch=sm_90", environment=chosen)
    assert result.returncode == 0, result.stderr
    (cubin,) = cubins(path)
    assert {cubin.symbols.get(name) for name in kernel_names()} == {2}
    assert cubin.symbols.get("delta_boxes") == 1
    assert str(REPOSITORY).encode() not in path.read_bytes()
    result = compile_plan(path, "--arch=sm_50", environment=chosen)
    assert result.returncode == 1
    assert "NVRTC does not compile for architecture 'sm_50'" in result.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--arch=sm_90a"], "architecture 'sm_90a' is not of the form sm_90"),
        (["--arch=sm_90,sm_90"], "architecture 'sm_90' is given twice"),
        (["--target=host", "--arch=sm_90"], "--arch is for --target=cuda"),
    ],
)
def test_wrong_architectures_are_a_matter_of_usage(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    result = compile_plan(tmp_path / "plan.so", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert not (tmp_path / "plan.so").exists()


def test_what_nvcc_does_not_know_is_refused(tmp_path: Path) -> None:
    result = compile_plan(tmp_path / "plan.so", "--arch=sm_90,sm_50")
    assert result.returncode == 1
    assert "nvcc does not compile for architecture 'sm_50'" in result.stderr
    assert not (tmp_path / "plan.so").exists()
