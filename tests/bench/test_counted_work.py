"""What a request costs that can be counted: one statement and one round trip."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.bench.wire import Wire, counted
from tests.http.conftest import OTHERS
from tests.metrics import sample
from tests.processes import until
from tests.serving import Server, free_port, serving, why_not, with_limits

from sepu.admin import accounts
from sepu.admin.plans import set_plan

REQUESTS = 6
WARM_UP = 8  # connects; and what a driver prepares, it prepares by then
MATCH = json.dumps({"colors": [{"r": 200, "g": 60, "b": 35}] * 5, "top": 3}).encode()


class Served(NamedTuple):
    server: Server
    wire: Wire
    api_key: str


@pytest.fixture(scope="module", params=["uvloop", *OTHERS[:-1]])
def served(request: pytest.FixtureRequest, database_url: str, service_url: str) -> Iterator[Served]:
    """One worker process of each kind, and what is between it and Postgres."""
    if reason := why_not(request.param):
        pytest.skip(reason)
    with psycopg.connect(database_url, autocommit=True) as connection:
        set_plan(connection, "counted", {"color_match": 10_000, "color_search": 10_000}, requests_per_minute=10_000)
        issued = accounts.create_account(connection, "counted")
    with counted(Path(str(conninfo_to_dict(service_url)["host"]))) as wire:
        url = make_conninfo(service_url, host=str(wire.directory))
        metrics = f"127.0.0.1:{free_port()}"
        program, options = with_limits(LOOK_SECONDS=10.0**6), ["--metrics-bind", metrics]  # it looks once by itself
        with serving(request.param, url, workers=1, program=program, options=options) as server:
            until(lambda: sample(metrics, "sepu_workers", database="answers"))
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
