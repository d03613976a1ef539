"""The short form of `make fuzz WHAT=picture`."""

from tests.fuzz import picture


def test_hostile_pictures() -> None:
    outcome = picture.run(1, range(400))
    assert outcome.faults == []
    assert outcome.tried["read"] > 50
    assert outcome.tried["refused"] > 100
