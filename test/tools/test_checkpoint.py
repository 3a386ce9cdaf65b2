# ===- test/tools/test_checkpoint.py - Checkpoints as input ---------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The key list of a checkpoint chooses and is held against the plan."""

import json
import os
import struct
import subprocess

import pytest

BIN = os.environ.get("DELTA_BIN")
pytestmark = pytest.mark.skipif(not BIN, reason="DELTA_BIN is not set")

H, V, N, G, D, F, L = 8, 10, 4, 2, 2, 6, 2
SIZES = {"BF16": 2, "F16": 2, "F32": 4, "I64": 8, "F8_E4M3": 1, "U8": 1}


def config(**more):
    return {
        "model_type": "qwen3", "hidden_size": H, "vocab_size": V,
        "num_attention_heads": N, "num_key_value_heads": G, "head_dim": D,
        "intermediate_size": F, "num_hidden_layers": L, **more}


def tensors():
    out = {"model.embed_tokens.weight": [V, H], "model.norm.weight": [H],
           "lm_head.weight": [V, H]}
    for i in range(L):
        p = f"model.layers.{i}."
        out |= {
            p + "input_layernorm.weight": [H],
            p + "post_attention_layernorm.weight": [H],
            p + "self_attn.q_proj.weight": [N * D, H],
            p + "self_attn.k_proj.weight": [G * D, H],
            p + "self_attn.v_proj.weight": [G * D, H],
            p + "self_attn.q_norm.weight": [D],
            p + "self_attn.k_norm.weight": [D],
            p + "self_attn.o_proj.weight": [H, N * D],
            p + "mlp.gate_proj.weight": [F, H],
            p + "mlp.up_proj.weight": [F, H],
            p + "mlp.down_proj.weight": [H, F]}
    return out


def header(shapes, dtypes=None):
    entries, at = {}, 0
    for name, shape in shapes.items():
        dtype = (dtypes or {}).get(name, "BF16")
        size = SIZES[dtype]
        for extent in shape:
            size *= extent
        entries[name] = {"dtype": dtype, "shape": shape,
                         "data_offsets": [at, at + size]}
        at += size
    return entries, at


def write(path, entries, data_bytes, length=None):
    text = entries
    if isinstance(entries, dict):
        text = json.dumps(entries).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text) if length is None else length))
        file.write(text)
        file.write(os.urandom(data_bytes))


def compile_with(folder, checkpoint, *arguments, **more):
    model = folder / "model.json"
    model.write_text(json.dumps({
        "config": config(**more), "checkpoint": str(checkpoint),
        "trainer": {"tp": 2, "vocab_multiple": 4}}))
    output = folder / "out"
    output.unlink(missing_ok=True)
    result = subprocess.run(
        [f"{BIN}/delta-compile", str(model), "-o", str(output), *arguments],
        capture_output=True, text=True, timeout=120)
    if result.returncode:
        assert not output.exists(), "something was half written"
    return result


def refused(folder, checkpoint, *texts, **more):
    result = compile_with(folder, checkpoint, "--emit=maps", **more)
    assert result.returncode == 1, result.stderr
    for text in texts:
        assert text in result.stderr, result.stderr


def test_untied_checkpoint_holds(tmp_path):
    write(tmp_path / "a.safetensors", *header(tensors()))
    result = compile_with(tmp_path, tmp_path / "a.safetensors", "--emit=maps",
                          "--cross-check=full")
    assert result.returncode == 0, result.stderr


def test_listed_head_of_a_tied_model_is_a_second_name(tmp_path):
    write(tmp_path / "a.safetensors", *header(tensors()))
    result = compile_with(tmp_path, tmp_path, "--emit=maps",
                          "--cross-check=full", tie_word_embeddings=True)
    assert result.returncode == 0, result.stderr
    assert 'lists "lm_head.weight", a second name' in result.stderr
    # A checkpoint without it: the tied head is not produced, nor missed.
    shapes = tensors()
    del shapes["lm_head.weight"]
    other = tmp_path / "other"
    other.mkdir()
    write(other / "a.safetensors", *header(shapes))
    result = compile_with(other, other, "--emit=maps",
                          tie_word_embeddings=True)
    assert result.returncode == 0, result.stderr
    assert "lm_head" not in result.stderr
    # The same config and geometry, another key list: another plan.
    refused(other, other, 'tensor "lm_head.weight" is not in the checkpoint')


