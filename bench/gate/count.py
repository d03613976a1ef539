"""Counts the instructions of the hot paths and of the start-up; runs under callgrind (callgrind.py).

It prints JSON: of each path the files that callgrind has written, which are read elsewhere, because all is slow here.

Each path is counted in a child process, so that no other path has an effect on it, and in a few blocks of runs. The
least of the blocks counts: what happens from time to time is not in it. No garbage is collected, because one object
more can cause a collection.

Of paths that are named it counts one run. Without callgrind it prints the functions of Python instead, by the opcodes
that they execute.
"""

import gc
import importlib
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.gate import callgrind, opcodes
from bench.gate.disturbance import begin, burn

WARM_UP = 40
BLOCKS, RUNS = 3, 25
_TURNS = 100_000
_process_id = os.getpid


def counted(prefix: str, run: Callable[[], object]) -> str:
    """Returns the file that callgrind writes of one call: it does so at each call of `getppid`."""
    os.getppid()
    run()
    os.getppid()
    return str(callgrind.dumps(prefix, _process_id())[-1])


def count_path(prefix: str, run: Callable[[int], object], turns: float = 0) -> list[str]:
    """Counts a hot path, made longer by so many turns of a loop.

    All runs of a block are counted at once: a call in each run would take more than 1 % of a short path.
    """
    gc.collect()
    run(WARM_UP)
    return [counted(prefix, lambda: (run(RUNS), burn(round(turns * RUNS)))) for _ in range(BLOCKS)]  # type: ignore[func-returns-value]


def figures(name: str, dumps: Sequence[str]) -> dict[str, float]:
    """Returns the instructions of one run, and of a request what it calls, from the files of all blocks.

    What is called less than once a run, such as the growth of a table, does not count.
    """
    blocks = list(map(callgrind.read, dumps))
    runs = RUNS if len(blocks) == BLOCKS else 1
    called = callgrind.CALLS if counts_calls(name) else {}
    return {name: min(map(callgrind.total, blocks)) / runs} | {
        f"{what}: {name}": min(callgrind.calls(block, names) for block in blocks) // runs
        for what, names in called.items()
    }


def counts_calls(name: str) -> bool:
    """Returns whether of this path also what it calls is counted."""
    return name.startswith(("HTTP: ", "request: ", "ledger: "))


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


def fix_digits() -> None:
    """Makes each time and each process id the same, because their digits have a cost."""
    os.getpid = itertools.repeat(10_000).__next__
    time.time = itertools.repeat(1.8e9).__next__
    time.perf_counter = itertools.repeat(1.0).__next__


def main(prefix: str, database: str, disturbance: str, *named: str) -> None:
    """Prints all counts; with a slowdown, of each path made longer by that share, one at a time."""
    gc.disable()
    disturbed = begin(disturbance)
    fix_digits()
    turn: float = 1
    if disturbed.slowdown:
        turn = callgrind.total(callgrind.read(counted(prefix, lambda: burn(_TURNS)))) / _TURNS
    found: dict[str, Any] = {}

    def more(name: str) -> float:
        return disturbed.known.get(name, 0) * disturbed.slowdown

    def one(run: Callable[[], object]) -> Sequence[str] | Mapping[str, int]:
        return [counted(prefix, run)] if prefix else opcodes.executed(run)

    def once(name: str, run: Callable[[], object]) -> None:
        if not named:
            found[name] = one(lambda: (burn(round(more(name) / turn)), run()))  # type: ignore[func-returns-value]
        elif name in named:
            found[name] = one(run)
        else:
            run()

    def service() -> None:
        from sepu.http.service import Service
        from sepu.library.release import load_release

        Service.of(load_release())

    def often(name: str, run: Callable[[int], object]) -> Sequence[str] | Mapping[str, int]:
        if not named:
            return count_path(prefix, run, more(name) / turn)
        run(WARM_UP)
        return one(lambda: run(1))

    modules = ("sepu.server.gunicorn", "sepu.server.uvloop")
    once("start-up: a worker's imports", lambda: list(map(importlib.import_module, modules)))
    once("start-up: the release loaded, the service made", service)
    hot_paths = importlib.import_module("bench.hot_paths").hot_paths
    for path in hot_paths(*[database][: hot_paths.__code__.co_argcount]):
        if not named or path.name in named:
            found[path.name] = in_child(lambda path=path: often(path.name, path.run))  # type: ignore[misc]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
