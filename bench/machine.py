"""The machine and the tools that a figure was made with."""

import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

# What the hot paths run on besides our own code.
PACKAGES = ("falcon", "gunicorn", "msgspec", "numpy", "psycopg", "uvloop")


def cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines() if sys.platform == "linux" else []:
        if line.startswith("model name"):
            return line.partition(": ")[2]
    return platform.processor() or platform.machine()


def compiler() -> str:
    done = subprocess.run(["cc", "--version"], capture_output=True, check=True, text=True)
    return done.stdout.splitlines()[0]


def python() -> str:
    return f"{platform.python_implementation()} {platform.python_version()}"


def libc() -> str:
    return " ".join(platform.libc_ver()) or platform.platform()


def packages() -> dict[str, str]:
    return {name: version(name) for name in PACKAGES}
