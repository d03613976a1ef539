"""The short form of `make fuzz WHAT=receipt`."""

from math import inf

from tests.fuzz.receipt import fuzz


def test_hostile_keys_and_receipts() -> None:
    outcome = fuzz(inf, 1, 160)
    assert not outcome.faults, str(outcome)
    for kind in ("public", "private", "receipt"):
        assert outcome.tried[f"{kind}, refused"] > 10
        assert outcome.tried[f"{kind}, taken"] > 3
