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
from collections.abc import Callable
from typing import Any

from bench.gate import callgrind, opcodes
from bench.gate.disturbance import begin, burn

WARM_UP = 40
BLOCKS, RUNS = 3, 25
_TURNS = 100_000


def counted(prefix: str, run: Callable[[], object]) -> str:
    """Returns what callgrind writes of one call: it does so at each call of `getppid`."""
    os.getppid()
    run()
    os.getppid()
    return callgrind.dumps(prefix, os.getpid())[-1]


def count(prefix: str, run: Callable[[], object]) -> int:
    """Counts the instructions of one call."""
    return callgrind.total(counted(prefix, run))


def count_path(prefix: str, name: str, run: Callable[[int], object], turns: float = 0) -> dict[str, float]:
    """Counts one run of a hot path, made longer by so many turns of a loop; of a request also what it calls.

    They are made at once for all runs of a block: a call in each run would take more than 1 % of a short path. What is
    called less than once a run, such as the growth of a table, does not count.
    """
    gc.collect()
    run(WARM_UP)
    blocks = [counted(prefix, lambda: (run(RUNS), burn(round(turns * RUNS)))) for _ in range(BLOCKS)]  # type: ignore[func-returns-value]
    called = callgrind.CALLS if name.startswith(("HTTP: ", "request: ", "ledger: ")) else {}
    return {name: min(map(callgrind.total, blocks)) / RUNS} | {
        f"{what}: {name}": min(callgrind.calls(block, names) for block in blocks) // RUNS
        for what, names in called.items()
    }


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
        return callgrind.functions(counted(prefix, run)) if prefix else opcodes.executed(run)

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

    def figures(name: str, run: Callable[[int], object]) -> dict[str, Any]:
        if not named:
            return count_path(prefix, name, run, more(name) / turn)
        run(WARM_UP)
        return {name: functions(lambda: run(1))}

    modules = ("sepu.server.gunicorn", "sepu.server.uvloop")
    once("start-up: a worker's imports", lambda: list(map(importlib.import_module, modules)))
    once("start-up: the release loaded, the service made", service)
    hot_paths = importlib.import_module("bench.hot_paths").hot_paths
    for path in hot_paths(*[database][: hot_paths.__code__.co_argcount]):
        if not named or path.name in named:
            told = in_child(lambda path=path: figures(path.name, path.run))  # type: ignore[misc]
            found |= told if isinstance(told, dict) else {path.name: told}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
