"""The fault harness in its short form, on each kind of worker."""

import re
import sys

import psycopg
import pytest
from tests.faults.injection import Pace
from tests.faults.proxy import Odds
from tests.faults.soak import FAULTS, Plan, Report, soak
from tests.serving import WORKERS, why_not

from sepu.metering import scripts

# Enough of everything within seconds.
PACE = Pace(worker_kill=1.2, back_end_kill=2.5, back_end_terminate=1, restart=4, cut=0.7)
ODDS = Odds(before=0.01, during=0.01, after=0.01)
REFUSALS = ("429 quota_exceeded", "429 rate_limited", "409 idempotency_conflict")


def assert_kept(report: Report) -> None:
    """The promise was kept, and there was something to keep it against."""
    sys.stdout.write(f"{report}\n")
    assert report.verdict.explain() == ""
    assert [name for name in FAULTS if not report.faults[name]] == []
    assert report.tally["replays"] > report.requests / 2  # all were asked again
    assert [name for name in REFUSALS if not report.tally[name]] == []


@pytest.mark.parametrize("worker", WORKERS)
def test_nothing_is_lost_doubled_or_stuck(worker: str) -> None:
    if reason := why_not(worker):
        pytest.skip(reason)
    requests = 1500 if worker == "uvloop" else 500
    assert_kept(soak(Plan(requests, worker, clients=12, pace=PACE, odds=ODDS, most_seconds=40)))


def test_a_ledger_that_tells_every_customer_3_too_low_is_noticed() -> None:
    def spoil(connection: psycopg.Connection) -> None:
        told = re.sub(r"(committed := \w+\.committed);", r"\1 - 3;", scripts.functions().text)
        connection.execute(told.encode())

    verdict = soak(Plan(300, clients=12, most_seconds=5), spoil=spoil).verdict
    assert str(verdict).startswith("0 lost, 0 doubled, 0 stuck, ")
    assert any("its units would have fitted" in what for _, what in verdict.findings)
    assert any("from 0 to" in what for _, what in verdict.findings)
