# ===- test_abi.py - The Python tables against the header -----------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""_abi.py says what delta_abi.h says, and Plan reads a plan by it."""

import ctypes
import enum
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "runtime/python"), str(ROOT / "test/tools")]

from delta_sync import DeltaError, Plan, Side, Status, _abi  # noqa: E402
from support import CONFIGS, needs_tools, tool, write_json  # noqa: E402

HEADER = ROOT / "runtime" / "delta_abi.h"
STRUCTURES = {
    name: value
    for name, value in vars(_abi).items()
    if name.startswith("delta_") and issubclass(value, ctypes.Structure)
}


def header_text() -> str:
    """The header without comments, blanks made single."""
    text = re.sub(r"/\*.*?\*/", " ", HEADER.read_text(), flags=re.DOTALL)
    return " ".join(text.split())


def header_structures() -> dict[str, list[str]]:
    """Names of the fields of every structure of the header."""
    found = {}
    for body, name in re.findall(
        r"typedef struct \w+ \{(.*?)\} (\w+);", header_text()
    ):
        fields = []
        for declaration in filter(str.strip, body.split(";")):
            if function := re.search(r"\(\*(\w+)\)\(", declaration):
                fields.append(function.group(1))
                continue
            for part in declaration.split(","):
                fields.append(re.search(r"(\w+)(\[\w+\])?\s*$", part).group(1))
        found[name] = fields
    return found


def test_every_structure_and_field_is_there() -> None:
    expected = header_structures()
    assert "delta_plan_api_t" in expected
    found = {
        name: [field[0] for field in value._fields_]
        for name, value in STRUCTURES.items()
    }
    assert found == expected


