"""The short form through PgBouncer. The contract passes through it too: tests/http/conftest.py."""

import pytest
from tests.faults.soak import Plan, soak
from tests.faults.test_faults import ODDS, PACE, assert_kept
from tests.pgbouncer import WHY_NOT, pgbouncer


@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
def test_nothing_is_lost_doubled_or_stuck_behind_pgbouncer() -> None:
    assert_kept(soak(Plan(500, clients=12, pace=PACE, odds=ODDS, most_seconds=40), pgbouncer))