def test_sharded_checkpoint_with_an_index(tmp_path):
    shapes = list(tensors().items())
    weight_map = {}
    for i in range(3):
        part = dict(shapes[i::3])
        name = f"model-0000{i}.safetensors"
        write(tmp_path / name, *header(part))
        weight_map |= {tensor: name for tensor in part}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    for path in (tmp_path, index):
        result = compile_with(tmp_path, path, "--emit=maps")
        assert result.returncode == 0, result.stderr

    def broken(**change):
        index.write_text(json.dumps({"weight_map": weight_map | change}))

    first = shapes[0][0]
    broken(**{first: "model-00001.safetensors"})
    refused(tmp_path, tmp_path, f'tensor "{first}" is not in',
            "model-00001.safetensors, but in")
    broken(nothing="model-00000.safetensors")
    refused(tmp_path, tmp_path, 'tensor "nothing" is not in')
    broken(**{first: "../model-00000.safetensors"})
    refused(tmp_path, tmp_path, "is not in the folder of the index")
    broken(**{first: "model-00009.safetensors"})
    refused(tmp_path, tmp_path, "model-00009.safetensors: error: cannot be read")
    broken(**{first: 3})
    refused(tmp_path, tmp_path, "required a file name")
    less = dict(weight_map)
    del less[first]
    index.write_text(json.dumps({"weight_map": less}))
    refused(tmp_path, tmp_path, f'does not list tensor "{first}"')
    index.write_text("{")
    refused(tmp_path, tmp_path, 'has no object "weight_map"')


def test_two_files_with_one_tensor(tmp_path):
    shapes = tensors()
    write(tmp_path / "a.safetensors", *header(shapes))
    write(tmp_path / "b.safetensors", *header({"model.norm.weight": [H]}))
    refused(tmp_path, tmp_path, "b.safetensors: error:",
            'tensor "model.norm.weight" is in', "a.safetensors already")


def test_missing_extra_and_misshapen_tensors_are_named(tmp_path):
    shapes = tensors()
    del shapes["model.layers.1.mlp.up_proj.weight"]
    shapes["model.norm.weight"] = [H + 1]
    shapes["strange"] = [3]
    write(tmp_path / "a.safetensors",
          *header(shapes, {"model.embed_tokens.weight": "F32"}))
    refused(tmp_path, tmp_path,
            'tensor "model.layers.1.mlp.up_proj.weight" is not in the '
            "checkpoint",
            'tensor "model.norm.weight" is [9] bf16, required [8] bf16',
            'tensor "model.embed_tokens.weight" is [10, 8] fp32, required '
            "[10, 8] bf16",
            'tensor "strange" is in the checkpoint, the family does not '
            "produce it")


def test_many_differences_are_counted(tmp_path):
    write(tmp_path / "a.safetensors", *header({"model.norm.weight": [H]}))
    refused(tmp_path, tmp_path, "and 21 more tensors like this")


@pytest.mark.parametrize("dtype", ["F8_E4M3", "U8"])
def test_quantized_checkpoint(tmp_path, dtype):
    name = "model.layers.0.mlp.up_proj.weight"
    write(tmp_path / "a.safetensors", *header(tensors(), {name: dtype}))
    refused(tmp_path, tmp_path,
            f'tensor "{name}" is of type {dtype}: the checkpoint is quantized')


