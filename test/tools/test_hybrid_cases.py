# ===- test_hybrid_cases.py - Public failures of hybrids and stacks -------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Failures reported in public, as small models of the Qwen line. Where single
elements go is read off a real sync: the receiver's bits are searched for the
trainer's."""

import json
import struct
import tarfile
from pathlib import Path

import pytest

from support import needs_tools, read_safetensors, tool, write_json

pytestmark = needs_tools

DATA = Path(__file__).resolve().parents[1] / "data"

COMMON = {
    "hidden_size": 4, "num_attention_heads": 2, "num_key_value_heads": 2,
    "head_dim": 2, "num_hidden_layers": 1, "vocab_size": 8,
    "tie_word_embeddings": False,
}
EXPERTS = {
    "num_experts": 2, "moe_intermediate_size": 4,
    "shared_expert_intermediate_size": 4,
}
DELTA_NET = {
    "linear_num_key_heads": 4, "linear_num_value_heads": 8,
    "linear_key_head_dim": 2, "linear_value_head_dim": 2,
}
VISION = {
    "depth": 1, "hidden_size": 4, "num_heads": 2, "intermediate_size": 4,
    "patch_size": 1, "temporal_patch_size": 1, "spatial_merge_size": 1,
    "num_position_embeddings": 4,
}
SPARSE = {
    "model_type": "qwen3_5_moe_text", **COMMON, **EXPERTS, **DELTA_NET,
    "layer_types": ["linear_attention"],
}
DENSE = {
    "model_type": "qwen3_5_text", **COMMON, **DELTA_NET,
    "intermediate_size": 4, "layer_types": ["full_attention"],
}


class Synced:
    """All ranks of a model after a sync; `keys` is the checkpoint's list."""

    def __init__(self, folder: Path, config: dict, trainer: dict,
                 keys: dict | None = None):
        model = write_json(
            folder / "model.json",
            {"config": config, "trainer": {"vocab_multiple": 4, **trainer}})
        more = []
        if keys is not None:
            more = ["--keys", write_json(folder / "keys.json", keys)]
        plan, reference = folder / "plan.so", folder / "reference.json"
        for output in ([plan], [reference, "--emit=reference"]):
            result = tool("delta-compile", model, "-o", *output, *more)
            assert result.returncode == 0, result.stderr
        self.notes = result.stderr
        dump = folder / "dump"
        result = tool("delta-run", "--plan", plan, "--reference", reference,
                      "--steps", 1, "--changed", 20, "--dump", dump)
        assert result.returncode == 0, result.stderr
        self.folder = dump / "after"
        self.received, self.shapes, self.types = self.read("destination-0")

    def read(self, name: str) -> tuple[dict, dict, dict]:
        path = self.folder / f"{name}.safetensors"
        data = path.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + length])
        header.pop("__metadata__", None)
        return (
            read_safetensors(path),
            {key: value["shape"] for key, value in header.items()},
            {key: value["dtype"] for key, value in header.items()},
        )

    def trained(self, rank: int, name: str) -> tuple[list, list]:
        """Values and shape of a parameter of a rank."""
        values, shapes, _ = self.read(f"source-{rank}")
        name = f"chunk0.{name}"
        return list(values[name]), shapes[name]

    def row_of(self, rank: int, name: str, row: int, tensor: str) -> int:
        """The one row of a tensor that holds a row of a parameter."""
        values, shape = self.trained(rank, name)
        width = len(values) // shape[0]
        wanted = values[row * width:(row + 1) * width]
        found = list(self.received[tensor])
        rows = [
            at // width for at in range(0, len(found), width)
            if found[at:at + width] == wanted
        ]
        assert len(rows) == 1, rows
        return rows[0]

    def index_of(self, rank: int, name: str, index: list,
                 tensor: str) -> list:
        """The one element of a tensor that holds one of a parameter."""
        values, shape = self.trained(rank, name)
        wanted = values[index[0] * shape[1] + index[1]]
        found = list(self.received[tensor])
        assert found.count(wanted) == 1
        at = found.index(wanted)
        place = []
        for size in reversed(self.shapes[tensor]):
            place.insert(0, at % size)
            at //= size
        return place


def listed(names: list, dtype: str = "fp32") -> dict:
    """A key list; shapes choose nothing."""
    return {name: {"shape": [1], "dtype": dtype} for name in names}


