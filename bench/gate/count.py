"""Counts the instructions of each hot path; runs under callgrind and prints JSON.

valgrind emulates the processor and counts instructions, not time, so the load of the machine does not matter. At each
call of `getppid` it writes what it counted since the last call. So the start of Python does not count. The counts of
many runs minus those of few are the counts of the path alone.
"""

import gc
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

from bench.hot_paths import HotPath, hot_paths

from sepu import _palette

WARM_UP = 30
RUNS = 40
_TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)
# Two lines for each call of the formula: the function, and the number of calls.
_FORMULA = re.compile(r"^cfn=compute_delta_e_\w+\ncalls=(\d+) ", re.MULTILINE)


class Count(NamedTuple):
    """The counts of one run of a path."""

    instructions: float
    formula: float  # calls of the CIEDE2000 formula, eight pairs each

    def __sub__(self, other: "Count") -> "Count":
        return Count(self.instructions - other.instructions, self.formula - other.formula)


class Dumps:
    """The files of callgrind, which writes one at each call of `getppid`."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._number = 0

    def of(self, run: Callable[[int], object], times: int) -> Count:
        """Counts so many runs of a path, and a little around them."""
        os.getppid()
        run(times)
        os.getppid()
        self._number += 2
        text = Path(f"{self._prefix}.{self._number}").read_text("utf-8")
        total = _TOTAL.search(text)
        assert total is not None
        return Count(int(total[1]), sum(map(int, _FORMULA.findall(text))))

    def count(self, run: Callable[[int], object]) -> Count:
        """Counts one run of a path: many runs minus few."""
        gc.collect()
        gc.disable()
        run(WARM_UP)
        few, many = (self.of(run, times) for times in (RUNS, 2 * RUNS))
        gc.enable()
        return Count(*(number / RUNS for number in many - few))


def burn(turns: int) -> None:
    """Loops so many times."""
    for _ in repeat(None, turns):
        pass


@contextmanager
def slowed(path: HotPath, turns: int) -> Iterator[Callable[[int], object]]:
    """Makes each run of the path longer by a loop: in the method of its seam, or after the run if there is none."""
    if path.seam is None:

        def run(times: int) -> None:
            for _ in repeat(None, times):
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


def count_slowed(dumps: Dumps, paths: Iterable[HotPath], counts: Mapping[str, Count], share: float) -> dict[str, Count]:
    """Counts each path, made longer by that share of its instructions."""
    turn = dumps.count(lambda times: burn(100 * times)).instructions / 100
    found = {}
    for path in paths:
        before = counts[path.name].instructions
        with slowed(path, 0) as run:
            detour = dumps.count(run).instructions - before  # the wrapper itself takes instructions
        with slowed(path, round((share * before - detour) / turn)) as run:
            found[path.name] = dumps.count(run)
    return found


def main(prefix: str, slowdown: float) -> None:
    """Prints the count of each path; with a slowdown, makes each path longer by that share."""
    dumps = Dumps(prefix)
    paths = hot_paths()
    counts = {path.name: dumps.count(path.run) for path in paths}
    if slowdown:
        counts = count_slowed(dumps, paths, counts, slowdown)
    result = {
        "cpu": _palette.instruction_sets()[0],
        "counts": {name: count._asdict() for name, count in counts.items()},
    }
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
