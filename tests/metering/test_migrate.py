import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.conninfo import make_conninfo
from tests.cli.running import invoke
from tests.metering.conftest import OpenSession

from sepu import limits
from sepu.database import statements
from sepu.database.migrate import (
    MigrationError,
    holds_migrations,
    migrate,
    pending,
    schema_of_database,
    schema_of_release,
)
from sepu.database.opening import connect
from sepu.metering.key_format import new_account_id

NAMES = [*(script.name for script in statements.migrations()), "functions.sql"]


@pytest.fixture
def session(empty_url: str) -> Iterator[OpenSession]:
    with ExitStack() as opened:
        yield lambda: opened.enter_context(connect(empty_url))


@pytest.fixture
def empty(session: OpenSession) -> Connection:
    return session()


def applied(connection: Connection) -> list[tuple[str, str]]:
    return connection.execute(statements.statement("read_migrations")).fetchall()


def the_functions(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(statements, "functions", lambda: statements.Script("functions.sql", text))


def the_migrations(monkeypatch: pytest.MonkeyPatch, *found: statements.Script) -> None:
    monkeypatch.setattr(statements, "migrations", lambda: found)


def test_all_is_applied_once_beside_somebody_elses_tables(empty: Connection) -> None:
    empty.execute("create table public.migration (id integer)")
    assert [script.name for script in pending(empty)] == NAMES
    assert empty.execute("select to_regnamespace('sepu')").fetchone() == (None,), "looking changes nothing"
    assert migrate(empty) == NAMES
    before = applied(empty)
    assert pending(empty) == []
    assert migrate(empty) == []
    assert applied(empty) == before
    assert empty.execute("select * from public.migration").fetchall() == []


LOCKING = statements.Script("9999_new.sql", "lock table sepu.usage in access exclusive mode")


def test_requests_wait_for_no_migration_that_waits(session: OpenSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody uses a table for a long time. The migration waits until it is free, and no request is refused."""
    holder, migrator, requests = session(), session(), session()
    migrate(migrator)
    monkeypatch.setattr(limits.database, "MIGRATION_PAUSE_SECONDS", 0.3)
    the_migrations(monkeypatch, *statements.migrations(), LOCKING)
    holder.execute("begin")
    holder.execute("select from sepu.usage")
    requests.execute(sql.SQL("set lock_timeout = {}").format(sql.Literal(f"{limits.database.BATCH_LOCK_SECONDS}s")))
    with ThreadPoolExecutor(1) as threads:
        migrating = threads.submit(migrate, migrator)
        waited = 0
        while waited < 3:
            waited += bool(holder.execute("select from pg_locks where not granted").fetchall())
            requests.execute("update sepu.usage set committed = committed")
        holder.execute("commit")
        assert migrating.result() == [LOCKING.name]


def test_only_a_session_that_keeps_a_table_locked_is_named(
    session: OpenSession, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one with shorter transactions, or one that migrates another database."""
    holder, other, migrator = session(), session(), session()
    migrate(migrator)
    monkeypatch.setattr(limits.database, "MIGRATION_SECONDS", 1.0)
    monkeypatch.setattr(limits.database, "MIGRATION_PAUSE_SECONDS", 0.1)
    the_migrations(monkeypatch, *statements.migrations(), LOCKING)
    holder.execute("begin")
    holder.execute("select from sepu.usage")
    named = rf":\n  process {holder.info.backend_pid} of sepu \(sepu\), since 20.*\Z"
    connection.execute("begin")
    connection.execute(statements.statement("lock_migrations"))
    monkeypatch.setattr(time, "sleep", lambda _: other.execute("commit; begin; select from sepu.usage"))
    with pytest.raises(MigrationError, match=named):
        migrate(migrator)
    other.execute("commit")
    holder.execute("commit")
    holder.execute("begin")
    holder.execute(statements.statement("lock_migrations"))
    for seconds in (1.0, 0.0):  # the last attempt may begin when no time is left
        monkeypatch.setattr(limits.database, "MIGRATION_SECONDS", seconds)
        with pytest.raises(MigrationError, match=named):
            migrate(migrator)
    holder.execute("commit")
    assert migrate(migrator) == [LOCKING.name]


def test_a_second_migrator_waits_and_finds_it_done(session: OpenSession) -> None:
    first, second = session(), session()
    first.execute("begin")
    first.execute(statements.statement("lock_migrations"))
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(migrate, second)
        while not session().execute("select from pg_locks where locktype = 'advisory' and not granted").fetchall():
            assert not waiting.done()
        holders = statements.run(session(), "list_lock_holders").fetchall()
        assert migrate(first) == NAMES
        first.execute("commit")
        assert waiting.result() == []
    assert [pid for pid, *_ in holders] == [first.info.backend_pid], "and not who waits"


def test_all_or_nothing(empty: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    the_functions(monkeypatch, "create table sepu.half (id integer); select 1 / 0")
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(empty)
    assert empty.execute("select to_regnamespace('sepu')").fetchone() == (None,)
    monkeypatch.undo()
    assert migrate(empty) == NAMES


@pytest.mark.parametrize(
    "altered",
    [
        "update sepu.migration set sha256 = repeat('0', 64) where name = '0001_ledger.sql'",
        "update sepu.migration set name = '0002_pruned.sql' where name = '0001_ledger.sql'",
        "update sepu.migration set sha256 = repeat('0', 64) where name = '0002_new.sql'",
    ],
)
def test_a_database_of_other_migrations_is_refused(
    empty: Connection, altered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As made by a version before the first release."""
    the_migrations(monkeypatch, *statements.migrations(), statements.Script("0002_new.sql", "select"))
    migrate(empty)
    empty.execute(altered.encode())
    before = applied(empty)
    for look in (pending, migrate):
        with pytest.raises(MigrationError, match=r"unreleased version.* migrate a new database"):
            look(empty)
    assert applied(empty) == before


def test_a_new_migration_is_applied_before_the_functions(empty: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """And again after a deadlock."""
    migrate(empty)
    empty.execute("create sequence public.attempt")
    deadlock = "do $$ begin if nextval('public.attempt') = 1 then raise deadlock_detected; end if; end $$"
    new = statements.Script("9999_new.sql", f"create table sepu.new (id integer); {deadlock}")
    the_migrations(monkeypatch, *statements.migrations(), new)
    the_functions(
        monkeypatch,
        "create or replace function sepu.newest() returns integer language sql return (select max(id) from sepu.new)",
    )
    assert migrate(empty) == ["9999_new.sql", "functions.sql"]
    assert migrate(empty) == []


def test_holds_migrations(empty: Connection) -> None:
    migrate(empty)
    rows = applied(empty)

    def holds(rows: list[tuple[str, str]]) -> bool:
        return holds_migrations([(",".join("=".join(row) for row in rows) or None,)])

    assert holds_migrations(empty.execute(statements.statement("probe")).fetchall())
    assert holds(rows)
    assert holds([*rows, ("9999_later.sql", "0" * 64)]), "a later release has been here"
    assert holds([row for row in rows if row[0] != "functions.sql"])
    assert holds([(name, "0" * 64 if name == "functions.sql" else digest) for name, digest in rows])
    assert not holds([])
    assert not holds([row for row in rows if row[0] == "functions.sql"])
    assert not holds([(name, "0" * 64) for name, _digest in rows])


def test_an_older_server_leaves_a_newer_database_alone(empty: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    new = statements.Script("9999_new.sql", "create table sepu.new (id integer)")
    the_migrations(monkeypatch, *statements.migrations(), new)
    the_functions(monkeypatch, statements.functions().text + "-- of a later release\n")
    migrate(empty)
    newer = applied(empty)
    monkeypatch.undo()
    assert pending(empty) == []
    assert migrate(empty) == []
    assert applied(empty) == newer
    assert schema_of_database(empty).startswith("9999-")


def test_two_builds_of_one_version_show_different_schemas(
    empty_url: str, empty: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(empty)
    schema = schema_of_database(empty)
    assert re.fullmatch("1-[0-9a-f]{8}", schema)
    assert schema == schema_of_release()
    assert f"schema {schema}\n" in invoke("db", "check", SEPU_DATABASE_URL=empty_url).stdout
    the_functions(monkeypatch, statements.functions().text + "-- of another build\n")
    assert schema_of_release().startswith("1-")
    assert schema_of_release() != schema


def test_a_database_of_another_encoding_is_refused(empty_url: str) -> None:
    """Names are Chinese; SQL_ASCII would take them for bytes, and fail at the first request."""
    with connect(empty_url) as connection:
        name = f"ascii_{new_account_id()}"
        connection.execute(
            sql.SQL("create database {} encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C' template template0").format(
                sql.Identifier(name)
            )
        )
        try:
            with (
                connect(make_conninfo(empty_url, dbname=name)) as ascii_only,
                pytest.raises(MigrationError, match=r"SQL_ASCII.*'UTF8'"),
            ):
                migrate(ascii_only)
        finally:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
