"""`make sdist`, `make wheel`, `make check-dist`, `make reproduce` into dist/, and `make client` into client/dist/.

Exits with 1 if something is wrong.
"""

import shutil
import sys
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from tools.dist import build
from tools.dist.availability import availability
from tools.dist.check import check
from tools.dist.contents import CLIENT, SEPU, Distribution
from tools.dist.tryout import pythons, tryout


def make_sdist(distribution: Distribution) -> bool:
    """Leaves the sdist alone in the distribution's dist/."""
    shutil.rmtree(distribution.dist, ignore_errors=True)
    return check(distribution, [build.sdist(distribution, distribution.dist)])


def make_wheel(distribution: Distribution) -> bool:
    """Builds sdist and wheel, checks both, and tries the wheel with each CPython here."""
    if not make_sdist(distribution):
        return False
    [sdist] = distribution.dist.iterdir()
    wheel = build.wheel(sdist, distribution.dist)
    if not (check(distribution, [wheel]) and availability(distribution)):
        return False
    for version, python in pythons().items():
        click.echo(f"\n{wheel.name} with CPython {version}")
        if not tryout(distribution, wheel, sdist, python):
            return False
    return show(distribution.dist)


def reproduce(distribution: Distribution) -> bool:
    """Builds sdist and wheel once more, and compares them with those in the distribution's dist/."""
    dist = distribution.dist
    with TemporaryDirectory() as directory:
        again = Path(directory)
        build.wheel(build.sdist(distribution, again), again)
        show(again)
        return all((dist / path.name).read_bytes() == path.read_bytes() for path in again.iterdir()) and show(dist)


def show(directory: Path) -> bool:
    """Prints the hashes of what is there."""
    click.echo()
    for path in sorted(directory.iterdir()):
        click.echo(f"{sha256(path.read_bytes()).hexdigest()}  {path.name}")
    return True


if __name__ == "__main__":
    commands = {
        "sdist": lambda: make_sdist(SEPU),
        "wheel": lambda: make_wheel(SEPU),
        "check": lambda: check(SEPU, sorted(SEPU.dist.iterdir())),
        "reproduce": lambda: reproduce(SEPU),
        "client": lambda: make_wheel(CLIENT) and reproduce(CLIENT),
    }
    sys.exit(not commands[sys.argv[1]]())
