# ===- stages.py - What may stop a mutant ---------------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Cases by family, found by their configs, and an installation of the tools
whose family texts can be changed.

A case is what delta-check compares a plan with: golden maps, published or
those of test/data, or a manifest on a geometry. The model.json that it compiles
for that is caught, so that the same model can be compiled alone."""

import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "models" / "Inputs"))

from refused import check as refused_as_told  # noqa: E402

# Tried in this order for the second geometry of a manifest.
GEOMETRIES = (
    {"tp": 2, "ep": 2, "etp": 2, "pp": 2},
    {"tp": 2, "ep": 2, "pp": 2},
    {"tp": 2, "pp": 2},
    {"tp": 2, "ep": 2, "etp": 2},
    {"tp": 2, "ep": 2},
    {"tp": 2},
    {"pp": 2},
)

# delta-check compiles a plan to read its tables, and runs none of its kernels:
# they, optimizing, and linking the runtime anew would take most of the time.
# The model that is compiled lies in the temporary folder meanwhile.
KERNELS = """#include "codegen/device/Kernels.h"
namespace delta::device {
struct Bf16;
struct Fp16;
struct Fp32;
struct Int64;
template <typename> struct Widened;
template <typename> struct Narrowed;
template <typename> constexpr delta_host_kernels_t hostKernels() { return {}; }
} // namespace delta::device
"""
HOST_COMPILER = """#!/bin/sh
exec c++ -std=c++17 -O0 -fPIC -shared -fvisibility=hidden -nostdlib \\
  -I"$DELTA_MUTANTS" -I"$DELTA_MUTANTS"/share/delta/include \\
  plan.cpp "$DELTA_MUTANTS"/runtime.o -Wl,--version-script=plan.map -o plan.so
"""
# What delta-check starts as its compiler: a server does the work.
COMPILER = """#!/bin/sh
if [ -n "$DELTA_MUTANTS_CATCH" ]; then
  cp "${1%/*}"/model.json "$DELTA_MUTANTS_CATCH"/
  cp "${1%/*}"/keys.json "$DELTA_MUTANTS_CATCH"/ 2>/dev/null
