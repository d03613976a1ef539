"""Hostile input at one boundary. `make fuzz` plays it for minutes: `make fuzz WHAT=wire SECONDS=300 SEED=7`.

Cases are numbered, and `SEED` is the first number: `SECONDS=0 SEED=4711` plays case 4711 alone.
"""

import os
from collections import Counter
from collections.abc import Callable

import psycopg
import pytest
from tests.fuzz import client, picture
from tests.fuzz.cases import IS_SHORT, SECONDS, SEED, numbers, run
from tests.fuzz.hostile_clients import Campaign
from tests.harness.serving import serving
from tests.server import wire_simulation

WORKERS = {"uvloop": 4, "gthread": 2} if IS_SHORT else {os.environ.get("WORKER", "uvloop"): SECONDS}
HANG_SECONDS = 10.0 if IS_SHORT else 2.0  # on an idle machine no probe takes a tenth of that

pytestmark = pytest.mark.slow


def test_client() -> None:
    run(client.play, 60, {})


def test_picture() -> None:
    run(picture.play, 400, {"read": 50, "refused": 100})


@pytest.mark.parametrize("worker", WORKERS)
def test_wire(worker: str, database_url: str, connection: psycopg.Connection) -> None:
    with serving(worker, database_url) as server:
        report = Campaign(server, connection, SEED or 1, HANG_SECONDS).run(WORKERS[worker])
    print(report)  # noqa: T201  (make fuzz shows it)
    assert not report.violations
    assert (report.deaths, report.hangs) == (0, 0)
    assert not IS_SHORT or min(report.answers["200"], report.answers["400"]) > 50


@pytest.mark.parametrize("play", [wire_simulation.play, wire_simulation.play_mutated])
def test_wire_in_simulated_time(play: Callable[[int], Counter[str]]) -> None:
    """Its short form is in tests/server/test_wire.py."""
    for number in numbers(1):
        play(number)
