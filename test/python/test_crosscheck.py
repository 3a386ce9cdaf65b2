# ===- test_crosscheck.py - What the cross-check finds --------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Planted faults are reported, with the right first element.

The comparison is tested with exports that are written here, from the rules of
the architecture, by plain loops. The tests of the live converter run where
`tools/dev crosscheck` has made its environment.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "runtime" / "python"
sys.path[:0] = [str(PACKAGE), str(ROOT / "test" / "tools")]

from delta_sync import Dtype, Plan, Side  # noqa: E402
from delta_sync.compare import Comparison  # noqa: E402
from delta_sync.elements import ElementMap, spot_check  # noqa: E402
from delta_sync.report import Exported, Held  # noqa: E402
from support import BIN, needs_tools, tool, write_json  # noqa: E402

pytestmark = needs_tools

CASES = ROOT / "test" / "python" / "crosscheck"
ENVIRONMENT = Path(
    os.environ.get("DELTA_CROSSCHECK_ENV")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    / "delta-crosscheck"
)  # fmt: skip
needs_environment = pytest.mark.skipif(
    not (ENVIRONMENT / "pins.txt").exists(),
    reason=f"no published packages in {ENVIRONMENT}: tools/dev crosscheck",
)

# One layer over two ranks, written out below.
TINY = {
    "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"],
    "head_dim": 2, "hidden_size": 6, "intermediate_size": 4,
    "num_attention_heads": 2, "num_hidden_layers": 1,
    "num_key_value_heads": 2, "vocab_size": 5, "attention_bias": False,
    "tie_word_embeddings": False,
}  # fmt: skip
LAYER = "decoder.layers.0."
HF = "model.layers.0."


# --- a converter written out --------------------------------------------------


class Written:
    """The model of TINY on two ranks, and its export by plain indexing."""

    def __init__(self) -> None:
        # Two heads of two: each rank has q, k and v of one, six rows.
        self.shapes = {
            "embedding.word_embeddings.weight": (4, 6),
            "output_layer.weight": (4, 6),
            "decoder.final_layernorm.weight": (6,),
            f"{LAYER}self_attention.linear_qkv.layer_norm_weight": (6,),
            f"{LAYER}self_attention.linear_qkv.weight": (6, 6),
            f"{LAYER}self_attention.q_layernorm.weight": (2,),
            f"{LAYER}self_attention.k_layernorm.weight": (2,),
            f"{LAYER}self_attention.linear_proj.weight": (6, 2),
            f"{LAYER}mlp.linear_fc1.layer_norm_weight": (6,),
            f"{LAYER}mlp.linear_fc1.weight": (4, 6),
            f"{LAYER}mlp.linear_fc2.weight": (6, 2),
        }
        self.held: list[Held] = []
        for rank in range(2):
            for name, shape in self.shapes.items():
                last = self.held[-1] if self.held else None
                tag = last.first_tag + last.size if last else 0
                self.held.append(Held(rank, 0, name, shape, "bf16", tag))

    def export(
        self, fill: Callable[[Held], np.ndarray] | None = None
    ) -> list[Exported]:
        """What each rank gets: twice the tags, or what `fill` puts in."""

        def tags(held: Held) -> np.ndarray:
            return 2.0 * np.arange(held.first_tag, held.first_tag + held.size)

        values = [
            {
                held.name: (fill or tags)(held).reshape(held.shape)
                for held in self.held
                if held.rank == rank
            }
            for rank in range(2)
        ]
        reads = [self._read(values, rank) for rank in range(2)]
        return [
            Exported(
                name, value.shape, "bf16",
                [read[name].reshape(-1) for read in reads],
            )
            for name, value in reads[0].items()
        ]  # fmt: skip

    def _read(
        self, ranks: list[dict[str, np.ndarray]], reader: int
    ) -> dict[str, np.ndarray]:
        """Whole tensors of both shards; the reader's own where they are the
        same on both."""
        own = ranks[reader]
        rows = {
            name: np.concatenate([rank[name] for rank in ranks])
            for name in self.shapes
        }
        qkv = [rank[f"{LAYER}self_attention.linear_qkv.weight"]
               for rank in ranks]  # fmt: skip
        fc1 = [rank[f"{LAYER}mlp.linear_fc1.weight"] for rank in ranks]
        columns = {
            f"{HF}self_attn.o_proj.weight": "self_attention.linear_proj",
            f"{HF}mlp.down_proj.weight": "mlp.linear_fc2",
        }
        same = {
            "model.norm.weight": "decoder.final_layernorm.weight",
            f"{HF}input_layernorm.weight":
                f"{LAYER}self_attention.linear_qkv.layer_norm_weight",
            f"{HF}self_attn.q_norm.weight":
                f"{LAYER}self_attention.q_layernorm.weight",
            f"{HF}self_attn.k_norm.weight":
                f"{LAYER}self_attention.k_layernorm.weight",
            f"{HF}post_attention_layernorm.weight":
                f"{LAYER}mlp.linear_fc1.layer_norm_weight",
        }  # fmt: skip
        return {
            # The padded table, as the release exports it.
            "model.embed_tokens.weight":
                rows["embedding.word_embeddings.weight"],
            "lm_head.weight": rows["output_layer.weight"],
            **{name: own[source] for name, source in same.items()},
            f"{HF}self_attn.q_proj.weight":
                np.concatenate([part[0:2] for part in qkv]),
            f"{HF}self_attn.k_proj.weight":
                np.concatenate([part[2:4] for part in qkv]),
            f"{HF}self_attn.v_proj.weight":
                np.concatenate([part[4:6] for part in qkv]),
            f"{HF}mlp.gate_proj.weight":
                np.concatenate([part[0:2] for part in fc1]),
            f"{HF}mlp.up_proj.weight":
                np.concatenate([part[2:4] for part in fc1]),
            **{
                name: np.concatenate(
                    [rank[f"{LAYER}{source}.weight"] for rank in ranks], axis=1
                )
                for name, source in columns.items()
            },
        }  # fmt: skip


