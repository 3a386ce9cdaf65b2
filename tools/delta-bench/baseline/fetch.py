#!/usr/bin/env python3
# ===- fetch.py - The published peer, into an ignored folder --------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Downloads the wheels of wheels.txt and unpacks their Python sources.

    python3 tools/delta-bench/baseline/fetch.py [--to FOLDER]

FOLDER/wheels keeps the wheels: a machine without an index can be given that
folder, and unpacks it with the same command. Every wheel must have the hash of
wheels.txt. FOLDER is `.cache/delta-baseline` of the tree, which git ignores,
or DELTA_BASELINE_PACKAGES. Exit codes: 0, 2 for what is missing or differs.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
WHEELS = HERE / "wheels.txt"


class FetchError(Exception):
    """What is missing or differs, and what is required."""


def folder() -> Path:
    """Where the packages are: DELTA_BASELINE_PACKAGES, else in the tree."""
    named = os.environ.get("DELTA_BASELINE_PACKAGES")
    return Path(named or HERE.parents[2] / ".cache" / "delta-baseline")


def pins() -> dict[str, tuple[str, str]]:
    """Version and SHA-256 of each wheel, by project."""
    pin = re.compile(r"^([\w-]+)==(\S+) \\\n +--hash=sha256:(\w{64})$", re.M)
    return {n: (v, h) for n, v, h in pin.findall(WHEELS.read_text())}


def wheel_of(wheels: Path, project: str, version: str) -> Path | None:
    """The file of a project, if it is there."""
    pattern = f"{project.replace('-', '_')}-{version}-*.whl"
    return next(iter(sorted(wheels.glob(pattern))), None)


def missing(wheels: Path) -> list[str]:
    """Projects of which there is no wheel."""
    return [n for n, (v, _) in pins().items() if wheel_of(wheels, n, v) is None]


def download(wheels: Path) -> None:
    """With pip, from the index that it is configured with; the wheels are
    taken as they are, whatever they require."""
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
        "--disable-pip-version-check", "--only-binary=:all:",
        "--python-version", "3.12", "--require-hashes",
        "-d", str(wheels), "-r", str(WHEELS),
    ]  # fmt: skip
    wheels.mkdir(parents=True, exist_ok=True)
    if subprocess.run(command).returncode != 0:
        raise FetchError(
            f"{' '.join(command)}: failed; without an index, put the wheels of "
            f"{WHEELS} into {wheels}"
        )


def check(wheels: Path) -> list[Path]:
    """The wheels, each with its hash."""
    found = []
    for project, (version, wanted) in pins().items():
        wheel = wheel_of(wheels, project, version)
        if wheel is None:
            raise FetchError(f"{wheels}: no wheel of {project} {version}")
        seen = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if seen != wanted:
            raise FetchError(
                f"{wheel}: has SHA-256 {seen}, required is {wanted}"
            )
        found.append(wheel)
    return found


def unpack(wheels: list[Path], site: Path) -> int:
    """The Python sources and the metadata; returns how many files. The folder
    takes its name when it is complete."""
    part = site.with_name(site.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    count = 0
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                top = name.partition("/")[0]
                wanted = top in ("megatron", "verl") and name.endswith(".py")
                if wanted or top.endswith(".dist-info"):
                    archive.extract(name, part)
                    count += 1
    shutil.rmtree(site, ignore_errors=True)
    part.rename(site)
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, default=folder(), metavar="FOLDER")
    to = parser.parse_args().to.resolve()
    try:
        if missing(to / "wheels"):
            download(to / "wheels")
        count = unpack(check(to / "wheels"), to / "site")
    except (FetchError, OSError, zipfile.BadZipFile) as error:
        print(f"fetch.py: {error}", file=sys.stderr)
        return 2
    print(f"{to / 'site'}: {count} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
