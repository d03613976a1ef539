"""What a request costs that can be counted: one statement and one round trip, and as many colour differences."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from bench.gate.instructions import EXPECTED
from bench.hot_paths import COLOURS, RELEASE
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.bench.wire import Wire, counted
from tests.serving import WORKERS, Server, serving, why_not

from sepu.metering import accounts

REQUESTS = 6
WARM_UP = 8  # connects; and what a driver prepares, it prepares by then
MATCH = json.dumps({"colors": [{"r": 200, "g": 60, "b": 35}] * 5, "top": 3}).encode()


class Served(NamedTuple):
    server: Server
    wire: Wire
    api_key: str


@pytest.fixture(scope="module", params=WORKERS)
def served(request: pytest.FixtureRequest, database_url: str, service_url: str) -> Iterator[Served]:
    """One worker process of each kind, and what is between it and Postgres."""
    if reason := why_not(request.param):
        pytest.skip(reason)
    with psycopg.connect(database_url, autocommit=True) as connection:
        accounts.set_plan(connection, "counted", match_limit=10_000, search_limit=10_000, requests_per_minute=10_000)
        issued = accounts.create_account(connection, "counted")
    with counted(Path(str(conninfo_to_dict(service_url)["host"]))) as wire:
        url = make_conninfo(service_url, host=str(wire.directory))
        with serving(request.param, url, workers=1) as server:
            yield Served(server, wire, issued.api_key)


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "fresh"),
    [
        ("POST", "/v1/match", MATCH, 200, True),
        ("POST", "/v1/match", MATCH, 200, False),  # replayed
        ("POST", "/v1/match", MATCH[:-1], 400, True),
        ("GET", "/v1/search?q=hong", None, 200, True),
        ("GET", "/v1/usage", None, 200, False),
        ("GET", "/v1/library", None, 200, False),
    ],
    ids=["match", "replay", "refused", "search", "usage", "library"],
)
def test_a_request_is_one_statement_and_one_round_trip(
    served: Served, method: str, target: str, body: bytes | None, status: int, fresh: bool
) -> None:
    def ask(name: str) -> None:
        headers = {
            "Authorization": f"Bearer {served.api_key}",
            "Idempotency-Key": f"{name}-{target}-{status}".translate(str.maketrans("/?=", "...")),
            "Content-Type": "application/json",
        }
        assert served.server.request(method, target, headers, body, keep=True).status == status

    for number in range(WARM_UP):
        ask(f"warm-{number}" if fresh else "counted")
    statements, round_trips = served.wire.done
    for number in range(REQUESTS):
        ask(f"counted-{number}" if fresh else "counted")
    assert served.wire.done == (statements + REQUESTS, round_trips + REQUESTS)


def test_the_formula_is_called_as_often_as_the_grid_demands() -> None:
    """What the gate expects of the core is what the grid's lists say, read plainly: eight of a list at a time."""
    grid = RELEASE.grid
    assert grid is not None
    header = struct.Struct("<8sIIIII32s")
    cells = struct.unpack_from("<32768H", grid, header.size)
    lengths = struct.unpack_from(f"<{header.unpack_from(grid)[5]}H", grid, header.size + 2 * len(cells))
    calls = sum(-(-lengths[cells[r // 8 * 32 * 32 + g // 8 * 32 + b // 8]] // 8) for r, g, b in COLOURS)
    every = json.loads(EXPECTED.read_text("utf-8"))
    assert {counts["core: nearest 3 of 100 colours, by the grid"][1] for counts in every.values()} == {calls}
