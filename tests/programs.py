"""The programs that tests may call: those listed in README.md, and others where they are installed."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pytest

NODE_MODULES = Path(__file__).parents[1] / "build" / "npm" / "node_modules"
# From README's packages, and those of every Debian.
ALWAYS = {"bash", "cc", "gcc", "git", "make", "sh", "sleep", "tar"}


def installed(name: str) -> str | None:
    """The path of a program that may be missing; the test of a missing one is skipped."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")


def missing(reason: str) -> NoReturn:
    """Skips the test; with SEPU_TEST_ALL it fails."""
    (pytest.fail if os.environ.get("SEPU_TEST_ALL") else pytest.skip)(reason)


def program(name: str, packages: str) -> str:
    """The path of a program from these Debian packages; skips if it is missing."""
    return installed(name) or missing(f"{name} is not installed (Debian: apt install {packages})")


def node_program(name: str) -> str:
    """The path of a Node program from requirements/npm; skips if it is missing."""
    program("node", "nodejs npm")
    path = NODE_MODULES / ".bin" / name
    return str(path) if path.exists() else missing(f"{name} is not installed: make build/npm/ready")


def refuse_others(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: refuses programs called by their bare names, which may be missing on some machines."""
    if event == "subprocess.Popen":
        name = os.fsdecode(arguments[0])
        if "/" not in name and name not in ALWAYS:
            raise FileNotFoundError(
                errno.ENOENT, "README.md does not tell to install it; call what tests.programs.installed() finds", name
            )
