"""Counts base and head side by side: both with this interpreter and the packages of .venv.

Both are counted by head's harness, so that a change of the harness is no change of the product. What of base does not
fit head's harness is counted by base's own.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bench.commits import built, objects
from bench.gate import callgrind
from bench.gate.disturbance import Disturbance

# By kind of figures, the files on which they depend.
KINDS = {"worker": ("src", "cext", "setup.py"), "database": ("src/sepu/database", "src/sepu/metering")}
_NAMES = """from bench.hot_paths import hot_paths
for path in hot_paths(*["database"][:hot_paths.__code__.co_argcount]): print(path.name)"""
# A worker's figure is the least of two processes, whose memory is laid out otherwise: by chance, two names that a path
# looks up share a place in CPython's cache of types, and it takes 0.3 % more.
LAYOUTS = 2
_SECONDS = 1800
_NONE = Disturbance()

Figures = dict[str, float]


@dataclass
class Counts:
    """The figures of one side, and why some could not be counted."""

    figures: Figures = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def take(self, what: str, told: str, errors: str) -> None:
        """Adds what a program printed, or why it did not. Of a figure that is there, keeps the less."""
        if not told.strip():
            self.failures[what] = (errors.strip() or "it ended without a message").splitlines()[-1]
            return
        for name, figure in json.loads(told).items():
            if isinstance(figure, str):
                self.failures[name] = figure
            else:
                self.figures[name] = min(figure, self.figures.get(name, figure))


@dataclass(frozen=True)
class Side:
    """The files of one tree, and the programs that count what they do."""

    directory: Path

    async def count(self, kinds: Sequence[str], harness: Path, disturbed: Disturbance = _NONE) -> Counts:
        """Counts figures of these kinds by the harness in that directory."""
        counts = Counts()
        with tempfile.TemporaryDirectory(prefix="sepu-gate-") as made:
            directory = Path(made)
            directory.chmod(0o711)  # Postgres may run as another user
            disturbance, prefix = directory / "disturbance.json", str(directory / "callgrind")
            # The gate is always head's: that of base was removed.
            where = {"PYTHONPATH": _path(self.directory / "src", harness, harness.with_name("head"))}

            def lay_out(number: int) -> None:
                layout = disturbed.layout * LAYOUTS + number
                where["LAYOUT"] = "x" * layout  # shifts the stack, too
                disturbance.write_text(json.dumps(disturbed._replace(layout=layout)))

            def program(name: str, *arguments: str) -> list[str]:
                return [sys.executable, "-P", "-m", f"bench.gate.{name}", *arguments, str(disturbance)]

            lay_out(0)
            command = program("database", f"{directory}/state", "counts" if "database" in kinds else "")
            async with _running(command, {**os.environ, **where}) as database:
                assert database.stdout is not None
                url = (await database.stdout.readline()).decode().strip()
                if url and "worker" in kinds:
                    count = callgrind.command(prefix, "getppid", *program("count", prefix, url))
                    for number in range(LAYOUTS):
                        lay_out(number)
                        counts.take("count", *await _run(count, callgrind.environment(**where)))
                    counts.take("memory", *await _run(program("memory"), {"PYTHONHASHSEED": "0", **where}))
                counts.take("database", *await _ended(database, b"\n"))
        return counts

    async def hot_paths(self) -> set[str]:
        """Returns the names of the paths of its own harness."""
        where = {"PYTHONPATH": _path(self.directory / "src", self.directory)}
        told, _ = await _run([sys.executable, "-P", "-c", _NAMES], {**os.environ, **where})
        return set(told.splitlines())


def _path(*directories: Path) -> str:
    return os.pathsep.join(map(str, directories))


@asynccontextmanager
async def _running(command: Sequence[str], environment: Mapping[str, str]) -> AsyncIterator[Process]:
    """Runs a program until the block ends, in whatever way; then the program and its children end too."""
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, cwd="/", process_group=0, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        await process.wait()


async def _run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[str, str]:
    """Runs a program; returns what it printed, and its errors."""
    async with _running(command, environment) as process:
        return await _ended(process)


async def _ended(process: Process, typed: bytes | None = None) -> tuple[str, str]:
    async with asyncio.timeout(_SECONDS):
        told, errors = await process.communicate(typed)
    return told.decode(), errors.decode()


@contextmanager
def sides(base: str, head: str) -> Iterator[tuple[Side, Side]]:
    """Builds both trees."""
    with built(base, head) as found:
        shutil.rmtree(found[0] / "bench" / "gate", ignore_errors=True)
        compiled = [str(directory / part) for directory in found for part in ("src", "bench", "tests")]
        subprocess.run([sys.executable, "-m", "compileall", "-q", *compiled], check=True, timeout=_SECONDS)
        yield Side(found[0]), Side(found[1])


class Comparison(NamedTuple):
    """What was counted of both sides. `gone` are the hot paths that only base has."""

    base: Counts
    head: Counts
    gone: set[str]


def changed(base: str, head: str) -> list[str]:
    """Returns the kinds of figures that can differ between two trees."""
    return [kind for kind, files in KINDS.items() if objects(base, files) != objects(head, files)]


async def compare(base: str, head: str) -> Comparison:
    """Counts what can differ between two trees."""
    kinds, harnesses_differ = changed(base, head), objects(base, ["bench"]) != objects(head, ["bench"])
    if not kinds and not harnesses_differ:
        return Comparison(Counts(), Counts(), set())
    with sides(base, head) as (before, after):
        gone = await before.hot_paths() - await after.hot_paths() if harnesses_differ else set()
        if not kinds:
            return Comparison(Counts(), Counts(), gone)
        first, second = await asyncio.gather(*(side.count(kinds, after.directory) for side in (before, after)))
        if first.failures.keys() - second.failures.keys():
            own = await before.count(kinds, before.directory)
            first = Counts(own.figures | first.figures, own.failures)
    return Comparison(first, second, gone)
