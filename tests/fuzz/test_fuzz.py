"""Hostile input at one boundary. `make fuzz` plays it for minutes: `make fuzz WHAT=wire SECONDS=300 SEED=7`.

Cases are numbered, and `SEED` is the first number: `SECONDS=0 SEED=4711` plays case 4711 alone.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise

import psycopg
import pytest
from tests.fuzz import client, picture, slow
from tests.fuzz.cases import IS_SHORT, SECONDS, SEED, assert_no_faults, numbers
from tests.fuzz.hostile_clients import Campaign
from tests.harness import callgrind
from tests.harness.serving import serving
from tests.server import wire_simulation

WORKERS = {"uvloop": 4, "gthread": 2} if IS_SHORT else {os.environ.get("WORKER", "uvloop"): SECONDS}
HANG_SECONDS = 10.0 if IS_SHORT else 2.0  # on an idle machine no probe takes a tenth of that

pytestmark = pytest.mark.slow
counted = pytest.mark.skipif(
    callgrind.valgrind() is None, reason="instructions are counted by valgrind: apt install valgrind"
)


def test_client() -> None:
    assert_no_faults(client.play, 60, {})


def test_picture() -> None:
    assert_no_faults(picture.play, 400, {"read": 50, "refused": 100})


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
    played: Counter[str] = sum(map(play, numbers(1)), Counter())
    assert played["cases"] + played["mutated"] > 0, "each compares what came"


@pytest.mark.timeout(300)
@counted
@pytest.mark.parametrize("readers", [slow.strangers, slow.others])
def test_the_worst_inputs_take_instructions_by_their_size(readers: Callable[[], Mapping[str, slow.Read]]) -> None:
    """None takes quadratic time: instructions are counted, nothing is timed."""
    inputs = {
        f"{name} {place}": [(name, made(size)) for size in slow.SIZES]
        for name in readers().keys() & slow.WORST.keys()
        for place, made in enumerate(slow.WORST[name])
    }
    found = slow.instructions(inputs)
    assert {
        key: counts
        for key, counts in found.items()
        if any(more > slow.GROWTH * less for less, more in pairwise(counts))
    } == {}


@counted
def test_slow() -> None:
    assert_no_faults(slow.play, 400, {})