# --- plans --------------------------------------------------------------------


def swapped_family(folder: Path, *words: str) -> Path:
    """The family with two words of its blocks exchanged."""
    first, second = words
    folder.mkdir()
    for file in (ROOT / "models").glob("*.mlir"):
        shutil.copy(file, folder)
    blocks = folder / "blocks.mlir"
    text = blocks.read_text()
    assert first in text and second in text
    text = text.replace(first, "@@").replace(second, first)
    blocks.write_text(text.replace("@@", second))
    return folder / "qwen3.mlir"


def compiled(folder: Path, *arguments: object, **model: object) -> ElementMap:
    """The plan of TINY over two tensor ranks as arrays."""
    entry = {"config": TINY, "trainer": {"tp": 2, "vocab_multiple": 4}}
    file = write_json(folder / "model.json", {**entry, **model})
    plan = folder / "plan.so"
    result = tool("delta-compile", file, "-o", plan, *arguments)
    assert result.returncode == 0, result.stderr
    with Plan.open(plan) as opened:
        elements = ElementMap(opened)
        assert spot_check(opened, elements, count=30, seed=3) > 0
    return elements


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> ElementMap:
    return compiled(tmp_path_factory.mktemp("right"))


def compare(
    elements: ElementMap,
    written: Written,
    export: list[Exported] | None = None,
    unmapped: tuple[str, ...] = (),
) -> Comparison:
    """The first pass."""
    comparison = Comparison(elements, written.held)
    comparison.tags(written.export() if export is None else export, unmapped)
    return comparison


def status_of(comparison: Comparison, name: str) -> str:
    (entry,) = [c for c in comparison.report.classes if name in c.name]
    return entry.status


# --- the comparison -----------------------------------------------------------


def test_the_right_plan_agrees(right: ElementMap) -> None:
    written = Written()
    comparison = compare(right, written)
    chosen = comparison.choose(2, seed=5)
    second = written.export(lambda held: comparison.fill(held, chosen))
    comparison.survivors(second, chosen)
    report = comparison.report
    assert report.agrees, report.first
    # 2 tables of 5 x 6, 3 norms of 6, 2 of 2, 6 matrices and the MLP's 3.
    assert report.elements == 60 + 18 + 4 + 3 * 24 + 24 + 3 * 24
    assert report.tensors == 14
    assert report.bridge_padding == 2 * 18
    # Two of each of the 17 shards: 6 are split in two, 5 held whole.
    assert report.survivors == 2 * (6 * 2 + 5)
    assert {entry.status for entry in report.classes} == {"agrees"}


