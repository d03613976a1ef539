"""Customers to charge, and database sessions."""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from secrets import token_hex
from typing import Any, NamedTuple, Protocol

import pytest
from psycopg import Connection
from tests.charging import called_at
from tests.harness.processes import until
from tests.keys import holder_of

from sepu.admin import accounts
from sepu.admin.plans import set_plan
from sepu.database.opening import connect
from sepu.metering.commands import Charge, Command, Metered, meter_request
from sepu.metering.key_format import Credential

BACKEND: Command[int] = Command("select pg_backend_pid() where %s <> ''", ("anybody",), lambda rows: int(rows[0][0]))

NOON = datetime(2031, 3, 10, 12, tzinfo=UTC)


class Answer(NamedTuple):
    outcome: str
    period: str | None
    limit: int | None
    committed: int | None
    reserved: int | None
    body: bytes | None


@dataclass(frozen=True)
class Customer:
    """An account on its own plan."""

    account_id: str
    plan_id: str
    key_id: str
    credential: Credential

    def meter(
        self,
        session: Connection,
        key: str = "key-0001",
        *,
        what: str = "red",
        meter: str = "color_match",
        units: int = 1,
        at: datetime = NOON,
        body: bytes = b"{}",
        holder: Credential | None = None,
    ) -> Answer:
        """Calls an SQL function directly, at an instant that the test chooses."""
        asking = holder or self.credential
        function = called_at("meter_request", "meter_one", at)
        row = session.execute(
            f"select outcome, period, unit_limit, committed, reserved, body "
            f"from sepu.{function}(%s, %s, %s, %s, %s, %s, %s, gen_random_uuid(), %s)",
            (asking.account_id, asking.key_hash, key, sha256(what.encode()).digest(), meter, units, body, at),
        ).fetchone()
        assert row is not None
        return Answer(*row)

    def admit(self, session: Connection, *, at: datetime = NOON, holder: Credential | None = None) -> str:
        asking = holder or self.credential
        function = called_at("admit", "admit_one", at)
        row = session.execute(
            f"select outcome from sepu.{function}(%s, %s, %s)", (asking.account_id, asking.key_hash, at)
        ).fetchone()
        assert row is not None
        return str(row[0])

    def request(
        self, key: str = "key-0001", *, what: str = "red", meter: str = "color_match", units: int = 1
    ) -> Command[Metered]:
        """The same as a command for a ledger, by the database's clock."""
        charge = Charge(meter, units, sha256(what.encode()).digest(), f'{{"for":"{what}"}}'.encode())
        return meter_request(self.credential, key, charge, str(uuid.uuid4()))

    def committed(self, session: Connection) -> dict[tuple[str, str], int]:
        """The units charged, by period and meter."""
        rows = session.execute(
            "select period, meter, committed from sepu.usage where account_id = %s", (self.account_id,)
        ).fetchall()
        return {(period, meter): units for period, meter, units in rows}

    def stored(self, session: Connection) -> dict[tuple[str, str], int]:
        """The units of the stored results, by period and meter."""
        rows = session.execute(
            "select period, meter, sum(units) from sepu.stored_result where account_id = %s group by period, meter",
            (self.account_id,),
        ).fetchall()
        return {(period, meter): int(units) for period, meter, units in rows}


def until_gone(session: Connection, pid: int) -> None:
    """Waits until the server has ended another session."""
    while session.execute("select from pg_stat_activity where pid = %s", (pid,)).fetchall():
        pass


MakeCustomer = Callable[..., Customer]
OpenSession = Callable[[], Connection]


@pytest.fixture
def own_ledger() -> None:
    """Gives the test its own ledger, for functions that look at all accounts."""


@pytest.fixture
def ledger_url(request: pytest.FixtureRequest) -> str:
    """The run's ledger, or the test's own."""
    url: str = request.getfixturevalue("own_url" if "own_ledger" in request.fixturenames else "database_url")
    return url


@pytest.fixture
def make_customer(connection: Connection) -> MakeCustomer:
    """Creates customers, by default on a plan with high limits."""

    def make(match_limit: int = 2000, search_limit: int = 1000, requests_per_minute: int = 100_000) -> Customer:
        plan_id = f"test-{token_hex(4)}"
        limits = {"color_match": match_limit, "color_search": search_limit}
        set_plan(connection, plan_id, limits, requests_per_minute=requests_per_minute)
        issued = accounts.create_account(connection, plan_id)
        found = holder_of(issued.api_key)
        assert found is not None
        return Customer(issued.account_id, plan_id, issued.key_id, found)

    return make


@pytest.fixture
def customer(make_customer: MakeCustomer) -> Customer:
    return make_customer()


@pytest.fixture
def session(ledger_url: str) -> Iterator[OpenSession]:
    """Opens sessions: each statement is a transaction, unless the test says `begin`."""
    with ExitStack() as opened:

        def open_one() -> Connection:
            one = connect(ledger_url)
            opened.callback(one.close)
            one.execute("set lock_timeout = '10s'")  # what should not wait fails
            return one

        yield open_one


@pytest.fixture
def a(session: OpenSession) -> Connection:
    """The session with an uncommitted transaction."""
    opened = session()
    opened.execute("begin")
    return opened


@pytest.fixture
def b(session: OpenSession) -> Connection:
    return session()


class HeldUp(Protocol):
    """Makes a call that must wait for a lock, ends the wait, and returns the answer. Default end: `a` commits."""

    def __call__(self, call: Callable[[], Any], end: Callable[[], object] = ..., /) -> Any: ...


@pytest.fixture
def held_up(connection: Connection, a: Connection) -> HeldUp:
    def run(call: Callable[[], Any], end: Callable[[], object] = lambda: a.execute("commit")) -> Any:
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(call)
            blocked = "select from pg_stat_activity where cardinality(pg_blocking_pids(pid)) > 0"
            until(lambda: waiting.done() or connection.execute(blocked).fetchall(), why=lambda: "nobody is blocked")
            assert not waiting.done()
            end()
            return waiting.result(30)

    return run