def test_headers_that_lie(tmp_path):
    path = tmp_path / "a.safetensors"
    entries, size = header(tensors())
    text = json.dumps(entries).encode()
    norm = entries["model.norm.weight"]

    def changed(**change):
        copy = {name: dict(entry) for name, entry in entries.items()}
        copy["model.norm.weight"] |= change
        return copy

    begin, end = norm["data_offsets"]
    cases = [
        (entries, size - 1, None, "of"),  # ends one byte behind the file
        (entries, size + 1, None, "tensors end at byte"),
        (text, size, 100_000_001, "required at most 100000000"),
        (text, size, 1 << 63, "required at most 100000000"),
        (text, size, len(text) + size + 1, "is truncated: header of"),
        (b"{" + text, size, None, "header is not one JSON object"),
        (b"[]", 0, None, "header is not one JSON object"),
        (b"{}{}", 0, None, "header is not one JSON object"),
        (text[:-1] + b', "model.norm.weight": ' +
         json.dumps(norm).encode() + b"}", size, None, "stands twice"),
        (changed(shape=[H + 1]), size, None, "data_offsets span 16"),
        (changed(shape=[-H]), size, None, "has no size of 64 bits"),
        (changed(shape=[1 << 62, 1 << 62]), size, None,
         "has no size of 64 bits"),
        (changed(shape="8"), size, None, "is not a list of sizes"),
        (changed(dtype="Q4"), size, None, 'dtype "Q4" is not known'),
        (changed(data_offsets=[end, begin]), size, None, "bytes"),
        (changed(data_offsets=[begin + 16, end + 16]), size, None, "begins at"),
        (changed(data_offsets=[begin, 1 << 60]), size, None, "bytes"),
        (changed(data_offsets=[begin]), size, None, "are not two numbers"),
        (changed(data_offsets=[-1, 15]), size, None, "are not two numbers"),
        (entries | {"model.norm.weight": [1]}, size, None,
         "entry is not {dtype, shape, data_offsets}"),
    ]
    for content, data_bytes, length, message in cases:
        write(path, content, data_bytes, length)
        refused(tmp_path, path, "a.safetensors: error: ", message)
    path.write_bytes(b"\x01\x02\x03")
    refused(tmp_path, path, "is truncated: 3 bytes")
    path.write_bytes(b"")
    refused(tmp_path, path, "is truncated: 0 bytes")


def test_no_checkpoint_there(tmp_path):
    refused(tmp_path, tmp_path / "nothing", "nothing: error: cannot be read")
    refused(tmp_path, tmp_path, "holds no safetensors file")
    for name in ("a", "b"):
        (tmp_path / f"{name}.safetensors.index.json").write_text("{}")
    refused(tmp_path, tmp_path, "holds more than one index")


def test_certificate_names_are_checked(tmp_path):
    write(tmp_path / "a.safetensors", *header(tensors()))
    assert compile_with(tmp_path, tmp_path).returncode == 0
    (tmp_path / "out").rename(tmp_path / "plan.so")
    assert compile_with(tmp_path, tmp_path, "--emit=proof").returncode == 0

    def check():
        return subprocess.run(
            [f"{BIN}/delta-check", str(tmp_path / "out"), "--plan",
             str(tmp_path / "plan.so"), "--model",
             str(tmp_path / "model.json")],
            capture_output=True, text=True, timeout=60)

    result = check()
    assert result.returncode == 0, result.stderr
    assert "25 names agree with the checkpoint" in result.stdout
    shapes = tensors()
    shapes["model.norm.weight"] = [H + 1]
    write(tmp_path / "a.safetensors", *header(shapes))
    result = check()
    assert result.returncode == 1
    assert ('tensor "model.norm.weight" has another shape or type'
            in result.stderr)
    (tmp_path / "a.safetensors").unlink()
    model = json.loads((tmp_path / "model.json").read_text())
    del model["checkpoint"]
    (tmp_path / "model.json").write_text(json.dumps(model))
    assert "names: not checked" in check().stdout
    model["trainer"]["tp"] = 1
    (tmp_path / "model.json").write_text(json.dumps(model))
    assert ("source has tp 2 in the plan, model.json says 1"
            in check().stderr)