# Case 29: q, k, v, z, b and a are each split over the ranks; the checkpoint has
# them side by side for each key head.
def test_sections_of_a_delta_net_are_split_each(tmp_path) -> None:
    config = {"model_type": "qwen3_next", **COMMON, **EXPERTS, **DELTA_NET}
    synced = Synced(tmp_path, config, {"tp": 2, "dtype": "fp32"})
    mixer = "decoder.layers.0.self_attention."
    tensors = "model.layers.0.linear_attn."
    _, shape = synced.trained(1, mixer + "in_proj.weight")
    assert shape == [32, 4]
    for row, expected in {0: 24, 2: 36, 4: 26, 8: 28, 12: 40, 16: 32}.items():
        assert synced.row_of(
            1, mixer + "in_proj.weight", row,
            tensors + "in_proj_qkvz.weight") == expected
    for row, expected in {24: 8, 26: 12, 28: 10}.items():
        assert synced.row_of(
            1, mixer + "in_proj.weight", row,
            tensors + "in_proj_ba.weight") == expected
    for row, expected in {4: 12, 8: 24}.items():
        assert synced.row_of(
            1, mixer + "conv1d.weight", row,
            tensors + "conv1d.weight") == expected
    for name in ("A_log", "dt_bias"):
        assert synced.row_of(1, mixer + name, 0, tensors + name) == 4


FC1 = "decoder.layers.0.mlp.experts.linear_fc1.weight1"
FC2 = "decoder.layers.0.mlp.experts.linear_fc2.weight1"
SMALL = {"hidden_size": 2, "num_experts": 4, "moe_intermediate_size": 3}


# Case 17: every expert has a place of its own in the stack.
def test_stack_with_input_features_first(tmp_path) -> None:
    config = {
        "model_type": "qwen3_vl_moe",
        "text_config": {**COMMON, **SMALL},
        "vision_config": VISION,
    }
    synced = Synced(tmp_path, config, {"ep": 2, "dtype": "fp32"})
    stack = "model.language_model.layers.0.mlp.experts."
    assert synced.shapes[stack + "gate_up_proj"] == [4, 2, 6]
    assert synced.shapes[stack + "down_proj"] == [4, 3, 2]
    assert synced.index_of(
        1, "language_model." + FC1, [4, 0], stack + "gate_up_proj"
    ) == [3, 0, 4]
    assert synced.index_of(
        1, "language_model." + FC2, [1, 2], stack + "down_proj") == [3, 2, 1]


# Case 17, the layout of Qwen3.5: nothing is transposed.
def test_stack_with_output_features_first(tmp_path) -> None:
    stack = "model.layers.0.mlp.experts."
    synced = Synced(
        tmp_path, {**SPARSE, **SMALL}, {"ep": 2, "dtype": "fp32"},
        listed([stack + "gate_up_proj", stack + "down_proj"]))
    assert synced.shapes[stack + "gate_up_proj"] == [4, 6, 2]
    assert synced.shapes[stack + "down_proj"] == [4, 2, 3]
    assert synced.index_of(1, FC1, [4, 0], stack + "gate_up_proj") == [3, 4, 0]
    assert synced.index_of(1, FC2, [1, 2], stack + "down_proj") == [3, 1, 2]


# Case 21: a stack whose experts are split: a shard is no whole tensor.
def test_stack_of_split_experts(tmp_path) -> None:
    stack = "model.layers.0.mlp.experts."
    config = {
        **SPARSE, "hidden_size": 2, "num_experts": 2,
        "moe_intermediate_size": 4}
    synced = Synced(
        tmp_path, config, {"tp": 2, "etp": 2, "dtype": "fp32"},
        listed([stack + "gate_up_proj", stack + "down_proj"]))
    assert synced.shapes[stack + "gate_up_proj"] == [2, 8, 2]
    assert synced.shapes[stack + "down_proj"] == [2, 2, 4]
    for expert in (0, 1):
        fc1 = FC1[:-1] + str(expert)
        fc2 = FC2[:-1] + str(expert)
        for column in (0, 1):
            for row, expected in enumerate((2, 3, 6, 7)):
                assert synced.index_of(
                    1, fc1, [row, column], stack + "gate_up_proj"
                ) == [expert, expected, column]
            for row in (0, 1):
                assert synced.index_of(
                    1, fc2, [row, column], stack + "down_proj"
                ) == [expert, row, column + 2]


