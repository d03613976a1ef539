"""What is published: two distributions, whose sdist and wheel hold exactly what sdist.txt and wheel.txt list."""

import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass(frozen=True)
class Distribution:
    """What has a name and a version of its own."""

    root: Path  # with its pyproject.toml, and what is built in dist/
    lists: Path

    @property
    def dist(self) -> Path:
        """Where what is published is built."""
        return self.root / "dist"

    @property
    def version(self) -> str:
        """Its version."""
        found = self._project["version"]
        assert isinstance(found, str)
        return found

    @property
    def pythons(self) -> list[str]:
        """The CPythons that it supports: those of its classifiers."""
        prefix = "Programming Language :: Python :: "
        return [line.removeprefix(prefix) for line in self._project["classifiers"] if line.startswith(f"{prefix}3.")]

    @property
    def _project(self) -> dict[str, Any]:
        found: dict[str, Any] = tomllib.loads((self.root / "pyproject.toml").read_text("utf-8"))["project"]
        return found

    def listed(self, kind: str) -> set[str]:
        """The files that a `kind` of it has to hold, sdist or wheel."""
        lines = (self.lists / f"{kind}.txt").read_text("ascii").splitlines()
        return {line.replace("VERSION", self.version) for line in lines}

    def differences(self, file: Path) -> list[str]:
        """What is wrong, as lines for the list: + is held but not listed, - is listed but not held."""
        found, wanted = held(file), self.listed("wheel" if file.suffix == ".whl" else "sdist")
        return [*(f"+ {name}" for name in sorted(found - wanted)), *(f"- {name}" for name in sorted(wanted - found))]


SEPU = Distribution(ROOT, HERE)
CLIENT = Distribution(ROOT / "client", HERE / "client")


def pure(wheel: Path) -> bool:
    """Whether a wheel holds nothing compiled, by its name."""
    return wheel.name.endswith("-none-any.whl")


def held(file: Path) -> set[str]:
    """The files that a wheel or an sdist does hold; those of an sdist without the directory that they are all in."""
    if file.suffix == ".whl":
        with ZipFile(file) as wheel:
            return {entry.filename for entry in wheel.infolist() if not entry.is_dir()}
    with tarfile.open(file) as sdist:
        return {member.name.partition("/")[2] for member in sdist if not member.isdir()}
