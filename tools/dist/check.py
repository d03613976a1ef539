"""Checks distributions, whoever built them: what they hold, how they read, and what they ask of a system.

`availability` asks the package index for wheels, so that nobody needs a compiler.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from email import message_from_bytes
from importlib.metadata import distributions
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import click
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from tools.dist.contents import CLIENT, ROOT, SEPU, Distribution

BIN = Path(sys.executable).parent
# What they are installed and tried with; server.txt is a part of embedded.txt.
LOCKS = {SEPU: ["embedded", "build", "core-test"], CLIENT: ["client"]}
# Those of docs/versioning.md, whatever this machine is. The names are uv's.
GLIBC = ["x86_64-manylinux_2_28", "aarch64-manylinux_2_28"]
OTHERS = [
    f"{processor}-{system}"
    for processor in ("x86_64", "aarch64")
    for system in ("unknown-linux-musl", "apple-darwin", "pc-windows-msvc")
]
PLATFORMS = {SEPU: GLIBC, CLIENT: GLIBC + OTHERS}


def tools(file: Path) -> list[list[str]]:
    """The commands that judge a wheel or an sdist."""
    path = str(file)
    found = [[str(BIN / "twine"), "check", "--strict", path]]
    if file.suffix == ".whl":
        found.append([str(BIN / "check-wheel-contents"), path])
    if "-abi3-" in file.name:
        found.append([str(BIN / "abi3audit"), "--strict", "--verbose", path])
    if "linux" in file.name:
        found.append([str(BIN / "auditwheel"), "show", path])
    return found


def read_sbom(wheel: Path) -> tuple[str, str]:
    """The path and the text of the SBOM in a wheel."""
    with ZipFile(wheel) as held:
        [path] = [name for name in held.namelist() if re.search(r"\.dist-info/sboms/[\w-]+\.cdx\.json$", name)]
        return path, held.read(path).decode("utf-8")


def other_tools(wheel: Path) -> list[str]:
    """The tools that a wheel was made with, by its SBOM, and that have another version here."""
    about = json.loads(read_sbom(wheel)[1])["metadata"]
    made_with = [*about["tools"]["components"], *about["component"].get("components", [])]
    return [
        f"{tool['name']}=={tool['version']}"
        for tool in made_with
        if "purl" in tool and all(found.version != tool["version"] for found in distributions(name=tool["name"]))
    ]


def sbom(wheel: Path) -> list[str]:
    """What is wrong with a wheel's SBOM: against the schema of CycloneDX, and against the wheel's metadata."""
    path, text = read_sbom(wheel)
    with ZipFile(wheel) as held:
        [metadata] = [message_from_bytes(held.read(name)) for name in held.namelist() if name.endswith("/METADATA")]
    if invalid := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        return [f"{path}: {invalid}"]
    bom = json.loads(text)
    asked = metadata.get_all("Requires-Dist", [])
    about = bom["metadata"]["component"]
    [licence] = about["licenses"]
    pairs = {
        "Name": ([about["name"]], [metadata["Name"]]),
        "Version": ([about["version"]], [metadata["Version"]]),
        "License-Expression": ([licence["license"]["id"]], [metadata["License-Expression"]]),
        "Requires-Dist": (
            sorted(entry["value"] for component in bom["components"] for entry in component["properties"]),
            sorted(line for line in asked if not line.startswith(f"{about['name']}[")),
        ),
    }
    return [f"{path}: {name} is {said}, in METADATA {meant}" for name, (said, meant) in pairs.items() if said != meant]


def check(distribution: Distribution, files: Iterable[Path]) -> bool:
    """Prints what is wrong; returns whether nothing is."""
    good = True
    for file in files:
        click.echo(f"\n{file.name}: {file.stat().st_size:,} bytes")
        wrong = distribution.faults(file) or (sbom(file) if file.suffix == ".whl" else [])
        for line in wrong:
            click.echo(f"  {line}")
        good &= not wrong
        for command in tools(file):
            click.echo(f"$ {Path(command[0]).name} {' '.join(command[1:-1])} {file.name}")
            good &= subprocess.run(command, check=False).returncode == 0
    return good


def installable(lock: Path, python: str, platform: str) -> bool:
    """Whether wheels alone satisfy a lock there; uv prints what is missing."""
    uv = [str(BIN / "uv"), "pip", "install", "--quiet", "--dry-run"]
    wanted = ["--python-platform", platform, "--require-hashes", "--only-binary", ":all:", "-r", str(lock)]
    with TemporaryDirectory() as target:  # a dry run too writes a lock file there
        where = ["--python", sys.executable, "--target", target, "--python-version", python]
        return subprocess.run([*uv, *where, *wanted], check=False).returncode == 0


def availability(distribution: Distribution) -> bool:
    """Whether everything that a distribution is installed and tried with has wheels, for each CPython and processor."""
    good = True
    for lock, platform in product(LOCKS[distribution], PLATFORMS[distribution]):
        file, pythons = ROOT / "requirements" / f"{lock}.txt", distribution.pythons
        found = [python for python in pythons if installable(file, python, platform)]
        click.echo(f"requirements/{lock}.txt in wheels for {platform}: CPython {', '.join(found) or 'none'}")
        good &= found == pythons
    return good
