"""Tries a wheel in a new environment of each CPython here; sepu's by the commands that cibuildwheel is given.

Away from the checkout, with nothing on the PATH but the environment: no compiler.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from tests.wheel.build import unpack
from tests.wheel.contents import CLIENT, ROOT, Distribution

ABOUT = "import sys; print(sys.implementation.name, *sys.version_info[:3])"
# In cibuildwheel's words, and not in its settings: a pure wheel needs no cibuildwheel.
CLIENT_TRIAL = {
    "before-test": "pip install --require-hashes --only-binary :all: -r {project}/requirements/client.txt",
    "test-sources": [
        "pyproject.toml",
        "tests/client/shells.py",
        "tests/client/test_policy.py",
        "tests/wheel/client/installed.py",
    ],
    "test-command": [
        "python -m pytest -q -p tests.client.shells tests/client/test_policy.py tests/wheel/client/installed.py"
    ],
}


def pythons() -> dict[str, str]:
    """One CPython of each version that we support, by version."""
    names = [f"python3.{minor}" for minor in range(11, 15)]
    places = [sys.executable, *(place for name in names if (place := shutil.which(name)))]
    places += map(str, sorted((Path.home() / ".pyenv" / "versions").glob("*/bin/python3")))
    found: dict[str, str] = {}
    for python in places:
        # a shim of pyenv may be there and lead nowhere
        asked = subprocess.run([python, "-c", ABOUT], capture_output=True, check=False, text=True)
        if match := re.fullmatch(r"cpython 3 (1[1-4]) \d+\n", asked.stdout):
            found.setdefault(f"3.{match[1]}", python)
    return dict(sorted(found.items()))


def trial(distribution: Distribution, sdist: Path, place: Path) -> tuple[Path, dict[str, Any]]:
    """Where its tests are, and what cibuildwheel is told of testing."""
    if distribution == CLIENT:
        return ROOT, CLIENT_TRIAL  # its sdist has no tests
    project = unpack(sdist, place)
    return project, tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["tool"]["cibuildwheel"]


def steps(settings: dict[str, Any], wheel: Path, project: Path) -> Iterator[str]:
    """The commands of one trial, in cibuildwheel's order."""
    yield settings["before-test"].format(project=project)
    yield f"pip install --no-index {wheel}"
    yield from settings["test-command"]


def tryout(distribution: Distribution, wheel: Path, sdist: Path, python: str) -> bool:
    """Installs and tests the wheel; whether it works."""
    with TemporaryDirectory(prefix="sepu-tryout-") as directory:
        place = Path(directory)
        project, settings = trial(distribution, sdist, place)
        for name in settings["test-sources"]:
            copy = place / "cwd" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (project / name).is_dir() else shutil.copy)(project / name, copy)
        subprocess.run([python, "-m", "venv", str(place / "env")], check=True)
        # pip's own settings stay: an index of a company's own, for one
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        variables |= {"PATH": str(place / "env" / "bin"), "PIP_QUIET": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        for command in steps(settings, wheel.resolve(), project):
            click.echo(f"$ {command}")
            if subprocess.run(["/bin/sh", "-c", command], cwd=place / "cwd", env=variables, check=False).returncode:
                return False
    return True
