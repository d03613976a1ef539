"""Copies of the package and the client with a patch: other releases, and faults."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sepu
import sepu_client


class StalePatchError(Exception):
    """A patch no longer applies to the package; the message says what to do."""


@dataclass(frozen=True)
class Package:
    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        """An environment in which every Python process imports the copies of `sepu` and `sepu_client`."""
        return {**os.environ, "PYTHONPATH": str(self.directory)}

    @property
    def program(self) -> list[str]:
        """The command that runs its `sepu`."""
        start = "import sys; sys.path.insert(0, sys.argv.pop(1)); from sepu.cli.main import main; main()"
        return [sys.executable, "-c", start, str(self.directory)]

    def run(self, *arguments: str, url: str) -> str:
        """Runs a command that must succeed, and returns its output."""
        done = subprocess.run(
            [*self.program, *arguments, "--database-url", url], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: str, url: str) -> Any:
        return json.loads(self.run(*arguments, "--json", url=url))


def copied(directory: Path) -> Package:
    for package in (sepu, sepu_client):
        assert package.__file__
        source = Path(package.__file__).parent
        shutil.copytree(source, directory / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    return Package(directory)


def patched(directory: Path, patch: Path) -> Package:
    """Copies the package into a directory, and applies a patch."""
    package = copied(directory)
    apply(patch, package)
    return package


def changed_files(patch: Path, package: Package) -> list[str]:
    return [line.split("\t")[2] for line in apply(patch, package, "--numstat").splitlines()]


def apply(patch: Path, package: Package, *options: str) -> str:
    """Applies a patch to a copy; returns git's output.

    Raises:
        StalePatchError: it does not apply.
    """
    command = ["git", "apply", *options, str(patch)]
    done = subprocess.run(command, cwd=package.directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StalePatchError(
            f"{patch.name} does not apply any more; make its change again, "
            f"beginning with: git apply --reject --directory=src {patch}\n{done.stderr}"
        )
    return done.stdout
