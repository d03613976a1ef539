"""Checks distributions, whoever built them: what they hold, how they read, and what they ask of a system."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import click
from tests.wheel.contents import differences

BIN = Path(sys.executable).parent


def tools(distribution: Path) -> list[list[str]]:
    """The commands that judge it."""
    path = str(distribution)
    metadata = [str(BIN / "twine"), "check", "--strict", path]
    if distribution.suffix != ".whl":
        return [metadata]
    abi = [str(BIN / "abi3audit"), "--strict", "--verbose", path]
    contents = [str(BIN / "check-wheel-contents"), path]
    system = [str(BIN / "auditwheel"), "show", path]
    return [metadata, contents, abi, *([system] if "linux" in distribution.name else [])]


def check(distributions: Iterable[Path]) -> bool:
    """Says what is wrong, and whether nothing is."""
    good = True
    for distribution in distributions:
        click.echo(f"\n{distribution.name}: {distribution.stat().st_size:,} bytes")
        for line in (wrong := differences(distribution)):
            click.echo(f"  {line}")
        good &= not wrong
        for command in tools(distribution):
            click.echo(f"$ {Path(command[0]).name} {' '.join(command[1:-1])} {distribution.name}")
            good &= subprocess.run(command, check=False).returncode == 0
    return good
