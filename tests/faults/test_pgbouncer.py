"""The short form through PgBouncer. The contract passes through it too: tests/http/conftest.py."""

import pytest
from tests.faults.short_soak import soak_briefly
from tests.pgbouncer import WHY_NOT, pgbouncer


@pytest.mark.slow
@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
def test_nothing_is_lost_doubled_or_stuck_behind_pgbouncer() -> None:
    soak_briefly(500, between=pgbouncer)