@pytest.mark.parametrize(
    ("words", "parameter", "found", "expected"),
    [
        (
            ("gate_proj", "up_proj"),
            f"chunk 0, {LAYER}mlp.linear_fc1.weight",
            f"{HF}mlp.gate_proj.weight[0, 0]",
            f"{HF}mlp.up_proj.weight[0, 0]",
        ),
        (
            ("k_proj", "v_proj"),
            f"chunk 0, {LAYER}self_attention.linear_qkv.weight",
            f"{HF}self_attn.k_proj.weight[0, 0]",
            f"{HF}self_attn.v_proj.weight[0, 0]",
        ),
    ],
)
def test_a_swapped_family_differs(
    tmp_path: Path,
    words: tuple[str, str],
    parameter: str,
    found: str,
    expected: str,
) -> None:
    family = swapped_family(tmp_path / "family", *words)
    elements = compiled(tmp_path, "--family", family)
    report = compare(elements, Written()).report
    assert not report.agrees
    wrong = [c for c in report.classes if c.status == "differs"]
    assert len(wrong) == 1
    first = wrong[0].first
    assert report.first == first
    assert (first.rank, first.parameter) == (0, parameter)
    # The first of the trainer's elements that moves: row 0, or the first of k.
    assert first.element == ([0, 0] if "up_proj" in expected else [2, 0])
    assert (first.found, first.expected) == (found, expected)
    assert wrong[0].mismatches == report.mismatches == 2 * 24


def test_survivors_alone_find_a_swap(tmp_path: Path) -> None:
    """The second pass does not lean on the first."""
    family = swapped_family(tmp_path / "family", "gate_proj", "up_proj")
    elements = compiled(tmp_path, "--family", family)
    written = Written()
    comparison = compare(elements, written)
    first_pass = comparison.report.mismatches
    chosen = comparison.choose(2, seed=5)
    second = written.export(lambda held: comparison.fill(held, chosen))
    comparison.survivors(second, chosen)
    assert comparison.report.mismatches > first_pass


def test_one_element_elsewhere_on_one_rank(right: ElementMap) -> None:
    written = Written()
    export = written.export()
    (norm,) = [t for t in export if t.name == "model.norm.weight"]
    values = norm.values[1]
    values[2], values[3] = values[3], values[2]
    report = compare(right, written, export).report
    assert report.mismatches == 2
    assert report.first.element == [2]
    assert report.first.found == "model.norm.weight[3] on rank 1"
    assert report.first.expected == "model.norm.weight[2]"


def test_a_value_operation_is_compared(right: ElementMap) -> None:
    written = Written()
    export = written.export()
    (norm,) = [t for t in export if t.name == "model.norm.weight"]
    for values in norm.values:
        values += 1
    report = compare(right, written, export).report
    assert report.mismatches == 6
    assert report.first.found == "model.norm.weight[0] with value op ADD_ONE"
    assert report.first.expected == "model.norm.weight[0] with value op ID"


def test_a_value_that_is_no_element_differs(right: ElementMap) -> None:
    written = Written()
    export = written.export()
    for place, value in enumerate((0.5, np.nan, -2.0, 1e9)):
        (norm,) = [t for t in export if t.name == "model.norm.weight"]
        for values in norm.values:
            values[place] = value
    report = compare(right, written, export).report
    assert report.mismatches == 4
    assert report.first.found == "nowhere"
    assert report.first.expected == "model.norm.weight[0]"


def test_padding_has_to_be_in_order(right: ElementMap) -> None:
    written = Written()
    export = written.export()
    (table,) = [t for t in export if t.name == "lm_head.weight"]
    for values in table.values:
        values[[30, 31]] = values[[31, 30]]
    report = compare(right, written, export).report
    assert report.bridge_padding == 18
    assert report.mismatches == 1
    assert "not the padding in order" in report.first.found


