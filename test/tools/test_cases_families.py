# ===- test_cases_families.py - Reported failures, family by family -------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Failures of other weight syncs as small inputs: tied tables, copies on the
last stage, shared experts, prediction layers, float32 biases, borrowed keys.
The number of a case is that of the public collection it comes from."""

import json
import re
import sys
from pathlib import Path

import pytest

from support import messages, needs_tools, read_safetensors, tool, write_json

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from cases import HYBRID_EXPERTS
from families import MISTRAL, QWEN2
from latent import (
    DEEPSEEK3, GEMMA4, GLM_LITE, GLM_PREDICTING, HYBRID_PREDICTING,
    MIMO_PREDICTING,
)

pytestmark = needs_tools

TABLE = "embedding.word_embeddings.weight"


class Sync:
    """Trainer ranks and the one receiver after three steps."""

    def __init__(self, folder: Path, config: dict, trainer: dict):
        model = write_json(
            folder / "model.json", {"config": config, "trainer": trainer})
        dump = folder / "dump"
        result = tool(
            "delta-run", model, "--steps", 3, "--changed", 30, "--dump", dump)
        assert result.returncode == 0, result.stderr
        after = dump / "after"
        self.received = read_safetensors(after / "destination-0.safetensors")
        self.ranks = [
            read_safetensors(after / f"source-{rank}.safetensors")
            for rank in range(len(list(after.glob("source-*"))))
        ]

    def trained(self, rank: int, name: str, chunk: int = 0):
        return self.ranks[rank].get(f"chunk{chunk}.{name}")


def reference(folder: Path, config: dict, trainer: dict, *arguments) -> dict:
    """The bound model: parameters and tensors as the compiler sees them."""
    model = write_json(
        folder / "model.json", {"config": config, "trainer": trainer})
    program = folder / "reference.json"
    result = tool(
        "delta-compile", model, "--emit=reference", "-o", program, *arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(program.read_text())


# ===--- case 11: one emission of a tied table ------------------------------===


@pytest.mark.parametrize("config", [
    QWEN2, MISTRAL, {**MIMO_PREDICTING, "num_nextn_predict_layers": 1}])
def test_tied_table_is_emitted_once(config: dict, tmp_path: Path) -> None:
    tied = {**config, "tie_word_embeddings": True}
    sync = Sync(tmp_path, tied, {"pp": 2})
    assert "lm_head.weight" not in sync.received
    vocabulary, hidden = config["vocab_size"], config["hidden_size"]
    table = sync.received["model.embed_tokens.weight"]
    assert table == sync.trained(0, TABLE)[:vocabulary * hidden]
    same = [name for name, values in sync.received.items() if values == table]
    assert same == ["model.embed_tokens.weight"]


def test_two_tensors_of_one_name_are_refused(tmp_path: Path) -> None:
    family = tmp_path / "twice.mlir"
    family.write_text('''
delta.family @twice model_types ["twice"] architectures [] {
  delta.decoder 1
  delta.on first {
    %a = delta.param "a" [4] : storage
    %b = delta.param "b" [4] : storage
    delta.tensor "one" = %a as [4]
    delta.tensor "one" = %b as [4]
  }
}
''')
    model = write_json(
        tmp_path / "model.json",
        {"config": {"model_type": "twice"}, "family": str(family)})
    result = tool("delta-compile", model, "--emit=maps", "-o", tmp_path / "o")
    assert result.returncode == 1
    assert "tensor_c3" in messages(result) and '"one"' in messages(result)
    assert not (tmp_path / "o").exists()


# ===--- case 15: two owners of the table -----------------------------------===


@pytest.mark.parametrize("config", [DEEPSEEK3, GLM_LITE, GLM_PREDICTING])
def test_first_stage_owns_the_table_of_prediction_layers(
    config: dict, tmp_path: Path
) -> None:
    program = reference(tmp_path, config, {"pp": 2})
    tables = [
        (index, param) for index, param in enumerate(program["source"]["params"])
        if TABLE in param["names"]
    ]
    (owner, first), (_, copy) = tables
    assert (first["stage"], copy["stage"]) == ("first", "last")
    assert "copyOf" not in first and copy["copyOf"] == owner
    sync = Sync(tmp_path, config, {"pp": 2})
    rows = config["vocab_size"] * config["hidden_size"]
    assert sync.trained(0, TABLE) == sync.trained(1, TABLE)
    assert sync.received["model.embed_tokens.weight"] == sync.trained(
        0, TABLE)[:rows]


# ===--- case 26: names match on whole parts --------------------------------===


def test_shared_expert_stays_one_tensor(tmp_path: Path) -> None:
    config = {
        **DEEPSEEK3, "hidden_size": 16, "moe_intermediate_size": 2,
        "n_routed_experts": 2, "n_shared_experts": 1,
        "num_nextn_predict_layers": 0,
    }
    sync = Sync(tmp_path, config, {})
    layer = "model.layers.1.mlp."
    downs = {
        name: len(values) for name, values in sync.received.items()
        if name.startswith(layer) and "down_proj" in name
    }
    assert downs == {
        layer + "experts.0.down_proj.weight": 32,
        layer + "experts.1.down_proj.weight": 32,
        layer + "shared_experts.down_proj.weight": 32,
    }
    trained = "decoder.layers.1.mlp."
    assert sync.received[layer + "shared_experts.down_proj.weight"] == (
        sync.trained(0, trained + "shared_experts.linear_fc2.weight"))
    assert sync.received[layer + "experts.1.down_proj.weight"] == (
        sync.trained(0, trained + "experts.linear_fc2.weight1"))


# ===--- case 39: two spellings of the inner layer --------------------------===


@pytest.mark.parametrize("config,layer", [
    (DEEPSEEK3, "model.layers.4."), (GLM_LITE, "model.layers.4."),
    (GLM_PREDICTING, "model.layers.4."),
    (MIMO_PREDICTING, "model.mtp_layers.0."),
])
def test_both_spellings_of_a_prediction_layer_are_known(
    config: dict, layer: str, tmp_path: Path
) -> None:
    program = reference(tmp_path, config, {"pp": 2})
    names = [
        param["names"] for param in program["source"]["params"]
        if any(".mtp_model_layer." in name for name in param["names"])
    ]
    assert len(names) >= 7
    for alternatives in names:
        new = {name for name in alternatives if "mtp_model_layer" in name}
        old = {name for name in alternatives if "transformer_layer" in name}
        assert old == {
            name.replace("mtp_model_layer", "transformer_layer")
            for name in new
        }
        assert new | old == set(alternatives)
    sync = Sync(tmp_path, config, {"pp": 2})
    received = [name for name in sync.received if name.startswith(layer)]
    assert len(received) >= 12


# ===--- case 41: repeated prediction layers --------------------------------===


@pytest.mark.parametrize("repeated,numbers", [
    (True, {0, 1, 2}), (False, {0, 1, 2, 3, 4, 5})])
def test_repeated_prediction_block_is_sent_once(
    repeated: bool, numbers: set, tmp_path: Path
) -> None:
    config = {
        **HYBRID_EXPERTS, **HYBRID_PREDICTING,
        "mtp_use_repeated_layer": repeated, "num_nextn_predict_layers": 2,
    }
    sync = Sync(tmp_path, config, {"ep": 2})
    found = {
        int(match[1]) for name in sync.received
        if (match := re.match(r"mtp\.layers\.(\d+)\.", name))
    }
    assert found == numbers
    joints = [name for name in sync.received if name.endswith("eh_proj.weight")]
    assert joints == [
        f"mtp.layers.{number}.eh_proj.weight"
        for number in sorted(numbers) if number % 3 == 0
    ]


def test_prediction_layers_that_differ_are_all_sent(tmp_path: Path) -> None:
    sync = Sync(tmp_path, MIMO_PREDICTING, {"pp": 2})
    joint = "model.mtp_layers.{}.input_proj.weight"
    first, second = (sync.received[joint.format(n)] for n in (0, 1))
    assert first != second
    hidden = MIMO_PREDICTING["hidden_size"]
    trained = sync.trained(1, "mtp.layers.1.eh_proj.weight")
    for row in range(hidden):
        embedding = trained[2 * row * hidden:(2 * row + 1) * hidden]
        state = trained[(2 * row + 1) * hidden:(2 * row + 2) * hidden]
        assert second[2 * row * hidden:2 * (row + 1) * hidden] == (
            state + embedding)


# ===--- case 42: declared, and not there -----------------------------------===


def keys_of(program: dict, drop: str) -> dict:
    """A key list with everything that a program writes but some layer."""
    keys = {}
    count = {"{layer}": program["source"]["numLayers"],
             "{expert}": program["source"]["numExperts"]}
    for tensor in program["source"]["tensors"]:
        names = [tensor["name"]]
        for hole, number in count.items():
            names = [
                name.replace(hole, str(n))
                for name in names for n in range(number if hole in name else 1)
            ]
        for name in names:
            keys[name] = {"shape": tensor["shape"], "dtype": tensor["dtype"]}
    return {name: key for name, key in keys.items() if not re.match(drop, name)}


@pytest.mark.parametrize("config,layer", [
    (DEEPSEEK3, r"model\.layers\.4\."),
    (GLM_LITE, r"model\.layers\.4\."),
    (GLM_PREDICTING, r"model\.layers\.4\."),
    (MIMO_PREDICTING, r"model\.mtp_layers\."),
    ({**HYBRID_EXPERTS, **HYBRID_PREDICTING}, r"mtp\."),
])
def test_checkpoint_without_the_declared_prediction_layers(
    config: dict, layer: str, tmp_path: Path
) -> None:
    """What is not listed is not expected of the trainer, nor written."""
    whole = reference(tmp_path, config, {})
    assert any(
        name.startswith("mtp.")
        for param in whole["source"]["params"] for name in param["names"])
    keys = write_json(tmp_path / "keys.json", keys_of(whole, layer))
    less = reference(tmp_path, config, {}, f"--keys={keys}")
    assert not any(
        name.startswith("mtp.")
        for param in less["source"]["params"] for name in param["names"])
    assert not any(
        re.match(layer, tensor["name"])
        for tensor in less["source"]["tensors"])
    none = reference(tmp_path, config, {"mtp_layers": 0})
    assert [tensor["name"] for tensor in none["source"]["tensors"]] == [
        tensor["name"] for tensor in less["source"]["tensors"]]


# ===--- case 43: float32 biases of the router ------------------------------===


@pytest.mark.parametrize("config", [DEEPSEEK3, GLM_LITE, GLM_PREDICTING])
def test_router_bias_stays_float32(config: dict, tmp_path: Path) -> None:
    program = reference(tmp_path, config, {"tp": 2, "ep": 2})
    biases = [
        param for param in program["source"]["params"]
        if param["names"][0].endswith("router.expert_bias")
    ]
    tensors = [
        tensor for tensor in program["source"]["tensors"]
        if tensor["name"].endswith("e_score_correction_bias")
    ]
    # Of the decoder's layers and of the prediction layer.
    assert [bias["dtype"] for bias in biases] == ["fp32"] * 2
    assert [tensor["dtype"] for tensor in tensors] == ["fp32"] * 2

    sync = Sync(tmp_path, config, {"tp": 2, "ep": 2})
    bias = "decoder.layers.2.mlp.router.expert_bias"
    got = sync.received["model.layers.2.mlp.gate.e_score_correction_bias"]
    assert got.typecode == "I" and len(got) == config["n_routed_experts"]
    for rank in range(2):
        assert sync.trained(rank, bias) == got
    # More than bfloat16 can hold.
    assert any(word & 0xFFFF for word in got)
    weights = sync.received["model.layers.2.mlp.gate.weight"]
    assert weights.typecode == "H"


# ===--- case 57: usual heads for null, borrowed keys -----------------------===


def test_null_global_heads_are_the_usual_ones(tmp_path: Path) -> None:
    assert GEMMA4["num_global_key_value_heads"] is None
    sync = Sync(tmp_path, GEMMA4, {})
    name = "model.layers.2.self_attn.k_proj.weight"
    heads, size = GEMMA4["num_key_value_heads"], GEMMA4["global_head_dim"]
    assert len(sync.received[name]) == heads * size * GEMMA4["hidden_size"]


def test_borrowed_keys_and_values_are_not_emitted(tmp_path: Path) -> None:
    sync = Sync(tmp_path, GEMMA4, {"tp": 2, "vocab_multiple": 4})
    own = GEMMA4["num_hidden_layers"] - GEMMA4["num_kv_shared_layers"]
    for layer in range(GEMMA4["num_hidden_layers"]):
        prefix = f"model.layers.{layer}.self_attn."
        has = {
            name.removeprefix(prefix) for name in sync.received
            if name.startswith(prefix)
        }
        always = {"q_proj.weight", "q_norm.weight", "o_proj.weight"}
        keys = {"k_proj.weight", "v_proj.weight", "k_norm.weight"}
        assert has == (always | keys if layer < own else always)
        # The trainer holds them all the same.
        assert sync.trained(
            0, f"decoder.layers.{layer}.self_attention.k_layernorm.weight")
