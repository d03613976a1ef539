"""Postgres fails in many ways and comes back: requests are refused in time, then served without a restart."""

import asyncio
import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg
import pytest
from tests.faults.history import History, Request, digest
from tests.faults.verdict import contradictory
from tests.harness.injection import postmaster, start, stop_at_once
from tests.harness.processes import children, send, until
from tests.harness.proxy import Proxy, proxied, socket_directory
from tests.harness.serving import EACH_WORKER, ONE_COLOUR, Server, serving, with_limits

from sepu.admin import accounts
from sepu.admin.audit import audit
from sepu.admin.keys import IssuedKey
from sepu.admin.plans import set_plan
from sepu.database.opening import connect, database

AWAY_SECONDS = 2 + 5  # the promise, plus allowance for a busy machine
BACK_SECONDS = 1 + 5
OUTAGE_SECONDS = 2
PROBE_SECONDS = 0.1
CONNECTIONS = 6  # at most, per worker process

AWAY = {
    "library": (500, "internal_error"),
    "usage": (500, "internal_error"),
    "search": (503, "usage_commit_failed"),
    "match": (503, "usage_commit_failed"),
    "refused": (503, "usage_commit_failed"),
    "ready": (503, "not_ready"),
    "healthy": (200, None),
}
GOOD = {**dict.fromkeys(AWAY, (200, None)), "refused": (400, "invalid_json")}


@dataclass
class Stage:
    """One worker process, its Postgres, and a proxy between them."""

    worker: str
    server: Server
    state_dir: Path
    url: str  # past the proxy
    proxy: Proxy
    issued: IssuedKey
    history: History = field(default_factory=History)
    keys: Iterator[str] = field(default_factory=lambda: (f"outage-{number:04}" for number in itertools.count()))

    def match(self, key: str) -> tuple[int, str | None]:
        return self._ask("POST", "/v1/match", ONE_COLOUR, key)

    def answers(self) -> dict[str, tuple[int, str | None]]:
        """The answer to each kind of request, sent in parallel where the worker can serve that."""
        asks: dict[str, Callable[[], tuple[int, str | None]]] = {
            "library": lambda: self._ask("GET", "/v1/library"),
            "usage": lambda: self._ask("GET", "/v1/usage"),
            "search": lambda: self._ask("GET", "/v1/search?q=hong", key=next(self.keys)),
            "match": lambda: self.match(next(self.keys)),
            "refused": lambda: self._ask("POST", "/v1/match", b"{", next(self.keys)),
            "ready": lambda: self._ask("GET", "/readyz"),
            "healthy": lambda: self._ask("GET", "/healthz"),
        }
        with ThreadPoolExecutor(1 if self.worker == "meinheld" else len(asks)) as threads:
            return dict(zip(asks, threads.map(lambda ask: ask(), asks.values()), strict=True))

    def _ask(self, method: str, target: str, body: bytes | None = None, key: str = "") -> tuple[int, str | None]:
        headers = {"Authorization": f"Bearer {self.issued.api_key}", "Content-Type": "application/json"}
        meter = {"/v1/match": "color_match", "/v1/search?q=hong": "color_search"}.get(target, target)
        request = Request(self.issued.account_id, key, meter, int(bool(key)), digest(body or b""))
        if key:
            headers["Idempotency-Key"] = key
        started = time.monotonic()
        if target.startswith("/v1/"):
            response = self.history.keep(request, lambda: self.server.request(method, target, headers, body))
        else:
            response = self.server.request(method, target, headers, body)
        assert time.monotonic() - started < AWAY_SECONDS, target
        assert ("retry-after" in response.headers) == (response.status == 503)
        assert "x-request-id" in response.headers
        return response.status, response.error


@pytest.fixture(scope="module", params=EACH_WORKER)
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with ExitStack() as stack:
        state_dir = stack.enter_context(socket_directory())
        url = stack.enter_context(database(None, state_dir, create=True))
        with connect(url) as connection:
            set_plan(connection, "much", {"color_match": 10**9, "color_search": 10**9}, requests_per_minute=10**9)
            issued = accounts.create_account(connection, "much")
        proxy = stack.enter_context(proxied(state_dir / "socket"))
        program = with_limits(probes={"PROBE_SECONDS": PROBE_SECONDS})
        server = stack.enter_context(serving(request.param, proxy.url, workers=1, program=program))
        played = Stage(request.param, server, state_dir, url, proxy, issued)
        yield played
        assert "sepu_" not in server.log.read_text()
        with connect(url) as connection:
            assert contradictory(connection, played.history) == []