def test_tensors_that_are_missing_or_in_excess(right: ElementMap) -> None:
    written = Written()
    export = written.export()
    missing = [t for t in export if t.name != "model.norm.weight"]
    comparison = compare(right, written, missing)
    assert comparison.report.mismatches == 1
    assert comparison.report.first.found == "no such tensor"
    assert status_of(comparison, "final_layernorm") == "differs"

    (norm,) = [t for t in export if t.name == "model.norm.weight"]
    renamed = Exported("model.other", norm.shape, "bf16", norm.values)
    report = compare(right, written, [*missing, renamed]).report
    assert report.mismatches == 2
    report = compare(right, written, [*export, renamed]).report
    assert report.agrees
    assert report.copies == ["model.other repeats model.norm.weight"]


def test_a_parameter_without_a_rule_is_not_covered(right: ElementMap) -> None:
    written = Written()
    export = [t for t in written.export() if t.name != "model.norm.weight"]
    comparison = compare(
        right, written, export, ("decoder.final_layernorm.weight",)
    )
    assert comparison.report.agrees
    assert status_of(comparison, "final_layernorm") == "not covered"


def test_a_tensor_of_another_shape(right: ElementMap) -> None:
    written = Written()
    export = [
        Exported(t.name, (3, 8), "bf16", t.values) if "gate" in t.name else t
        for t in written.export()
    ]
    report = compare(right, written, export).report
    assert report.mismatches == 1
    assert report.first.found == f"{HF}mlp.gate_proj.weight [3, 8]"
    assert report.first.expected == f"{HF}mlp.gate_proj.weight [4, 6]"


def test_parameters_of_the_trainer_are_compared(right: ElementMap) -> None:
    written = Written()
    held = written.held
    odd = "decoder.odd.weight"
    written.held = [
        Held(h.rank, h.chunk, odd, h.shape, h.dtype, h.first_tag)
        if (h.rank, h.name) == (1, "output_layer.weight")
        else Held(h.rank, h.chunk, h.name, h.shape, "fp32", h.first_tag)
        if h.name == "decoder.final_layernorm.weight"
        else h
        for h in held
    ]
    comparison = Comparison(right, written.held)
    report = comparison.report
    # The missing one, the one in excess, and the type on both ranks.
    assert report.mismatches == 4
    assert status_of(comparison, "output_layer") == "differs"
    assert [other.parameter for other in report.others] == [f"chunk 0, {odd}"]
    (norm,) = [c for c in report.classes if "final_layernorm" in c.name]
    assert (norm.first.found, norm.first.expected) == ("fp32 [6]", "bf16 [6]")


def test_survivors_have_places_values_and_types(right: ElementMap) -> None:
    written = Written()

    def second_pass(change: Callable[[Exported], Exported]) -> Comparison:
        comparison = compare(right, written)
        chosen = comparison.choose(2, seed=5)
        export = written.export(lambda held: comparison.fill(held, chosen))
        comparison.survivors([change(t) for t in export], chosen)
        return comparison

    def shifted(t: Exported) -> Exported:
        values = [np.roll(v, 1) for v in t.values]
        return Exported(t.name, t.shape, t.dtype, values)

    def doubled(t: Exported) -> Exported:
        return Exported(t.name, t.shape, t.dtype, [2 * v for v in t.values])

    def wider(t: Exported) -> Exported:
        return Exported(t.name, t.shape, "fp32", t.values)

    def whole(t: Exported) -> Exported:
        # Its type differs, its survivors do not.
        values = [np.nan_to_num(v, nan=0.0) for v in t.values]
        return Exported(t.name, t.shape, "int64", values)

    def leaking(t: Exported) -> Exported:
        values = [np.append(v[:-1], 1.0) for v in t.values]
        return Exported(t.name, t.shape, t.dtype, values)

    for change in (shifted, doubled, wider, whole, leaking):
        comparison = second_pass(
            lambda t, change=change: (
                change(t) if t.name == "model.embed_tokens.weight" else t
            )
        )
        assert comparison.report.mismatches == 1, change.__name__
        assert status_of(comparison, "word_embeddings") == "differs"


