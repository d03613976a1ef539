"""Counts base and head side by side, with this interpreter and .venv's packages, or each with its own if locks differ.

Both are counted by head's harness, so that a change of the harness does not look like one of the product. Paths of base
that do not fit head's harness are counted by base's own.
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
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence, Set
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bench.commits import LOCKS, PACKAGES, built, objects
from bench.gate.count import STARTUP, figures
from tests.harness import callgrind

# By kind of figures, the files on which they depend.
_BUILT = ("cext", "setup.py", "data/release", *LOCKS)
KINDS = {
    "core": ("src/sepu/__init__.py", "src/sepu/library", *_BUILT),
    "worker": ("src", *_BUILT),
    "database": ("src/sepu/database", "src/sepu/metering", *LOCKS),
}
_NAMES = """from bench.hot_paths import hot_paths
for path in hot_paths(*["database"][:hot_paths.__code__.co_argcount]): print(path.name)"""
# A worker's figure is the smaller of two processes with different memory layouts: if two names that a path looks up
# share a place in CPython's type cache, it takes 0.3 % more. An operation's figure is the greater: in one layout of
# nine, the match takes 0.54 % less.
LAYOUTS = 2
CORE, OPERATION, SQL = "core: ", "operation: ", "SQL: "  # begin the names of figures
_SECONDS = 1800

# Costs by unit: of each function, or of each stack of Python's functions.
OPCODES, NATIVE, STATEMENTS = "opcodes of Python", "native instructions", "instructions of Postgres"
Functions = Mapping[str, Mapping[str, int]]
Figures = dict[str, float]


@dataclass
class Counts:
    """The figures of one side, and why some could not be counted."""

    figures: Figures = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def take(self, what: str, told: str, errors: str) -> None:
        """Adds what a program printed, or why it printed nothing."""
        if not told.strip():
            self.failures[what] = (errors.strip() or "it ended without a message").splitlines()[-1]
            return
        for path, found in json.loads(told).items():
            if isinstance(found, str):
                self.failures[path] = found
                continue
            for name, figure in (figures(path, found) if isinstance(found, list) else {path: found}).items():
                pick = max if name.startswith(OPERATION) else min
                self.figures[name] = pick(figure, self.figures.get(name, figure))


@dataclass(frozen=True)
class Side:
    """The files of one tree, and the programs that count what they do."""

    directory: Path

    async def count(self, kinds: Sequence[str], harness: Path) -> Counts:
        """Counts figures of these kinds by the harness in that directory."""
        counts = Counts()
        async with self._database(harness, "figures" if "database" in kinds else "") as base:
            if base.url and kinds != ["database"]:
                skipped = "" if "core" in kinds else CORE
                for number in range(LAYOUTS):
                    base.lay_out(number)
                    counts.take("count", *await base.count("instructions", skipped))
                    skipped += f";{STARTUP}"  # takes long, and as much in any layout
                counts.take("memory", *await base.count("memory"))
            counts.take("database", *await _ended(base.process, b"\n"))
        return counts

    async def functions(self, paths: Sequence[str], harness: Path) -> Mapping[str, Functions]:
        """Returns what the functions and statements of these figures take, by unit."""
        calls = [path.removeprefix(SQL) for path in paths if path.startswith(SQL)]
        async with self._database(harness, ";".join(calls)) as base:
            native = python = ""
            if own := [path for path in paths if not path.startswith(SQL)]:
                native, _ = await base.count("instructions", "", *own)
                python, _ = await base.count("opcodes", "", *own)
            statements, _ = await _ended(base.process, b"\n")
            found: dict[str, dict[str, Mapping[str, int]]] = {path: {} for path in paths}
            for path, [stacks] in json.loads(python or "{}").items():
                found[path][OPCODES] = stacks
            for path, [(dump, *_)] in json.loads(native or "{}").items():
                found[path][NATIVE] = callgrind.functions(callgrind.read(dump))
            for call, taken in json.loads(statements or "{}").items():
                found[SQL + call][STATEMENTS] = taken
        return found

    @asynccontextmanager
    async def _database(self, harness: Path, wanted: str) -> "AsyncIterator[_Counting]":
        """Runs the database of this side until the block ends."""
        with tempfile.TemporaryDirectory(prefix="sepu-gate-") as made:
            directory = Path(made)
            directory.chmod(0o711)  # Postgres may run as another user
            where = self._where(harness, harness.with_name("head"))  # the gate is always head's: base's is deleted
            counting = _Counting(directory, where)
            counting.lay_out(0)
            command = counting.program("database", f"{directory}/state", wanted)
            async with _running(command, {**os.environ, **where}) as counting.process:
                assert counting.process.stdout is not None
                counting.url = (await counting.process.stdout.readline()).decode().strip()
                yield counting

    async def hot_paths(self) -> set[str]:
        """Returns the names of the paths of its own harness."""
        told, _ = await _run([sys.executable, "-P", "-c", _NAMES], {**os.environ, **self._where(self.directory)})
        return set(told.splitlines())

    def _where(self, *harnesses: Path) -> dict[str, str]:
        return {
            "PYTHONPATH": os.pathsep.join(map(str, (self.directory / "src", self.directory / PACKAGES, *harnesses)))
        }


@dataclass
class _Counting:
    """The programs that count one side, and its database."""

    directory: Path
    where: dict[str, str]
    url: str = ""
    process: Process = field(init=False)

    def lay_out(self, number: int) -> None:
        self.where["LAYOUT"] = "x" * number  # shifts the stack, and what count.py allocates

    def program(self, name: str, *arguments: str) -> list[str]:
        return [sys.executable, "-P", "-m", f"bench.gate.{name}", *arguments]

    async def count(self, unit: str, skipped: str = "", *named: str) -> tuple[str, str]:
        command = self.program("count", unit, str(self.directory), self.url, skipped, *named)
        environment = callgrind.environment(**self.where)
        if unit == "memory":  # by malloc: CPython's own arenas are of 1 MiB, 2 % of a worker
            environment = {"PYTHONHASHSEED": "0", "PYTHONMALLOC": "malloc", **self.where}
        if unit == "instructions":
            command = callgrind.command(self.directory, "--instr-atstart=no", *command)
            environment["LD_PRELOAD"] = callgrind.library(self.directory)
        return await _run(command, environment)


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

    base: Counts = Counts()
    head: Counts = Counts()
    gone: Set[str] = frozenset()
    explained: Mapping[str, tuple[Functions, Functions]] = {}


def changed(base: str, head: str) -> list[str]:
    """Returns the kinds of figures that can differ between two trees."""
    return [kind for kind, files in KINDS.items() if objects(base, files) != objects(head, files)]


async def compare(base: str, head: str, wrong: Callable[[Comparison], Sequence[str]] = lambda _: ()) -> Comparison:
    """Counts what can differ between two trees, and what the functions of `wrong` figures take."""
    kinds, harnesses_differ = changed(base, head), objects(base, ["bench"]) != objects(head, ["bench"])
    if not kinds and not harnesses_differ:
        return Comparison()
    with sides(base, head) as (before, after):
        gone = await before.hot_paths() - await after.hot_paths() if harnesses_differ else set()
        if not kinds:
            return Comparison(gone=gone)
        first, second = await asyncio.gather(*(side.count(kinds, after.directory) for side in (before, after)))
        if first.failures.keys() - second.failures.keys():
            own = await before.count(kinds, before.directory)
            first = Counts(own.figures | first.figures, own.failures)
        found = Comparison(first, second, gone)
        if not (paths := wrong(found)):
            return found
        of_base, of_head = await asyncio.gather(*(side.functions(paths, after.directory) for side in (before, after)))
        return found._replace(explained={path: (of_base[path], of_head[path]) for path in paths})
