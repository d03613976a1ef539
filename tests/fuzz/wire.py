"""What comes by the wire: `make fuzz WHAT=wire [WORKER=uvloop]`.

A quarter of the time goes to the default worker's connection in simulated time, the rest to hostile clients against a
real server.
"""

import os
from collections.abc import Iterator

from tests.fuzz.hostile_clients import Campaign
from tests.fuzz.outcome import Outcome, Played, own_database, run_for
from tests.server import wire_simulation
from tests.serving import serving

from sepu.cli.database import connect

HANG_SECONDS = 2.0  # on a quiet machine no probe takes a tenth of it


def _simulated(numbers: Iterator[int]) -> Iterator[Played]:
    for number in numbers:
        for play in (wire_simulation.play, wire_simulation.play_mutated):
            fault = None
            try:
                play(number)
            except Exception as error:
                fault = f"{type(error).__name__}: {str(error)[:2000]}"
            yield number, f"simulated {play.__name__}", fault


def fuzz(seconds: float, seed: int) -> Outcome:
    worker = os.environ.get("WORKER", "uvloop")
    outcome = Outcome()
    if worker == "uvloop":
        outcome = run_for(_simulated, seconds / 4, seed)
        seconds *= 3 / 4
    if seconds:
        with own_database() as url, connect(url) as connection, serving(worker, url) as server:
            report = Campaign(server, connection, seed, HANG_SECONDS).run(seconds)
        outcome.tried.update({"connections": report.connections, "requests": report.requests, "probes": report.probes})
        if report.violations or report.deaths or report.hangs:
            outcome.faults.append(f"{worker}: {report}")
    return outcome
