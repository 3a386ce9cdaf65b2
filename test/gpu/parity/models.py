# ===- models.py - The models whose plans are compared --------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Small models and geometries: one for each thing that the compiler can emit.

Each has a plan for the host and, for each snapshot, one for CUDA of the same
model.json. `INDEX`, a file beside the plans, says which there are, so that they
are compared where neither the compiler nor the configurations are.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
INDEX = "parity.json"
SNAPSHOTS = ("device", "pinned", "pageable", "bitmap")
# Of the models below; `large` needs 80 GB of memory of a GPU.
SMALLEST, LARGE = "smallest", "large"
CASTS = "test/tools/Inputs/casts.mlir"
FORMS = "test/gpu/parity/forms.mlir"


@dataclass(frozen=True)
class Case:
    """A model.json; `shows` says what no other case has."""

    name: str
    shows: str
    config: dict[str, Any]
    trainer: dict[str, Any]
    rollout: dict[str, Any]
    family: str | None = None
    snapshots: Sequence[str] = ("device",)

    def model(self, snapshot: str) -> dict[str, Any]:
        made = {
            "config": self.config, "trainer": self.trainer,
            "rollout": self.rollout,
        }  # fmt: skip
        if snapshot != "device":
            made["sync"] = {"snapshot": snapshot}
        return made


@dataclass(frozen=True)
class Pair:
    """A host plan and a CUDA plan of one model, or two of the host."""

    name: str
    host: Path
    other: Path
    shows: str


# --- models ------------------------------------------------------------------


def megatron(**keys: Any) -> dict[str, Any]:
    return {"engine": "megatron", **keys}


def vllm(**keys: Any) -> dict[str, Any]:
    return {"engine": "vllm", **keys}


def sglang(**keys: Any) -> dict[str, Any]:
    return {"engine": "sglang", **keys}


HF = {"engine": "hf"}
STAGES = {"pp": 2, "vpp": 2}
SPREAD = {"tp": 2, "ep": 2, "etp": 2, **STAGES, "vocab_multiple": 4}


def dense_cases() -> Iterator[Case]:
    from data import cases as data
    from rollout.configs import MODELS

    dense, tied = data.DENSE, data.tied(data.DENSE)
    yield Case(
        SMALLEST, "all kernels, for a sanitizer",
        {**data.layers(dense, 1), "hidden_size": 64, "vocab_size": 1021},
        {"vocab_multiple": 1}, megatron(tp=2, vocab_multiple=4),
        snapshots=SNAPSHOTS,
    )  # fmt: skip
    yield Case(
        "dense", "virtual stages to another geometry, twice", dense,
        {"tp": 2, **STAGES, "vocab_multiple": 4},
        megatron(tp=4, vocab_multiple=4, replicas=2), snapshots=SNAPSHOTS,
    )  # fmt: skip
    yield Case(
        "padding", "a vocabulary padded to other heights", dense,
        {"tp": 4, "vocab_multiple": 1}, megatron(tp=2, vocab_multiple=17),
    )  # fmt: skip
    yield Case(
        "replicas", "eight senders share two shards; a tied table", tied,
        {"tp": 2, "dp": 2, "cp": 2, "vocab_multiple": 4},
        {**HF, "replicas": 2}, snapshots=("device", "bitmap"),
    )  # fmt: skip
    yield Case(
        "uneven", "stages without layers", data.layers(dense, 7),
        {"tp": 2, **STAGES, "pp_layout": [[0, 1], [3, 3]], "vocab_multiple": 4},
        megatron(pp=3, pp_layout=[1, 4, 2], vocab_multiple=4),
    )  # fmt: skip
    wide = {
        **dense, "head_dim": 64, "hidden_size": 512, "vocab_size": 16001,
        "intermediate_size": 1536, "num_hidden_layers": 2,
    }  # fmt: skip
    yield Case(
        "wide", "tiles of all sizes, thousands of them", wide,
        {"tp": 2, "vocab_multiple": 8}, megatron(tp=4, vocab_multiple=8),
        snapshots=SNAPSHOTS,
    )  # fmt: skip
    yield Case(
        "wide-fp32", "large tiles of elements that are not 16 bits", wide,
        {"tp": 2, "vocab_multiple": 8, "dtype": "fp32"},
        megatron(tp=4, vocab_multiple=8, dtype="fp32"),
    )  # fmt: skip
    yield Case(
        "gemma", "norms in another order, tied", MODELS["gemma3_text"][""],
        {"tp": 2, "pp": 2, "vocab_multiple": 4}, HF,
    )  # fmt: skip
    yield Case(
        "vision", "a tower", data.SEEING_DENSE,
        {"tp": 2, "pp": 2, "vocab_multiple": 4},
        megatron(tp=4, vocab_multiple=4),
    )  # fmt: skip


