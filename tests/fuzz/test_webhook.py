"""The short form of `make fuzz WHAT=webhook`: a thousand hostile answers, and their good neighbours."""

from tests.fuzz.webhook import round_

from sepu.cli.database import connect


def test_no_answer_ends_the_deliverer_or_touches_anothers_event(own_url: str) -> None:
    with connect(own_url) as connection:
        outcome = round_(connection, own_url, 1, range(1334))
    assert not outcome.faults, str(outcome)
    assert (outcome.tried["good"], outcome.tried["hostile"]) == (334, 1000)
    assert outcome.tried["hostile, taken"] > 50
