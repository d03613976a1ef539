"""`make startup`: how long until the command line and the service are there, and what memory a worker takes.

Each time is the least of some runs of a new process, beside that of an interpreter that does nothing. Ready is the
first 200 of /readyz, on a database that is running and migrated. Of a worker's resident memory the shared part is what
it has from before the fork and from files; proportional counts that by halves, thirds and so on.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from secrets import token_hex

import psutil
from bench.load.client import Job, measure
from bench.load.report import table
from bench.load.scenarios import SCENARIOS
from bench.load.stage import cluster
from tests.serving import SEPU, Server, serving

from bench import machine

RUNS = 10
WORKERS = (1, 2, 4)
SCENARIO = SCENARIOS["match-1"]
CONNECTIONS = 32
SECONDS = 3


def main() -> None:
    python = (sys.executable, "-c")
    everything = "import sepu.server.uvloop, sepu.server.gunicorn"
    rows = [
        _timed("an interpreter that does nothing", lambda: _run(*python, "pass")),
        _timed("import numpy", lambda: _run(*python, "import numpy")),
        _timed("import sepu, the library", lambda: _run(*python, "import sepu")),
        _timed("sepu match '#c83c23'", lambda: _run(str(SEPU), "match", "#c83c23")),
        _timed("all that serves, imported", lambda: _run(*python, everything)),
    ]
    with cluster(None) as made:
        url = made.make_empty(SCENARIO.accounts)
        rows.append(("sepu serve --workers 2, until ready", min(_ready(url) for _ in range(RUNS)) * 1000))
        least = rows[0][1]
        held = []
        for workers in WORKERS:
            with serving("uvloop", url, workers=workers) as server:
                pids = _workers(server, workers)
                held.append([f"{workers}: at the start", *_memory(pids)])
                measure(Job(server.address, SCENARIO, CONNECTIONS, made.seed, token_hex(6), SECONDS))
                held.append([f"{workers}: after {SECONDS} s of load", *_memory(pids)])
    print(f"{__doc__}\n{machine.in_words()}\n")
    print(table(["what", "ms", "÷ nothing"], [[name, f"{ms:,.0f}", f"{ms / least:.1f}"] for name, ms in rows]))
    print()
    print(table(["workers", "resident MiB of one", "of it private", "proportional"], held))


def _timed(name: str, what: Callable[[], None]) -> tuple[str, float]:
    times = []
    for _ in range(RUNS):
        started = time.perf_counter()
        what()
        times.append(time.perf_counter() - started)
    return name, min(times) * 1000


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _ready(url: str) -> float:
    started = time.perf_counter()
    with serving("uvloop", url, workers=2):  # it asks every 50 ms
        return time.perf_counter() - started


def _workers(server: Server, count: int) -> list[int]:
    while len(pids := server.workers()) < count:  # the first makes the server ready
        time.sleep(0.1)
    return pids


def _memory(pids: list[int]) -> list[str]:
    """Mean MiB of a worker: resident, private, proportional."""
    found = [psutil.Process(pid).memory_full_info() for pid in pids]
    return [
        f"{sum(parts) / len(pids) / 2**20:.1f}" for parts in zip(*((m.rss, m.uss, m.pss) for m in found), strict=True)
    ]


if __name__ == "__main__":
    main()
