"""The short form of the fault harness, on each kind of worker and through PgBouncer.

tests/http/conftest.py runs the contract through PgBouncer too.
"""

import sys
from contextlib import nullcontext

import pytest
from tests.faults.soak import Plan, soak, staged
from tests.harness.injection import Pace, kinds_of_faults
from tests.harness.proxy import Odds
from tests.harness.serving import EACH_WORKER
from tests.pgbouncer import WHY_NOT, pgbouncer

# Frequent enough that every fault happens within seconds.
PACE = Pace(worker_kill=1.2, back_end_kill=2.5, back_end_terminate=1, restart=4, cut=0.7)
# A charge alone in its call is rarer than a statement.
ODDS = Odds(before=0.01, during=0.01, after=0.06)
REFUSALS = ("429 quota_exceeded", "429 rate_limited", "409 idempotency_conflict")
BEHIND = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


@pytest.mark.parametrize("worker", [*EACH_WORKER, pytest.param("pgbouncer", marks=[pytest.mark.slow, BEHIND])])
def test_nothing_is_lost_doubled_or_stuck(worker: str) -> None:
    """Nothing is wrong, and every kind of fault did happen."""
    behind = worker == "pgbouncer"
    kind = "uvloop" if behind else worker
    plan = Plan(500, kind, clients=12, pace=PACE, odds=ODDS, most_seconds=60, failover=worker == "gthread")
    with staged(plan, pgbouncer if behind else nullcontext) as stage:
        report = soak(plan, stage)
    sys.stdout.write(f"{report}\n")
    assert report.verdict.explain() == ""
    assert [name for name in kinds_of_faults(failover=plan.failover) if not report.faults[name]] == []
    assert report.tally["replays"] > report.requests / 2  # all were sent again
    assert report.granted > 0
    assert [name for name in REFUSALS if not report.tally[name]] == []
