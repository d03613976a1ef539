"""The short form of each boundary of `make fuzz`."""

from math import inf

import psycopg
import pytest
from tests.fuzz import client, database, picture, receipt, webhook, wire
from tests.fuzz.hostile_clients import Campaign
from tests.fuzz.outcome import Outcome
from tests.serving import serving

from sepu.cli.database import connect

SECONDS = {"uvloop": 4, "gthread": 2}

pytestmark = pytest.mark.slow


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # as in tests/client/test_deadline.py
def test_client() -> None:
    outcome = client.fuzz(60, 1, cases=60, late=20)
    assert outcome.faults == []
    assert outcome.tried.total() == 60


def test_database(database_url: str) -> None:
    outcome = database.run(database_url, range(1, 101))
    assert outcome.faults == []
    assert outcome.tried["to connect"] > 20
    assert outcome.tried["to refuse"] > 10


def test_picture() -> None:
    outcome = picture.run(1, range(400))
    assert outcome.faults == []
    assert outcome.tried["read"] > 50
    assert outcome.tried["refused"] > 100


def test_receipt() -> None:
    outcome = receipt.fuzz(inf, 1, 160)
    assert not outcome.faults, str(outcome)
    for kind in ("public", "private", "receipt"):
        assert outcome.tried[f"{kind}, refused"] > 10
        assert outcome.tried[f"{kind}, taken"] > 3


def test_webhook(own_url: str) -> None:
    with connect(own_url) as connection:
        outcome = webhook.round_(connection, own_url, 1, range(400))
    assert not outcome.faults, str(outcome)
    assert (outcome.tried["good"], outcome.tried["hostile"]) == (100, 300)
    assert outcome.tried["hostile, taken"] > 15


@pytest.mark.parametrize("worker", SECONDS)
def test_wire(worker: str, database_url: str, connection: psycopg.Connection) -> None:
    with serving(worker, database_url) as server:
        report = Campaign(server, connection, seed_=1, hang=10).run(SECONDS[worker])
    assert not report.violations, str(report)
    assert (report.deaths, report.hangs) == (0, 0), str(report)
    assert report.answers["200"] > 50
    assert report.answers["400"] > 50


def test_wire_in_simulated_time() -> None:
    outcome = Outcome()
    wire.simulate(outcome, seed=1, cases=150)
    assert not outcome.faults, str(outcome)
    assert outcome.tried["simulated answer"] > 100
