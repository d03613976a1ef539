"""The fault harness in its short form, on each kind of worker."""

import re

import psycopg
import pytest
from tests.faults.short_soak import soak_briefly
from tests.faults.soak import Plan, soak
from tests.serving import WORKERS, why_not

from sepu.metering import scripts


@pytest.mark.parametrize("worker", WORKERS)
def test_nothing_is_lost_doubled_or_stuck(worker: str) -> None:
    if reason := why_not(worker):
        pytest.skip(reason)
    requests = 1500 if worker == "uvloop" else 500
    soak_briefly(requests, worker)


def test_a_ledger_that_tells_every_customer_3_too_low_is_noticed() -> None:
    def spoil(connection: psycopg.Connection) -> None:
        told = re.sub(r"(committed := \w+\.committed);", r"\1 - 3;", scripts.functions().text)
        connection.execute(told.encode())

    verdict = soak(Plan(300, clients=12, most_seconds=5), spoil=spoil).verdict
    assert str(verdict).startswith("0 lost, 0 doubled, 0 stuck, ")
    assert any("its units would have fitted" in what for _, what in verdict.findings)
    assert any("from 0 to" in what for _, what in verdict.findings)


@pytest.mark.parametrize(
    ("right", "wrong", "noticed"),
    [
        ("continue when ", "continue when v_threshold = 80 or ", "an event is missing"),
        ("thresholds, unit_limit, committed, p_units", "thresholds, unit_limit + 1, committed, p_units", "no charge"),
    ],
)
def test_a_ledger_that_records_other_events_is_noticed(right: str, wrong: str, noticed: str) -> None:
    def spoil(connection: psycopg.Connection) -> None:
        text = scripts.functions().text
        assert text.count(right) == 1
        connection.execute(text.replace(right, wrong).encode())

    verdict = soak(Plan(300, clients=12, most_seconds=5), spoil=spoil).verdict
    assert str(verdict).startswith("0 lost, 0 doubled, 0 stuck, ")
    assert any(noticed in what for _, what in verdict.findings)
