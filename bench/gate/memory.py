"""Counts the KiB of memory that a process of its own has, once it has served: not the pages of files."""

import gc
import json
import sys
from pathlib import Path

from bench.gate.disturbance import read
from bench.hot_paths import hot_paths

NAME = "memory: a worker that has served, KiB"
REQUESTS = 200


def main(disturbance: str) -> None:
    """Serves requests of all kinds."""
    disturbed = read(disturbance)  # what shifts the memory of other counts would be a part of this one
    wasted = b"x" * round(disturbed.slowdown * disturbed.known.get(NAME, 0) * 1024)
    for path in hot_paths():
        if path.name.startswith("request"):
            path.run(REQUESTS)
    gc.collect()
    lines = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    json.dump({NAME: int(lines["Anonymous"].split()[0])}, sys.stdout)
    del wasted


if __name__ == "__main__":
    main(*sys.argv[1:])
