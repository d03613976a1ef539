"""`make try-aarch64`: the wheel for 64-bit ARM, cross-compiled, checked, and tried on Debian's Python under emulation.

Works as an ordinary user: the arm64 packages are only unpacked, and each program is handed to the emulator by name.
"""

import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from tools.dist import build
from tools.dist.check import check
from tools.dist.contents import SEPU
from tools.dist.tryout import perform, trials

EMULATOR = "qemu-aarch64-static"
PACKAGES = ["python3-venv", "libstdc++6"]  # numpy's wheels need the latter
# Emulated, no example keeps hypothesis's deadline, and making an index takes minutes: the native runner of
# .github/workflows/tests.yml does that.
OPTIONS = [
    "--hypothesis-profile=ci",
    "--timeout=1800",
    "--ignore=tests/core/test_index.py",
    "--deselect=tests/library/test_build.py::test_the_committed_release_is_what_the_facts_give",
    "--deselect=tests/library/test_release.py::test_the_palette_has_the_index",
]


def run(*command: str) -> None:
    """Runs it in silence, unless it fails."""
    if (done := build.run(command)).returncode:
        sys.exit(f"{done.stdout}\n{command[0]} failed")


def unpack_packages(place: Path, tree: Path) -> None:
    """Unpacks PACKAGES and what they depend on, for arm64, from where this machine's own packages come from."""
    settings = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "root",  # no other user may read a temporary directory
        "Acquire::Languages": "none",
        "Acquire::http::Timeout": "60",
        "Debug::NoLocking": "true",
        "Dir::Cache": str(place / "cache"),
        "Dir::Log": str(place / "log"),
        "Dir::State": str(place / "state"),
        "Dir::State::status": os.devnull,  # nothing is installed
    }
    for name in ("cache/archives/partial", "state/lists/partial", "log"):
        (place / name).mkdir(parents=True)
    apt = ["apt-get", *(f"--option={name}={value}" for name, value in settings.items())]
    run(*apt, "update")
    run(*apt, "install", "--yes", "--no-install-recommends", "--download-only", *PACKAGES)
    for package in (place / "cache" / "archives").glob("*.deb"):
        run("dpkg-deb", "--extract", str(package), str(tree))


def emulated_python(place: Path, emulator: str) -> str:
    """Debian's Python as a script of this machine's, so that whoever runs it or a venv of it runs the emulator."""
    tree = place / "tree"
    unpack_packages(place, tree)
    python = tree / "usr" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {emulator} -L {tree} -0 "$0" {tree}/usr/bin/python3 "$@"\n')
    python.chmod(0o755)
    return str(python)


def main() -> int:
    """Says what it does; 1 if something is wrong."""
    emulator = shutil.which(EMULATOR)
    missing = [name for name in (EMULATOR, "apt-get", "dpkg-deb") if not shutil.which(name)]
    if emulator is None or missing:
        sys.exit(f"{', '.join(missing)}: not found. This needs Debian, and of it the package qemu-user-static.")
    os.environ["PYTEST_ADDOPTS"] = " ".join(OPTIONS)
    with TemporaryDirectory(prefix="sepu-aarch64-") as directory:
        place = Path(directory)
        sdist = build.sdist(SEPU, place)
        wheel = build.wheel(sdist, place, "aarch64")
        if not check(SEPU, [wheel]):
            return 1
        click.echo(f"\nunpacks {' and '.join(PACKAGES)} for arm64")
        python = emulated_python(place / "debian", emulator)
        run(python, "-c", "import platform; assert platform.machine() == 'aarch64'")
        click.echo(f"\n{wheel.name} under emulation, which takes some minutes")
        trial = next(trials(SEPU, sdist, place, SEPU.pythons[0]))  # the core's
        return int(not perform(trial, wheel, python, place / "trial"))


if __name__ == "__main__":
    sys.exit(main())
