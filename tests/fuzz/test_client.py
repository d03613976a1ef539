"""The short form of `make fuzz WHAT=client`."""

import pytest
from tests.fuzz import client

CASES = 60


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # as in tests/client/test_deadline.py
def test_a_hostile_service() -> None:
    outcome = client.fuzz(60, 1, cases=CASES, late=20)
    assert outcome.faults == []
    assert outcome.tried.total() == CASES
