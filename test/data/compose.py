#!/usr/bin/env python3
# ===- compose.py - Maps of the real converter, for our own geometries ----=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Makes the archives of this folder with the real conversion packages.

`oracle.py` (a module of the published oracle, see README.md) answers for one
geometry which trainer element the real converter puts where. A single export
is stored as it is. Two exports of one model are joined: the trainer element
behind an exported element on one geometry belongs to the one behind the same
exported element on the other. No formula of ours takes part.

usage: compose.py --oracle DIR [--out DIR] [--published DIR] [case pattern ...]
"""

import argparse
import io
import json
import re
import sys
import tarfile
from pathlib import Path

import numpy as np

from cases import CASES, Case


def last_source(sources: list[dict]) -> int:
    """Number of tags of a side."""
    last = sources[-1]
    return last["first_tag"] + int(np.prod(last["shape"], dtype=np.int64))


class Side:
    """One export: sources, tensors and tags of one geometry."""

    def __init__(self, export: dict):
        self.sources = export["sources"]
        self.tensors = {
            tensor["name"]: tensor
            for tensor in export["tensors"]
            if tensor.get("alias_of") is None
        }
        self.tags = export["tags"]
        self.geometry = export["geometry"]
        self.num_tags = last_source(self.sources)
        self.canon = np.empty(self.num_tags, np.int64)
        for source in self.sources:
            size = int(np.prod(source["shape"], dtype=np.int64))
            first, lowest = source["first_tag"], source["replica_of"]
            self.canon[first : first + size] = np.arange(lowest, lowest + size)

    def exported(self, name: str, rows: int | None) -> np.ndarray:
        """Canonical tags of a tensor, of its first rows alone if asked."""
        tensor = self.tensors[name]
        size = int(np.prod(tensor["shape"], dtype=np.int64))
        tags = self.tags[tensor["offset"] : tensor["offset"] + size]
        return self.canon[tags].reshape(tensor["shape"])[:rows]


def mark_copies(export: dict, parameter: str) -> None:
    """Tells that shards which the converter does not read are copies.

    The oracle takes every shard of tp for one of its own. Of shards that are
    equal the converter reads the lowest rank's.
    """
    exported = set(export["tags"].tolist())
    last = {}
    for source in export["sources"]:
        if not source["name"].endswith(parameter):
            continue
        coords = source["coords"]
        place = (source["name"], coords["pp"], coords["vp_chunk"])
        if source["replica_of"] in exported:
            last[place] = source["replica_of"]
        else:
            source["replica_of"] = last[place]


def holes(side: Side, has_image: np.ndarray, why: str) -> list[dict]:
    """The elements of a side without an image, a line for each parameter."""
    found = []
    for source in side.sources:
        first = source["first_tag"]
        size = int(np.prod(source["shape"], dtype=np.int64))
        missing = np.flatnonzero(~has_image[first : first + size])
        if missing.size:
            found.append(
                {
                    "rank": source["rank"],
                    "name": source["name"],
                    "vp_chunk": source["coords"]["vp_chunk"],
                    "count": int(missing.size),
                    "all": bool(missing.size == size),
                    "first": int(missing[0]),
                    "last": int(missing[-1]),
                    "why": why,
                }
            )
    return found


def join(source: Side, destination: Side, vocabulary: int) -> np.ndarray:
    """Source tag of each destination tag, -1 where there is none."""
    if source.tensors.keys() != destination.tensors.keys():
        raise ValueError("the two exports have other tensors")
    by_canon = np.full(destination.num_tags, -1, np.int64)
    used = np.zeros(source.num_tags, bool)
    for name in source.tensors:
        left = source.exported(name, None)
        right = destination.exported(name, None)
        if left.shape != right.shape or is_table(name):
            # The released packages export the padding of the vocabulary.
            if not is_table(name):
                raise ValueError(f"{name}: {left.shape} and {right.shape}")
            left, right = left[:vocabulary], right[:vocabulary]
        if left.shape != right.shape:
            raise ValueError(f"{name}: {left.shape} and {right.shape}")
        if used[left].any() or (by_canon[right] != -1).any():
            raise ValueError(f"{name}: an element has two images")
        used[left] = True
        by_canon[right] = left
    return by_canon[destination.canon]


def is_table(name: str) -> bool:
    """Tensors whose rows are the vocabulary."""
    return bool(re.search(r"(embed_tokens|embeddings|lm_head)\.weight$", name))


def lines(rows: list[dict]) -> str:
    """JSON with a row a line."""
    text = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    return f"[\n{text}\n]\n"


def pretty(value: dict) -> str:
    return json.dumps(value, indent=1) + "\n"


def reshard_files(case: Case, exports: list[dict]) -> dict[str, bytes]:
    """The files of a trainer to trainer case."""
    source, destination = map(Side, exports)
    text = case.config.get("text_config", case.config)
    tags = join(source, destination, text["vocab_size"])
    read = np.zeros(source.num_tags, bool)
    read[tags[tags >= 0]] = True
    why = "vocabulary padding"
    files = {"config.json": pretty(case.config)}
    for name, side, key, has_image in (
        ("source", source, "unread", read[source.canon]),
        ("destination", destination, "unmapped", tags >= 0),
    ):
        geometry = dict(side.geometry)
        geometry[key] = holes(side, has_image, why)
        for hole in geometry[key]:
            if not re.search(r"embedding|output_layer", hole["name"]):
                raise ValueError(f"{case.name}: {hole}")
        files[f"{name}/geometry.json"] = pretty(geometry)
        files[f"{name}/sources.json"] = lines(side.sources)
    files["map.tags"] = tags.astype("<i4").tobytes()
    return {
        name: data if isinstance(data, bytes) else data.encode()
        for name, data in files.items()
    }


def export_files(case: Case, export: dict) -> dict[str, bytes]:
    """The files of a trainer to checkpoint case."""
    return {
        "config.json": pretty(case.config).encode(),
        "geometry.json": pretty(export["geometry"]).encode(),
        "sources.json": lines(export["sources"]).encode(),
        "tensors.json": lines(export["tensors"]).encode(),
        "hf.tags": export["tags"].astype("<i4").tobytes(),
    }


def write_archive(path: Path, files: dict[str, bytes]) -> None:
    """The same files give the same bytes."""
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for name in sorted(files):
            info = tarfile.TarInfo(name)
            info.size = len(files[name])
            info.mode = 0o644
            archive.addfile(info, io.BytesIO(files[name]))


def published_cases(folder: Path) -> list[Case]:
    """Cases that others composed with the same packages, to be made again."""
    cases = []
    for path in sorted(folder.iterdir()):
        if not (path / "map.tags").exists():
            continue
        config = json.loads((path / "config.json").read_text())
        sides = [
            json.loads((path / side / "geometry.json").read_text())
            for side in ("source", "destination")
        ]
        keep = ("tp", "ep", "etp", "pp", "vpp", "cp", "pp_layout",
                "make_vocab_size_divisible_by")
        sides = [{key: side[key] for key in keep} for side in sides]
        cases.append(Case(path.name, config, *sides))
    return cases


def verify(folder: Path, case: Case, files: dict[str, bytes]) -> bool:
    """Whether a published case was made again byte for byte."""
    same = (folder / case.name / "map.tags").read_bytes() == files["map.tags"]
    print(f"{case.name}: {'identical' if same else 'DIFFERS'}")
    return same


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--oracle", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument(
        "--published", type=Path,
        help="make these published cases again and compare; write nothing",
    )
    parser.add_argument("patterns", nargs="*", metavar="case")
    options = parser.parse_args()
    sys.path.insert(0, str(options.oracle))
    import oracle

    if not oracle.available():
        parser.error("ORACLE_PYTHON does not name the oracle's interpreter")
    cases = CASES
    if options.published:
        cases = published_cases(options.published)
    cases = [
        case
        for case in cases
        if not options.patterns
        or any(re.fullmatch(pattern, case.name) for pattern in options.patterns)
    ]
    jobs = [(case.config, side) for case in cases for side in case.sides]
    exports = iter(oracle.real_maps(jobs, timeout=1800))
    good = True
    for case in cases:
        sides = [next(exports) for _ in case.sides]
        refused = [side for side in sides if isinstance(side, Exception)]
        if refused:
            print(f"{case.name}: refused: {refused[0]}")
            good = False
            continue
        if case.copies:
            for export in sides:
                mark_copies(export, case.copies)
        if len(sides) == 1:
            files = export_files(case, sides[0])
        else:
            files = reshard_files(case, sides)
        if options.published:
            good &= verify(options.published, case, files)
            continue
        path = options.out / f"{case.name}.tar.xz"
        write_archive(path, files)
        print(f"{case.name}: {path.stat().st_size} bytes")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