fi
{
  printf '%s\\t' "$DELTA_MUTANTS"/child-out "$DELTA_MUTANTS"/child-errors
  printf '%s\\t' "$@"
  echo
} >"$DELTA_MUTANTS"/lines
read -r code <"$DELTA_MUTANTS"/answers
[ "$code" = 0 ] || cat "$DELTA_MUTANTS"/child-errors >&2
exit "$code"
"""


@dataclass
class Case:
    kind: str  # golden or manifest
    name: str
    family: str  # file name of the family text
    arguments: list[str]
    model: Path | None = None
    keys: Path | None = None
    bound: str = ""  # the family on this model, before the passes
    maps: str = ""
    tensors: int = 0
    plain: bool = True  # a manifest on the smallest geometry
    features: set = field(default_factory=set)


@dataclass
class BadInput:
    name: str
    family: str
    folder: Path
    says: str


def limit() -> None:
    """A mutant may ask for any amount of work."""
    resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


class Tools:
    """A copy of an installation, of one process."""

    def __init__(self, binaries: Path, models: Path, folder: Path):
        self.folder = folder
        self.models = folder / "share" / "delta" / "models"
        self.original = {
            path.name: path.read_text() for path in models.glob("*.mlir")
        }
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("bin", "tmp", "share/delta/models"):
            (folder / name).mkdir(parents=True)
        # Tools find their installation from their own path: no links.
        server = binaries.parent / "test" / "bin" / "delta-compile-server"
        for path in (binaries / "delta-check", server):
            shutil.copy(path, folder / "bin")
        live = folder / "live"
        (live / "bin").mkdir(parents=True)
        shutil.copy(binaries / "delta-compile", live / "bin")
        for name in ("lib", "share"):
            (live / name).symlink_to(folder / name)
        prefix = binaries.resolve().parent
        (folder / "lib").symlink_to(prefix / "lib")
        (folder / "share" / "delta" / "include").symlink_to(
            prefix / "share" / "delta" / "include")
        for name, text in self.original.items():
            (self.models / name).write_text(text)
        # Layouts of engines, which are not mutated.
        for engine in {path.parent for path in models.glob("*/*.mlir")}:
            shutil.copytree(engine, self.models / engine.name)
        kernels = folder / "codegen" / "device" / "HostKernels.h"
        kernels.parent.mkdir(parents=True)
        kernels.write_text(KERNELS)
        compiler = folder / "host-compiler"
        for path, text in ((compiler, HOST_COMPILER),
                           (folder / "bin" / "delta-compile", COMPILER)):
            path.write_text(text)
            path.chmod(0o755)
        subprocess.run(
            ["ld", "-r", "-o", folder / "runtime.o", "--whole-archive",
             folder / "lib" / "libdelta_runtime.a"], check=True)
        self.environment = {
            **os.environ,
            "TMPDIR": str(folder / "tmp"),
            "DELTA_CXX": str(compiler),
            "DELTA_MUTANTS": str(folder),
        }
        self.of_live = {
            **os.environ,
            "DELTA_BIN": str(live / "bin"),
            "PATH": f"{live / 'bin'}:{os.environ['PATH']}",
        }

        self.server = folder / "bin" / server.name
        self.servers: dict[Path | None, subprocess.Popen] = {}
        # Both ends are held open: a child opens and closes its own.
        ends = []
        for name in ("lines", "answers"):
            os.mkfifo(folder / name)
            ends.append(os.open(folder / name, os.O_RDWR))
        self.of_checks = subprocess.Popen(
            [self.server], env=self.environment, stdin=ends[0],
            stdout=ends[1])

    def change(self, name: str, text: str | None) -> None:
        """Puts a text in place of a family text; None: the original."""
        self.models.joinpath(name).write_text(
            self.original[name] if text is None else text)

    def run(self, tool: str, *arguments: object, **more: str):
        result = subprocess.run(
            [str(self.folder / "bin" / tool), *map(str, arguments)],
            env={**self.environment, **more}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=300,
            preexec_fn=limit,
        )
        if result.returncode not in (0, 1):
            raise RuntimeError(
                f"{tool} ended with {result.returncode}:\n{result.stderr}")
        return result

    # --- stages ----------------------------------------------------------- #

    def compile(self, case: Case, emit: str) -> tuple[int, str]:
        words = [str(case.model), f"--emit={emit}"]
        if case.keys:
            words += ["--keys", str(case.keys)]
        code, out, errors = self.serve(None, words)
        if code not in (0, 1):
            raise RuntimeError(f"delta-compile ended with {code}:\n{errors}")
        return code, out if code == 0 else ""

    def serve(self, folder: Path | None,
              words: list[str]) -> tuple[int, str, str]:
        """Compiles in a folder: a server of its own for each. Exit code and
        what is printed to the two streams."""
        server = self.servers.get(folder)
        if not server:
            server = self.servers[folder] = subprocess.Popen(
                [self.server], env=self.environment, text=True, cwd=folder,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                preexec_fn=limit)
        out, errors = self.folder / "out", self.folder / "errors"
        print(out, errors, *words, sep="\t", file=server.stdin, flush=True)
        code = int(server.stdout.readline())
        return (code, out.read_text(errors="replace"),
                errors.read_text(errors="replace"))

    def agrees(self, case: Case) -> str:
        """Nothing, or the stage that delta-check stops at; for a case that
        is bound."""
        result = self.run("delta-check", *case.arguments)
        for left in (self.folder / "tmp").iterdir():
            shutil.rmtree(left)
        if result.returncode == 0:
            return ""
        if ("the compiler refused the model" in result.stderr
                and "cross-check:" not in result.stderr):
            if not self.compile(case, "maps")[0]:
                raise RuntimeError(f"no plan, but maps:\n{result.stderr}")
            return "proof"
        return "cross-check" if "cross-check:" in result.stderr else case.kind

    def refuses(self, bad: BadInput) -> bool:
        """A bad input is refused as its test says."""
        folder = self.folder / "bad" / bad.folder.name
        if not folder.exists():
            shutil.copytree(bad.folder, folder)
        says = folder / f"{bad.name}.says"
        says.write_text(bad.says)
        return not refused_as_told(
            folder, str(self.models), says, self.serve)


# --- finding cases ---------------------------------------------------------- #


def family_files(models: Path) -> dict[str, str]:
    """Families by model_type."""
    files = {}
    for path in sorted(models.glob("*.mlir")):
        found = re.search(r"delta\.family\s+@\w+\s+model_types\s+\[([^\]]*)\]",
                          path.read_text())
        for name in re.findall(r'"([^"]*)"', found[1] if found else ""):
            files[name] = path.name
    return files


def unpack(archives: Path, folder: Path) -> list[Path]:
    cases = []
    for path in sorted(archives.glob("*.tar.xz")):
        case = folder / path.name.removesuffix(".tar.xz")
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                target = case / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.extractfile(member).read())
        cases.append(case)
    return cases


def golden_cases(families: dict[str, str], shared: Path | None,
                 folder: Path) -> list[Case]:
    folders = unpack(ROOT / "test" / "data", folder / "data")
    for name in ("golden", "golden-reshard"):
        if shared and (shared / name).is_dir():
            folders += sorted(path.parent for path in
                              (shared / name).glob("*/config.json"))
    cases = []
    for path in folders:
        kind = json.loads((path / "config.json").read_text())["model_type"]
        option = "--golden"
        if (path / "destination").is_dir():
            option = "--golden-reshard"
        if kind in families:
            cases.append(Case("golden", path.name, families[kind],
                              [option, str(path)]))
    return cases


def lines_of(manifest: Path) -> list[list[str]]:
    """Name, shape, dtype and flag."""
    return [line.split("\t") for line in manifest.read_text().splitlines()]


def manifest_cases(families: dict[str, str], shared: Path | None,
                   folder: Path) -> list[list[Case]]:
    """For each manifest the cases to choose the first that holds from: on the
    smallest geometry, on a larger one, and from a trainer without prediction
    layers, if the manifest has some."""
    found = []
    copied = json.loads((ROOT / "test" / "data" / "copied.json").read_text())
    for config in sorted((shared / "configs").glob("*.json")) if shared else ():
        kind = json.loads(config.read_text()).get("model_type")
        manifest = shared / "manifests" / f"{config.stem}.tsv"
        if kind not in families or not manifest.exists():
            continue
        plain = ["--manifest", str(manifest), "--config", str(config)]
        for name in copied.get(config.stem, {}):
            plain += ["--copied", name]
        found.append([Case("manifest", config.stem, families[kind], plain)])
        choice = []
        for sizes in GEOMETRIES:
            name = "".join(f"_{key}{size}" for key, size in sizes.items())
            path = folder / f"{name}.json"
            path.write_text(json.dumps({"trainer": sizes}))
            choice.append(Case("manifest", config.stem + name, families[kind],
                               [*plain, "--geometry", str(path)],
                               plain=False))
        found.append(choice)
        left = [name for name, _, _, flag in lines_of(manifest)
                if flag == "mtp" and name not in copied.get(config.stem, {})]
        if left:
            path = folder / "_without_mtp.json"
            path.write_text(json.dumps({"trainer": {"mtp_layers": 0}}))
            found.append([Case(
                "manifest", config.stem + path.stem, families[kind],
                [*plain, "--geometry", str(path), "--copied", *left])])
    return found


def bind(case: Case, tools: Tools, folder: Path) -> bool:
    """Catches the model of a case and its maps; false if the texts as they are
    do not pass it."""
    caught = folder / "caught" / case.kind / case.name
    caught.mkdir(parents=True)
    result = tools.run("delta-check", *case.arguments,
                       DELTA_MUTANTS_CATCH=str(caught))
    case.model = caught / "model.json"
    if result.returncode != 0 or not case.model.exists():
        return False
    case.tensors = int(re.search(r": (\d+) tensors", result.stdout)[1])
    if (caught / "keys.json").exists():
        case.keys = caught / "keys.json"
    _, case.bound = tools.compile(case, "import")
    refused, case.maps = tools.compile(case, "maps")
    model = json.loads(case.model.read_text())
    case.features = {(case.arguments[0],), ("keys", case.keys is not None)}
    for side in ("trainer", "rollout"):
        case.features |= {
            (side, key, size not in (1, None)) if isinstance(size, int)
            else (side, key, str(size))
            for key, size in model.get(side, {}).items()
        }
    config = model["config"]
    if isinstance(config, str):
        config = json.loads(Path(config).read_text())
    case.features |= {
        ("config", key, value if isinstance(value, bool) else None)
        for key, value in config.items()
    }
    return not refused


def varied_first(cases: list[Case]) -> list[Case]:
    """Orders cases so that each adds as much that is new as it can."""
    left, ordered, seen = list(cases), [], set()
    while left:
        best = max(left, key=lambda case: len(case.features - seen))
        left.remove(best)
        ordered.append(best)
        seen |= best.features
    return ordered


def bad_inputs(families: dict[str, str], folder: Path) -> list[BadInput]:
    """Inputs of test/models that the family of their config must refuse."""
    inputs = []
    for test in sorted((ROOT / "test" / "models").glob("bad-*.test")):
        here = folder / "bad" / test.stem
        here.mkdir(parents=True)
        parts = re.split(r"^(?:#--- |//--- )(.+)\n", test.read_text(),
                         flags=re.M)
        files = dict(zip(parts[1::2], parts[2::2]))
        for name, text in files.items():
            if not name.endswith(".says"):
                (here / name).write_text(text)
        for name, says in files.items():
            stem = name.removesuffix(".says")
            # What is said elsewhere does not come from a family text.
            if stem == name or says.startswith("$") or "%models" not in says:
                continue
            try:
                model = json.loads(files[stem + ".json"])
                config = model["config"]
                if isinstance(config, str):
                    config = json.loads(files[config])
                kind = config["model_type"]
            except (KeyError, TypeError, ValueError):
                continue
            if isinstance(kind, str) and kind in families:
                inputs.append(BadInput(stem, families[kind], here, says))
    return inputs


def inputs_version(shared: Path | None) -> str:
    """Changes if the files do that cases are made of, or those that make
    them."""
    folders = [ROOT / "test" / "data", ROOT / "test" / "models"]
    if shared:
        folders += [shared / name for name in
                    ("golden", "golden-reshard", "configs", "manifests")]
    files = [Path(__file__), Path(__file__).with_name("derived.py")]
    for folder in folders:
        files += sorted(folder.rglob("*"))
    states = ((str(path), path.stat()) for path in files if path.is_file())
    return digest([(path, state.st_size, state.st_mtime)
                   for path, state in states])


def digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
