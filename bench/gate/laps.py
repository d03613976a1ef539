"""Times hot paths when told to: one side of the base against head run.

Of each line of input, a path's number and how often, the answer is the CPU time: others on the machine count less so.
"""

import json
import sys
import time

from bench.hot_paths import hot_paths


def main() -> None:
    """Names the paths, then answers until the input ends."""
    paths = hot_paths()
    print(json.dumps([path.name for path in paths]), flush=True)
    for line in sys.stdin:
        number, times = map(int, line.split())
        start = time.process_time()
        paths[number].run(times)
        print(time.process_time() - start, flush=True)


if __name__ == "__main__":
    main()
