"""Checks the names of all benchmarks: one that is renamed or removed loses its history."""

import subprocess
import sys
from pathlib import Path

from bench.hot_paths import hot_paths

MANIFEST = Path(__file__).with_name("manifest.txt")
_ROOT = Path(__file__).parents[2]


def names() -> list[str]:
    """Returns the names of the suite's benchmarks and of the hot paths."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "--no-header", "bench"],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    suite = [line for line in done.stdout.splitlines() if "::" in line]
    return sorted(suite) + sorted(path.name for path in hot_paths())


def renew() -> None:
    """Writes the names of this commit into the manifest."""
    MANIFEST.write_text("".join(f"{name}\n" for name in names()), "utf-8")


def alarms() -> list[str]:
    """Returns what is new, and what is gone."""
    found, listed = set(names()), set(MANIFEST.read_text("utf-8").splitlines())
    return [f"{name}: not in the manifest" for name in sorted(found - listed)] + [
        f"{name}: in the manifest, but gone" for name in sorted(listed - found)
    ]