def expert_cases() -> Iterator[Case]:
    from data import cases as data
    from rollout.configs import MODELS

    yield Case(
        "experts", "experts over every axis", data.EXPERTS, SPREAD, HF,
        snapshots=("device", "pageable"),
    )  # fmt: skip
    yield Case(
        "experts-resharded", "experts of four ranks to two by two",
        data.EXPERTS, {"tp": 4, "etp": 4, "vocab_multiple": 4},
        megatron(tp=2, ep=2, etp=2, vocab_multiple=4),
    )  # fmt: skip
    yield Case(
        "stacked", "stacked, transposed and interleaved experts, biases",
        data.BIASED, {"tp": 2, "ep": 4, "pp": 2, "vocab_multiple": 4}, HF,
    )  # fmt: skip
    yield Case(
        "latent", "latent attention, a prediction layer",
        MODELS["deepseek_v3"][""], SPREAD, megatron(ep=4, pp=2),
    )  # fmt: skip
    yield Case(
        "hybrid", "mixers with values of fp32", data.HYBRID_EXPERTS,
        {"tp": 2, "ep": 4, "pp": 2, "pp_layout": "MEM*|EME", "vocab_multiple": 4},
        megatron(tp=1, ep=2, vocab_multiple=4),
        snapshots=("device", "pinned", "pageable"),
    )  # fmt: skip
    yield Case(
        "delta-net", "delta nets, experts and a tower", data.SEEING_SPARSE,
        {"tp": 2, "ep": 2, "pp": 2, "vocab_multiple": 4}, HF,
    )  # fmt: skip
    wide = {
        **data.EXPERTS, "head_dim": 32, "hidden_size": 256,
        "moe_intermediate_size": 192, "num_hidden_layers": 2,
        "vocab_size": 4001,
    }  # fmt: skip
    yield Case(
        "wide-experts", "tiles of whole experts", wide,
        {"tp": 2, "ep": 4, "vocab_multiple": 8}, vllm(tp=2, ep=2),
    )  # fmt: skip


def cast_cases() -> Iterator[Case]:
    from data import cases as data

    config = {
        "model_type": "casts", "hidden_size": 6, "intermediate_size": 8,
        "num_experts": 4, "moe_intermediate_size": 4, "num_hidden_layers": 4,
        "vocab_size": 11, "num_nextn_predict_layers": 2,
    }  # fmt: skip
    for dtype in ("bf16", "fp16", "fp32"):
        yield Case(
            f"casts-{dtype}", f"every cast and x + 1 of {dtype}", config,
            {**SPREAD, "dtype": dtype}, HF, family=CASTS,
        )  # fmt: skip
    config = {
        "model_type": "forms", "hidden_size": 12, "intermediate_size": 24,
        "num_hidden_layers": 2, "vocab_size": 61, "tie_word_embeddings": False,
    }  # fmt: skip
    layout = str(Path(__file__).with_name("forms_engine.mlir"))
    for dtype in ("bf16", "fp32"):
        yield Case(
            f"forms-{dtype}", f"casts by way of another type, from {dtype}",
            config, {"tp": 2, "dtype": dtype, "vocab_multiple": 4},
            vllm(tp=4, dtype="bf16", layout=layout), family=FORMS,
        )  # fmt: skip
    yield Case(
        "fp32-to-bf16", "all of a trainer is cast", data.DENSE,
        {"tp": 2, "dtype": "fp32", "vocab_multiple": 4},
        vllm(tp=2, dtype="bf16"),
    )  # fmt: skip
    yield Case(
        "fp16", "a trainer and an engine of fp16", data.DENSE,
        {"tp": 2, "dtype": "fp16", "vocab_multiple": 4},
        vllm(tp=2, dtype="fp16"), snapshots=("device", "bitmap"),
    )  # fmt: skip


