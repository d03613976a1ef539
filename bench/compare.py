"""`make bench-compare A=… B=…`: times the hot paths of two commits in turns, on one machine, in one run.

Each commit has its own code, hot paths and core; both run with the packages of .venv. Where a process has its memory
makes it some per cent faster or slower for as long as it lives, so each pair of processes counts as one measurement:
the ratio is the geometric mean of the pairs', with the 99 % interval of Student's t of their logarithms.
"""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from bench.commits import PACKAGES, base, built, named, working_tree

PAIRS = 12
_LAPS = Path(__file__).with_name("laps.py")
_TIMEOUT_SECONDS = 600


class Ratio(NamedTuple):
    """The time of the second commit over that of the first, and the ends of its interval."""

    ratio: float
    low: float
    high: float

    @property
    def word(self) -> str:
        return "slower" if self.low > 1 else "faster" if self.high < 1 else ""


def _times(tree: Path, seed: int) -> dict[str, float]:
    path = os.pathsep.join(map(str, (tree / "src", tree / PACKAGES, tree)))
    where = {"PYTHONPATH": path, "PYTHONHASHSEED": str(seed), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", str(_LAPS)]  # -P: what it imports is the tree's
    done = subprocess.run(command, cwd=tree, env=os.environ | where, stdout=subprocess.PIPE, timeout=_TIMEOUT_SECONDS)
    if done.returncode:
        sys.exit("the hot paths of one of the commits do not run with the packages of .venv: see above")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def summed_up(ratios: list[float]) -> Ratio:
    """Returns the geometric mean of the pairs' ratios, and its interval."""
    from scipy.stats import ttest_1samp  # takes a second to import

    logarithms = [math.log(ratio) for ratio in ratios]
    interval = ttest_1samp(logarithms, 0).confidence_interval(0.99)
    return Ratio(*map(math.exp, (sum(logarithms) / len(logarithms), interval.low, interval.high)))


def compare(first: Path, second: Path, pairs: int = PAIRS) -> dict[str, Ratio]:
    """Times both trees in turns; returns a ratio for each path that both have."""
    ratios: dict[str, list[float]] = {}
    for seed in range(pairs):
        print(f"processes {seed + 1} of {pairs}", file=sys.stderr, flush=True)
        order = (first, second) if seed % 2 else (second, first)  # neither is always first
        times = {tree: _times(tree, seed) for tree in order}
        for name in times[second].keys() & times[first].keys():
            ratios.setdefault(name, []).append(times[second][name] / times[first][name])
    return {name: summed_up(ratios[name]) for name in sorted(ratios)}


def main(a: str = "", b: str = "") -> None:
    """Prints a line for each path. By default the second is the files as they are, the first where that left main."""
    second = named(b) if b else working_tree()
    first = named(a) if a else base(b or "HEAD")
    with built(first, second) as trees:
        found = compare(*trees)
    print(f"CPU time of {b or 'the files as they are'} ÷ that of {first[:12]}; {PAIRS} pairs, 99 % intervals")
    for name, ratio in found.items():
        interval = f"{ratio.low:.3f} to {ratio.high:.3f}"
        print(f"{name:<48}{ratio.ratio:>7.3f}   {interval:<18}{ratio.word}".rstrip())


if __name__ == "__main__":
    main(*sys.argv[1:])
