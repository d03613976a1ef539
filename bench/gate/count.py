"""Counts the instructions of each hot path; runs under callgrind and prints JSON.

The processor that valgrind plays counts instructions, not time, so a busy machine makes no difference. Each call of
`getppid` makes it write down what it has counted since the last one: so the start of Python does not count, and the
difference of few runs and many is the path alone.
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
# One line of a caller, the next of what it called.
_FORMULA = re.compile(r"^cfn=compute_delta_e_\w+\ncalls=(\d+) ", re.MULTILINE)


class Count(NamedTuple):
    """What one run of a path takes."""

    instructions: float
    formula: float  # calls of the colour difference's formula, eight colours each

    def __sub__(self, other: "Count") -> "Count":
        return Count(self.instructions - other.instructions, self.formula - other.formula)


class Dumps:
    """callgrind's files, which it writes whenever `getppid` is called."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._number = 0

    def of(self, run: Callable[[int], object], times: int) -> Count:
        """What so many runs of a path take, and a little around them."""
        os.getppid()
        run(times)
        os.getppid()
        self._number += 2
        text = Path(f"{self._prefix}.{self._number}").read_text("utf-8")
        total = _TOTAL.search(text)
        assert total is not None
        return Count(int(total[1]), sum(map(int, _FORMULA.findall(text))))

    def count(self, run: Callable[[int], object]) -> Count:
        """One run of a path, as the difference of few and many."""
        gc.collect()
        gc.disable()
        run(WARM_UP)
        few, many = (self.of(run, times) for times in (RUNS, 2 * RUNS))
        gc.enable()
        return Count(*(number / RUNS for number in many - few))


def burn(turns: int) -> None:
    """Does nothing, so many times."""
    for _ in repeat(None, turns):
        pass


@contextmanager
def slowed(path: HotPath, turns: int) -> Iterator[Callable[[int], object]]:
    """The path, each run so much longer: where it passes its seam, or after it if it is compiled."""
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
    """The count of each path, made longer by that share of itself."""
    turn = dumps.count(lambda times: burn(100 * times)).instructions / 100
    found = {}
    for path in paths:
        before = counts[path.name].instructions
        with slowed(path, 0) as run:
            detour = dumps.count(run).instructions - before  # slowing down takes time by itself
        with slowed(path, round((share * before - detour) / turn)) as run:
            found[path.name] = dumps.count(run)
    return found


def main(prefix: str, slowdown: float) -> None:
    """Prints the count of each path; with a slowdown, of each path made longer by that share."""
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
