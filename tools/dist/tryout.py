"""Tries a wheel in new environments of a CPython; sepu's with cibuildwheel's settings, and as a server.

Away from the checkout, with nothing on the PATH but the environment and curl: no compiler.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from tools.dist.build import run, unpack
from tools.dist.contents import CLIENT, FREE_THREADED, ROOT, SEPU, Distribution

ABOUT = """
import sys, sysconfig
version = "%d.%d" % sys.version_info[:2] + "t" * bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
print(sys.implementation.name, version)
"""
# In cibuildwheel's terms, but not in its settings: a pure wheel needs no cibuildwheel.
CLIENT_TRIAL = {
    "before-test": "pip install --require-hashes --only-binary :all: -r {project}/requirements/client.txt",
    "test-sources": [
        "pyproject.toml",
        "tests/client/blocking.py",
        "tests/client/test_policy.py",
        "tests/client/test_protocol.py",
        "tests/dist/installed_client.py",
    ],
    "test-command": [
        "python -m pytest -q -p tests.client.blocking tests/client/test_policy.py tests/client/test_protocol.py "
        "tests/dist/installed_client.py"
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
        *(f"tests/{name}.py" for name in ("curl", "programs", "cli/running", "cli/test_serve")),
        *(f"tests/harness/{name}.py" for name in ("processes", "serving")),
    ],
    "test-command": ["python -m pytest -q tests/cli/test_serve.py -k first_start"],
}


def pythons() -> dict[str, str]:
    """One CPython of each version that we support, by version; those without a GIL end with a t."""
    versions = [*SEPU.pythons, *FREE_THREADED]
    places = [sys.executable, *(place for version in versions if (place := shutil.which(f"python{version}")))]
    places += map(str, sorted((Path.home() / ".pyenv" / "versions").glob("*/bin/python3")))
    found: dict[str, str] = {}
    for python in places:
        # pyenv's shim may exist and lead nowhere
        asked = subprocess.run([python, "-c", ABOUT], capture_output=True, check=False, text=True)
        if asked.stdout.startswith("cpython "):
            found.setdefault(asked.stdout.split()[1], python)
    return {version: found[version] for version in versions if version in found}


@dataclass(frozen=True)
class Trial:
    """A project's directory, and cibuildwheel's settings for testing it."""

    project: Path
    settings: dict[str, Any]
    extras: str = ""

    def steps(self, wheel: Path) -> Iterator[str]:
        """The commands, in cibuildwheel's order."""
        yield self.settings["before-test"].format(project=self.project)
        yield f"pip install --no-index '{wheel}{self.extras}'"
        yield from self.settings["test-command"]


def trials(distribution: Distribution, sdist: Path, place: Path, version: str) -> Iterator[Trial]:
    """The trials of its wheel with this version of CPython."""
    if distribution == CLIENT:
        yield Trial(ROOT, CLIENT_TRIAL)  # its sdist has no tests
    else:
        project = unpack(sdist, place)
        settings = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["tool"]["cibuildwheel"]
        for override in settings["overrides"]:
            if fnmatch(f"cp{version.replace('.', '')}-manylinux", override["select"]):
                settings |= override
        yield Trial(project, settings)
        if version in SEPU.pythons:
            yield Trial(ROOT, SERVER_TRIAL, "[server,embedded]")


def tryout(distribution: Distribution, wheel: Path, sdist: Path, version: str, python: str) -> bool:
    """Installs and tests the wheel, and prints the outcome; returns whether it works."""
    said: list[str] = []
    with TemporaryDirectory(prefix="sepu-tryout-") as directory:
        good = all(
            perform(trial, wheel.resolve(), python, Path(directory, str(number)), said.append)
            for number, trial in enumerate(trials(distribution, sdist, Path(directory), version))
        )
    click.echo("\n".join([f"\n{wheel.name} with CPython {version}", *said]))
    return good


def copy_sources(trial: Trial, target: Path) -> None:
    """Copies what a trial's tests need into a new directory, as cibuildwheel does."""
    for name in trial.settings["test-sources"]:
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (trial.project / name).is_dir() else shutil.copy)(trial.project / name, copy)


def perform(trial: Trial, wheel: Path, python: str, place: Path, say: Callable[[str], None] = click.echo) -> bool:
    """Performs a trial in the new directory `place`; returns whether it succeeds."""
    copy_sources(trial, place / "cwd")
    subprocess.run([python, "-m", "venv", str(place / "env")], check=True)
    path = place / "env" / "bin"
    if curl := shutil.which("curl"):
        (path / "curl").symlink_to(curl)
    # pip's own settings stay: a company may have its own index
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SEPU_"))}
    # with CI, hypothesis sets no deadline: a slow machine is not a fault
    variables |= {"CI": "true", "PATH": str(path), "PIP_QUIET": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    for command in trial.steps(wheel):
        say(f"$ {command}")
        done = run(["/bin/sh", "-c", command], cwd=place / "cwd", env=variables)
        say(done.stdout)
        if done.returncode:
            return False
    return True
