from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from time import monotonic, sleep
from typing import Any, TypeVar, cast

import msgspec
import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo
from tests.ledger_model.model import MINUTE, TICK
from tests.metering.conftest import BACKEND, NOON, Customer, HeldUp, MakeCustomer

from sepu.database import statements
from sepu.database.migrate import holds_migrations
from sepu.metering.batcher_thread import BatcherThread
from sepu.metering.commands import Command, Metered, admit, read_usage
from sepu.metering.failure import LedgerUnavailable
from sepu.metering.key_format import Credential
from sepu.metering.meters import METERS, Usage

T = TypeVar("T")

# More than the ledger's own limit of two seconds, for slow machines; far less than a hang.
TIMEOUT_SECONDS = 4.0


@dataclass(frozen=True)
class Gateway:
    """A ledger that several threads use."""

    run_all: Callable[[Sequence[Command[Any]]], list[Any]]
    ready: Callable[[], bool]

    def run(self, command: Command[T]) -> T:
        (answer,) = self.run_all([command])
        if isinstance(answer, BaseException):
            raise answer
        return cast("T", answer)


@contextmanager
def asking(url: str, *, batches: bool) -> Iterator[Gateway]:
    with closing(BatcherThread(url, batches=batches)) as ledger, ThreadPoolExecutor(12) as pool:
        ledger.start()

        def run_all(commands: Sequence[Command[Any]]) -> list[Any]:
            futures = [pool.submit(ledger.run, command) for command in commands]
            return [future.exception() or future.result() for future in futures]

        yield Gateway(run_all, ledger.ready)


joined = partial(asking, batches=True)
OpenGateway = Callable[[str], AbstractContextManager[Gateway]]


@pytest.fixture(params=[joined, partial(asking, batches=False)], ids=["joined", "alone"])
def open_gateway(request: pytest.FixtureRequest) -> OpenGateway:
    opened: OpenGateway = request.param
    return opened


@pytest.fixture
def gateway(open_gateway: OpenGateway, service_url: str) -> Iterator[Gateway]:
    with open_gateway(service_url) as opened:
        yield opened


# Who may ask


def test_a_made_up_key_locks_and_writes_nothing(connection: Connection, customer: Customer) -> None:
    """So nobody waits for it, least of all the account that it names."""
    made_up = Credential(customer.account_id, bytes(32))
    charge = customer.request()
    charge = msgspec.structs.replace(charge, parameters=(*charge.parameters[:1], bytes(32), *charge.parameters[2:]))
    with connection.transaction():
        for command in (charge, admit(made_up), read_usage(made_up)):
            assert command.batch_statement is not None
            alone = connection.execute(command.statement, command.parameters).fetchall()
            joined = connection.execute(command.batch_statement, [[each] for each in command.parameters]).fetchall()
            assert joined == [(1, *row) for row in alone]
            assert alone[0][0] == "unauthorized"
        assert connection.execute("select pg_current_xact_id_if_assigned()").fetchone() == (None,)
        modes = connection.execute("select distinct mode from pg_locks where pid = pg_backend_pid()").fetchall()
        assert set(modes) <= {("AccessShareLock",), ("ExclusiveLock",)}  # the latter on its own virtual transaction


# Both gateways


def test_nothing_is_left_of_a_plan_that_shrank() -> None:
    assert Usage("2031-03", "color_match", 2, 5, 0).remaining == 0


def test_somebody_else_just_stored_it(
    connection: Connection, gateway: Gateway, customer: Customer, a: Connection, held_up: HeldUp
) -> None:
    """As between two nodes without a common lock manager: the primary key decides."""
    request = customer.request()
    a.execute(
        "insert into sepu.stored_result "
        "values (%s, 'key-0001', %s, 'color_match', 1, '2031-03', '{}', now(), %s, gen_random_uuid())",
        (customer.account_id, request.parameters[3], customer.key_id),
    )
    assert held_up(lambda: gateway.run(request)) == Metered("request_in_progress")
    assert customer.committed(connection) == {}, "its charge was undone"
    assert gateway.run(customer.request("key-0002")).outcome == "charged"


@pytest.mark.parametrize("apart", [-MINUTE, TICK - MINUTE, MINUTE - TICK, MINUTE])
def test_a_window_ends_after_a_minute_by_a_clock_set_either_way(
    connection: Connection, make_customer: MakeCustomer, apart: timedelta
) -> None:
    customer = make_customer(requests_per_minute=1)
    assert customer.admit(connection, at=NOON + apart) == "ok"
    assert customer.admit(connection, at=NOON) == ("ok" if abs(apart) == MINUTE else "rate_limited")
    assert customer.meter(connection).outcome == "rate_limited"


def test_a_duplicate_without_an_answer_is_a_failure(gateway: Gateway, customer: Customer) -> None:
    twice: Command[None] = Command(
        "insert into sepu.account values (%s, %s)", (customer.account_id, customer.plan_id), lambda _row: None
    )
    with pytest.raises(LedgerUnavailable):
        gateway.run(twice)


