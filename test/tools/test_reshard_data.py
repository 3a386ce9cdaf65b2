# ===- test_reshard_data.py - Maps of the real converter ------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""delta-check agrees with the cases of test/data, which the real converter
made, and would notice what other reshardings get wrong in them."""

import json
import tarfile
from pathlib import Path

import pytest

from support import needs_tools, read_tags, tool

pytestmark = needs_tools

DATA = Path(__file__).resolve().parents[1] / "data"

VIRTUAL_STAGES = [
    "qwen3_tp2_to_pp2_vpp2",
    "qwen3_moe_tp2_ep2_to_ep2_pp2_vpp2",
    "gpt_oss_tp2_pp2_to_ep4_pp2_vpp2",
]
EXPERT_TENSOR = [
    "qwen3_moe_tp4_etp4_to_tp2_ep2_etp2",
    "nemotron_h_moe_tp2_ep4_to_ep2_etp3",
]
PADDING = [
    "qwen3_padding_64_to_68",
    "qwen3_padding_128_to_62",
    "nemotron_h_padding_72_to_64",
]
LAYOUTS = [
    "qwen3_uneven_pp3_to_nested_pp2_vpp2",
    "qwen3_nested_pp2_vpp2_to_embedding_alone",
    "nemotron_h_pattern_pp2_to_pp3",
]
TIED = ["qwen3_tied_pp2_to_tp2_pp2_vpp2", "qwen3_tied_tp2_pp4_to_tp2_pp2"]
SEQUENTIAL = ["qwen3_moe_sequential_ep2_to_grouped_etp2"]
COPIES = [
    "qwen3_tp2_cp2_to_cp2_pp2",
    "qwen3_moe_tp2_cp2_ep4_to_dp4_ep2_etp2",
]
KEY_NORMS = [
    "minimax_m2_tp2_ep2_to_tp8_ep4",
    "minimax_m2_tp8_ep4_to_tp4",
]
FAMILIES = [
    "llama_tp2_pp2_to_tp8",
    "mistral_pp3_to_tp4",
    "qwen2_tp2_to_tp4_pp2",
    "gemma2_tp2_pp2_to_tp4",
    "gemma3_tp2_to_pp2_vpp2",
    "falcon_h1_norm_tp2_pp2_to_tp4",
    "ernie4_5_moe_tp2_ep2_to_ep4_pp2",
    "mimo_tp2_to_pp4",
    "mimo_v2_flash_ep4_to_tp2_ep2",
    "glm4_moe_tp2_ep2_to_ep4_pp2",
    "deepseek_v2_tp2_ep2_to_ep4_pp2",
    "kimi_k2_tp2_ep2_to_ep4_pp2",
    "glm_moe_dsa_tp2_ep2_to_ep4_pp2",
    "gemma3_images_tp2_pp2_to_tp4",
    "olmoe_ep4_pp2_to_ep2_etp2",
]
PREDICTING = [
    "deepseek_v3_tp2_pp2_to_ep4_pp2_vpp2",
    "glm4_moe_lite_ep4_to_tp2_ep2_pp2",
    "glm4_moe_mtp_tp2_ep2_to_ep4_pp2",
    "mimo_mtp_tp2_to_pp4",
    "mimo_v2_flash_mtp_ep4_to_tp2_ep2",
    "nemotron_h_moe_mtp_ep4_to_tp2_ep2",
]
DELTA_NETS = [
    "qwen3_next_mtp_tp2_ep2_to_tp4_etp2_pp2",
    "qwen3_5_tied_tp2_pp2_to_pp2_vpp2",
    "qwen3_5_moe_tp2_ep4_to_ep2_etp2_pp2",
]
TOWERS = [
    "qwen3_5_moe_tp2_ep4_to_ep2_etp2_pp2",
    "qwen3_vl_tp4_to_tp2_pp2",
    "qwen3_vl_moe_tp2_ep2_to_tp4_etp2",
]
RESHARD = [
    *VIRTUAL_STAGES, *EXPERT_TENSOR, *PADDING, *LAYOUTS, *TIED, *SEQUENTIAL,
    *COPIES, *KEY_NORMS, *FAMILIES, *PREDICTING, *DELTA_NETS, *TOWERS,
]
EXPORT = [
    "qwen3_tied_tp2_pp2_vpp2",
    "qwen3_nested_pp2_vpp2",
    "qwen3_tp2_cp2",
    "qwen3_moe_tp4_ep2_etp2_pp2",
    "qwen3_moe_sequential_tp2_ep2_etp2",
    "qwen3_moe_ep4_pp2_vpp2",
    "nemotron_h_tp4_pp2",
    "nemotron_h_moe_ep4_pp2",
    "gpt_oss_tp2_ep4_pp2",
    "llama_tp4_pp2_vpp2",
    "mistral_tp2_pp2_vpp2",
    "qwen2_tp4_pp2_vpp2",
    "gemma2_tp2_pp2_vpp2",
    "gemma2_tp4",
    "gemma3_tp4_pp2_vpp2",
    "falcon_h1_tp4_pp2",
    "falcon_h1_norm_tp2",
    "minimax_m2_tp4_ep2_etp2_pp2_vpp2",
    "minimax_m2_tp8_ep4",
    "ernie4_5_moe_tp4_ep2_etp2_pp2_vpp2",
    "ernie4_5_moe_sequential_untied_tp2_ep4",
    "mimo_tp4_pp2_vpp2",
    "mimo_v2_flash_tp2_ep2_etp2_pp2",
    "mimo_v2_flash_tp2_ep4",
    "glm4_moe_tp4_ep2_etp2_pp2_vpp2",
    "glm4_moe_plain_tp2_ep4",
    "olmoe_ep2_etp2_pp2_vpp2",
    "gpt_oss_sequential_tp2_ep2",
    "qwen3_kv_heads_left_out_tp2",
    "nemotron_h_latent_tp2_ep2_etp2",
    "qwen3_unpadded_tp2",
    "qwen3_next_mtp_tp2_ep2_pp2",
    "qwen3_next_tp4_ep2_etp2_pp2_vpp2",
    "qwen3_5_tied_tp2_pp2",
    "qwen3_5_text_tp4_pp2_vpp2",
    "qwen3_5_moe_stacked_tp2_ep2_etp2_pp2",
    "qwen3_5_moe_stacked_mtp_tp2_ep4",
    "qwen3_vl_tied_tp2_pp2",
    "qwen3_vl_moe_tp4_ep2_etp2_pp2",
    "deepseek_v2_tp4_ep2_etp2_pp2_vpp2",
    "deepseek_v3_tp4_ep2_etp2_pp2_vpp2",
    "kimi_k2_tp4_ep2_etp2_pp2_vpp2",
    "glm4_moe_lite_tp4_ep2_etp2_pp2_vpp2",
    "glm_moe_dsa_tp4_ep2_etp2_pp2_vpp2",
    "glm_moe_dsa_shared_tp2_ep4",
    "glm4_moe_mtp_tp4_ep2_etp2_pp2_vpp2",
    "mimo_mtp_tp4_pp2_vpp2",
    "mimo_v2_flash_mtp_tp2_ep2_etp2_pp2",
    "nemotron_h_moe_mtp_tp2_ep2_etp3_pp2",
    "nemotron_h_moe_mtp_twice_tp2_ep4",
    "gemma3_images_tp4_pp2_vpp2",
    "gemma4_tp2",
    "gemma4_wide_tp4",
    "gemma4_large_tp2",
    "gemma4_moe_tp2_ep2_etp2_pp2",
    "ernie4_5_moe_late_tp2_ep2",
    "gemma3_images_nine_tp2",
    "qwen3_vl_frames_tp2",
    "glm_moe_dsa_listed_ep2",
    "glm_moe_dsa_mtp_ep2",
    "gemma4_alternating_tp2",
    "qwen3_5_moe_text_ep2",
]


def unpack(kind: str, case: str, tmp_path: Path) -> Path:
    folder = tmp_path / case
    with tarfile.open(DATA / f"{kind}_{case}.tar.xz") as archive:
        for member in archive.getmembers():
            path = folder / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.extractfile(member).read())
    return folder


def check(kind: str, folder: Path) -> tuple[int, dict, str]:
    report = folder.parent / "report.json"
    result = tool("delta-check", kind, folder, "--json", report)
    counts = json.loads(report.read_text()) if report.exists() else {}
    return result.returncode, counts, result.stderr


class Side:
    """The parameters of one side of a case, by tag."""

    def __init__(self, folder: Path):
        self.params = json.loads((folder / "sources.json").read_text())
        self.geometry = json.loads((folder / "geometry.json").read_text())

    @staticmethod
    def tags(param: dict) -> range:
        count = 1
        for size in param["shape"]:
            count *= size
        return range(param["first_tag"], param["first_tag"] + count)

    def where(self, text: str) -> list[dict]:
        return [param for param in self.params if text in param["name"]]


def expect_agreement(case: str, tmp_path: Path) -> tuple[Side, Side, list]:
    """Every parameter and element agrees; returns what they are."""
    folder = unpack("reshard", case, tmp_path)
    code, report, errors = check("--golden-reshard", folder)
    assert report["first"] is None, report
    assert code == 0, errors
    assert report["mismatches"] == 0
    source, destination = Side(folder / "source"), Side(folder / "destination")
    tags = read_tags(folder / "map.tags")
    assert report["elements"] == len(tags)
    assert report["tensors"] == len(destination.params)
    assert sum(tag >= 0 for tag in tags) > 0.7 * len(tags)
    return source, destination, tags


def test_every_archive_is_used() -> None:
    names = {f"reshard_{case}" for case in RESHARD}
    names |= {f"export_{case}" for case in EXPORT}
    found = {path.name for path in DATA.glob("*.tar.xz")}
    assert found == {f"{name}.tar.xz" for name in names}


@pytest.mark.parametrize("case", VIRTUAL_STAGES)
def test_virtual_stages_of_the_destination_receive(case, tmp_path) -> None:
    _, destination, tags = expect_agreement(case, tmp_path)
    assert destination.geometry["vpp"] == 2
    later = [
        param
        for param in destination.params
        if param["coords"]["vp_chunk"] > 0 and "output" not in param["name"]
    ]
    assert later
    assert all(tags[tag] >= 0 for param in later for tag in Side.tags(param))


@pytest.mark.parametrize("case", EXPERT_TENSOR)
def test_experts_are_regrouped_when_etp_changes(case, tmp_path) -> None:
    source, destination, _ = expect_agreement(case, tmp_path)
    assert source.geometry["etp"] != destination.geometry["etp"]


@pytest.mark.parametrize("case", PADDING)
def test_padding_differs_on_the_two_sides(case, tmp_path) -> None:
    source, destination, tags = expect_agreement(case, tmp_path)
    heights = {
        sum(param["shape"][0] for param in side.where("word_embeddings")
            if param["coords"]["dp"] == 0)
        for side in (source, destination)
    }
    assert len(heights) == 2
    assert min(tags) == -1, "a row of padding has no image"


@pytest.mark.parametrize("case", LAYOUTS)
def test_uneven_and_nested_layouts(case, tmp_path) -> None:
    source, destination, _ = expect_agreement(case, tmp_path)
    assert source.geometry["stage_layers"] != destination.geometry[
        "stage_layers"]


@pytest.mark.parametrize("case", TIED)
def test_tied_copy_on_the_last_stage_receives(case, tmp_path) -> None:
    """The table and its copy get the same elements, of the first stage."""
    source, destination, tags = expect_agreement(case, tmp_path)
    (embedding, *_), (copy, *_) = (
        destination.where("word_embeddings"),
        destination.where("output_layer"),
    )
    first = [tags[tag] for tag in Side.tags(embedding)]
    assert first == [tags[tag] for tag in Side.tags(copy)]
    owners = [set(Side.tags(p)) for p in source.where("word_embeddings")]
    assert {tag for tag in first if tag >= 0} <= set().union(*owners)


@pytest.mark.parametrize("case", SEQUENTIAL)
def test_sequential_experts_become_grouped_ones(case, tmp_path) -> None:
    source, destination, _ = expect_agreement(case, tmp_path)
    assert source.where("local_experts.")
    assert not destination.where("local_experts.")


@pytest.mark.parametrize("case", COPIES)
def test_copies_over_context_and_data_ranks(case, tmp_path) -> None:
    _, destination, tags = expect_agreement(case, tmp_path)
    norms = destination.where("q_layernorm")
    copies = [[tags[t] for t in Side.tags(p)] for p in norms]
    assert len(copies) > len({tuple(copy) for copy in copies})


@pytest.mark.parametrize("case", KEY_NORMS)
def test_ranks_that_share_a_key_head_share_its_norm(case, tmp_path) -> None:
    """Two key heads: of eight ranks four hold the norm of each."""
    source, destination, tags = expect_agreement(case, tmp_path)
    for side in (source, destination):
        tp = side.geometry["tp"]
        for name in ("decoder.layers.0", "decoder.layers.1"):
            norms = side.where(f"{name}.self_attention.k_layernorm")
            assert len(norms) == side.geometry["world"]
            held = {param["replica_of"] for param in norms}
            assert len(held) == 2
            for param in norms:
                head = param["coords"]["tp"] // (tp // 2)
                assert param["replica_of"] == sorted(held)[head]
            if side is destination:
                got = {tuple(tags[t] for t in Side.tags(p)) for p in norms}
                assert len(got) == 2 and -1 not in set().union(*got)


@pytest.mark.parametrize("case", FAMILIES)
def test_further_families(case, tmp_path) -> None:
    source, destination, _ = expect_agreement(case, tmp_path)
    assert source.geometry["stage_layers"] != destination.geometry[
        "stage_layers"] or source.geometry["tp"] != destination.geometry["tp"]


@pytest.mark.parametrize("case", DELTA_NETS)
def test_sections_and_prediction_layers_are_regrouped(case, tmp_path) -> None:
    source, destination, _ = expect_agreement(case, tmp_path)
    heights = [
        {param["shape"][0] for param in side.where("in_proj.weight")}
        for side in (source, destination)
    ]
    assert heights[0] != heights[1]
    assert source.where("mtp_model_layer.")
    assert destination.where("mtp_model_layer.")


@pytest.mark.parametrize("case", TOWERS)
def test_tower_on_the_first_stage_receives(case, tmp_path) -> None:
    _, destination, tags = expect_agreement(case, tmp_path)
    tower = destination.where("vision_model.")
    assert tower
    assert {param["coords"]["pp"] for param in tower} == {0}
    assert all(tags[tag] >= 0 for param in tower for tag in Side.tags(param))


@pytest.mark.parametrize("case", PREDICTING)
def test_prediction_layers_and_their_table_receive(case, tmp_path) -> None:
    """Every element of a prediction layer, and of the copy of the table beside
    it, which gets what the first stage's table gets."""
    source, destination, tags = expect_agreement(case, tmp_path)
    layers = destination.where("mtp.layers.")
    assert layers and source.where("mtp.layers.")
    assert all(tags[tag] >= 0 for param in layers for tag in Side.tags(param))
    last = destination.geometry["pp"] - 1
    assert {param["coords"]["pp"] for param in layers} == {last}
    tables = destination.where("word_embeddings")
    stages = {param["coords"]["pp"] for param in tables}
    assert stages == {0, last}
    for param in tables:
        first = next(
            other for other in tables
            if other["coords"]["pp"] == 0
            and other["coords"]["tp"] == param["coords"]["tp"]
        )
        assert [tags[tag] for tag in Side.tags(param)] == [
            tags[tag] for tag in Side.tags(first)]


