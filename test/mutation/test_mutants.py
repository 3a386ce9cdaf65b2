# ===- test_mutants.py - A sample of the mutation test --------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Operators find their places, and a few cases of test/data stop a sample of
the mutants. All mutants: README.md."""

import os
from pathlib import Path

import pytest

from derived import renamed
from mutants import mutants_of
from run import World, run_all
from stages import ROOT
from text import FamilyText

BIN = Path(os.environ.get("DELTA_BIN", ROOT / "build" / "bin")).resolve()
SERVER = BIN.parent / "test" / "bin" / "delta-compile-server"
needs_tools = pytest.mark.skipif(
    not SERVER.exists(), reason=f"no {SERVER.name} in {SERVER.parent}"
)

TOY = """
// delta.drop: not an op
delta.block @pair {
  delta.if pp > 1 {
    %w = delta.param "w{layer}" [2 * F, H] : storage
    %all = delta.unshard %w dim 0 over tp sections [F, F]
    %a, %b = delta.split %all dim 0 [F, F]
    delta.tensor "a" = %a as [F, H]
    delta.tensor "b" = %b as [F, H]
  }
}
"""


def changes(operator: str) -> list[tuple[int, str, str]]:
    text = FamilyText(Path("toy.mlir"), TOY)
    return [
        (mutant.line, mutant.before, mutant.after)
        for mutant in mutants_of(text, ["@pair"])
        if mutant.operator == operator
    ]


def test_ops_and_regions_of_a_text() -> None:
    text = FamilyText(Path("toy.mlir"), TOY)
    assert [statement.op for statement in text.statements] == [
        "delta.block", "delta.if", "delta.param", "delta.unshard",
        "delta.split", "delta.tensor", "delta.tensor",
    ]
    block, condition, *inner = text.statements
    assert condition.parent is block
    assert condition.children == inner
    assert text.source[slice(*text.span(inner[2]))] == (
        "%a, %b = delta.split %all dim 0 [F, F]")
    assert text.source[slice(*text.span(condition))].endswith("}")


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("swap_results", [(7, "%a", "%b")]),
        ("swap_names", [(8, '"a"', '"b"')]),
        ("drop_clause", [(6, "sections [F, F]", "")]),
        ("negate", [(4, "pp > 1", "not (pp > 1)")]),
        ("other_dtype", [(5, "storage", "f32")]),
        ("swap_sizes", [(5, "2 * F", "H"), (8, "F", "H"), (9, "F", "H")]),
        ("other_dim", [(6, "0", "1"), (6, "0", "2"), (6, "0", "3"),
                       (7, "0", "1"), (7, "0", "2"), (7, "0", "3")]),
    ],
)
def test_an_operator_finds_every_place(operator: str, expected: list) -> None:
    assert changes(operator) == expected


def test_leaving_an_op_out_renames_its_result() -> None:
    text = FamilyText(Path("toy.mlir"), TOY)
    sources = [mutant.source for mutant in mutants_of(text, [])
               if mutant.operator == "bypass_op"]
    assert len(sources) == 3
    assert "delta.split %w dim 0" in sources[0]
    assert "unshard" not in sources[0]


def test_regions_of_a_text() -> None:
    source = TOY.replace('''\n  }\n}''', '''\n  } else {
    delta.tensor "c" = %c as [H]
    delta.if H > 1 {
      delta.tensor "d" = %d as [H]
    }
    delta.tensor "e" = %e as [H]
  }
}''')
    text = FamilyText(Path("toy.mlir"), source)

    def region(what: str) -> str:
        first = text.first_of_region(text.around(source.index(what)))
        return source[slice(*text.span(first))].splitlines()[0].strip()

    assert region("over tp").startswith("%w = delta.param")
    assert region('"b" =').startswith("%w = delta.param")
    assert region('"c"') == region('"e"') == 'delta.tensor "c" = %c as [H]'
    assert region('"d"') == 'delta.tensor "d" = %d as [H]'
    assert region("pp > 1").startswith("delta.if pp")
    swapped = [mutant.regions for mutant in mutants_of(text, [])
               if mutant.operator == "swap_names"
               and (mutant.before, mutant.after) == ('"a"', '"c"')]
    assert [len(regions) for regions in swapped] == [2]


def test_no_text_is_tried_twice() -> None:
    text = FamilyText(Path("toy.mlir"), TOY)
    sources = [mutant.source for mutant in mutants_of(text, ["@pair"])]
    assert len(sources) == len(set(sources)) > 50
    assert TOY not in sources


def test_kinds_of_layers_get_names() -> None:
    config = {"hybrid_layer_pattern": [0, 1], "moe_layer_freq": 1}
    assert renamed(config, "hybrid_layer_pattern", "layer_types") == {
        "layer_types": ["full_attention", "sliding_attention"],
        "moe_layer_freq": 1,
    }
    # Of every how many layers one has experts: no list.
    assert renamed(config, "moe_layer_freq", "mlp_layer_types") is None


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(
        BIN, ROOT / "models", None, tmp_path_factory.mktemp("mutants"),
        "export_(qwen3_moe_tp4.*|qwen3_nested.*|gpt_oss_tp2.*)",
    )


@needs_tools
def test_data_holds_where_a_key_is_left_out_or_renamed(world: World) -> None:
    assert not world.unusable
    names = {case.name for case in world.cases["gpt_oss.mlir"]}
    case = "export_gpt_oss_tp2_ep4_pp2"
    assert f"{case}_without_model_type" in names
    assert f"{case}_without_attention_bias" in names
    assert f"{case}_without_num_local_experts_but_num_experts" in names


# Texts that are as right as the original for everything but the data: two
# tensors of one shape take each other's place.
SAME_SHAPES = [
    ("blocks.mlir", "@gqa", "swap_names", '"k_proj.weight"', '"v_proj.weight"'),
    ("blocks.mlir", "@gqa", "swap_results", "%k", "%v"),
    ("blocks.mlir", "@gated_mlp", "swap_names", '"gate_proj.weight"',
     '"up_proj.weight"'),
    ("blocks.mlir", "@named_gated_experts", "swap_results", "%gate", "%up"),
    ("gpt_oss.mlir", "@interleaved_experts", "swap_operands", "%gate", "%up"),
]


@needs_tools
def test_only_data_tells_tensors_of_one_shape_apart(world: World) -> None:
    mutants = {
        (m.file, m.top, m.operator, m.before, m.after): m
        for m in world.mutants(["blocks.mlir", "gpt_oss.mlir"])
    }
    chosen = [mutants[place] for place in SAME_SHAPES]
    for mutant, result in run_all(world, chosen, 2, []):
        assert list(result["stops"]) == ["golden"], (mutant, result)


@needs_tools
def test_wrong_order_stage_and_axis_are_stopped(world: World) -> None:
    """All mutants of some operators, in what the cases here bind."""
    operators = ("swap_results", "swap_operands", "other_stage", "negate")
    tested = set(world.tested)
    chosen = [
        mutant for mutant in world.mutants([])
        if mutant.operator in operators
        and tested & set(world.users.get((mutant.file, mutant.top), []))
        and "mtp" not in mutant.text  # no case here has prediction layers
    ]
    assert len(chosen) > 15
    results = run_all(world, chosen, 2, [])
    alive = [(mutant, result) for mutant, result in results
             if result["verdict"] in ("survived", "no difference")]
    assert not alive
    stages = {result["first"] for _, result in results}
    assert {"verifier", "proof", "golden"} <= stages


# Cases that leave a key out, or the number of prediction layers to the config.
LEFT_OUT = [
    ("ernie4_5_moe.mlir", "other_sign", "true", "false", "tied",
     "reshard_ernie4_5_moe_tp2_ep2_to_ep4_pp2_without_tie_word_embeddings"),
    ("deepseek_v3.mlir", "other_text", '"num_nextn_predict_layers"',
     '"num_nextn_predict_layerx"', "in_config",
     "export_deepseek_v3_tp4_ep2_etp2_pp2_vpp2_depth_of_config"),
]


@needs_tools
def test_a_wrong_default_or_key_is_stopped(
    tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = World(BIN, ROOT / "models", None,
                  tmp_path_factory.mktemp("left-out"),
                  "(export|reshard)_(ernie4_5_moe_tp|deepseek_v3).*")
    assert not world.unusable
    for file, operator, before, after, line, case in LEFT_OUT:
        mutant, = (
            m for m in world.mutants([file])
            if (m.file, m.operator, m.before, m.after)
            == (file, operator, before, after) and line in m.text
        )
        (_, result), = run_all(world, [mutant], 1, [])
        assert result["stops"] == {"golden": case}
