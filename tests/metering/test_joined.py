"""Commands in a batch: each gets the same answer as alone."""

import asyncio
import inspect
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Any, LiteralString, TypeVar

import psycopg
import pytest
from psycopg import Connection
from psycopg.pq import ExecStatus
from tests.harness.awaited_batcher import AwaitedBatcher
from tests.metering.conftest import BACKEND, Customer, MakeCustomer

from sepu import limits
from sepu.database.hosts import Hosts
from sepu.database.statements import statement as statement_named
from sepu.metering.batcher import Batcher
from sepu.metering.commands import Command, Metered, admit, read_usage
from sepu.metering.failure import LedgerUnavailable
from sepu.metering.key_format import Credential
from sepu.metering.observer import LedgerObserver
from sepu.metering.session import Done, Session, SessionLost, _name

T = TypeVar("T")

NOBODY = Credential("a" * 16, bytes(32))

Play = Callable[[AwaitedBatcher], Awaitable[T]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of commands in each call to the database, as they are sent."""
    # Otherwise a slow machine would send two calls in place of one.
    monkeypatch.setattr(limits.batches, "OVERFLOW_SECONDS", 60.0)
    sent: list[int] = []
    send = Session.send

    def counting(self: Session, statement: LiteralString, parameters: Sequence[Any], done: Done) -> None:
        if statement != statement_named("begin_session"):  # sent by each new session
            sent.append(len(parameters[0]) if parameters and isinstance(parameters[0], list) else 1)
        send(self, statement, parameters, done)

    monkeypatch.setattr(Session, "send", counting)
    return sent


def play(database_url: str, scene: Play[T]) -> T:
    async def opened() -> T:
        async with AwaitedBatcher(database_url) as company:
            await company.run(admit(NOBODY))  # connects
            return await scene(company)

    return asyncio.run(opened())


async def together(company: AwaitedBatcher, commands: Sequence[Command[Any]]) -> list[Any]:
    return await asyncio.gather(*map(company.run, commands), return_exceptions=True)


def outcomes(answers: Sequence[Any]) -> list[str]:
    return [answer.outcome if isinstance(answer, Metered) else type(answer).__name__ for answer in answers]


def test_what_the_database_refuses_touches_nobody_else(
    database_url: str, calls: list[int], connection: Connection, make_customer: MakeCustomer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    answered: list[int] = []
    monkeypatch.setattr(LedgerObserver, "call_answered", lambda _, commands: answered.append(commands))
    good, bad = make_customer(), make_customer()
    commands = [good.request(f"key-{number:04}") for number in range(10)]
    commands[5] = bad.request(units=0)  # the function refuses it, with an error of class 22
    answers = play(database_url, lambda company: together(company, commands))
    assert calls[:3] == [1, 1, 9]
    assert sorted(calls[3:]) == [1, 8], "the others together, the one to blame alone"
    assert answered == [1, 1, 8]
    assert Counter(outcomes(answers)) == {"charged": 9, "LedgerUnavailable": 1}
    assert isinstance(answers[5], LedgerUnavailable)
    assert good.stored(connection) == good.committed(connection)
    assert bad.committed(connection) == {}


def test_a_session_that_the_server_has_just_closed_costs_no_request(
    database_url: str, connection: Connection, customer: Customer
) -> None:
    async def scene(company: AwaitedBatcher) -> str:
        # The event loop is blocked meanwhile, and notices nothing before the next call.
        connection.execute("select pg_terminate_backend(%s, 10000)", (await company.run(BACKEND),))
        return (await company.run(customer.request())).outcome

    assert play(database_url, scene) == "charged"


def test_a_server_that_hangs(database_url: str, connection: Connection, customer: Customer) -> None:
    async def scene(company: AwaitedBatcher) -> None:
        await company.run(admit(customer.credential))
        backend = await company.run(BACKEND)
        os.kill(backend, signal.SIGSTOP)
        try:
            started = monotonic()
            answers = await together(company, [customer.request(f"key-{number:04}") for number in range(100)])
            assert monotonic() - started < 4
            assert "LedgerUnavailable" in outcomes(answers)
        finally:
            os.kill(backend, signal.SIGCONT)
        # Whatever was answered meanwhile: retries return one consistent result each.
        while True:
            again = await together(company, [customer.request(f"key-{number:04}") for number in range(100)])
            if set(outcomes(again)) == {"replayed"}:
                break
            assert set(outcomes(again)) <= {"charged", "replayed", "request_in_progress"}

    play(database_url, scene)
    assert customer.committed(connection) == customer.stored(connection)
    assert list(customer.committed(connection).values()) == [100]


def test_a_server_that_dies_with_our_message_unread_is_noticed(
    database_url: str, connection: Connection, customer: Customer
) -> None:
    """uvloop must notice too; otherwise the others would wait behind it until they time out."""
    uvloop = pytest.importorskip("uvloop")

    async def scene() -> None:
        async with AwaitedBatcher(database_url) as company:
            for turn in range(6):
                await company.run(customer.request(f"key-{turn}-before"))
                backend = await company.run(BACKEND)
                long = customer.request(f"key-{turn}-long", what="x" * 60_000)
                commands: list[Command[Any]] = [long, *(admit(customer.credential) for _ in range(9))]
                os.kill(backend, signal.SIGSTOP)
                try:
                    running = asyncio.create_task(together(company, commands))
                    await asyncio.sleep(0.05)
                    connection.execute("select pg_terminate_backend(%s)", [backend])
                finally:
                    os.kill(backend, signal.SIGCONT)
                assert (await running)[1:] == ["ok"] * 9

    uvloop.run(scene())


def test_a_session_ends_though_its_socket_is_closed_and_its_message_half_sent(database_url: str) -> None:
    async def scene() -> None:
        session = await Session.connect(Hosts(database_url), 10)
        loop = asyncio.get_running_loop()
        prepared, told = loop.create_future(), loop.create_future()
        session.send("select %s::bytea", [b""], prepared.set_result)
        await prepared
        backend = session._pgconn.backend_pid
        os.kill(backend, signal.SIGSTOP)
        try:
            session.send("select %s::bytea", [bytes(5_000_000)], told.set_result)
            os.close(session._socket)  # as libpq does when a connection is lost
            session.close()
        finally:
            os.kill(backend, signal.SIGCONT)
        assert isinstance(await told, SessionLost)
        one, other = socket.socketpair()  # reuse the descriptor's number
        with one, other:
            one.setblocking(False)
            received = asyncio.create_task(loop.sock_recv(one, 1))
            await asyncio.sleep(0)
            other.send(b"x")
            assert await asyncio.wait_for(received, 10) == b"x"

    asyncio.run(scene())


@pytest.mark.parametrize("statement", ["select %s::text::date as outcome", "select 'ok', %s::text::timestamp"])
def test_a_value_that_cannot_be_read_fails_its_call_at_once(
    database_url: str, statement: LiteralString, customer: Customer, caplog: pytest.LogCaptureFixture
) -> None:
    unreadable: Command[Any] = Command(statement, ("infinity",), lambda rows: rows[0][0])

    async def scene(company: AwaitedBatcher) -> float:
        started = monotonic()
        with pytest.raises(LedgerUnavailable):
            await company.run(unreadable)
        late = monotonic() - started
        assert (await company.run(customer.request())).outcome == "charged", "the session goes on"
        return late

    assert play(database_url, scene) < limits.database.STATEMENT_SECONDS / 2
    assert "UnreadableValueError: DataError" in caplog.text


def test_what_cannot_be_written_fails_its_statement_at_once(database_url: str) -> None:
    async def scene() -> None:
        session = await Session.connect(Hosts(database_url), 10)
        for value in (object(), "text", 2.5, "\ud800", "text"):
            outcome = await session.ask("select %s::text", [value])
            assert outcome == [("text",)] if value == "text" else isinstance(outcome, Exception)
        session.close()

    asyncio.run(asyncio.wait_for(scene(), 5))


@pytest.mark.parametrize("meanwhile", ["deallocate all", 'prepare "{name}" as select 0', "discard all"])
def test_a_prepared_statement_of_another_session_is_not_relied_on(database_url: str, meanwhile: str) -> None:
    """As behind a pooler, where each transaction may get another server session."""

    async def scene() -> None:
        session = await Session.connect(Hosts(database_url), 10)
        if meanwhile.startswith("d"):
            assert await session.ask("select 1", []) == [(1,)]
        result = session._pgconn.exec_(meanwhile.format(name=_name("select 1").decode()).encode())
        assert result.status == ExecStatus.COMMAND_OK
        for _ in range(2):
            assert await session.ask("select 1", []) == [(1,)]
        assert await session.ask("select 2", []) == [(2,)]
        assert session._pgconn.exec_(b"select from pg_prepared_statements where statement = 'select 2'").ntuples == 0
        session.close()

    asyncio.run(asyncio.wait_for(scene(), 5))


def test_an_error_of_the_commit_is_an_error_though_rows_came_first(database_url: str, connection: Connection) -> None:
    async def scene() -> None:
        session = await Session.connect(Hosts(database_url), 10)
        for _ in range(2):
            outcome = await session.ask("insert into public.once values (1), (1) returning number", [])
            assert isinstance(outcome, psycopg.errors.UniqueViolation)
        assert await session.ask("select 1", []) == [(1,)]
        session.close()

    connection.execute("create table public.once (number integer unique deferrable initially deferred)")
    try:
        asyncio.run(asyncio.wait_for(scene(), 5))
    finally:
        connection.execute("drop table public.once")


def test_an_answer_in_time_counts_though_the_loop_was_late(database_url: str) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def scene() -> None:
        session = await Session.connect(Hosts(database_url), 0.3)
        assert await session.ask("select 1", []) == [(1,)]  # is prepared now
        answered = asyncio.create_task(session.ask("select 1", []))
        await asyncio.sleep(0)
        time.sleep(0.5)
        assert await answered == [(1,)]
        session.close()

    uvloop.run(scene())


def test_a_session_is_kept_while_each_of_its_statements_is_answered_in_time(database_url: str) -> None:
    async def scene() -> None:
        session = await Session.connect(Hosts(database_url), 1)
        for _ in range(15):
            assert await session.ask("select 1 from pg_sleep(0.1)", []) == [(1,)]
        session.close()

    asyncio.run(scene())


class InstantSession(Session):
    def __init__(self) -> None:
        self.key_secret, self.is_closed = bytes(32), False
        self._done: Done | None = None
        self._calls = 0

    def is_over(self) -> bool:
        return False

    def send(self, _statement: LiteralString, parameters: Sequence[Any], done: Done) -> None:
        self._done = done
        self._calls = len(parameters[0]) if isinstance(parameters[0], list) else 0

    def poll(self) -> None:
        done, self._done = self._done, None
        if done is not None:
            done([(at, "ok", None) for at in range(1, self._calls + 1)] or [("ok", None)])

    def close(self) -> None: ...


def test_an_answer_is_not_read_within_another() -> None:
    """A callback submits again immediately and lets the ledger be read again, as pipelined requests do."""
    depths: list[int] = []

    async def scene() -> None:
        session = InstantSession()

        async def connect(_hosts: Hosts, _seconds: float) -> Session:
            return session

        batcher = Batcher("", connect=connect)

        def done(_answer: object) -> None:
            depths.append(len(inspect.stack(0)))
            if len(depths) < 240:
                batcher.submit(admit(NOBODY), done)
                batcher.poll()

        batcher.submit(admit(NOBODY), done)
        while len(depths) < 240:
            await asyncio.sleep(0)
            batcher.poll()
        await batcher.close()

    asyncio.run(scene())
    assert max(depths) == min(depths)


def test_a_failed_look_at_a_probes_answer_ends_no_later_probe(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(LedgerObserver):
        def probed(self, ready: bool) -> None:
            raise ZeroDivisionError(ready)

    async def scene() -> None:
        monkeypatch.setattr(limits.probes, "PROBE_SECONDS", 0.0)
        batcher = Batcher(database_url, observer=Broken())
        told: list[bool] = []
        for number in range(1, 4):
            batcher.probe(told.append)
            while len(told) < number:
                await asyncio.sleep(0.01)
        assert told == [True] * 3
        await batcher.close()

    asyncio.run(asyncio.wait_for(scene(), 5))


def test_a_refusal_that_raises_keeps_no_answer_from_others(database_url: str) -> None:
    def broken(outcome: str) -> str:
        raise ZeroDivisionError(outcome)

    async def scene(company: AwaitedBatcher) -> None:
        answers = await together(company, [admit(NOBODY), *(admit(NOBODY, broken) for _ in range(2)), admit(NOBODY)])
        told = [answer if isinstance(answer, str) else type(answer) for answer in answers]
        assert told == ["unauthorized", *[ZeroDivisionError] * 2, "unauthorized"]

    play(database_url, scene)


def test_what_a_callback_raises_keeps_no_answer_from_others(
    database_url: str, customer: Customer, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(company: AwaitedBatcher) -> None:
        told: list[str] = []

        def broken(_answer: object) -> None:
            raise ZeroDivisionError(customer.account_id)

        def ask(credential: Credential) -> None:
            company.submit(admit(credential), broken)
            company.submit(admit(credential), told.append)
            company.probe(broken)

        ready = asyncio.create_task(company.ready())
        for credential in (customer.credential, NOBODY):
            ask(credential)
        assert await ready
        assert await company.run(read_usage(customer.credential))
        assert sorted(told) == ["ok", "unauthorized"]

    play(database_url, scene)
    assert "a callback failed: ZeroDivisionError" in caplog.text
    assert customer.account_id not in caplog.text
