"""The fault harness in its short form, on each kind of worker."""

import pytest
from tests.faults.short_soak import soak_briefly
from tests.serving import EACH_WORKER


@pytest.mark.parametrize("worker", EACH_WORKER)
def test_nothing_is_lost_doubled_or_stuck(worker: str) -> None:
    soak_briefly(500, worker, failover=worker == "gthread")
