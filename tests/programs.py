"""Which programs tests may call: those of the list in README.md, and others where they are installed."""

import errno
import os
import shutil
from typing import Any

import pytest

# Of README's packages, and of those that every Debian has.
ALWAYS = {"bash", "cc", "gcc", "git", "make", "sh", "sleep", "tar"}


def installed(name: str) -> str | None:
    """The path of a program that may be missing; the test of a missing one is skipped."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")


def needed(name: str, package: str) -> str:
    """The path of a program of a Debian package. Without it the test is skipped; it fails with SEPU_TEST_ALL set."""
    return found_or_skipped(installed(name), f"{name} is not installed (Debian: apt install {package})")


def found_or_skipped(found: str | None, remedy: str) -> str:
    if found is None:
        (pytest.fail if os.environ.get("SEPU_TEST_ALL") else pytest.skip)(remedy)
    return found


def refuse_others(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: a program that is called by its mere name is taken for missing, as it is on some machine."""
    if event == "subprocess.Popen":
        name = os.fsdecode(arguments[0])
        if "/" not in name and name not in ALWAYS:
            raise FileNotFoundError(
                errno.ENOENT, "README.md does not tell to install it; call what tests.programs.installed() finds", name
            )
