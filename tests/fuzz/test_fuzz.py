"""The short form of each boundary of `make fuzz`; tests/server/test_wire.py has that in simulated time."""

from functools import partial

import psycopg
import pytest
from tests.fuzz import client, picture, webhook
from tests.fuzz.hostile_clients import Campaign
from tests.fuzz.outcome import run
from tests.serving import serving

from sepu.cli.database import connect

SECONDS = {"uvloop": 4, "gthread": 2}

pytestmark = pytest.mark.slow


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # as in tests/client/test_deadline.py
def test_client() -> None:
    outcome = run(client.play, range(60))
    assert outcome.faults == []
    assert outcome.tried.total() == 60


def test_picture() -> None:
    outcome = run(picture.play, range(400))
    assert outcome.faults == []
    assert outcome.tried["read"] > 50
    assert outcome.tried["refused"] > 100


def test_webhook(own_url: str) -> None:
    with connect(own_url) as connection:
        outcome = run(partial(webhook.play, connection, own_url), range(400))
    assert outcome.faults == []
    assert (outcome.tried["good"], outcome.tried.total()) == (100, 400)
    assert outcome.tried["hostile, taken"] > 5


@pytest.mark.parametrize("worker", SECONDS)
def test_wire(worker: str, database_url: str, connection: psycopg.Connection) -> None:
    with serving(worker, database_url) as server:
        report = Campaign(server, connection, seed_=1, hang=10).run(SECONDS[worker])
    assert not report.violations, str(report)
    assert (report.deaths, report.hangs) == (0, 0), str(report)
    assert report.answers["200"] > 50
    assert report.answers["400"] > 50
