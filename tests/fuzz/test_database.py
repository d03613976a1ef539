"""The short form of `make fuzz WHAT=database`."""

from tests.fuzz.database import Campaign

CASES = 150


def test_odd_configurations_of_the_database(database_url: str) -> None:
    outcome = Campaign(database_url).run(lambda tried: tried < CASES, 1)
    assert outcome.faults == []
    assert outcome.tried["to connect"] > CASES / 5
    assert outcome.tried["to refuse"] > CASES / 10