@pytest.mark.parametrize("case", EXPORT)
def test_export(case, tmp_path) -> None:
    folder = unpack("export", case, tmp_path)
    code, report, errors = check("--golden", folder)
    assert report["first"] is None, report
    assert code == 0, errors
    tensors = json.loads((folder / "tensors.json").read_text())
    assert report["tensors"] == len(tensors)
    tags = read_tags(folder / "hf.tags")
    assert report["elements"] + report["bridge_padding"] == len(tags)
    # The released converter exports the padding, too.
    assert report["bridge_padding"] < 0.05 * len(tags)


# ===--- faults -----------------------------------------------------------===


def test_gate_and_up_cut_as_one_block_are_noticed(tmp_path) -> None:
    """What Megatron-Core's own resharding does to gated experts: the joined
    rows of a shard are taken for consecutive rows of the whole."""
    case = EXPERT_TENSOR[0]
    folder = unpack("reshard", case, tmp_path)
    source, destination = Side(folder / "source"), Side(folder / "destination")
    tags = read_tags(folder / "map.tags")
    wrong = 0
    for param in destination.where("experts.linear_fc1"):
        rows, columns = param["shape"]
        first = Side.tags(param)[0]
        # The source shards that feed this one, each as one block of rows.
        fed = sorted({
            next(index for index, owner in enumerate(source.params)
                 if tags[first + row * columns] in Side.tags(owner))
            for row in range(rows)
        })
        assert len(fed) == 2
        blocks = [
            tag for index in fed for tag in Side.tags(source.params[index])
        ]
        assert len(blocks) == rows * columns
        for element, tag in enumerate(blocks):
            wrong += tags[first + element] != tag
            tags[first + element] = tag
    assert wrong
    (folder / "map.tags").write_bytes(tags.tobytes())
    code, report, errors = check("--golden-reshard", folder)
    assert code == 1
    assert report["mismatches"] == wrong
    assert "linear_fc1" in report["first"]["tensor"]
    assert "linear_fc1" in errors


@pytest.mark.parametrize("case", ["qwen3_moe_tp4_ep2_etp2_pp2"])
def test_swapped_elements_of_an_export_are_noticed(case, tmp_path) -> None:
    folder = unpack("export", case, tmp_path)
    tags = read_tags(folder / "hf.tags")
    tensors = json.loads((folder / "tensors.json").read_text())
    at = next(tensor["offset"] for tensor in tensors
              if tensor["name"].endswith("experts.5.gate_proj.weight"))
    tags[at], tags[at + 1] = tags[at + 1], tags[at]
    (folder / "hf.tags").write_bytes(tags.tobytes())
    code, report, _ = check("--golden", folder)
    assert code == 1
    assert report["mismatches"] == 2
    assert "experts.5.gate_proj" in report["first"]["tensor"]
    assert report["first"]["element"] == [0, 0]
