"""What comes by the wire: `make fuzz WHAT=wire [WORKER=uvloop]`.

A quarter of the time goes to the default worker's connection in simulated time, where each case has a seed of its own
(`SECONDS=0 SEED=that` plays it alone), the rest to hostile clients against a real server.
"""

import os
import tempfile
import time
from collections import Counter
from itertools import count
from pathlib import Path

from tests.fuzz.hostile_clients import Campaign
from tests.fuzz.outcome import Outcome
from tests.server.wire_simulation import play, play_mutated
from tests.serving import serving

from sepu.cli.database import connect, database

HANG_SECONDS = 2.0  # on a quiet machine no probe takes a tenth of it


def fuzz(seconds: float, seed: int) -> Outcome:
    worker = os.environ.get("WORKER", "uvloop")
    outcome = Outcome()
    if worker == "uvloop":
        simulate(outcome, seed, time.monotonic() + seconds / 4)
        seconds *= 3 / 4
    if seconds:
        outcome.faults += _campaign(worker, seconds, seed, outcome.tried)
    return outcome


def simulate(outcome: Outcome, seed: int, until: float = 0, cases: int = 1) -> None:
    """Plays cases from `seed` on: so many, and then until it is late."""
    for case in count(seed):
        if case >= seed + cases and time.monotonic() >= until:
            break
        for kind in (play, play_mutated):
            try:
                outcome.tried += Counter({f"simulated {what}": number for what, number in kind(case).items()})
            except Exception as error:
                outcome.faults.append(f"SECONDS=0 SEED={case}: {type(error).__name__}: {str(error)[:2000]}")


def _campaign(worker: str, seconds: float, seed: int, tried: Counter[str]) -> list[str]:
    with (
        tempfile.TemporaryDirectory(prefix="sepu-fuzz-") as directory,
        database(None, Path(directory), create=True) as url,
        connect(url) as connection,
        serving(worker, url) as server,
    ):
        report = Campaign(server, connection, seed, HANG_SECONDS).run(seconds)
    tried.update({"connections": report.connections, "requests": report.requests, "probes": report.probes})
    failed = report.violations or report.deaths or report.hangs
    return [f"{worker}: {report}"] if failed else []
