"""Counts the bytes that a request allocates, with allocated.c in front of the C library; prints JSON.

callgrind counts how often a function was called, not with which arguments.
"""

import ctypes
import gc
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.gate.count import BLOCKS, RUNS, WARM_UP, counts_calls, fix_digits, in_child
from bench.gate.disturbance import begin
from bench.hot_paths import hot_paths

NAME = "allocated bytes"
_SOURCE = Path(__file__).with_suffix(".c")


def library(directory: Path) -> Path:
    """Compiles allocated.c; returns what has to be loaded."""
    made = directory / "allocated.so"
    subprocess.run(["cc", "-O1", "-fno-builtin", "-shared", "-fPIC", "-o", made, _SOURCE], check=True, timeout=60)
    return made


def main(database: str, disturbance: str) -> None:
    """Prints the bytes of each path of which calls are counted, too."""
    gc.disable()
    begin(disturbance)
    fix_digits()
    total = ctypes.c_size_t.in_dll(ctypes.CDLL(None), "allocated_bytes")

    def count(run: Callable[[int], object]) -> int:
        run(WARM_UP)
        blocks = []
        for _ in range(BLOCKS):
            before = total.value
            run(RUNS)
            blocks.append(total.value - before)
        return min(blocks) // RUNS

    paths = [path for path in hot_paths(database) if counts_calls(path.name)]
    json.dump({f"{NAME}: {path.name}": in_child(partial(count, path.run)) for path in paths}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
