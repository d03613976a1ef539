"""Counts the instructions of the hot paths and of the start-up; runs under callgrind (callgrind.py) and prints JSON.

Each path is counted in a child process, so that no other path has an effect on it, and in a few blocks of runs. The
least of the blocks counts: what happens from time to time is not in it. No garbage is collected, because one object
more can cause a collection. The clock stands still, because the digits of a time have a cost.

Of paths that are named it prints the functions instead: native ones by instructions; or without callgrind those of
Python, by the opcodes that they execute.
"""

import gc
import importlib
import itertools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from bench.gate import callgrind, opcodes
from bench.gate.disturbance import begin, burn

WARM_UP = 40
BLOCKS, RUNS = 3, 25
_TURNS = 100_000


def count(prefix: str, run: Callable[[], object]) -> int:
    """Counts the instructions of one call: callgrind writes a file at each call of `getppid`."""
    os.getppid()
    run()
    os.getppid()
    return callgrind.total(callgrind.dumps(prefix, os.getpid())[-1])


def count_path(prefix: str, run: Callable[[int], object], turns: float = 0) -> float:
    """Counts one run of a hot path, made longer by so many turns of a loop.

    They are made at once for all runs of a block: a call in each run would take more than 1 % of a short path.
    """
    gc.collect()
    run(WARM_UP)
    return min(count(prefix, lambda: (run(RUNS), burn(round(turns * RUNS)))) for _ in range(BLOCKS)) / RUNS  # type: ignore[func-returns-value]


def in_child(run: Callable[[], object]) -> object:
    """Returns what a child process finds, or why it does not."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        found: object
        try:
            found = run()
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        with os.fdopen(writing, "w") as file:
            json.dump(found, file)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        told = answer.read()
    os.waitpid(child, 0)
    return json.loads(told or '"the process that counted it ended"')


def native(prefix: str, run: Callable[[], object]) -> Counter[str]:
    """Returns the instructions of each native function in one call."""
    os.getppid()
    run()
    os.getppid()
    return callgrind.functions(callgrind.dumps(prefix, os.getpid())[-1])


def main(prefix: str, database: str, disturbance: str, *named: str) -> None:
    """Prints all counts; with a slowdown, of each path made longer by that share, one at a time."""
    gc.disable()
    disturbed = begin(disturbance)
    time.time = itertools.repeat(1.8e9).__next__
    time.perf_counter = itertools.repeat(1.0).__next__
    turn = 1 if named else count(prefix, lambda: burn(_TURNS)) / _TURNS
    found: dict[str, Any] = {}

    def more(name: str) -> float:
        return disturbed.known.get(name, 0) * disturbed.slowdown

    def functions(run: Callable[[], object]) -> dict[str, int]:
        return native(prefix, run) if prefix else opcodes.executed(run)

    def once(name: str, run: Callable[[], object]) -> None:
        if not named:
            found[name] = count(prefix, lambda: (burn(round(more(name) / turn)), run()))  # type: ignore[func-returns-value]
        elif name in named:
            found[name] = functions(run)
        else:
            run()

    def service() -> None:
        from sepu.http.service import Service
        from sepu.library.release import load_release

        Service.of(load_release())

    def counted(name: str, run: Callable[[int], object]) -> object:
        if not named:
            return count_path(prefix, run, more(name) / turn)
        run(WARM_UP)
        return functions(lambda: run(1))

    modules = ("sepu.server.gunicorn", "sepu.server.uvloop")
    once("start-up: a worker's imports", lambda: list(map(importlib.import_module, modules)))
    once("start-up: the release loaded, the service made", service)
    hot_paths = importlib.import_module("bench.hot_paths").hot_paths
    for path in hot_paths(*[database][: hot_paths.__code__.co_argcount]):
        if not named or path.name in named:
            found[path.name] = in_child(lambda path=path: counted(path.name, path.run))  # type: ignore[misc]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
