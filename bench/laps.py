"""Prints the CPU time of each hot path of the commit in whose tree it runs: one process of `make bench-compare`.

Other programs have less effect on CPU time than on elapsed time, and make it only longer, so the least of some laps is
taken.
"""

import json
import time

from bench.hot_paths import HotPath, hot_paths

LAPS = 7
LAP_SECONDS = 0.03


def lap(path: HotPath, times: int) -> float:
    """Returns the seconds of one run."""
    start = time.process_time()
    path.run(times)
    return (time.process_time() - start) / times


if __name__ == "__main__":
    paths = hot_paths()
    times = [max(1, round(LAP_SECONDS / min(lap(path, 10) for _ in range(3)))) for path in paths]
    laps = [[lap(path, many) for path, many in zip(paths, times, strict=True)] for _ in range(LAPS)]
    print(json.dumps({path.name: min(taken) for path, taken in zip(paths, zip(*laps, strict=True), strict=True)}))
