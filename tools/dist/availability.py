"""Whether everything that a distribution is installed and tried with has wheels: nobody needs a compiler for it.

Asks the package index, for each CPython and processor of Linux that we support, whatever this machine is.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import click
from tools.dist.contents import CLIENT, ROOT, SEPU, Distribution

LOCKS = {SEPU: ["embedded", "build", "core-test"], CLIENT: ["client"]}  # server.txt is a part of embedded.txt
PLATFORMS = ["x86_64-manylinux_2_28", "aarch64-manylinux_2_28"]


def installable(lock: Path, python: str, platform: str) -> bool:
    """Whether wheels alone satisfy a lock there; what is missing is said by uv."""
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--dry-run"]
    wanted = ["--python-platform", platform, "--require-hashes", "--only-binary", ":all:", "-r", str(lock)]
    with tempfile.TemporaryDirectory() as target:  # a dry run too writes a lock file there
        where = ["--python", sys.executable, "--target", target, "--python-version", python]
        return subprocess.run([*uv, *where, *wanted], check=False).returncode == 0


def availability(distribution: Distribution) -> bool:
    """Asks for each lock; whether nothing is missing."""
    good = True
    for lock in LOCKS[distribution]:
        for platform in PLATFORMS:
            found = [
                python
                for python in distribution.pythons
                if installable(ROOT / "requirements" / f"{lock}.txt", python, platform)
            ]
            click.echo(f"requirements/{lock}.txt in wheels for {platform}: CPython {', '.join(found) or 'none'}")
            good &= found == distribution.pythons
    return good
