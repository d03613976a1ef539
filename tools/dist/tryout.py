"""Tries a wheel in new environments of each CPython here; sepu's by what cibuildwheel is told, and as a server.

Away from the checkout, with nothing on the PATH but the environment and curl: no compiler.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from tools.dist.build import unpack
from tools.dist.contents import CLIENT, ROOT, SEPU, Distribution

ABOUT = "import sys; print(sys.implementation.name, *sys.version_info[:3])"
# In cibuildwheel's words, and not in its settings: a pure wheel needs no cibuildwheel.
CLIENT_TRIAL = {
    "before-test": "pip install --require-hashes --only-binary :all: -r {project}/requirements/client.txt",
    "test-sources": [
        "pyproject.toml",
        "tests/client/blocking.py",
        "tests/client/test_policy.py",
        "tests/dist/installed_client.py",
    ],
    "test-command": [
        "python -m pytest -q -p tests.client.blocking tests/client/test_policy.py tests/dist/installed_client.py"
    ],
}
# The README of the package: pip install 'sepu[server,embedded]', sepu serve, and the curls that it prints.
SERVER_TRIAL = {
    "before-test": (
        "pip install --require-hashes --only-binary :all: "
        "-r {project}/requirements/embedded.txt -r {project}/requirements/core-test.txt"
    ),
    "test-sources": [
        "pyproject.toml",
        *(f"tests/{name}.py" for name in ("curl", "processes", "programs", "serving", "cli/running", "cli/test_serve")),
    ],
    "test-command": ["python -m pytest -q tests/cli/test_serve.py -k first_start"],
}


def pythons() -> dict[str, str]:
    """One CPython of each version that we support, by version."""
    places = [sys.executable, *(place for version in SEPU.pythons if (place := shutil.which(f"python{version}")))]
    places += map(str, sorted((Path.home() / ".pyenv" / "versions").glob("*/bin/python3")))
    found: dict[str, str] = {}
    for python in places:
        # a shim of pyenv may be there and lead nowhere
        asked = subprocess.run([python, "-c", ABOUT], capture_output=True, check=False, text=True)
        if (match := re.fullmatch(r"cpython (3 \d+) \d+\n", asked.stdout)) and (
            version := match[1].replace(" ", ".")
        ) in SEPU.pythons:
            found.setdefault(version, python)
    return {version: found[version] for version in SEPU.pythons if version in found}


@dataclass(frozen=True)
class Trial:
    """A project's directory, and what cibuildwheel is told of testing it."""

    project: Path
    settings: dict[str, Any]
    extras: str = ""

    def steps(self, wheel: Path) -> Iterator[str]:
        """The commands, in cibuildwheel's order."""
        yield self.settings["before-test"].format(project=self.project)
        yield f"pip install --no-index '{wheel}{self.extras}'"
        yield from self.settings["test-command"]


def trials(distribution: Distribution, sdist: Path, place: Path) -> Iterator[Trial]:
    """What its wheel is tried by."""
    if distribution == CLIENT:
        yield Trial(ROOT, CLIENT_TRIAL)  # its sdist has no tests
    else:
        project = unpack(sdist, place)
        yield Trial(project, tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["tool"]["cibuildwheel"])
        yield Trial(ROOT, SERVER_TRIAL, "[server,embedded]")


def tryout(distribution: Distribution, wheel: Path, sdist: Path, python: str) -> bool:
    """Installs and tests the wheel; whether it works."""
    with TemporaryDirectory(prefix="sepu-tryout-") as directory:
        return all(
            perform(trial, wheel.resolve(), python, Path(directory, str(number)))
            for number, trial in enumerate(trials(distribution, sdist, Path(directory)))
        )


def perform(trial: Trial, wheel: Path, python: str, place: Path) -> bool:
    """Performs a trial in the new directory `place`; whether it succeeds."""
    for name in trial.settings["test-sources"]:
        copy = place / "cwd" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (trial.project / name).is_dir() else shutil.copy)(trial.project / name, copy)
    subprocess.run([python, "-m", "venv", str(place / "env")], check=True)
    path = place / "env" / "bin"
    if curl := shutil.which("curl"):
        (path / "curl").symlink_to(curl)
    # pip's own settings stay: an index of a company's own, for one
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SEPU_"))}
    variables |= {"PATH": str(path), "PIP_QUIET": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    for command in trial.steps(wheel):
        click.echo(f"$ {command}")
        if subprocess.run(["/bin/sh", "-c", command], cwd=place / "cwd", env=variables, check=False).returncode:
            return False
    return True
