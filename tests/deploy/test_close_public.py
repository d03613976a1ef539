"""The script that takes from PUBLIC what no role needs, on each Postgres that is installed."""

import json
import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.cli.running import invoke
from tests.harness.postgres import EMBEDDED, INSTALLED, Cluster, run
from tests.harness.processes import completed
from tests.harness.proxy import socket_directory
from tests.keys import holder_of
from tests.nodes.traffic import on_plan

from sepu import limits
from sepu.admin.keys import IssuedKey
from sepu.database.migrate import migrate
from sepu.database.opening import connect
from sepu.database.roles import PURPOSES, grant
from sepu.errors import SepuError
from sepu.metering.commands import Charge, meter_request

SCRIPT = Path(__file__).parents[2] / "deploy" / "postgres" / "close-public.sh"
PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
# By the rows of the page's table: statements that every role with a "no" there is refused.
REFUSED = {
    "read hashes of keys, or stored responses (service: only by replay, with a key whose hash it has seen)": (
        "select key_hash from sepu.api_key",
        "select body from sepu.stored_result",
        "select * from sepu.stored_result",
        "select * from pg_authid",
    ),
    "read idempotency keys": (
        "select idempotency_key from sepu.stored_result",
        "select fingerprint from sepu.stored_result",
    ),
    "read receipts": ("select * from sepu.receipt",),
    "read the secret of the keys' tags": ("select sepu.key_secret()", "select secret from sepu.key_secret"),
    "read names of accounts": ("select name from sepu.account", "select external_id from sepu.account"),
    "read usage": ("select * from sepu.usage", "select units from sepu.stored_result"),
    "charge an account": (
        "select sepu.meter_request('a', '', 'k', '', 'm', 1, '', gen_random_uuid())",
        "select sepu.admit('a', '')",
    ),
    "grant or credit units": ("select sepu.adjust_usage('o', 'grant.add', 'a', gen_random_uuid(), null, 'm', 1, 'r')",),
    "change accounts, keys or plans": ("select sepu.make_change('o', 'account.suspend', 'a', null, '{}')",),
    "grant, credit, or change accounts, keys or plans without a row in the history, "
    "or change usage except by a charge": (
        "update sepu.account set status = 'suspended'",
        "update sepu.api_key set revoked_at = null",
        "update sepu.plan_limit set units = 0",
        "update sepu.usage set committed = 0",
        "delete from sepu.stored_result",
        "insert into sepu.adjustment default values",
        "select sepu.prune_results('a', '2026-01', 'm', 0, 1)",
    ),
    "change or delete the history, or write a row that names another role": (
        "delete from sepu.change",
        "update sepu.change set role = 'sepu_owner'",
        "insert into sepu.change default values",
        "truncate sepu.change",
        "select sepu.record_changes('o', 'key.revoke', 'a', '{}', '{}')",
        "select sepu.forget_names('a')",
        "set session authorization sepu_owner",
        "set role sepu_owner",
    ),
    "mark an event as delivered": ("update sepu.event_delivery set due_at = null",),
    "create tables or functions": (
        "create table public.own ()",
        "create table sepu.own ()",
        "create schema own",
        "create function sepu.own() returns integer language sql return 1",
    ),
    "take an advisory lock": (
        "select count(pg_advisory_lock(i)) from generate_series(1, 10000000) i",
        "select pg_try_advisory_xact_lock(1, 2)",
    ),
    "lock a table or view against others": (
        "lock table pg_settings in access exclusive mode",
        "lock table sepu.event_delivery in access exclusive mode",
        "lock table sepu.migration in row exclusive mode",
        "lock table pg_class in share mode",
    ),
    "end other sessions of the same role": (
        "select pg_terminate_backend(pid) from pg_stat_activity where usename = current_user",
        "select pg_cancel_backend(pid) from pg_stat_activity where usename = current_user",
    ),
    "write temporary tables, large objects, WAL messages or snapshots": (
        "create temp table own as select generate_series(1, 1000000)",
        "select lo_create(0)",
        "select lo_from_bytea(0, 'x')",
        "select pg_logical_emit_message(false, 'x', repeat('x', 1000000))",
        "select pg_export_snapshot()",
        "select pg_notify('x', repeat('x', 7999))",
    ),
    "write more than 1 GB of temporary files in each Postgres process": ("set temp_file_limit = -1",),
    "write to the log with a `DO` block": ("do $$ begin raise log 'forged'; end $$", "set log_statement = 'all'"),
}
ALL = ("owner", *PURPOSES, "monitor", "nobody")


