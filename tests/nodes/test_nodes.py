"""Two service nodes on one database: what is promised holds across both, and one may die."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from tests.faults.history import History, Request, digest, told_by
from tests.faults.verdict import contradictory, until_stored
from tests.nodes.traffic import crowded, kill
from tests.serving import Response, Server, serving

from sepu.cli.database import service_url as as_service
from sepu.metering import accounts

BODY = b'{"colors":[{"r":200,"g":60,"b":35}]}'
CLIENTS = 16


@pytest.fixture
def ledger_url(own_url: str) -> str:
    """The nodes share it with nobody."""
    return own_url


@pytest.fixture
def nodes(own_url: str) -> Iterator[tuple[Server, Server]]:
    url = as_service(own_url)
    with serving("uvloop", url) as one, serving("uvloop", url) as other:
        yield one, other


def match(server: Server, issued: accounts.IssuedKey, key: str) -> Response:
    headers = {
        "Authorization": f"Bearer {issued.api_key}",
        "Idempotency-Key": key,
        "Content-Type": "application/json",
    }
    return server.request("POST", "/v1/match", headers, BODY)


def together(
    nodes: tuple[Server, Server], issued: accounts.IssuedKey, keys: list[str], connection: psycopg.Connection
) -> list[Response]:
    """One request a key, in turns at the nodes, many at a time; what they are told contradicts nothing."""

    def ask(at: int) -> tuple[float, Response, float]:
        return time.monotonic(), match(nodes[at % 2], issued, keys[at]), time.monotonic()

    with ThreadPoolExecutor(CLIENTS) as threads:
        asked = list(threads.map(ask, range(len(keys))))
    history = History()
    for key, (start, answer, end) in zip(keys, asked, strict=True):
        history.add(Request(issued.account_id, key, "color_match", 1, digest(BODY)), start, end, told_by(answer))
    assert contradictory(connection, history) == []
    return [answer for _, answer, _ in asked]


def on_plan(connection: psycopg.Connection, *, match_limit: int = 10**6, per_minute: int = 10**6) -> accounts.IssuedKey:
    accounts.set_plan(connection, "tested", match_limit=match_limit, search_limit=0, requests_per_minute=per_minute)
    return accounts.create_account(connection, "tested")


def test_the_quota_is_exact_across_nodes(nodes: tuple[Server, Server], connection: psycopg.Connection) -> None:
    issued = on_plan(connection, match_limit=100)
    found = Counter(
        (answer.status, answer.error)
        for answer in together(nodes, issued, [f"quota-{n:04}" for n in range(160)], connection)
    )
    assert found == {(200, None): 100, (429, "quota_exceeded"): 60}
    assert accounts.show_usage(connection, issued.account_id).usage[0].committed == 100


def test_a_key_at_both_nodes_is_executed_once(nodes: tuple[Server, Server], connection: psycopg.Connection) -> None:
    issued = on_plan(connection)
    keys = [f"same-{n // CLIENTS:04}" for n in range(20 * CLIENTS)]
    answers = together(nodes, issued, keys, connection)
    executed = [answer for answer in answers if answer.status == 200 and "idempotency-replayed" not in answer.headers]
    assert len(executed) == 20
    assert {(answer.status, answer.error) for answer in answers} <= {(200, None), (409, "request_in_progress")}
    assert accounts.show_usage(connection, issued.account_id).usage[0].committed == 20
    for node in nodes:  # what one executed both replay
        assert {match(node, issued, key).headers["idempotency-replayed"] for key in set(keys)} == {"true"}


def test_the_abuse_limit_holds_across_nodes(nodes: tuple[Server, Server], connection: psycopg.Connection) -> None:
    issued = on_plan(connection, per_minute=40)
    answers = together(nodes, issued, [f"rate-{n:04}" for n in range(100)], connection)
    assert Counter((answer.status, answer.error) for answer in answers) == {(200, None): 40, (429, "rate_limited"): 60}


def test_a_node_dies_and_the_other_goes_on(own_url: str, connection: psycopg.Connection) -> None:
    url = as_service(own_url)
    with serving("uvloop", url) as one, serving("uvloop", url) as other:

        def power_cut() -> None:
            until_stored(own_url, 300)
            kill(one)

        verdict, memory = crowded(connection, [one.address, other.address], 3000, meanwhile=power_cut)
        assert verdict.explain() == ""
        assert memory.tally["broken connections"] > 0, "it died under load"
        assert one.process.poll() is not None
        assert other.request("GET", "/readyz").status == 200
        assert len(other.workers()) == 2
