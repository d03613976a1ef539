"""Checks distributions, whoever built them: what they hold, how they read, and what they ask of a system."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import click
from tests.wheel.contents import Distribution, pure

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
    return [metadata, contents, abi, *([system] if "linux" in file.name else [])]


def check(distribution: Distribution, files: Iterable[Path]) -> bool:
    """Says what is wrong, and whether nothing is."""
    good = True
    for file in files:
        click.echo(f"\n{file.name}: {file.stat().st_size:,} bytes")
        for line in (wrong := distribution.differences(file)):
            click.echo(f"  {line}")
        good &= not wrong
        for command in tools(file):
            click.echo(f"$ {Path(command[0]).name} {' '.join(command[1:-1])} {file.name}")
            good &= subprocess.run(command, check=False).returncode == 0
    return good