def noes() -> Iterator[tuple[str, str]]:
    """The roles that the page's table and list say cannot do something, with that."""
    table, _, rest = PAGE.partition("| with the password of |")[2].partition("\n\n")
    roles = table.partition("\n")[0].strip("| ").split(" | ")
    for row in table.splitlines()[2:]:
        what, *cells = row.strip("| ").split(" | ")
        yield from ((role, what) for role, cell in zip(roles, cells, strict=True) if cell.partition(",")[0] == "no")
    for line in rest.partition("\n\n")[2].partition("\n\n")[0].splitlines():
        yield from ((role, line.removeprefix("- ")) for role in roles)


def close_public(cluster: Cluster, *keepers: str) -> None:
    environment = {
        "PATH": f"{cluster.programs}:{os.environ['PATH']}",
        "PGHOST": str(cluster.directory),
        "PGPORT": str(cluster.port),
        "PGUSER": "sepu",
    }
    done = completed([SCRIPT, *keepers], env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@contextmanager
def deployed(programs: Path) -> Iterator[tuple[Cluster, str, IssuedKey]]:
    """A cluster with the roles and the ledger of docs/deploy.md, not closed yet; the superuser's string; an account."""
    with socket_directory() as directory:
        cluster = Cluster(directory, programs=programs)
        cluster.initialise(max_prepared_transactions="0")
        with cluster.running() as url:
            with connect(url) as root:
                for role in ALL:
                    root.execute(f'create role "sepu_{role}" login'.encode())
                root.execute("grant pg_monitor to sepu_monitor")
                root.execute("create database sepu owner sepu_owner template template0 encoding 'UTF8' locale 'C'")
            url = make_conninfo(url, dbname="sepu")
            with connect(make_conninfo(url, user="sepu_owner")) as owner:
                migrate(owner)
                for purpose in PURPOSES:
                    grant(owner, f"sepu_{purpose}", purpose)
                issued = on_plan(owner)
            yield cluster, url, issued


def charge(url: str, issued: IssuedKey, key: str) -> str:
    command = meter_request(holder_of(issued.api_key), key, Charge("color_match", 1, b"f" * 32, b"{}"), "0" * 32)
    with connect(make_conninfo(url, user="sepu_service")) as session:
        rows = session.execute(command.statement, command.parameters).fetchall()
        return str(command.reply(command.read(rows)).outcome)


def checked(url: str) -> dict[tuple[str, str], str]:
    done = invoke("db", "check", "--json", SEPU_DATABASE_URL=make_conninfo(url, user="sepu_owner"))
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {(one["role"], one["setting"]): one["repair"] for one in found if one["setting"] != "fsync"}


def test_each_no_of_the_page_is_tried() -> None:
    assert {what for _, what in noes()} == {
        *REFUSED,
        "connect to another database",
        "take all connections of the server",
    }


@pytest.mark.slow
@pytest.mark.parametrize("programs", [EMBEDDED, *INSTALLED], ids=lambda path: path.parent.name)
def test_no_role_can_stop_the_others(programs: Path) -> None:
    with deployed(programs) as (cluster, url, issued):
        assert {role for role, _ in checked(url)} == {
            "PUBLIC",
            "sepu_owner",
            *(f"sepu_{purpose}" for purpose in PURPOSES),
        }
        # As it is without the script: any role stops all charging.
        with psycopg.connect(make_conninfo(url, user="sepu_events"), autocommit=True) as session:
            with pytest.raises(psycopg.errors.OutOfMemory):
                session.execute(REFUSED["take an advisory lock"][0].encode())
            with pytest.raises((SepuError, psycopg.errors.OutOfMemory)):
                charge(url, issued, "before-01")

        for _ in range(2):  # a second time changes nothing
            close_public(cluster, "sepu_owner")
        for role, what in noes():
            with connect(make_conninfo(url, user=f"sepu_{role}")) as session:
                for statement in REFUSED.get(what, ()):
                    with pytest.raises(psycopg.errors.InsufficientPrivilege), session.transaction():
                        session.execute(statement.encode())
                session.execute("select pg_advisory_unlock_all()")  # poolers do
            if what == "connect to another database":
                for database in ("postgres", "template1"):
                    with pytest.raises(SepuError, match="permission denied for database"):
                        connect(make_conninfo(url, user=f"sepu_{role}", dbname=database))
        for database in ("postgres", "template1", "sepu"):
            with pytest.raises(SepuError, match="permission denied for database"):
                connect(make_conninfo(url, user="sepu_nobody", dbname=database))
        with connect(make_conninfo(url, user="sepu_monitor", dbname="postgres")) as session:
            session.execute("select * from pg_stat_activity")
        assert charge(url, issued, "after-01") == "charged"
        left = checked(url)
        assert set(left) == {(f"sepu_{role}", what) for role in PURPOSES for what in ("connections", "temporary files")}
        with connect(url) as root:
            for repair in left.values():
                root.execute(repair.encode())
        assert checked(url) == {}
        for purpose in PURPOSES:
            as_role = make_conninfo(url, user=f"sepu_{purpose}")
            with ExitStack() as stack:
                for _ in range(limits.database.ROLE_CONNECTIONS[purpose]):
                    stack.enter_context(psycopg.connect(as_role))
                with pytest.raises(psycopg.OperationalError, match="too many connections for role"):
                    psycopg.connect(as_role)
            assert f"no, at most {limits.database.ROLE_CONNECTIONS[purpose]} " in PAGE


@pytest.mark.slow
def test_what_survives_a_migration_and_a_restore() -> None:
    """The rights are of the catalog: a migration and a dump keep them, and the script closes a new database."""
    with deployed(EMBEDDED) as (cluster, url, _):
        close_public(cluster, "sepu_owner")
        with connect(make_conninfo(url, user="sepu_owner")) as owner:
            owner.execute("update sepu.migration set sha256 = repeat('0', 64) where name = 'functions.sql'")
            assert migrate(owner) == ["functions.sql"]
            issued = on_plan(owner)
        assert charge(url, issued, "migrated") == "charged"
        dump = cluster.directory / "dump"
        run(cluster.programs / "pg_dump", "-d", url, "-Fc", "-f", dump)
        with connect(url) as root:
            root.execute("create database restored owner sepu_owner template template0 encoding 'UTF8' locale 'C'")
        restored = make_conninfo(url, dbname="restored")
        run(cluster.programs / "pg_restore", "-d", restored, "--exit-on-error", dump)
        assert {what for role, what in checked(restored) if role == "PUBLIC"} == {"the database restored"}
        close_public(cluster, "sepu_owner")
        with connect(make_conninfo(restored, user="sepu_owner")) as owner:
            grant(owner, "sepu_service", "service")
        assert charge(restored, issued, "restored") == "charged"
        with (
            connect(make_conninfo(restored, user="sepu_service")) as session,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            session.execute("select pg_advisory_lock(1)")


@pytest.mark.slow
def test_an_owner_that_lost_its_rights_is_found() -> None:
    """As when somebody revokes first: then every charge fails."""
    with deployed(EMBEDDED) as (cluster, url, issued):
        close_public(cluster, "sepu_owner", "sepu_nobody")
        with connect(make_conninfo(url, user="sepu_nobody", dbname="postgres")) as other:
            other.execute("select pg_advisory_lock(1)")  # another application's role was named
        with connect(url) as root:
            root.execute("revoke all on function pg_try_advisory_xact_lock(bigint) from sepu_owner")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                charge(url, issued, "revoked-1")
            found = checked(url)
            (repair,) = [repair for (role, _), repair in found.items() if role == "sepu_owner"]
            assert repair == "grant execute on function pg_try_advisory_xact_lock(bigint) to sepu_owner"
            root.execute(repair.encode())
        assert charge(url, issued, "revoked-1") == "charged"


@pytest.mark.slow
def test_a_role_cannot_fill_the_disk_with_the_log() -> None:
    """At the limit of the unit, here a small one, Postgres writes no more to its log, and charges go on."""
    unit = (SCRIPT.parents[1] / "systemd" / "postgresql@.conf").read_text()
    assert "\nLimitFSIZE=2G\n" in unit  # more than the largest file of a table, 1 GB
    most = 32 << 20
    with deployed(EMBEDDED) as (cluster, url, issued):
        cluster.stop()
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
        try:
            cluster.start()  # inherits it
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        with connect(make_conninfo(url, user="sepu_events")) as session:
            for _ in range(40):
                with pytest.raises(psycopg.errors.UndefinedFunction):
                    session.execute(f"select forged('{'x' * 1_000_000}')".encode())
        assert (cluster.directory / "log").stat().st_size == most
        assert charge(url, issued, "log-full") == "charged"
