"""Settings that sessions inherit from the environment, a role, a database or the server, and must not depend on."""

import asyncio
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from secrets import token_hex
from typing import LiteralString

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.conninfo import make_conninfo
from tests import pgbouncer
from tests.cli.running import invoke
from tests.harness.awaited_batcher import AwaitedBatcher
from tests.harness.processes import completed, until
from tests.harness.proxy import socket_directory
from tests.harness.serving import SEPU

from sepu import limits
from sepu.admin import accounts
from sepu.admin.naming import AccountError
from sepu.database.connection import StandbySilentError, UnsafeSettingsError
from sepu.database.hosts import Hosts
from sepu.database.migrate import migrate, schema_of_release
from sepu.database.nodes import own_state
from sepu.database.opening import connect, database
from sepu.database.roles import grant, make_role, read_open_rights_of_nodes
from sepu.database.settings import _clocks, _settings, broken_settings
from sepu.metering.commands import Probed, probe
from sepu.metering.session import Session

UNSAFE = {
    "default_transaction_isolation": "repeatable read",
    "synchronous_commit": "off",
    "session_replication_role": "replica",
    "track_activities": "off",
    "zero_damaged_pages": "on",
    "ignore_checksum_failure": "on",
}


@pytest.fixture
def role(own_url: str) -> Iterator[str]:
    """A role that serves the test's own ledger."""
    name = f"Serving-{token_hex(4)}"
    with connect(own_url) as owner:
        make_role(owner, name, "service")
        yield name
        owner.execute(sql.SQL("drop owned by {}").format(sql.Identifier(name)))
        owner.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def inherit(connection: Connection, role: str, setting: str, value: str, where: LiteralString = "") -> None:
    names = sql.Identifier(role), sql.Identifier(setting), value
    connection.execute(sql.SQL("alter role {} " + where + " set {} = {}").format(*names))


