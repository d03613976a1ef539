"""Counts base and head side by side: both with this interpreter and the packages of .venv.

Both are counted by head's harness, so that a change of the harness is no change of the product. What of base does not
fit head's harness is counted by base's own.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bench.commits import build, objects
from bench.gate import callgrind
from bench.gate.disturbance import Disturbance

# By kind of figures, the files on which they depend.
KINDS = {"worker": ("src", "cext", "setup.py"), "database": ("src/sepu/metering",)}
_NAMES = """from bench.hot_paths import hot_paths
for path in hot_paths(*["database"][:hot_paths.__code__.co_argcount]): print(path.name)"""
_SECONDS = 1800
_NONE = Disturbance()
_TALKS: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": "/"}

Figures = dict[str, float]


@dataclass
class Counts:
    """The figures of one side, and why some could not be counted."""

    figures: Figures = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def take(self, what: str, told: str, errors: str) -> None:
        """Adds what a program printed, or why it did not."""
        if not told.strip():
            self.failures[what] = (errors.strip() or "it ended without a message").splitlines()[-1]
            return
        for name, figure in json.loads(told).items():
            (self.failures if isinstance(figure, str) else self.figures)[name] = figure


class Side:
    """The files of one tree, and the programs that count what they do."""

    def __init__(self, directory: Path, tree: str) -> None:
        self.directory = directory
        directory.mkdir()
        build(tree, directory)

    def count(self, kinds: Sequence[str], harness: Path, disturbed: Disturbance = _NONE) -> Counts:
        """Counts figures of these kinds by the harness in that directory."""
        counts = Counts()
        with tempfile.TemporaryDirectory(prefix="sepu-gate-") as made:
            directory = Path(made)
            directory.chmod(0o711)  # Postgres may run as another user
            disturbance, prefix = directory / "disturbance.json", str(directory / "callgrind")
            disturbed.write(disturbance)
            # The gate is always head's: that of base was removed.
            where = {
                "PYTHONPATH": _path(self.directory / "src", harness, harness.with_name("head")),
                "LAYOUT": "x" * disturbed.layout,  # shifts the stack, too
            }

            def program(name: str, *arguments: str) -> list[str]:
                return [sys.executable, "-P", "-m", f"bench.gate.{name}", *arguments, str(disturbance)]

            command = program("database", f"{directory}/state", "counts" if "database" in kinds else "")
            database = subprocess.Popen(command, env={**os.environ, **where}, **_TALKS)
            try:
                assert database.stdout is not None
                url = database.stdout.readline().strip()
                if "worker" in kinds:
                    count = callgrind.command(prefix, "getppid", *program("count", prefix, url))
                    counts.take("count", *_run(count, callgrind.environment(**where)))
                    counts.take("memory", *_run(program("memory"), {"PYTHONHASHSEED": "0", **where}))
                counts.take("database", *database.communicate("\n", timeout=_SECONDS))
            finally:
                database.terminate()
                database.communicate(timeout=_SECONDS)
        return counts

    def hot_paths(self) -> set[str]:
        """Returns the names of the paths of its own harness."""
        where = {"PYTHONPATH": _path(self.directory / "src", self.directory)}
        return set(_run([sys.executable, "-P", "-c", _NAMES], {**os.environ, **where})[0].splitlines())


def _path(*directories: Path) -> str:
    return os.pathsep.join(map(str, directories))


def _run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[str, str]:
    """Runs a program; returns what it printed, and its errors."""
    with subprocess.Popen(command, env=environment, **_TALKS) as running:
        try:
            told, errors = running.communicate(timeout=_SECONDS)
        except BaseException:
            running.kill()
            raise
    return told, errors


@contextmanager
def sides(base: str, head: str) -> Iterator[tuple[Side, Side]]:
    """Puts the files of both trees into directories whose names are equally long, because paths are in the counts."""
    with tempfile.TemporaryDirectory(prefix="sepu-gate-") as made:
        directory = Path(made)
        directory.chmod(0o711)
        found = Side(directory / "base", base), Side(directory / "head", head)
        shutil.rmtree(directory / "base" / "bench" / "gate", ignore_errors=True)
        compiled = [str(directory / side / part) for side in ("base", "head") for part in ("src", "bench", "tests")]
        subprocess.run([sys.executable, "-m", "compileall", "-q", *compiled], check=True, timeout=_SECONDS)
        yield found


class Comparison(NamedTuple):
    """What was counted of both sides. `gone` are the hot paths that only base has."""

    base: Counts
    head: Counts
    gone: set[str]


def changed(base: str, head: str) -> list[str]:
    """Returns the kinds of figures that can differ between two trees."""
    return [kind for kind, files in KINDS.items() if objects(base, files) != objects(head, files)]


def compare(base: str, head: str) -> Comparison:
    """Counts what can differ between two trees."""
    kinds, harnesses_differ = changed(base, head), objects(base, ["bench"]) != objects(head, ["bench"])
    if not kinds and not harnesses_differ:
        return Comparison(Counts(), Counts(), set())
    with sides(base, head) as (before, after), ThreadPoolExecutor() as pool:
        gone = before.hot_paths() - after.hot_paths() if harnesses_differ else set()
        if not kinds:
            return Comparison(Counts(), Counts(), gone)
        first, second = pool.map(lambda side: side.count(kinds, after.directory), (before, after))
        if first.failures.keys() - second.failures.keys():
            own = before.count(kinds, before.directory)
            first = Counts(own.figures | first.figures, own.failures)
    return Comparison(first, second, gone)