@contextmanager
def stopped(stage: Stage) -> Iterator[None]:
    """Connections are refused."""
    asyncio.run(stop_at_once(stage.state_dir))
    try:
        yield
    finally:
        start(stage.state_dir)


@contextmanager
def silent(stage: Stage) -> Iterator[None]:
    """Statements and new connections are accepted, but never answered."""
    stage.proxy.swallows = True
    try:
        yield
    finally:
        stage.proxy.swallows = False
        stage.proxy.cut_all()


@contextmanager
def frozen(stage: Stage) -> Iterator[None]:
    """A signal stops all of Postgres wherever it is."""
    main = postmaster(stage.state_dir)
    assert main is not None
    processes = [psutil.Process(main), *children(main)]
    send(signal.SIGSTOP, processes)
    try:
        yield
    finally:
        send(signal.SIGCONT, processes)


@contextmanager
def locked(stage: Stage) -> Iterator[None]:
    """Statements wait for a lock."""
    with psycopg.connect(stage.url) as session:
        session.execute("lock table sepu.api_key, sepu.migration in access exclusive mode")
        yield


@contextmanager
def crowded(stage: Stage) -> Iterator[None]:
    """Others have taken all connections."""
    with ExitStack() as others:
        one = others.enter_context(psycopg.connect(stage.url, autocommit=True))
        (room,) = one.execute("select current_setting('max_connections')::int").fetchone() or (0,)
        held = [one.info.backend_pid]
        served = """select pg_terminate_backend(pid, 5000) from pg_stat_activity
                    where backend_type = 'client backend' and pid <> all(%s)"""
        # Counted, because a session of the service that is just beginning or ending is not listed, but holds a place.
        while len(held) < room:
            with suppress(psycopg.OperationalError):
                held.append(others.enter_context(psycopg.connect(stage.url)).info.backend_pid)
                continue
            one.execute(served, [held])
        yield


@contextmanager
def read_only(stage: Stage) -> Iterator[None]:
    """Transactions cannot write, as on a standby. A pooled connection notices at its next statement."""
    with connect(stage.url) as session:
        session.execute("alter system set default_transaction_read_only = on")
        session.execute("select pg_reload_conf()")
        until(lambda: stage.match(next(stage.keys)) == AWAY["match"])
        yield
        session.execute("set default_transaction_read_only = off")
        session.execute("alter system reset default_transaction_read_only")
        session.execute("select pg_reload_conf()")


Outage = Callable[[Stage], AbstractContextManager[None]]


@pytest.mark.parametrize("outage", [stopped, silent, frozen, locked, crowded, read_only])
def test_requests_are_refused_in_time_and_served_again_at_once(stage: Stage, outage: Outage) -> None:
    assert stage.answers() == GOOD
    charged, key = next(stage.keys), next(stage.keys)
    assert stage.match(charged) == (200, None)
    with outage(stage):
        time.sleep(PROBE_SECONDS)  # until the cached probe result expires
        assert stage.answers() == AWAY
        assert stage.match(next(stage.keys)) == AWAY["match"]  # now certainly without an old connection
    until(lambda: stage.match(key) == (200, None), seconds=BACK_SECONDS)
    assert stage.match(charged) == (200, None)  # a replay: see the history
    time.sleep(PROBE_SECONDS)
    until(lambda: stage.answers() == GOOD)  # a slow disk may refuse one more
    with connect(stage.url) as connection:
        assert audit(connection).differences == ()


@pytest.mark.parametrize("outage", [stopped, read_only])
def test_many_clients_make_no_stampede_of_connections(stage: Stage, outage: Outage) -> None:
    clients = 1 if stage.worker == "meinheld" else 8  # it serves one request at a time; the others would wait
    ended = threading.Event()

    def hammer(client: int) -> None:
        for number in itertools.count():
            if ended.is_set():
                return
            stage.match(f"storm-{outage.__name__}-{client}-{number}")

    with ThreadPoolExecutor(clients) as threads:
        with outage(stage):
            hammering = [threads.submit(hammer, client) for client in range(clients)]
            time.sleep(0.5)  # the pooled connections are found dead
            begun = len(stage.proxy.accepted)
            time.sleep(OUTAGE_SECONDS)
            attempts = len(stage.proxy.accepted) - begun
        returned = len(stage.proxy.accepted)
        time.sleep(1)
        ended.set()
        for each in hammering:
            each.result()
    made = len(stage.proxy.accepted) - returned
    assert attempts / OUTAGE_SECONDS < 12
    assert made <= CONNECTIONS + 12
