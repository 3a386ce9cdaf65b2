# ===- derived.py - Cases made of golden ones -----------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Golden cases of which something is left out or has another name, and whose
data must hold all the same."""

import json
import os
import re
import shutil
from pathlib import Path

from stages import Case, Tools, bind
from text import FamilyText


# Models whose text is a family of its own: the family around it, and what it
# is called. The real converter trains the text alone, or with towers, which the
# family leaves as they are.
AROUND = {"gemma4_text": ("gemma4", "Gemma4ForConditionalGeneration")}


def around(case: Case, families: dict[str, str], folder: Path) -> Case | None:
    """A golden case of a text model as the text of the model around it, whose
    trainer and checkpoint put prefixes before the names."""
    path = Path(case.arguments[1])
    config = json.loads((path / "config.json").read_text())
    if (config["model_type"] not in AROUND
            or case.arguments[0] != "--golden"):
        return None
    outer, architecture = AROUND[config["model_type"]]
    del config["architectures"]
    copy = folder / "derived" / f"{case.name}_in_{outer}"
    shutil.copytree(path, copy, copy_function=os.symlink)
    changed = {"config.json": {
        "model_type": outer, "architectures": [architecture],
        "text_config": config}}
    for side, pattern, prefix in (
            ("sources.json", r"^", "language_model."),
            ("tensors.json", r"^model\.", "model.language_model.")):
        lines = json.loads((path / side).read_text())
        changed[side] = [{**line, "name": re.sub(pattern, prefix, line["name"])}
                         for line in lines]
    for name, content in changed.items():
        (copy / name).unlink()
        (copy / name).write_text(json.dumps(content))
    return Case("golden", copy.name, families[outer], ["--golden", str(copy)])


def choices(texts: list[FamilyText]) -> list[tuple[str, str | None]]:
    """Keys that a config may leave out, and keys that may stand for another:
    (key, None) and (key, other)."""
    found = []
    for text in texts:
        for index, token in enumerate(text.tokens):
            if token.text != "config" or token.kind != "word":
                continue
            keys = []
            at = index + 1
            while text.tokens[at].kind == "string":
                keys.append(text.tokens[at].text.strip('"'))
                at += 1
                if text.tokens[at].text == "|":
                    at += 1
            found += [(a, b) for a in keys for b in keys if a != b]
            if text.tokens[at].text == "else":
                found += [(key, None) for key in keys]
    return sorted(set(found), key=str)


# Keys of the published config by number, and those of a config that
# Transformers writes, by name.
KINDS = {
    ("hybrid_layer_pattern", "layer_types"):
        {0: "full_attention", 1: "sliding_attention"},
    ("moe_layer_freq", "mlp_layer_types"): {0: "dense", 1: "sparse"},
}


def renamed(config: dict, key: str, other: str | None) -> dict | None:
    """The config without `key`, or with it under another name."""
    if key not in config or other in config:
        return None
    left = {name: value for name, value in config.items() if name != key}
    value = config[key]
    if (key, other) in KINDS:
        if not isinstance(value, list):
            return None
        value = [KINDS[key, other][kind] for kind in value]
    return {**left, other: value} if other else left


def derive(case: Case, key: str, other: str | None, tools: Tools,
           folder: Path) -> Case | None:
    """A golden case with another config, whose data holds only if the text
    reads the same from it."""
    path = Path(case.arguments[1])
    model = json.loads(case.model.read_text())
    config = renamed(json.loads((path / "config.json").read_text()), key, other)
    if config is None:
        return None
    model["config"] = config
    # Before a case is made: does it have a chance?
    trial = Case("", "", case.family, [], folder / "trial.json", case.keys)
    trial.model.write_text(json.dumps(model))
    if tools.compile(trial, "maps")[1] != case.maps:
        return None
    name = f"{case.name}_without_{key}" + (f"_but_{other}" if other else "")
    copy = folder / "derived" / name
    copy.mkdir(parents=True)
    for file in path.iterdir():
        if file.name != "config.json":
            (copy / file.name).symlink_to(file)
    (copy / "config.json").write_text(json.dumps(config))
    return Case("golden", name, case.family, [case.arguments[0], str(copy)])


# Names that the same parameters have in trainers that the data does not show:
# experts kept one by one, norms that are not fused into the projection after
# them, other releases. The modules of Megatron-Core have them. And names of
# tensors in published checkpoints that the real converter does not write.
OTHER_NAMES = {
    "sequential": ("sources.json", [
        (r"experts\.(linear_fc[12]\.(?:weight|bias))(\d+)$",
         r"experts.local_experts.\2.\1"),
    ]),
    "not_fused": ("sources.json", [
        (r"self_attention\.(?:linear_qkv|in_proj)\.layer_norm_(weight|bias)$",
         r"input_layernorm.\1"),
        (r"mlp\.linear_fc1\.layer_norm_(weight|bias)$",
         r"pre_mlp_layernorm.\1"),
        (r"mixer\.in_proj\.layer_norm_weight$", "norm.weight"),
    ]),
    "other_release": ("sources.json", [
        (r"conv1d_(weight|bias)$", r"conv1d.\1"),
        (r"decoder\.final_norm\.weight$", "decoder.final_layernorm.weight"),
        (r"\.mtp_model_layer\.", ".transformer_layer."),
    ]),
    "wrapped": ("tensors.json", [
        (r"^vision_tower\.", "vision_tower.vision_model."),
    ]),
}


def other_names(case: Case, kind: str, folder: Path) -> Case | None:
    """A golden case with other names on one side."""
    if case.arguments[0] != "--golden":
        return None
    path = Path(case.arguments[1])
    side, patterns = OTHER_NAMES[kind]
    lines = json.loads((path / side).read_text())
    before = [line["name"] for line in lines]
    for line in lines:
        for pattern, new in patterns:
            line["name"] = re.sub(pattern, new, line["name"])
    if before == [line["name"] for line in lines]:
        return None
    copy = folder / "derived" / f"{case.name}_{kind}"
    copy.mkdir(parents=True)
    for file in path.iterdir():
        if file.name != side:
            (copy / file.name).symlink_to(file)
    (copy / side).write_text(json.dumps(lines))
    return Case("golden", copy.name, case.family, ["--golden", str(copy)])


def depth_of_config(case: Case, folder: Path) -> Case:
    """A golden case whose trainer does not say how many prediction layers it
    has: the config and the key list do."""
    copy = folder / "derived" / f"{case.name}_depth_of_config"
    shutil.copytree(case.arguments[1], copy, copy_function=os.symlink)
    for path in copy.rglob("geometry.json"):
        geometry = json.loads(path.read_text())
        path.unlink()
        path.write_text(json.dumps({**geometry, "mtp_layers": None}))
    return Case("golden", copy.name, case.family,
                [case.arguments[0], str(copy)])


def derived_cases(cases: list[Case], texts: list[FamilyText], tools: Tools,
                  folder: Path) -> list[Case]:
    """For each key that may be left out or renamed the first case that holds
    then, a resharding, too, since no key list stands in for the config there;
    and some with other names of the trainer. Without a model_type the
    architectures choose the family. Likewise a case with prediction layers and
    one without them, where the config decides how many there are."""
    found = []
    for key, other in [("model_type", None), *choices(texts), *KINDS]:
        for option in ("--golden", "--golden-reshard"):
            for case in cases:
                new = case.arguments[0] == option and derive(
                    case, key, other, tools, folder)
                if new and bind(new, tools, folder):
                    found.append(new)
                    break
    depths = set()
    predicting = any(token.text == "mtp_layers"
                     for text in texts for token in text.tokens)
    for case in cases * predicting:
        trainer = json.loads(case.model.read_text())["trainer"]
        depth = (case.arguments[0], trainer["mtp_layers"] > 0)
        new = depth not in depths and depth_of_config(case, folder)
        if new and bind(new, tools, folder):
            depths.add(depth)
            found.append(new)
    # The first three: a case without experts or without one kind of layer
    # shows fewer names.
    for kind in OTHER_NAMES:
        made = (other_names(case, kind, folder) for case in cases)
        for new in [case for case in made if case][:3]:
            if bind(new, tools, folder):
                found.append(new)
    return found
