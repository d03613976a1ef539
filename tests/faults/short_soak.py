"""The fault harness in its short form."""

import sys
from contextlib import nullcontext

from tests.faults.injection import Pace
from tests.faults.proxy import Odds
from tests.faults.soak import Between, Plan, soak

# Enough of everything within seconds.
PACE = Pace(worker_kill=1.2, back_end_kill=2.5, back_end_terminate=1, restart=4, cut=0.7)
ODDS = Odds(before=0.01, during=0.01, after=0.01)
REFUSALS = ("429 quota_exceeded", "429 rate_limited", "409 idempotency_conflict")


def soak_briefly(
    requests: int, worker: str = "uvloop", between: Between = nullcontext, *, failover: bool = False
) -> None:
    """The promise was kept, and there was something to keep it against."""
    plan = Plan(requests, worker, clients=12, pace=PACE, odds=ODDS, most_seconds=40, failover=failover)
    report = soak(plan, between)
    sys.stdout.write(f"{report}\n")
    assert report.verdict.explain() == ""
    assert [name for name in plan.kinds if not report.faults[name]] == []
    assert report.tally["replays"] > report.requests / 2  # all were asked again
    assert report.granted > 0
    assert [name for name in REFUSALS if not report.tally[name]] == []
