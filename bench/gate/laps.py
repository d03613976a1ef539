"""Times hot paths on demand: one side of the comparison of base and head.

Each line of input has the number of a path and of its runs; the answer is their CPU time, on which other programs have
less effect than on elapsed time.
"""

import json
import sys
import time

from bench.hot_paths import hot_paths


def main() -> None:
    """Prints the names of the paths, then answers until the input ends."""
    paths = hot_paths()
    print(json.dumps([path.name for path in paths]), flush=True)
    for line in sys.stdin:
        number, times = map(int, line.split())
        start = time.process_time()
        paths[number].run(times)
        print(time.process_time() - start, flush=True)


if __name__ == "__main__":
    main()
