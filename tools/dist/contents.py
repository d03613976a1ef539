"""What is published: two distributions, each with an sdist and wheels, and what these have to hold.

It follows from what git tracks: every source is in the sdist, every file of the package is in the wheel. A new file
needs no line here.
"""

import re
import subprocess
import tarfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]

# The CPythons without a GIL, each of which needs a wheel of its own.
FREE_THREADED = ["3.14t", "3.15t"]

SOURCES = ("src/", "cext/", "data/")
# What setuptools adds to an sdist.
GENERATED = ("PKG-INFO", "setup.cfg", "src/*.egg-info/*")
# What git tracks but an sdist must not hold; MANIFEST.in says what it does. A star matches slashes, too.
UNPUBLISHED = (
    "*.env", ".*", "*/.*", "bench/*", "client/*", "deploy/*", "tools/*", "Dockerfile", "compose.yaml",
)  # fmt: skip


@dataclass(frozen=True)
class Distribution:
    """A project with its own name and version."""

    root: Path  # with its pyproject.toml, and what is built in dist/

    @property
    def dist(self) -> Path:
        """Where what is published is built."""
        return self.root / "dist"

    @property
    def version(self) -> str:
        """Its version."""
        return str(self._project["version"])

    @property
    def pythons(self) -> list[str]:
        """The CPythons that it supports: those of its classifiers."""
        prefix = "Programming Language :: Python :: "
        return [line.removeprefix(prefix) for line in self._project["classifiers"] if line.startswith(f"{prefix}3.")]

    @property
    def _project(self) -> dict[str, Any]:
        found: dict[str, Any] = tomllib.loads((self.root / "pyproject.toml").read_text("utf-8"))["project"]
        return found

    def package(self) -> set[str]:
        """The files that a wheel has to hold besides its metadata: those of src/, and a module for each lone stub."""
        files = {name.removeprefix("src/") for name in tracked(self.root) if name.startswith("src/")}
        stubs = {name.removesuffix(".pyi") for name in files if name.endswith(".pyi")}
        return files | {f"{name}.abi3.so" for name in stubs if f"{name}.py" not in files}

    def faults(self, file: Path) -> list[str]:
        """What is wrong with the contents of an sdist or a wheel of it."""
        found = held(file)
        if file.suffix == ".whl":
            metadata = "-".join(file.name.split("-")[:2]) + ".dist-info/"
            wanted = self.package() | {f"{metadata}licenses/LICENSE"}
            if (self.root / "setup.py").exists():  # which writes the version
                wanted.add("sepu/_version.py")
            stray = {name for name in found - wanted if not name.startswith(metadata)}
        else:
            files = set(tracked(self.root))
            wanted = {name for name in files if name.startswith(SOURCES)}
            stray = {name for name in found - files if not matches(name, GENERATED)}
            stray |= {name for name in found if matches(name, UNPUBLISHED)}
        return [
            *(f"{name} must not be in it" for name in sorted(stray)),
            *(f"{name} is missing" for name in sorted(wanted - found)),
        ]


SEPU = Distribution(ROOT)
CLIENT = Distribution(ROOT / "client")


def tracked(directory: Path) -> Iterator[str]:
    """The files below a directory that git tracks and that are there, also through links to directories."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=directory, stdout=subprocess.PIPE, check=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (directory / name).is_dir():
            yield from (f"{name}/{inner}" for inner in tracked(directory / name))
        elif (directory / name).exists():
            yield name


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns fits."""
    return any(fnmatch(name, pattern) for pattern in patterns)


def pure(wheel: Path) -> bool:
    """Whether a wheel holds nothing compiled, by its name."""
    return wheel.name.endswith("-none-any.whl")


def held(file: Path) -> set[str]:
    """The files that a wheel or an sdist does hold; those of an sdist without its top directory.

    A module for one CPython without a GIL gets the name of one with the stable ABI.
    """
    if file.suffix == ".whl":
        with ZipFile(file) as wheel:
            names = [entry.filename for entry in wheel.infolist() if not entry.is_dir()]
        return {re.sub(r"\.cpython-3\d+t-[\w-]+\.so$", ".abi3.so", name) for name in names}
    with tarfile.open(file) as sdist:
        return {member.name.partition("/")[2] for member in sdist if not member.isdir()}