def engine_cases() -> Iterator[Case]:
    from rollout.configs import MODELS

    def small(name: str, kind: str = "") -> dict[str, Any]:
        return MODELS[name][kind]

    four = {"vocab_multiple": 4}
    yield Case(
        "vllm-dense", "fused and sharded parameters", small("qwen3"),
        {"tp": 2, "pp": 2, **four}, vllm(tp=4), snapshots=("device", "bitmap"),
    )  # fmt: skip
    yield Case(
        "vllm-slots", "experts in slots, some twice, that are moved",
        small("qwen3_moe"), {"ep": 4, **four},
        vllm(tp=2, ep=2, redundant_experts=2),
        snapshots=("device", "pinned", "pageable"),
    )  # fmt: skip
    yield Case(
        "vllm-mixer", "decays that are transformed", small("nemotron_h"),
        {"tp": 2, **four}, vllm(tp=2),
    )  # fmt: skip
    yield Case(
        "vllm-padded", "experts that are padded and in another order",
        small("mixtral"), {"tp": 2, "ep": 2, **four},
        vllm(tp=2, moe_pad=16, w13_order="up_gate"),
    )  # fmt: skip
    yield Case(
        "vllm-stacked", "stacked experts of an engine", small("gpt_oss"),
        {"tp": 2, "ep": 2, **four}, vllm(tp=2),
    )  # fmt: skip
    yield Case(
        "sglang-latent", "copies in another order of memory, twice",
        small("deepseek_v3"), {"tp": 2, "ep": 2, **four},
        sglang(tp=2, replicas=2),
    )  # fmt: skip
    yield Case(
        "sglang-shared", "a shared expert behind the routed ones",
        small("glm4_moe"), {"tp": 2, "ep": 2, **four},
        sglang(tp=2, ep=2, fuse_shared_experts=True),
    )  # fmt: skip
    yield Case(
        "sglang-delta-net", "methods that the engine has to call",
        small("qwen3_5", "seeing"), {"tp": 2, **four}, sglang(tp=2),
    )  # fmt: skip
    yield Case(
        "sglang-mixer", "two mixers side by side", small("falcon_h1"),
        {"tp": 2, **four}, sglang(tp=2),
    )  # fmt: skip
    yield Case(
        "sglang-fp32", "decays and casts together",
        small("nemotron_h", "experts"),
        {"tp": 2, "ep": 2, "dtype": "fp32", **four}, sglang(tp=2, ep=2),
    )  # fmt: skip


def large_case() -> Case:
    """A table of more than 2^32 elements, and next to nothing besides."""
    from data import cases as data

    return Case(
        LARGE, "a parameter of more than 2^32 elements",
        {**data.layers(data.DENSE, 1), "hidden_size": 4096,
         "vocab_size": 1_050_001, "tie_word_embeddings": True},
        {"vocab_multiple": 1}, HF,
    )  # fmt: skip


def all_cases() -> list[Case]:
    """Needs the folder test/ beside this one."""
    sys.path[:0] = [str(ROOT / "test"), str(ROOT / "test" / "data")]
    return [
        *dense_cases(), *expert_cases(), *cast_cases(), *engine_cases(),
        large_case(),
    ]  # fmt: skip


# --- plans -------------------------------------------------------------------


def compile_plans(
    folder: Path, wanted: Iterable[str], options: Sequence[str]
) -> None:
    """Writes model files, plans and INDEX, which keeps what the folder has of
    other models; `options` are those of the plans
    that are compared with the host's. Without any, a host plan is compared with
    itself: what is tested then is the comparison."""
    from delta_sync.cases import find_compiler

    folder.mkdir(parents=True, exist_ok=True)
    chosen = [case for case in all_cases() if not wanted or case.name in wanted]
    index = []
    for case in chosen:
        family = ["--family", str(ROOT / case.family)] if case.family else []
        host = folder / f"{case.name}-host.so"
        # A host plan takes no other snapshot.
        targets: list[tuple[Path, str, Sequence[str]]] = [(host, "device", [])]
        for snapshot in case.snapshots if options else ["device"]:
            other = host
            if options:
                other = folder / f"{case.name}-{snapshot}.so"
                targets.append((other, snapshot, options))
            index.append({
                "name": f"{case.name}-{snapshot}", "host": host.name,
                "other": other.name, "shows": case.shows,
            })  # fmt: skip
        for plan, snapshot, extra in targets:
            model = plan.with_suffix(".json")
            model.write_text(json.dumps(case.model(snapshot), indent=1) + "\n")
            command = [
                str(find_compiler()), str(model), "-o", str(plan), *family,
                *extra,
            ]  # fmt: skip
            print(f"{plan.name}", file=sys.stderr, flush=True)
            subprocess.run(command, check=True, stdout=sys.stderr)
    names = {entry["name"] for entry in index}
    if (folder / INDEX).exists():
        kept = json.loads((folder / INDEX).read_text())
        index = [entry for entry in kept if entry["name"] not in names] + index
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n")


def read_pairs(folder: Path) -> list[Pair]:
    return [
        Pair(entry["name"], folder / entry["host"], folder / entry["other"],
             entry["shows"])
        for entry in json.loads((folder / INDEX).read_text())
    ]  # fmt: skip