def test_sizes_and_offsets_are_those_of_a_c_compiler(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    lines = []
    for name, value in STRUCTURES.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        for field, *_ in value._fields_:
            size = f"sizeof((({name} *)0)->{field})"
            lines.append(
                f'printf("{name}.{field} %zu %zu\\n", '
                f"offsetof({name}, {field}), {size});"
            )
    source = tmp_path / "sizes.c"
    source.write_text(
        f'#include <stdio.h>\n#include "{HEADER}"\n'
        "int main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n"
    )
    program = tmp_path / "sizes"
    subprocess.run(
        [compiler, "-std=c11", str(source), "-o", str(program)], check=True
    )
    printed = subprocess.run(
        [str(program)], check=True, capture_output=True, text=True
    ).stdout
    found = []
    for name, value in STRUCTURES.items():
        found.append(f"{name} {ctypes.sizeof(value)}")
        for field, *_ in value._fields_:
            at = getattr(value, field)
            found.append(f"{name}.{field} {at.offset} {at.size}")
    assert found == printed.splitlines()


def test_prototypes_are_those_of_the_header() -> None:
    text = header_text()
    table = [*_abi.TRANSPORT, *_abi.FUNCTIONS]
    for name, result, arguments, prototype in table:
        assert f"(*{name})(" in prototype
        assert f"{prototype};" in text, name
        inner = prototype.partition(f"(*{name})(")[2]
        assert len(arguments) == len(inner.split(",")), name
        assert (result is None) == prototype.startswith("void (*"), name
    assert f"{_abi.QUERY[3]};" in text


def test_argument_types_are_those_of_the_prototypes() -> None:
    plain = {
        "uint32_t": ctypes.c_uint32,
        "uint64_t": ctypes.c_uint64,
        "double": ctypes.c_double,
        "delta_side_id_t": ctypes.c_uint,
        "int64_t": ctypes.c_int64,
        "float": ctypes.c_float,
        "delta_status_t": ctypes.c_int32,
        "delta_target_t": ctypes.c_uint32,
        "delta_error_t": _abi.delta_error_t,
        "delta_bytes_t": _abi.delta_bytes_t,
        "delta_transport_t": _abi.delta_transport_t,
        "void": None,
    }
    handles = {"delta_index_t", "delta_sender_t", "delta_receiver_t",
               "delta_inproc_t", "void"}  # fmt: skip

    def expected(declaration: str) -> object:
        words = declaration.replace("const ", "").strip()
        kind = re.match(r"\w+", words).group(0)
        stars = words.count("*")
        if kind in handles and stars:
            pointed = ctypes.c_void_p
            return pointed if stars == 1 else ctypes.POINTER(pointed)
        value = plain.get(kind, STRUCTURES.get(kind))
        return ctypes.POINTER(value) if stars else value

    for name, result, arguments, prototype in (
        *_abi.TRANSPORT, *_abi.FUNCTIONS,
    ):  # fmt: skip
        head, _, tail = prototype.partition(f"(*{name})(")
        assert expected(head) is result, name
        wanted = [expected(part) for part in tail.rstrip(")").split(",")]
        assert list(arguments) == wanted, name


def test_constants_are_those_of_the_header() -> None:
    text = header_text()
    defines = dict(re.findall(r"#define (DELTA_\w+) (\w+)", text))
    for name in ("ABI_VERSION", "NONE", "MAX_LOOPS", "MAX_RANK", "MAX_TILE"):
        value = defines[f"DELTA_{name}"].rstrip("u")
        assert getattr(_abi, name) == int(value, 0), name
    enums = dict(re.findall(r"(DELTA_\w+) = (\d+)", text))
    prefixes = {
        _abi.Status: "DELTA_", _abi.Dtype: "DELTA_", _abi.Side: "DELTA_",
        _abi.ValueOp: "DELTA_VALUE_", _abi.Axis: "DELTA_AXIS_",
        _abi.Target: "DELTA_TARGET_", _abi.Snapshot: "DELTA_SNAPSHOT_",
    }  # fmt: skip
    found = {
        f"{prefix}{member.name}": str(int(member))
        for kind, prefix in prefixes.items()
        for member in kind.__members__.values()
    }
    assert found == enums
    kinds = dict.fromkeys(prefixes, enum.IntEnum)
    kinds[_abi.ValueOp] = enum.IntFlag  # several steps, and a type
    assert all(issubclass(kind, base) for kind, base in kinds.items())


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    model = write_json(
        folder / "model.json",
        {
            "config": CONFIGS["qwen3_moe"],
            "trainer": {"tp": 2, "ep": 2, "pp": 2},
        },
    )
    result = tool("delta-compile", model, "-o", folder / "plan.so")
    assert result.returncode == 0, result.stderr
    return folder / "plan.so"


@needs_tools
def test_a_plan_is_as_long_as_the_tables(plan_file: Path) -> None:
    with Plan.open(plan_file) as plan:
        assert plan._api.size == ctypes.sizeof(_abi.delta_plan_api_t)
        assert plan.tables.size == ctypes.sizeof(_abi.delta_tables_t)
        assert plan.tables.abi_version == _abi.ABI_VERSION
        last = _abi.FUNCTIONS[-1][0]
        assert _abi.has_field(plan._api, last)
        short = _abi.delta_plan_api_t(size=plan._api.size - 8)
        assert not _abi.has_field(short, last)


@needs_tools
def test_a_plan_tells_of_both_sides(plan_file: Path) -> None:
    with Plan.open(plan_file) as plan:
        assert "qwen3_moe" in plan.model
        assert any(plan.fingerprint)
        assert plan.num_ranks(Side.SOURCE) == 4
        first = plan.parameters(Side.SOURCE, 0)
        embedding = first[0]
        assert embedding.name == "embedding.word_embeddings.weight"
        assert embedding.shape == (128, 32)
        assert embedding.num_elements == 128 * 32
        assert embedding.layer is None and embedding.expert is None
        norm = next(p for p in first if "pre_mlp_layernorm" in p.name)
        assert norm.layer == 0
        tensors = {p.name: p for p in plan.parameters(Side.HF, 0)}
        assert tensors["model.embed_tokens.weight"].shape == (250, 32)
        counted = sum(
            tile.num_elements for rank in range(4) for tile in plan.tiles(rank)
        )
        assert counted == sum(p.num_elements for p in tensors.values())


@needs_tools
def test_an_element_has_a_place_on_both_sides(plan_file: Path) -> None:
    with Plan.open(plan_file) as plan:
        neutral = plan.parameters(Side.HF, 0)
        number = next(
            number
            for number, tile in enumerate(plan.tiles(1))
            if plan.parameters(Side.SOURCE, 1)[tile.param].name
            == "embedding.word_embeddings.weight"
        )
        source, target = plan.element(1, number, 0)
        assert source.rank == 1
        # Rank 1 holds the second half of the padded rows.
        name = neutral[target.param].name
        assert name == "model.embed_tokens.weight"
        assert target.element == 128 * 32 + source.element


@needs_tools
def test_wrong_questions_are_refused(plan_file: Path) -> None:
    with Plan.open(plan_file) as plan:
        with pytest.raises(DeltaError, match="rank 4 of source, which has 4"):
            plan.parameters(Side.SOURCE, 4)
        with pytest.raises(DeltaError, match="tile_element"):
            plan.element(0, 1 << 40, 0)
    with pytest.raises(DeltaError, match="closed") as caught:
        plan.num_ranks(Side.SOURCE)
    assert caught.value.status is Status.INVALID_ARGUMENT


def test_what_is_no_plan_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "plan.so"
    text.write_text("no plan\n")
    for path in (text, tmp_path / "absent.so"):
        with pytest.raises(DeltaError, match="not a plan") as caught:
            Plan.open(path)
        assert caught.value.status is Status.REFUSED
        assert str(path) in caught.value.message


def test_a_library_without_the_symbol_is_refused(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    for name, text, message in (
        ("other", "int f(void) { return 0; }", "not a plan"),
        ("later", "void *delta_plan_query(unsigned v) { return v ? 0 : &v; }",
         f"no version up to {_abi.ABI_VERSION}"),
    ):  # fmt: skip
        library = tmp_path / f"{name}.so"
        subprocess.run(
            [compiler, "-w", "-shared", "-fPIC", "-x", "c", "-", "-o",
             str(library)],
            input=text, text=True, check=True,
        )  # fmt: skip
        with pytest.raises(DeltaError, match=message):
            Plan.open(library)


def test_import_loads_nothing() -> None:
    code = (
        "import sys; import delta_sync; "
        "bad = {'numpy', 'torch'} & set(sys.modules); "
        "sys.exit(str(bad) if bad else 0)"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True,
        env={"PYTHONPATH": str(ROOT / "runtime" / "python")},
    )  # fmt: skip