def run_with(folder, weights, *arguments, trainer=None, rollout=None, **more):
    model = folder / "run.json"
    model.write_text(json.dumps({
        "config": config(**more),
        "trainer": trainer or {"tp": 2, "pp": 2, "vocab_multiple": 4},
        "rollout": rollout or {"engine": "hf"}}))
    return subprocess.run(
        [f"{BIN}/delta-run", str(model), "--weights", str(weights), *arguments],
        capture_output=True, text=True, timeout=120)


def read(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    entries = json.loads(data[8:8 + length])
    return {
        name: data[8 + length + entry["data_offsets"][0]:
                   8 + length + entry["data_offsets"][1]]
        for name, entry in entries.items() if name != "__metadata__"}


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
def test_run_starts_from_a_checkpoint(tmp_path, dtype):
    shapes = tensors()
    write(tmp_path / "a.safetensors",
          *header(shapes, {name: dtype for name in shapes}))
    trainer = {"tp": 2, "pp": 2, "vocab_multiple": 4,
               "dtype": {"BF16": "bf16", "F16": "fp16", "F32": "fp32"}[dtype]}
    result = run_with(tmp_path, tmp_path, "--steps", "2", "--changed", "5",
                      "--dump", str(tmp_path / "dump"), trainer=trainer)
    assert result.returncode == 0, result.stderr
    before = read(tmp_path / "dump/before/destination-0.safetensors")
    after = read(tmp_path / "dump/after/destination-0.safetensors")
    assert before == read(tmp_path / "a.safetensors")
    assert before != after


def test_run_starts_from_a_sharded_checkpoint_to_another_geometry(tmp_path):
    shapes = list(tensors().items())
    weight_map = {}
    for i in range(3):
        name = f"model-0000{i}.safetensors"
        write(tmp_path / name, *header(dict(shapes[i::3])))
        weight_map |= {tensor: name for tensor, _ in shapes[i::3]}
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": weight_map}))
    result = run_with(tmp_path, tmp_path, "--steps", "2", "--changed", "100",
                      rollout={"engine": "megatron", "tp": 1, "pp": 2})
    assert result.returncode == 0, result.stderr


def test_run_refuses_weights_that_do_not_fit(tmp_path):
    shapes = tensors()
    del shapes["model.norm.weight"]
    write(tmp_path / "a.safetensors", *header(shapes))
    result = run_with(tmp_path, tmp_path)
    assert result.returncode == 1
    assert ('tensor "model.norm.weight" is not in the checkpoint'
            in result.stderr)
    shapes = tensors()
    shapes["model.norm.weight"] = [H - 1]
    write(tmp_path / "a.safetensors", *header(shapes))
    assert "is [7] BF16, required [8] bf16" in run_with(
        tmp_path, tmp_path).stderr
    write(tmp_path / "a.safetensors",
          *header(tensors(), {"lm_head.weight": "F8_E4M3"}))
    assert "the checkpoint is quantized" in run_with(tmp_path, tmp_path).stderr
    entries, size = header(tensors())
    write(tmp_path / "a.safetensors", entries, size - 2)
    assert "a.safetensors: error:" in run_with(tmp_path, tmp_path).stderr


def test_second_name_with_other_bytes_is_found(tmp_path):
    """A tied model whose checkpoint lists a head that differs."""
    write(tmp_path / "a.safetensors", *header(tensors()))
    model = tmp_path / "run.json"
    model.write_text(json.dumps({
        "config": config(tie_word_embeddings=True),
        "checkpoint": str(tmp_path), "trainer": {"tp": 2}}))
    result = subprocess.run(
        [f"{BIN}/delta-run", str(model), "--weights", str(tmp_path)],
        capture_output=True, text=True, timeout=120)
    assert result.returncode == 1
    assert '"lm_head.weight" [0, 0]: expected' in result.stderr