# Case 20: a sync that may pack two of four experts at once sends all of them.
def test_stack_of_experts_arrives_in_rounds(tmp_path) -> None:
    inner, hidden, experts = 32, 64, 4
    stack = "model.layers.0.mlp.experts."
    model = write_json(tmp_path / "model.json", {
        "config": {**SPARSE, "hidden_size": hidden, "num_experts": experts,
                   "moe_intermediate_size": inner},
        "trainer": {"vocab_multiple": 4}})
    keys = write_json(
        tmp_path / "keys.json",
        listed([stack + "gate_up_proj", stack + "down_proj"]))
    plan, reference = tmp_path / "plan.so", tmp_path / "reference.json"
    for output in ([plan], [reference, "--emit=reference"]):
        result = tool("delta-compile", model, "-o", *output, "--keys", keys)
        assert result.returncode == 0, result.stderr
    one = 2 * inner * hidden
    report = tmp_path / "report.json"
    counts = []
    for capacity in (0, 2 * one):
        result = tool(
            "delta-run", "--plan", plan, "--reference", reference, "--steps", 3,
            "--changed", 100, "--capacity", capacity, "--json", report)
        assert result.returncode == 0, result.stderr
        counts.append(json.loads(report.read_text()))
    unlimited, limited = counts
    assert unlimited["rounds"] == 1 and limited["rounds"] > 1
    assert limited["mismatches"] == 0
    assert limited["changed"] == unlimited["changed"]
    assert limited["elements"] >= experts * (one + inner * hidden)
    # A group that is not whole at the end is an error.
    result = tool(
        "delta-run", "--plan", plan, "--reference", reference, "--steps", 3,
        "--changed", 100, "--capacity", 2 * one, "--inject", "drop")
    assert result.returncode == 1
    assert "inject drop: refused" in result.stderr


# Case 62: numbers of elements on either side of 24 bits; the last one arrives.
@pytest.mark.parametrize("rows", [4096, 4097])
def test_last_elements_around_24_bits(tmp_path, rows: int) -> None:
    config = {
        **COMMON, "model_type": "qwen3", "hidden_size": 4096,
        "intermediate_size": 4, "vocab_size": rows,
        "tie_word_embeddings": True,
    }
    model = write_json(
        tmp_path / "model.json",
        {"config": config, "trainer": {"vocab_multiple": 0}})
    report = tmp_path / "report.json"
    result = tool("delta-run", model, "--steps", 1, "--changed", 100,
                  "--dump", tmp_path / "dump", "--json", report)
    assert result.returncode == 0, result.stderr
    counts = json.loads(report.read_text())
    assert counts["mismatches"] == 0
    last = rows * 4096 - 1
    values = [
        read_safetensors(
            tmp_path / "dump" / when / "destination-0.safetensors"
        )["model.embed_tokens.weight"] for when in ("before", "after")
    ]
    assert len(values[1]) == last + 1
    assert values[0][last] != values[1][last]
    trained = read_safetensors(tmp_path / "dump/after/source-0.safetensors")
    table = trained["chunk0.embedding.word_embeddings.weight"]
    assert table[last] == values[1][last]


# Case 38: the experts of the prediction layer are stacked as the decoder's, or
# not, as the key list says for each of them.
@pytest.mark.parametrize("decoder", [False, True])
@pytest.mark.parametrize("prediction", [False, True])
def test_experts_of_the_prediction_layer(
        tmp_path, decoder: bool, prediction: bool) -> None:
    stacks = {
        "model.layers.0.mlp.experts.": decoder,
        "mtp.layers.0.mlp.experts.": prediction,
    }
    synced = Synced(
        tmp_path, {**SPARSE, "mtp_num_hidden_layers": 1},
        {"ep": 2, "dtype": "fp32"},
        listed(["mtp.fc.weight"] + [
            prefix + "gate_up_proj" for prefix, stacked in stacks.items()
            if stacked]))
    layers = ["decoder.layers.0.", "mtp.layers.0.mtp_model_layer."]
    for layer, (prefix, stacked) in zip(layers, stacks.items()):
        name = layer + "mlp.experts.linear_fc1.weight0"
        if stacked:
            assert synced.shapes[prefix + "gate_up_proj"] == [2, 8, 4]
            assert synced.index_of(
                1, name, [5, 2], prefix + "gate_up_proj") == [1, 5, 2]
        else:
            assert synced.index_of(
                1, name, [5, 2], prefix + "1.up_proj.weight") == [1, 2]
        assert (prefix + "gate_up_proj" in synced.shapes) == stacked
        assert (prefix + "1.up_proj.weight" in synced.shapes) != stacked