def test_nothing_compared_is_a_failure(right: ElementMap) -> None:
    written = Written()
    names = [held.name for held in written.held]
    report = compare(right, written, [], tuple(names)).report
    assert report.mismatches == 0
    assert not report.agrees


def test_dtypes_have_the_names_of_an_export() -> None:
    from delta_sync.cases import TRAINER

    assert TRAINER["dtype"] in {dtype.name.lower() for dtype in Dtype}


# --- the command --------------------------------------------------------------


def crosscheck(
    python: Path | str, *arguments: object, folder: Path = BIN
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(python), "-m", "delta_sync.crosscheck", *map(str, arguments)],
        capture_output=True, text=True, timeout=600,
        env={**os.environ, "PYTHONPATH": str(PACKAGE),
             "DELTA_BIN": str(folder)},
    )  # fmt: skip


def model_file(folder: Path, name: str, **trainer: object) -> Path:
    config = str(CASES / "configs" / f"{name}.json")
    return write_json(
        folder / f"{name}.model.json", {"config": config, "trainer": trainer}
    )


def test_usage_errors(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    for arguments in (
        (), ("a.json", "b.json"), (tmp_path / "absent.json",), (broken,),
        ("--keys", "other", "a.json"),
        ("--cases", CASES / "cases.json", "no such case"),
        ("--cases", CASES / "cases.json", "--keys", "plan", "qwen3"),
    ):  # fmt: skip
        result = crosscheck(sys.executable, *arguments)
        assert result.returncode == 2, arguments
        assert result.stderr, arguments


def test_the_packages_are_asked_for(tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"],
        check=True,
    )
    result = crosscheck(python, model_file(tmp_path, "qwen3", tp=2))
    assert result.returncode == 2
    assert "not installed" in result.stderr
    assert "tools/dev crosscheck" in result.stderr


def test_the_table_is_well_formed(tmp_path: Path) -> None:
    from delta_sync.cases import UsageError, read_cases

    table = CASES / "cases.json"
    cases = read_cases(table, [], tmp_path)
    names = [case.name for case in cases]
    assert len(set(names)) == len(names)
    used = {json.loads(case.model.read_text())["config"] for case in cases}
    assert used == {
        str(file.resolve()) for file in (CASES / "configs").iterdir()
    }
    # A pattern is a model_type or fits the name.
    dense = [case.name for case in read_cases(table, ["qwen3"], tmp_path)]
    assert "qwen3_tp4" in dense and "qwen3_moe_tp2_ep4" not in dense
    named = [case.name for case in read_cases(table, ["*ep3*"], tmp_path)]
    assert named == ["gpt_oss_ep3_pp2"]
    for wrong in ({"name": "a"}, {"name": "a", "config": "b", "tp": 2}):
        with pytest.raises(UsageError, match="case 0 has the keys"):
            read_cases(write_json(tmp_path / "t.json", [wrong]), [], tmp_path)


# --- the live converter -------------------------------------------------------


def live(*arguments: object) -> subprocess.CompletedProcess[str]:
    return crosscheck(ENVIRONMENT / "bin" / "python", *arguments)


@needs_environment
def test_the_live_converter_agrees(tmp_path: Path) -> None:
    model = model_file(tmp_path, "qwen3", tp=2, pp=2, vpp=2)
    found = tmp_path / "found.json"
    result = live(model, "--json", found)
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads(found.read_text())
    assert report["status"] == "agrees"
    assert report["elements"] > 90000
    assert report["survivors"] > 100
    assert report["mismatches"] == 0
    # 2 tables, padded from 203 to 256 rows of 40.
    assert report["bridge_padding"] == 2 * 53 * 40


@needs_environment
def test_the_live_converter_finds_a_swapped_family(tmp_path: Path) -> None:
    family = swapped_family(tmp_path / "family", "gate_proj", "up_proj")
    model = model_file(tmp_path, "qwen3", tp=2)
    found = tmp_path / "found.json"
    result = live(model, "--family", family, "--json", found)
    assert result.returncode == 1, result.stdout + result.stderr
    report = json.loads(found.read_text())
    wrong = [c for c in report["classes"] if c["status"] == "differs"]
    assert [c["name"] for c in wrong] == [
        "decoder.layers.{layer}.mlp.linear_fc1.weight"
    ]
    first = report["first"]
    assert first["rank"] == 0
    assert first["parameter"] == "chunk 0, decoder.layers.0.mlp." \
        "linear_fc1.weight"  # fmt: skip
    assert first["element"] == [0, 0]
    assert first["found"] == "model.layers.0.mlp.gate_proj.weight[0, 0]"
    assert first["expected"] == "model.layers.0.mlp.up_proj.weight[0, 0]"


@needs_environment
def test_a_model_that_the_trainer_refuses(tmp_path: Path) -> None:
    """Its own words, rank and all."""
    config = json.loads((CASES / "configs" / "qwen3.json").read_text())
    config["architectures"] = ["UnknownForCausalLM"]
    model = write_json(tmp_path / "model.json", {"config": config})
    result = live(model)
    assert result.returncode == 1
    assert "refused: the converter: rank 0: ValueError" in result.stdout
    assert "UnknownForCausalLM" in result.stdout


@needs_environment
def test_what_is_skipped_or_too_large(tmp_path: Path) -> None:
    config = {**TINY, "model_type": "unheard_of", "architectures": []}
    result = live(write_json(tmp_path / "model.json", {"config": config}))
    assert result.returncode == 1
    assert 'skipped: no family maps model_type "unheard_of"' in result.stdout

    config = {**TINY, "vocab_size": 4_000_000}
    result = live(write_json(tmp_path / "model.json", {"config": config}))
    assert result.returncode == 1
    assert "refused: the trainer ranks hold 48" in result.stdout
    assert "at most 20000000" in result.stdout


@needs_environment
def test_a_checkpoint_decides_what_is_exported(tmp_path: Path) -> None:
    """A tied output that the checkpoint lists is made, and compared."""
    model = model_file(tmp_path, "qwen3_tied", tp=2, pp=2)
    plan = tmp_path / "plan.so"
    assert tool("delta-compile", model, "-o", plan).returncode == 0
    with Plan.open(plan) as opened:
        shapes = {t.name: t.shape for t in opened.parameters(Side.HF, 0)}
    assert "lm_head.weight" not in shapes
    shapes["lm_head.weight"] = shapes["model.embed_tokens.weight"]
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape,
                        "data_offsets": [begin, end]}  # fmt: skip
    text = json.dumps(header).encode()
    (tmp_path / "checkpoint.safetensors").write_bytes(
        len(text).to_bytes(8, "little") + text + bytes(end)
    )
    entries = json.loads(model.read_text())
    entries["checkpoint"] = "checkpoint.safetensors"
    write_json(model, entries)
    found = tmp_path / "found.json"
    result = live(model, "--json", found)
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads(found.read_text())
    assert report["tensors"] == len(shapes)
    assert report["elements"] == sum(int(np.prod(s)) for s in shapes.values())
    assert report["copies"] == []


@needs_environment
def test_ranks_that_wait_for_each_other_are_named() -> None:
    script = (
        "import torch\n"
        "from delta_sync.converter.lockstep import Ranks, LockstepError\n"
        "def body(rank):\n"
        "    if rank:\n"
        "        torch.distributed.barrier()\n"
        "    return rank\n"
        "try:\n"
        "    Ranks(3).run(body)\n"
        "except LockstepError as error:\n"
        "    print(error)\n"
        "def gather(rank):\n"
        "    parts = [torch.zeros(1) for _ in range(3)]\n"
        "    torch.distributed.all_gather(parts, torch.ones(1) * rank)\n"
        "    return [int(part) for part in parts]\n"
        "print(Ranks(3).run(gather))\n"
    )
    result = subprocess.run(
        [ENVIRONMENT / "bin" / "python", "-c", script],
        capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
    )  # fmt: skip
    assert result.stdout.splitlines() == [
        "rank 1 waits in collective 0 of the ranks [0, 1, 2]; "
        "rank 2 waits in collective 0 of the ranks [0, 1, 2]",
        "[[0, 1, 2], [0, 1, 2], [0, 1, 2]]",
    ], result.stderr
