"""Copies of the package with a patch applied: releases that there are not."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sepu

PATCHES = Path(__file__).parent


@dataclass(frozen=True)
class Package:
    """A copy of the package, and the files that its patch changed."""

    directory: Path
    changed: list[str]

    @property
    def program(self) -> list[str]:
        """What runs its `sepu`."""
        start = "import sys; sys.path.insert(0, sys.argv.pop(1)); from sepu.cli.main import main; main()"
        return [sys.executable, "-c", start, str(self.directory)]

    def run(self, *arguments: str, url: str) -> str:
        """Runs a command that must succeed, and gives what it printed."""
        done = subprocess.run(
            [*self.program, *arguments, "--database-url", url], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: str, url: str) -> Any:
        return json.loads(self.run(*arguments, "--json", url=url))


def patched(directory: Path, patch: str) -> Package:
    """Copies the package into a directory, and applies a patch that is beside this file."""
    shutil.copytree(Path(sepu.__file__).parent, directory / "sepu", ignore=shutil.ignore_patterns("__pycache__"))

    def apply(*options: str) -> str:
        command = ["git", "apply", *options, str(PATCHES / f"{patch}.patch")]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"renew it: {done.stderr}"
        return done.stdout

    apply()
    return Package(directory, [line.split("\t")[2] for line in apply("--numstat").splitlines()])
