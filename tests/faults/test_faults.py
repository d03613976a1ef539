"""The fault harness in its short form, on each kind of worker."""

import re

import psycopg
import pytest
from tests.faults.short_soak import soak_briefly
from tests.faults.soak import Plan, soak
from tests.serving import EACH_WORKER

from sepu.database import statements


@pytest.mark.parametrize("worker", EACH_WORKER)
def test_nothing_is_lost_doubled_or_stuck(worker: str) -> None:
    soak_briefly(500, worker, failover=worker == "gthread")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "noticed"),
    [
        (r"return (next )?v;", r"v.committed := v.committed - 3; return \1v;", "its units would have fitted"),
        ("continue when ", "continue when v_threshold = 80 or ", "it crossed {("),
        (r"v\.unit_limit, v\.committed, p_units", "v.unit_limit + 1, v.committed, p_units", "unrecorded, and not {("),
    ],
)
def test_a_ledger_that_tells_or_records_otherwise_is_noticed(right: str, wrong: str, noticed: str) -> None:
    def spoil(connection: psycopg.Connection) -> None:
        text, found = re.subn(right, wrong, statements.functions().text)
        assert found
        connection.execute(text.encode())

    verdict = soak(Plan(300, clients=12, most_seconds=2), spoil=spoil).verdict
    assert str(verdict).startswith("0 lost, 0 doubled, 0 stuck, ")
    assert any(noticed in what for _, what in verdict.findings)
