"""The short form of `make fuzz WHAT=wire`."""

import psycopg
import pytest
from tests.fuzz.hostile_clients import Campaign
from tests.fuzz.outcome import Outcome
from tests.fuzz.wire import simulate
from tests.serving import serving

SECONDS = {"uvloop": 4, "gthread": 3}
HANG_SECONDS = 10.0  # the machine may be busy


@pytest.mark.parametrize("worker", SECONDS)
def test_hostile_clients(worker: str, database_url: str, connection: psycopg.Connection) -> None:
    with serving(worker, database_url) as server:
        report = Campaign(server, connection, seed_=1, hang=HANG_SECONDS).run(SECONDS[worker])
    assert not report.violations, str(report)
    assert (report.deaths, report.hangs) == (0, 0), str(report)
    assert report.answers["200"] > 50
    assert report.answers["400"] > 50


def test_simulated_clients() -> None:
    outcome = Outcome()
    simulate(outcome, seed=1, cases=150)
    assert not outcome.faults, str(outcome)
    assert outcome.tried["simulated answer"] > 100
