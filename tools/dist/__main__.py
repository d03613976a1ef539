"""`make sdist`, `make wheel`, `make check-dist`, `make reproduce` into dist/, and `make client` into client/dist/.

Exits with 1 if something is wrong.
"""

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from tools.dist import build
from tools.dist.check import availability, check, other_tools
from tools.dist.contents import CLIENT, FREE_THREADED, SEPU, Distribution, pure
from tools.dist.tryout import pythons, tryout


def make_sdist(distribution: Distribution) -> bool:
    """Builds the sdist, as the only file of the distribution's dist/."""
    shutil.rmtree(distribution.dist, ignore_errors=True)
    return check(distribution, [build.sdist(distribution, distribution.dist)])


def make_wheel(distribution: Distribution) -> bool:
    """Builds sdist and wheel, checks both, and tries the wheel with each CPython here."""
    if not make_sdist(distribution):
        return False
    [sdist] = distribution.dist.iterdir()
    found = pythons()
    wheels = build_wheels(sdist, distribution.dist, found)
    if not (check(distribution, set(wheels.values())) and availability(distribution)):
        return False
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        tried = [
            *pool.map(lambda version: tryout(distribution, wheels[version], sdist, version, found[version]), found)
        ]
    return all(tried) and show(distribution.dist)


def build_wheels(sdist: Path, target: Path, found: dict[str, str]) -> dict[str, Path]:
    """Builds one wheel for all these CPythons; if it is compiled, each one without a GIL has its own."""
    common = build.wheel(sdist, target)
    return {
        version: build.wheel(sdist, target, python=python) if version in FREE_THREADED and not pure(common) else common
        for version, python in found.items()
    }


def reproduce(distribution: Distribution) -> bool:
    """Builds the sdist again, and the wheels from the sdist in dist/; compares them with those in dist/."""
    dist = distribution.dist
    [published] = dist.glob("*.tar.gz")
    for wheel in dist.glob("*.whl"):
        if other := other_tools(wheel):
            click.echo(f"{wheel.name} was built with other tools: {sys.executable} -m pip install {' '.join(other)}")
            return False
    with TemporaryDirectory() as directory:
        again = Path(directory)
        build.sdist(distribution, again)
        build_wheels(published, again, pythons())
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
