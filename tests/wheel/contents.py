"""What the sdist and the wheel hold: exactly what sdist.txt and wheel.txt list."""

import tarfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]


def version() -> str:
    """The package's version."""
    found = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert isinstance(found, str)
    return found


def listed(kind: str) -> set[str]:
    """The files that a `kind` of distribution has to hold, sdist or wheel."""
    lines = Path(__file__).with_name(f"{kind}.txt").read_text("ascii").splitlines()
    return {line.replace("VERSION", version()) for line in lines}


def held(distribution: Path) -> set[str]:
    """The files that it does hold; those of an sdist without the directory that they are all in."""
    if distribution.suffix == ".whl":
        with ZipFile(distribution) as wheel:
            return {entry.filename for entry in wheel.infolist() if not entry.is_dir()}
    with tarfile.open(distribution) as sdist:
        return {member.name.partition("/")[2] for member in sdist if not member.isdir()}


def differences(distribution: Path) -> list[str]:
    """What is wrong, as lines for the list: + is held but not listed, - is listed but not held."""
    found, wanted = held(distribution), listed("wheel" if distribution.suffix == ".whl" else "sdist")
    return [*(f"+ {name}" for name in sorted(found - wanted)), *(f"- {name}" for name in sorted(wanted - found))]