def test_how_values_are_written(own_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the environment nor a role changes it, also behind PgBouncer, which needs no option for the service."""
    if pgbouncer.WHY_NOT:
        pytest.skip(pgbouncer.WHY_NOT)
    for name, value in (("DATESTYLE", "German"), ("TZ", "Asia/Kolkata"), ("CLIENTENCODING", "SQL_ASCII")):
        monkeypatch.setenv(f"PG{name}", value)
    with connect(own_url) as owner, ExitStack() as stack:
        database = sql.Identifier(owner.info.dbname)
        for setting, value in (
            ("datestyle", "Postgres, DMY"),
            ("timezone", "Asia/Kolkata"),
            ("client_encoding", "LATIN1"),
        ):
            owner.execute(sql.SQL("alter database {} set {} = {}").format(database, sql.Identifier(setting), value))
        pooled = make_conninfo(stack.enter_context(pgbouncer.pgbouncer(own_url)), dbname=owner.info.dbname)
        for url in (own_url, pooled):
            environment = {**os.environ, "SEPU_DATABASE_URL": url}

            def run(*arguments: str, environment: dict[str, str] = environment) -> str:
                done = completed([SEPU, *arguments], env=environment)
                assert done.returncode == 0, done.stderr
                return done.stdout

            made = json.loads(
                run("account", "create", "--plan", "standard", "--name", "桃红", "--expires-at", "1d", "--json")
            )
            shown = json.loads(run("account", "show", made["accountId"], "--json"))
            assert shown["name"] == "桃红"
            assert shown["expiresAt"].endswith("Z")
            assert json.loads(run("history", made["accountId"], "--json").splitlines()[0])["at"].endswith("Z")
        for _ in range(2):  # psycopg would prepare a statement that comes six times, and the next session has its name
            with connect(pooled) as session:
                assert [session.execute("select 1").fetchone() for _ in range(7)] == [(1,)] * 7


def test_no_session_is_opened_behind_statements_that_wait_for_a_silent_standby() -> None:
    with (
        socket_directory() as directory,
        database(None, directory, create=True) as url,
        connect(url) as owner,
        ThreadPoolExecutor() as threads,
    ):

        async def opened() -> None:
            (await Session.connect(Hosts(url), 5)).close()

        asyncio.run(opened())
        owner.execute("alter system set synchronous_standby_names = 'lost'")
        owner.execute("select pg_reload_conf()")
        released = threading.Event()

        def commit() -> None:
            while not released.is_set():  # the setting takes effect after a while
                owner.execute("create table waits ()")
                owner.execute("drop table waits")

        waiting = threads.submit(commit)
        try:
            with connect(url) as other:
                until(lambda: other.execute("select from pg_stat_activity where wait_event = 'SyncRep'").rowcount == 1)
            time.sleep(0.6)
            with pytest.MonkeyPatch.context() as patient:
                patient.setattr("sepu.metering.session._STANDBY_SECONDS", 60.0)
                asyncio.run(opened())
            with pytest.raises(StandbySilentError):
                asyncio.run(opened())
        finally:
            released.set()
            with connect(url) as other:
                other.execute("alter system reset synchronous_standby_names")
                other.execute("select pg_reload_conf()")
            waiting.result(30)


@pytest.mark.parametrize(("setting", "value"), UNSAFE.items())
def test_a_setting_that_breaks_a_promise_is_named_and_no_session_is_used(
    own_url: str, role: str, setting: str, value: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits.probes, "PROBE_SECONDS", 0.0)

    async def scene() -> None:
        async with AwaitedBatcher(make_conninfo(own_url, user=role)) as batcher:
            while not await batcher.ready():  # a busy machine may be late
                pass
            old = batcher.probes.slots[0].session
            inherit(owner, role, setting, value)
            with pytest.raises(UnsafeSettingsError):
                await batcher._open_session()
            assert old is not None
            assert old.is_closed, "it would call the database ready"
            assert not await batcher.ready()
            owner.execute(sql.SQL("alter role {} reset all").format(sql.Identifier(role)))
            while not await batcher.ready():  # until it connects again
                pass

    with connect(own_url) as owner:
        asyncio.run(scene())
        named = f'role "{role}" in database {owner.info.dbname}: {setting} is {value} instead of '
    assert {record.getMessage().partition(named)[0] for record in caplog.records} == {
        "ledger unavailable: UnsafeSettingsError: "
    }
    assert {record.getMessage().rpartition("; ")[2] for record in caplog.records} == {"see: sepu db check"}


def test_a_probe_reads_what_has_changed_since_the_session_began(connection: Connection) -> None:
    """As after a reload, or behind a pooler."""

    def probed() -> Probed:
        command = probe()
        return command.reply(command.read(connection.execute(command.statement).fetchall()))

    assert probed().broken_settings is None
    for kept in ("remote_apply", "off"):
        connection.execute(sql.SQL("set synchronous_commit = {}").format(kept))
        assert (probed().broken_settings is None) is (kept == "remote_apply")
    found = probed()
    assert (found.has_migrations, found.is_ready) == (True, False)


def test_db_check(own_url: str, role: str) -> None:
    def checked() -> dict[tuple[str, str], tuple[str, str, str]]:
        for form in ("--csv", "--json"):
            done = invoke("db", "check", form, SEPU_DATABASE_URL=own_url)
            assert done.returncode == 1, "fsync is off in this run"
            assert done.stderr == f"sepu: schema {schema_of_release()}\n"
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        with connect(make_conninfo(own_url, user=role)) as asked:  # as a node of a cluster is
            seen = {(one.setting, one.set_by) for one in _settings(own_state(asked), role, "a:1", asked.info.dbname)}
        assert seen == {(row["setting"], row["setBy"].replace('"', "")) for row in rows if row["role"] == role}
        found = {(row["role"], row["setting"]): (row["value"], row["needed"], row["setBy"]) for row in rows}
        assert {found.pop((each, "fsync")) for each in ("sepu", role)} == {("off", "on", "the server")}
        return found

    with connect(own_url) as owner:
        assert checked() == {}
        database = owner.info.dbname
        inherit(owner, role, "default_transaction_isolation", "SERIALIZABLE")
        inherit(owner, role, "synchronous_commit", "false")
        owner.execute(sql.SQL("alter database {} set synchronous_commit = local").format(sql.Identifier(database)))
        assert checked() == {
            ("sepu", "synchronous_commit"): ("local", "on or remote_apply", f"database {database}"),
            (role, "synchronous_commit"): ("false", "on or remote_apply", f'role "{role}"'),
            (role, "default_transaction_isolation"): ("SERIALIZABLE", "read committed", f'role "{role}"'),
        }
        here = sql.SQL("in database {}").format(sql.Identifier(database)).as_string()
        for off in ("no", "0"):
            inherit(owner, role, "synchronous_commit", off, here)
            assert checked()[role, "synchronous_commit"][::2] == (off, f'role "{role}" in database {database}')
        inherit(owner, role, "synchronous_commit", "remote_apply", here)
        assert (role, "synchronous_commit") not in checked()
        grant(owner, role, "read-only")
        assert {one.role for one in broken_settings(owner)} == {"sepu"}, "the other charges nothing any more"


# A Citus cluster with another node, which is this server and refuses other roles.
OTHER_NODE = """
set allow_system_table_mods = on; grant create on schema public to public;
create or replace function sepu.nodes(out nodes text) return 'fd00::b:5432';
create function pg_catalog.master_run_on_worker(hosts text[], ports integer[], queries text[], parallel boolean,
    out success boolean, out result text) language plpgsql as $$ begin
    success := hosts = '{fd00::b}' and current_user = session_user;
    execute format('select format(''%%s'', (%s))', queries[1]) into result;
end $$
"""


def test_what_another_node_refuses_or_lets_everybody_do_is_told(own_url: str, role: str) -> None:
    with connect(own_url) as owner:
        closed = f'revoke connect on database {owner.info.dbname} from public, "{role}"'
        advice = (
            "pg_hba.conf there, and ~postgres/.pgpass here",
            f"grant connect on database {owner.info.dbname} to {role}",
        )
        for given, needed in zip((OTHER_NODE, closed), advice, strict=True):
            owner.execute(given.encode())
            (refused,) = (one for one in broken_settings(owner) if one.setting == "connection")
            assert (refused.role, refused.node, refused.needed) == (role, "fd00::b:5432", needed)
        found = {(right.role, right.value, right.needed) for right in read_open_rights_of_nodes(owner)}
        assert found == {("PUBLIC", "granted", "revoked")}


def test_backslashes_of_migrations_mean_themselves(empty_url: str) -> None:
    with connect(empty_url) as owner:
        database = sql.Identifier(owner.info.dbname)
        owner.execute(sql.SQL("alter database {} set standard_conforming_strings = off").format(database))
    with connect(empty_url) as owner:
        migrate(owner)
        assert accounts.create_account(owner, "standard", "Tea House").account_id
        with pytest.raises(AccountError, match="no space before or after"):
            accounts.create_account(owner, "standard", " Tea House")


def test_a_command_keeps_its_level_of_isolation(own_url: str, role: str) -> None:
    with connect(own_url) as owner:
        inherit(owner, role, "default_transaction_isolation", "serializable")
        with connect(make_conninfo(own_url, user=role)) as session, session.transaction():
            assert session.execute("show transaction_isolation").fetchone() == ("read committed",)
            assert session.execute("show default_transaction_isolation").fetchone() == ("serializable",)


def test_each_charge_on_citus_looks_at_the_same_settings(connection: Connection) -> None:
    """check_node is one expression, because a query would cost each charge more."""
    ((text,),) = connection.execute("select prosrc from pg_proc where oid = 'sepu.check_node'::regproc").fetchall()
    looked_at = re.findall(r"current_setting\('(\w+)'\) <> all \('\{([^}]*)\}'\)", text)
    needed = connection.execute("select name, array_to_string(accepted, ',') from sepu.needed_settings()").fetchall()
    assert looked_at == needed
    connection.execute("set synchronous_commit = off")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="synchronous_commit is off instead of on or"):
        connection.execute("select sepu.check_node()")


def test_the_clock_that_differs_from_most_is_named(connection: Connection) -> None:
    asked = connection.execute("select sepu.node_state(now() - interval '90 s') ->> 'ahead'").fetchone()
    assert asked == ("90.000000",), "it is ahead of who asks"
    found = list(_clocks({None: 0.0, "a:1": 3600.1, "b:1": 3600.2, "c:1": 3600.0}, "sepu_owner"))
    assert [(each.node, each.setting, each.value) for each in found] == [(None, "clock", "-3600 s")]
