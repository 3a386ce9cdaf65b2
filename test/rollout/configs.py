# ===- configs.py - Small models that engines can cut ---------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""One configuration a layout file, under its name: those of test/data where
four ranks divide them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from cases import (  # noqa: E402
    BIASED, DELTA_NET, DENSE, EXPERTS, HYBRID, HYBRID_EXPERTS, NEXT,
    SEEING_DELTA_NET, SEEING_DENSE, SEEING_EXPERTS, SEEING_SPARSE, tied,
)
from families import (  # noqa: E402
    GEMMA3, GLM, LLAMA, MISTRAL, MIXTRAL, PARALLEL, QWEN2,
)
from latent import (  # noqa: E402
    DEEPSEEK2, DEEPSEEK2_LITE, DEEPSEEK3, KIMI,
)

# SGLang asks for a key that published configurations have not.
HYBRID = {**HYBRID, "mamba_n_groups": HYBRID["n_groups"]}
HYBRID_EXPERTS = {
    **HYBRID_EXPERTS, "mamba_n_groups": HYBRID["n_groups"],
    "moe_intermediate_size": 12,
}
LATENT_EXPERTS = {**HYBRID_EXPERTS, "moe_latent_size": 10}
ONE_GROUP = {**HYBRID, "n_groups": 1, "mamba_n_groups": 1}
GROUPED = {**DEEPSEEK3, "n_group": 2, "topk_group": 1}
BIASED = {**BIASED, "intermediate_size": 12}
NEXT = {**NEXT, "moe_intermediate_size": 12}


def wider(config: dict) -> dict:
    """Experts that four ranks cut."""
    text = {**config["text_config"], "moe_intermediate_size": 12}
    return {**config, "text_config": text}


SEEING_SPARSE, SEEING_EXPERTS = wider(SEEING_SPARSE), wider(SEEING_EXPERTS)
SPARSE_TEXT = {
    **SEEING_SPARSE["text_config"], "tie_word_embeddings": False,
    "architectures": ["Qwen3_5MoeForCausalLM"],
}

EXPERT_COUNTS = ("num_experts", "n_routed_experts", "num_local_experts")


def has_experts(config: dict) -> bool:
    text = config.get("text_config", config)
    return any(text.get(key) for key in EXPERT_COUNTS)


# Layout file -> models, each with a suffix for the test's name.
MODELS: dict[str, dict[str, dict]] = {
    "llama": {"": LLAMA},
    "mistral": {"": MISTRAL},
    "qwen2": {"": QWEN2, "tied": tied(QWEN2)},
    "qwen3": {"": DENSE},
    "qwen3_moe": {"": EXPERTS},
    "mixtral": {"": MIXTRAL},
    "glm4_moe": {"": GLM},
    "deepseek_v2": {"": DEEPSEEK2, "lite": DEEPSEEK2_LITE},
    "deepseek_v3": {"": DEEPSEEK3},
    "kimi_k2": {"": KIMI},
    "qwen3_next": {"": NEXT},
    "qwen3_5": {"": DELTA_NET, "seeing": SEEING_DELTA_NET},
    "qwen3_5_moe": {"": SPARSE_TEXT, "seeing": SEEING_SPARSE},
    "gpt_oss": {"": BIASED},
    "nemotron_h": {
        "": HYBRID, "experts": HYBRID_EXPERTS, "latent": LATENT_EXPERTS},
    "falcon_h1": {
        "": PARALLEL, "norm": {**PARALLEL, "mamba_rms_norm": True}},
    "gemma3_text": {"": GEMMA3},
    "qwen3_vl": {"": SEEING_DENSE},
    "qwen3_vl_moe": {"": SEEING_EXPERTS},
}
