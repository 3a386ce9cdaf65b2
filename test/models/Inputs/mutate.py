# ===- mutate.py - Slightly wrong models and families ---------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Deletes, doubles and replaces tokens of a model and its family's text.

Whatever comes out, the compiler ends with exit code 0, or with 1, a message
and no output. `mutate.py MODELS SEED COUNT`, in an empty folder.
"""

import json
import random
import re
import subprocess
import sys
from pathlib import Path

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_@%][\w.]*|-?\d+|\s+|.', re.S)
SPARE = (
    '0', '-1', '99999999999999999999', '""', '"x"', "tp", "null", "{", "}",
    "[", "]", ",", ":", "%w", "delta.param", "config", "==", "*", "/", "mod",
    "1.5", "true", "NaN", "stacked", "[]", "65536", "1048576", "layer",
)
CONFIG = {
    "model_type": "qwen3_moe", "hidden_size": 24, "vocab_size": 50,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 6,
    "moe_intermediate_size": 8, "num_experts": 4, "num_hidden_layers": 4,
}
MODEL = {
    "config": CONFIG, "trainer": {"tp": 2, "ep": 2, "pp": 2},
    "rollout": {"engine": "megatron", "tp": 4},
}


def mutate(text: str, source: random.Random) -> str:
    tokens = TOKEN.findall(text)
    for _ in range(source.choice([1, 1, 1, 2, 3])):
        at = source.randrange(len(tokens))
        kind = source.randrange(4)
        if kind == 0 and len(tokens) > 1:
            del tokens[at]
        elif kind == 1:
            tokens.insert(at, tokens[at])
        else:
            tokens[at] = source.choice(SPARE if kind == 2 else tokens)
    return "".join(tokens)


def run() -> str:
    """What is wrong with how the compiler ended, or nothing."""
    Path("out.cpp").unlink(missing_ok=True)
    end = subprocess.run(
        ["delta-compile", "model.json", "--family", "family.mlir",
         "--emit=host", "-o", "out.cpp"],
        capture_output=True, text=True, timeout=60,
    )
    if end.returncode not in (0, 1):
        return f"exit code {end.returncode}\n{end.stderr}"
    if end.returncode == 1 and "error: " not in end.stderr:
        return "no message"
    if Path("out.cpp").exists() == bool(end.returncode):
        return f"exit code {end.returncode} and the output do not agree"
    return "" if end.returncode == 0 else "refused"


def main() -> int:
    models, seed, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    texts = {
        "model.json": json.dumps(MODEL, indent=1),
        "family.mlir": (models / "qwen3_moe.mlir").read_text(),
        "blocks.mlir": (models / "blocks.mlir").read_text(),
    }
    source = random.Random(seed)
    refused = 0
    for number in range(count):
        changed = source.choice(sorted(texts))
        for name, text in texts.items():
            Path(name).write_text(
                mutate(text, source) if name == changed else text
            )
        problem = run()
        refused += problem == "refused"
        if problem not in ("", "refused"):
            print(f"mutation {number} of seed {seed}: {problem}")
            return 1
    assert 0 < refused < count, "the mutations change nothing, or everything"
    print(f"{count} mutations ended well")
    return 0


sys.exit(main())
