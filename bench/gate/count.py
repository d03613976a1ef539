"""Counts the instructions of the hot paths and of the start-up; runs under callgrind (callgrind.py) and prints JSON.

Each path is counted in a child process, so that no other path has an effect on it, and in a few blocks of runs. The
least of the blocks counts: what happens from time to time is not in it. No garbage is collected, because one object
more can cause a collection. The clock stands still, because the digits of a time have a cost.
"""

import gc
import importlib
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench.gate.callgrind import counted
from bench.gate.disturbance import begin, burn

if TYPE_CHECKING:
    from bench.hot_paths import HotPath  # whose import is counted

WARM_UP = 40
BLOCKS, RUNS = 3, 25
_TURNS = 100_000


def count(prefix: str, run: Callable[[], object]) -> int:
    """Counts the instructions of one call: callgrind writes a file at each call of `getppid`."""
    os.getppid()
    run()
    os.getppid()
    return counted(prefix, os.getpid())[-1]


def count_path(prefix: str, run: Callable[[int], object]) -> float:
    """Counts one run of a hot path."""
    gc.collect()
    run(WARM_UP)
    return min(count(prefix, lambda: run(RUNS)) for _ in range(BLOCKS)) / RUNS


def count_slowed(prefix: str, path: "HotPath", more: float, turn: float) -> float:
    """Counts one run of a path that takes so many instructions more."""
    before = count_path(prefix, path.run)
    with slowed(path, 0) as run:
        detour = count_path(prefix, run) - before  # the wrapper itself takes instructions
    with slowed(path, round((more - detour) / turn)) as run:
        return count_path(prefix, run)


@contextmanager
def slowed(path: "HotPath", turns: int) -> Iterator[Callable[[int], object]]:
    """Makes each run of a path longer by a loop: in the method of its seam, or after the run if there is none."""
    if path.seam is None:

        def run(times: int) -> None:
            for _ in range(times):
                path.run(1)
                burn(turns)

        yield run
        return
    home, method = path.seam
    original = getattr(home, method)

    def slow(*arguments: object) -> object:
        burn(turns)
        return original(*arguments)

    setattr(home, method, slow)
    try:
        yield path.run
    finally:
        setattr(home, method, original)


def _in_child(run: Callable[[], float]) -> float | str:
    """Returns what a child process counts, or why it does not."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        found: float | str
        try:
            found = run()
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        os.write(writing, json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        told = answer.read()
    os.waitpid(child, 0)
    return json.loads(told or '"the process that counted it ended"')  # type: ignore[no-any-return]


def main(prefix: str, database: str, disturbance: str) -> None:
    """Prints all counts; with a slowdown, of each path made longer by that share, one at a time."""
    gc.disable()
    disturbed = begin(disturbance)
    time.time = itertools.repeat(1.8e9).__next__
    time.perf_counter = itertools.repeat(1.0).__next__
    turn = count(prefix, lambda: burn(_TURNS)) / _TURNS
    found: dict[str, float | str] = {}

    def more(name: str) -> float:
        return disturbed.known.get(name, 0) * disturbed.slowdown

    def once(name: str, run: Callable[[], object]) -> None:
        found[name] = count(prefix, lambda: (burn(round(more(name) / turn)), run()))  # type: ignore[func-returns-value]

    def service() -> None:
        from sepu.http.service import Service
        from sepu.library.release import load_release

        Service.of(load_release())

    modules = ("sepu.server.gunicorn", "sepu.server.uvloop")
    once("start-up: a worker's imports", lambda: list(map(importlib.import_module, modules)))
    once("start-up: the release loaded, the service made", service)
    hot_paths = importlib.import_module("bench.hot_paths").hot_paths
    for path in hot_paths(*[database][: hot_paths.__code__.co_argcount]):
        extra = more(path.name)
        found[path.name] = _in_child(
            lambda path=path, extra=extra: (  # type: ignore[misc]
                count_slowed(prefix, path, extra, turn) if extra else count_path(prefix, path.run)
            )
        )
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
