# ===- support.py - Run the tools and read what they write ----------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What the tests of the tools share. Only the standard library is needed."""

import array
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(os.environ.get("DELTA_BIN", "build/bin")).resolve()
SHARED = (
    Path(os.environ["DELTA_SHARED"]) if "DELTA_SHARED" in os.environ else None
)

needs_tools = pytest.mark.skipif(
    not (BIN / "delta-compile").exists(), reason=f"no delta-compile in {BIN}"
)
needs_shared = pytest.mark.skipif(
    SHARED is None, reason="no data folder: DELTA_SHARED is not set"
)


def tool(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a tool, whatever its exit code is."""
    return subprocess.run(
        [str(BIN / name), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
    )


def check(tmp_path: Path, *arguments: object) -> tuple[int, dict, str]:
    """Runs delta-check: exit code, counts, messages."""
    report = tmp_path / "report.json"
    result = tool("delta-check", *arguments, "--json", report)
    counts = json.loads(report.read_text()) if report.exists() else {}
    return result.returncode, counts, result.stderr


def write_json(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value))
    return path


def messages(result: subprocess.CompletedProcess[str]) -> str:
    """Standard error without the compiler's notes."""
    return "\n".join(
        line for line in result.stderr.splitlines() if " note: " not in line
    )


def read_safetensors(path: Path) -> dict[str, array.array]:
    """Tensors as arrays of unsigned integers of their width."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    codes = {"BF16": "H", "F16": "H", "F32": "I", "I64": "Q"}
    tensors = {}
    for name, entry in header.items():
        values = array.array(codes[entry["dtype"]])
        begin, end = entry["data_offsets"]
        values.frombytes(data[8 + length + begin : 8 + length + end])
        count = 1
        for size in entry["shape"]:
            count *= size
        assert len(values) == count, name
        tensors[name] = values
    return tensors


def read_tags(path: Path) -> array.array:
    """Little-endian 32-bit numbers."""
    tags = array.array("i")
    assert tags.itemsize == 4
    tags.frombytes(path.read_bytes())
    if sys.byteorder == "big":
        tags.byteswap()
    return tags


# Small models of the shapes that differ; sizes are chosen so that every
# geometry of the tests divides them.
CONFIGS = {
    "qwen3": {
        "model_type": "qwen3", "head_dim": 8, "hidden_size": 48,
        "intermediate_size": 96, "num_attention_heads": 8,
        "num_hidden_layers": 4, "num_key_value_heads": 2, "vocab_size": 251,
        "attention_bias": False, "tie_word_embeddings": False,
    },
    "qwen3_moe": {
        "model_type": "qwen3_moe", "head_dim": 4, "hidden_size": 32,
        "intermediate_size": 96, "moe_intermediate_size": 12,
        "num_attention_heads": 16, "num_experts": 8, "num_experts_per_tok": 2,
        "num_hidden_layers": 4, "num_key_value_heads": 2, "vocab_size": 250,
        "attention_bias": False, "tie_word_embeddings": False,
        "decoder_sparse_step": 1, "mlp_only_layers": [],
    },
    "nemotron_h": {
        "model_type": "nemotron_h", "attention_bias": False, "conv_kernel": 4,
        "expand": 2, "head_dim": 8, "hidden_size": 32,
        "hybrid_override_pattern": "MEM*EME", "intermediate_size": 20,
        "mamba_head_dim": 4, "mamba_num_heads": 8, "mamba_proj_bias": False,
        "mlp_bias": False, "moe_intermediate_size": 20,
        "moe_shared_expert_intermediate_size": 40, "n_groups": 2,
        "n_routed_experts": 8, "n_shared_experts": 1,
        "num_attention_heads": 16, "num_hidden_layers": 7,
        "num_key_value_heads": 2, "ssm_state_size": 8,
        "tie_word_embeddings": False, "use_bias": False, "use_conv_bias": True,
        "vocab_size": 250,
    },
    "gpt_oss": {
        "model_type": "gpt_oss", "attention_bias": True, "head_dim": 4,
        "hidden_size": 40, "intermediate_size": 24,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_attention_heads": 16, "num_hidden_layers": 4,
        "num_key_value_heads": 2, "num_local_experts": 8,
        "tie_word_embeddings": False, "vocab_size": 250,
    },
}
