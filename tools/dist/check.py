"""Checks distributions, whoever built them: what they hold, how they read, and what they ask of a system."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from email import message_from_bytes
from importlib.metadata import distributions
from pathlib import Path
from zipfile import ZipFile

import click
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from tools.dist.contents import Distribution, pure

BIN = Path(sys.executable).parent


def tools(file: Path) -> list[list[str]]:
    """The commands that judge a wheel or an sdist."""
    path = str(file)
    metadata = [str(BIN / "twine"), "check", "--strict", path]
    if file.suffix != ".whl":
        return [metadata]
    contents = [str(BIN / "check-wheel-contents"), path]
    if pure(file):
        return [metadata, contents]
    abi = [str(BIN / "abi3audit"), "--strict", "--verbose", path]
    system = [str(BIN / "auditwheel"), "show", path]
    return [
        metadata,
        contents,
        *([abi] if "-abi3-" in file.name else []),
        *([system] if "linux" in file.name else []),
    ]


def read_sbom(wheel: Path) -> tuple[str, str]:
    """The path and the text of the SBOM in a wheel."""
    with ZipFile(wheel) as held:
        [path] = [name for name in held.namelist() if re.search(r"\.dist-info/sboms/[\w-]+\.cdx\.json$", name)]
        return path, held.read(path).decode("utf-8")


def other_tools(wheel: Path) -> list[str]:
    """What a wheel was made with, by its SBOM, and has another version here."""
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
    """Says what is wrong, and whether nothing is."""
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
