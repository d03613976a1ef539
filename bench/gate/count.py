"""Counts the costs of the start-up and of the hot paths; prints JSON.

Under callgrind (callgrind.py), with counted.c preloaded, it counts instructions, calls and allocations.
It prints the names of the files that callgrind has written; another process reads them, because this one is slow. Code
before a count runs without callgrind's instrumentation, several times as fast.

Each path is counted in a child process, so that no other path affects it, and in a few blocks of runs. The least block
counts, without what happens only from time to time. Garbage collection is off, because one more object can start it.

It counts one run of each named path; without callgrind, the opcodes of its Python functions instead.
"""

import gc
import importlib
import itertools
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from bench.gate import opcodes
from tests.harness import callgrind

WARM_UP = 40
BLOCKS, RUNS = 3, 10
STARTUP = "start-up: "
MEMORY, REQUESTS = "memory: a worker that has served, KiB", 200
CALLING = ("HTTP: ", "request: ", "ledger: ")  # paths whose calls are counted too
ALLOCATED = ("allocations", "allocated bytes")
_kept: list[object] = []


def figures(name: str, blocks: Iterable[callgrind.Block]) -> dict[str, float]:
    """Returns the instructions of one run, and for `CALLING` paths its calls and allocations, from all blocks.

    Calls that happen less than once a run, such as the growth of a table, do not count.
    """
    files, *allocated = zip(*blocks, strict=True)
    dumps = list(map(callgrind.read, files))
    runs = RUNS if len(dumps) == BLOCKS else 1
    found = {name: min(map(callgrind.total, dumps)) / runs}
    if name.startswith(CALLING):
        called = dict(zip(ALLOCATED, allocated, strict=True)) | {callgrind.CALLS: map(callgrind.calls, dumps)}
        found |= {f"{what}: {name}": min(counts) // runs for what, counts in called.items()}
    return found


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


def shift() -> None:
    """Changes the layout of what this process allocates from now on, as a change elsewhere would."""
    layout = len(os.environ["LAYOUT"])
    chosen = random.Random(layout)
    _kept.extend(bytes(chosen.randrange(600)) for _ in range(chosen.randrange(3000) if layout else 0))


def memory(*_: str) -> None:
    """Prints the KiB of memory of this process after it has served, without the pages of files."""
    from bench.hot_paths import hot_paths

    for path in hot_paths():
        if path.name.startswith("request"):
            path.run(REQUESTS)
    gc.collect()
    lines = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    json.dump({MEMORY: int(lines["Anonymous"].split()[0])}, sys.stdout)


def main(unit: str, directory: str, database: str, skipped: str, *named: str) -> None:
    """Prints all counts except of names with a prefix in `skipped`, which `;` separates; or only those of `named`."""
    gc.disable()
    shift()
    fix_digits()
    count: Callable[..., Any] = (
        partial(callgrind.counted, Path(directory)) if unit == "instructions" else opcodes.executed
    )
    found: dict[str, object] = {}

    def is_wanted(name: str) -> bool:
        return name in named if named else not name.startswith(tuple(filter(None, skipped.split(";"))))

    def once(name: str, run: Callable[[int], object]) -> None:
        if is_wanted(name):
            found[name] = [count(lambda: run(1))]
        else:
            run(1)

    def often(run: Callable[[int], object]) -> list[object]:
        gc.collect()
        run(WARM_UP)
        # All runs of a block are counted together: a call in each run would take more than 1 % of a short path.
        return [count(lambda: run(1))] if named else [count(lambda: run(RUNS)) for _ in range(BLOCKS)]

    def service(_: int) -> None:
        from sepu.http.service import Service
        from sepu.library.release import load_release

        Service.of(load_release())

    modules = ("sepu.server.gunicorn", "sepu.server.uvloop")
    once(f"{STARTUP}a worker's imports", lambda _: list(map(importlib.import_module, modules)))
    once(f"{STARTUP}the release loaded, the service made", service)
    if unit == "instructions":
        callgrind.stop_counting()
    hot_paths = importlib.import_module("bench.hot_paths").hot_paths
    for path in hot_paths(*[database][: hot_paths.__code__.co_argcount]):
        if is_wanted(path.name):
            found[path.name] = in_child(partial(often, path.run))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    (memory if sys.argv[1] == "memory" else main)(*sys.argv[1:])
