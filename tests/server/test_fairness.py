"""Accounts on one worker: an account's requests delay only itself, and its refusals affect no other."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import psycopg
import pytest
from tests.harness.serving import Response, Server, free_port, serving
from tests.keys import made_up_key
from tests.metrics import samples

from sepu import limits
from sepu.admin import accounts
from sepu.admin.keys import IssuedKey
from sepu.admin.plans import set_plan
from sepu.metering.key_format import new_account_id

CLIENTS = 300
USAGE = b"GET /v1/usage HTTP/1.1\r\nHost: sepu\r\nAuthorization: Bearer %b\r\n\r\n"


def charge(server: Server, issued: IssuedKey, number: int) -> Response:
    return server.match(issued, f"beside-{number:04}", keep=True)


ON_THREADS_TOO = pytest.mark.parametrize(
    "server", ["uvloop", pytest.param("gthread", marks=pytest.mark.slow)], indirect=True
)


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, service_url: str) -> Iterator[Server]:
    options = ["--metrics-bind", f"127.0.0.1:{free_port()}"]
    with serving(getattr(request, "param", "uvloop"), service_url, workers=1, options=options) as running:
        yield running


def metrics_of(server: Server) -> str:
    arguments = server.process.args
    assert isinstance(arguments, list)
    return str(arguments[-1])


def ledger_calls(server: Server) -> float:
    return samples(metrics_of(server))["sepu_ledger_call_commands_count", ()]


@pytest.fixture
def rich(connection: psycopg.Connection) -> IssuedKey:
    set_plan(connection, "rich", {"color_match": 10**6, "color_search": 10**6}, requests_per_minute=10**6)
    return accounts.create_account(connection, "rich")


@ON_THREADS_TOO
def test_the_ledger_is_seldom_asked_of_a_limited_key(
    server: Server, connection: psycopg.Connection, rich: IssuedKey
) -> None:
    set_plan(connection, "once", {"color_match": 10, "color_search": 10}, requests_per_minute=1)
    once = accounts.create_account(connection, "once")
    assert charge(server, once, 1).status == 200
    before, started = ledger_calls(server), time.monotonic()
    for number in range(CLIENTS):
        assert charge(server, once, number).error == "rate_limited"
    seconds = 1 + int((time.monotonic() - started) / limits.batches.REFUSED_SECONDS)
    # Each second: the first request, whose answer is then cached, and the calls allowed after it.
    assert ledger_calls(server) - before <= seconds * (1 + limits.batches.LIMITED_CALLS)
    # The answer is cached for this key alone.
    unknown = replace(once, api_key=made_up_key(once.account_id))
    assert charge(server, unknown, 1).error == "unauthorized"
    assert charge(server, rich, 1).status == 200


def test_the_first_request_of_a_key_is_one_call(server: Server, connection: psycopg.Connection) -> None:
    set_plan(connection, "rich", {"color_match": 10**6, "color_search": 10**6}, requests_per_minute=10**6)
    unseen = [accounts.create_account(connection, "rich") for _ in range(10)]
    before = ledger_calls(server)
    for issued in unseen:
        assert charge(server, issued, 1).status == 200
    assert ledger_calls(server) - before < 2 * len(unseen)  # includes possible probes


@ON_THREADS_TOO
def test_probes_ask_the_database_once_a_second(server: Server) -> None:
    before, started = ledger_calls(server), time.monotonic()
    for _ in range(CLIENTS):
        assert server.request("GET", "/readyz", keep=True).status == 200
    assert ledger_calls(server) - before <= 2 + (time.monotonic() - started) / limits.probes.PROBE_SECONDS


# These need a worker that looks keys up first.


@pytest.mark.parametrize("times", [1, 2], ids=["at first", "when many were refused"])
def test_unknown_keys_keep_no_valid_key_waiting(
    server: Server, connection: psycopg.Connection, rich: IssuedKey, times: int
) -> None:
    unseen = accounts.create_account(connection, "rich")
    assert charge(server, rich, 1).status == 200
    for _ in range(times):
        with ExitStack() as stack:
            named = [*[new_account_id() for _ in range(CLIENTS // 2)], *[rich.account_id] * (CLIENTS // 2)]
            waiting = [stack.enter_context(server.socket()) for _ in named]
            for raw, account in zip(waiting, named, strict=True):
                raw.sendall(USAGE % made_up_key(account).encode())
            assert charge(server, unseen, 1).status == 200
            assert charge(server, rich, 2).status == 200
            deadline = time.monotonic() + 20
            for raw in waiting:
                raw.settimeout(max(0.1, deadline - time.monotonic()))
                assert b'{"error":"unauthorized",' in raw.recv(65536)