def test_a_row_that_stays_locked(gateway: Gateway, customer: Customer, a: Connection) -> None:
    assert gateway.run(admit(customer.credential)) == "ok"
    backend = gateway.run(BACKEND)
    a.execute("select from sepu.request_rate where account_id = %s for update", (customer.account_id,))
    started = monotonic()
    with pytest.raises(LedgerUnavailable):
        gateway.run(customer.request())
    assert monotonic() - started < TIMEOUT_SECONDS
    a.execute("rollback")
    assert gateway.run(customer.request()).outcome == "charged"
    assert gateway.run(BACKEND) == backend, "the connection was fit for use"


def test_an_unrequested_message_does_not_end_a_session(
    open_gateway: OpenGateway, database_url: str, connection: Connection
) -> None:
    with open_gateway(database_url) as ledger:
        backend = ledger.run(BACKEND)
        try:
            connection.execute("alter system set intervalstyle = 'iso_8601'")
            connection.execute("select pg_reload_conf()")
            style: Command[str] = Command("show intervalstyle", (), lambda rows: str(rows[0][0]))
            while connection.execute("show intervalstyle").fetchone() != ("iso_8601",):
                sleep(0.01)
            sleep(0.1)
            assert ledger.run(style) == "iso_8601"
            assert ledger.run(BACKEND) == backend
        finally:
            connection.execute("alter system reset intervalstyle")
            connection.execute("select pg_reload_conf()")


def test_a_session_holds_no_state(open_gateway: OpenGateway, database_url: str, customer: Customer) -> None:
    """So that PgBouncer may use a different session for each request."""
    state = """
        select (select count(*) from pg_prepared_statements),
               (select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'),
               (select string_agg(name, ' ') from pg_settings where source in ('client', 'session'))
    """

    look: Command[tuple[int, int, str]] = Command(state, (), lambda rows: rows[0])
    with open_gateway(database_url) as ledger:
        for number in range(10):
            ledger.run(customer.request(f"key-{number:04}"))
            ledger.run(admit(customer.credential))
            ledger.run(read_usage(customer.credential))
            prepared, locks, settings = ledger.run(look)
    # A session prepares statements, and works without them where they are lost.
    assert (prepared > 0, locks) == (True, 0)
    # PgBouncer carries these from session to session.
    assert set(settings.split()) <= {"application_name", "client_encoding", "DateStyle", "TimeZone"}


def test_ready(gateway: Gateway, open_gateway: OpenGateway, database_url: str) -> None:
    assert gateway.ready()
    with open_gateway(make_conninfo(database_url, dbname="template1")) as ledger:
        assert not ledger.ready(), "a database without the schema"


def test_probes_wait_for_nobody_and_take_no_more_space(a: Connection, connection: Connection) -> None:
    """Not even for a probe that hangs in its commit; if all sessions hang so, charges would too."""
    probe = statements.statement("probe")
    size = "select pg_relation_size('sepu.probe')"
    connection.execute("set synchronous_commit = off")  # without waits for the disk
    before = connection.execute(size).fetchone()
    for _ in range(300):
        assert holds_migrations(connection.execute(probe).fetchall())
    assert connection.execute(size).fetchone() == before
    spilled: list[str | None] = []
    connection.add_notice_handler(lambda notice: spilled.append(notice.message_primary))
    connection.execute("set log_temp_files = 0; set client_min_messages = log")
    assert holds_migrations(connection.execute(probe).fetchall())
    assert any(line and line.startswith("temporary file: ") for line in spilled), "it finds out that the disk is full"
    connection.execute("set lock_timeout = '1ms'")
    assert holds_migrations(a.execute(probe).fetchall())
    assert holds_migrations(connection.execute(probe).fetchall())
    a.execute("select from sepu.probe for update")
    assert not holds_migrations(connection.execute(probe).fetchall())


def test_a_meter_without_a_limit_fails_loudly(
    connection: Connection, gateway: Gateway, customer: Customer, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"plan {customer.plan_id} .* color_taste"):
        customer.meter(connection, meter="color_taste")
    with pytest.raises(LedgerUnavailable):
        gateway.run(customer.request(meter="color_taste"))
    assert "22023" in caplog.text
    assert customer.committed(connection) == customer.stored(connection) == {}
    assert gateway.run(customer.request()).outcome == "charged"
    connection.execute("insert into sepu.plan_limit values (%s, 'color_taste', 5)", (customer.plan_id,))
    assert [used.meter for used in gateway.run(read_usage(customer.credential)).usage] == [*METERS], "not a later one"
    connection.execute("delete from sepu.plan_limit where plan_id = %s", (customer.plan_id,))
    with pytest.raises(KeyError, match="color_match"):
        gateway.run(read_usage(customer.credential))


def test_a_fingerprint_is_a_digest(connection: Connection, customer: Customer) -> None:
    command = customer.request()
    parameters = [b"short" if value == command.parameters[3] else value for value in command.parameters]
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        connection.execute(command.statement, parameters)
    assert customer.committed(connection) == {}
