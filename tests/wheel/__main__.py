"""`make sdist`, `make wheel`, `make check-dist`, `make reproduce`: into dist/. Exits with 1 if something is wrong."""

import shutil
import sys
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from tests.wheel import build
from tests.wheel.check import check
from tests.wheel.contents import ROOT
from tests.wheel.tryout import pythons, tryout

DIST = ROOT / "dist"


def make_sdist() -> bool:
    """Leaves the sdist alone in dist/."""
    shutil.rmtree(DIST, ignore_errors=True)
    return check([build.sdist(DIST)])


def make_wheel() -> bool:
    """Builds sdist and wheel, checks both, and tries the wheel with each CPython here."""
    if not make_sdist():
        return False
    [sdist] = DIST.iterdir()
    wheel = build.wheel(sdist, DIST)
    if not check([wheel]):
        return False
    for version, python in pythons().items():
        click.echo(f"\n{wheel.name} with CPython {version}")
        if not tryout(wheel, sdist, python):
            return False
    return show(DIST)


def check_dist() -> bool:
    """Checks whatever dist/ holds."""
    return check(sorted(DIST.iterdir()))


def reproduce() -> bool:
    """Builds sdist and wheel once more, and compares them with those in dist/."""
    with TemporaryDirectory() as directory:
        again = Path(directory)
        build.wheel(build.sdist(again), again)
        show(again)
        return all((DIST / path.name).read_bytes() == path.read_bytes() for path in again.iterdir()) and show(DIST)


def show(directory: Path) -> bool:
    """Prints the hashes of what is there."""
    click.echo()
    for path in sorted(directory.iterdir()):
        click.echo(f"{sha256(path.read_bytes()).hexdigest()}  {path.name}")
    return True


if __name__ == "__main__":
    commands = {"sdist": make_sdist, "wheel": make_wheel, "check": check_dist, "reproduce": reproduce}
    sys.exit(not commands[sys.argv[1]]())