# Case 3: a trainer without the projection, under another name, is told of it.
def test_fused_projection_of_another_name_is_told(tmp_path) -> None:
    case = "export_qwen3_next_mtp_tp2_ep2_pp2"
    folder = tmp_path / case
    folder.mkdir()
    with tarfile.open(DATA / f"{case}.tar.xz") as archive:
        for member in archive.getmembers():
            (folder / member.name).write_bytes(
                archive.extractfile(member).read())
    report = tmp_path / "report.json"
    result = tool("delta-check", "--golden", folder, "--json", report)
    assert result.returncode == 0, result.stderr
    path = folder / "sources.json"
    text = path.read_text()
    for layer in ("decoder.layers.1.", "mtp.layers.0.mtp_model_layer."):
        known = f"{layer}self_attention.linear_qkv.weight"
        unknown = known.replace("linear_qkv", "linear_qgkv")
        assert known in text
        path.write_text(text.replace(known, unknown))
        result = tool("delta-check", "--golden", folder, "--json", report)
        counts = json.loads(report.read_text())
        assert result.returncode == 1
        assert counts["mismatches"] > 0
        assert known in counts["first"]["tensor"]
        assert counts["first"]["expected"] == "no such tensor"


# Case 45: the type is each tensor's own, as the checkpoint has it.
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_decay_in_single_precision(tmp_path, dtype: str) -> None:
    config = {
        **SPARSE, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
    prefix = "model.layers.0.linear_attn."
    single = listed([prefix + "A_log", prefix + "norm.weight"])
    synced = Synced(tmp_path, config, {"dtype": dtype}, single)
    storage = {"bf16": "BF16", "fp32": "F32"}[dtype]
    assert synced.types[prefix + "A_log"] == "F32"
    assert synced.types[prefix + "norm.weight"] == "F32"
    assert synced.types[prefix + "dt_bias"] == storage
    decay, _ = synced.trained(0, "decoder.layers.0.self_attention.A_log")
    received = list(synced.received[prefix + "A_log"])
    if dtype == "bf16":
        assert received == [bits << 16 for bits in decay]
    else:
        assert received == decay
        assert any(bits & 0xFFFF for bits in received)
    # One is added before the cast, with the rounding of the storage type.
    norm, _ = synced.trained(
        0, "decoder.layers.0.self_attention.out_norm.weight")
    for bits, found in zip(norm, synced.received[prefix + "norm.weight"]):
        single = bits << 16 if dtype == "bf16" else bits
        (value,) = struct.unpack("<f", struct.pack("<I", single))
        (exact,) = struct.unpack("<f", struct.pack("<I", found))
        if dtype == "bf16":
            assert found & 0xFFFF == 0
            assert abs(exact - (value + 1)) <= 2.0 ** -8 * abs(value + 1)
        else:
            assert struct.pack("<f", value + 1) == struct.pack("<f", exact)


# Case 56: a key that is there and null is not a number, also in the part of a
# multimodal config that is the language model's.
def test_null_and_absent_sizes_of_the_language_model(tmp_path) -> None:
    text = {**DENSE, "hidden_size": 8, "num_attention_heads": 4}
    for name, head, groups in (
            ("null", {"head_dim": None}, {"num_key_value_heads": None}),
            ("absent", {}, {})):
        part = {
            key: value for key, value in text.items()
            if key not in ("head_dim", "num_key_value_heads", "model_type")
        }
        folder = tmp_path / name
        folder.mkdir()
        synced = Synced(
            folder,
            {"model_type": "qwen3_5", "text_config": {**part, **head, **groups},
             "vision_config": VISION},
            {})
        prefix = "model.language_model.layers.0.self_attn."
        assert synced.shapes[prefix + "q_norm.weight"] == [2]
        assert synced.shapes[prefix + "k_proj.weight"] == [8, 8]
        assert "head_dim = 2" in synced.notes
        assert "num_key_value_heads = 4" in synced.notes
