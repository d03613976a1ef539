"""The database roles: each does what its purpose needs, and none can do anything else."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from secrets import token_hex
from typing import LiteralString

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.conninfo import make_conninfo
from tests.cli.running import invoke
from tests.harness.processes import until
from tests.metering.conftest import Customer

from sepu import limits
from sepu.admin.grants_and_credits import list_adjustments
from sepu.admin.history import list_changes
from sepu.database import statements
from sepu.database.migrate import migrate
from sepu.database.opening import connect
from sepu.database.roles import (
    PEOPLE,
    PURPOSES,
    Purpose,
    grant,
    granted_roles,
    lock_holders,
    make_role,
    not_of_purpose,
    read_open_rights,
)
from sepu.errors import SepuError

TABLES = (
    *("plan", "plan_limit", "plan_allowance", "account", "account_now", "change", "key_secret", "api_key", "usage"),
    *("usage_day", "adjustment"),
    *("stored_result", "request_rate", "receipt", "quota_event", "event_delivery", "migration", "audit_run", "probe"),
)
SERVES = {
    "admit",
    "admit_batch",
    "read_usage",
    "read_usage_batch",
    "meter_request",
    "meter_request_batch",
    "key_secret",
    "probe",
    "broken_settings",
    "nodes",
    "node_state",
}
# What people's roles call.
BILLS = {"adjust_usage", "unfinished"}
CHANGES = {"make_change", "key_secret"}
CALLS: dict[Purpose, set[str]] = {"service": SERVES, "billing": BILLS, "accounts": BILLS | CHANGES}


@pytest.fixture
def role(connection: Connection) -> Iterator[str]:
    """A role without any grants yet; its name needs quotes. It goes after the test, and with it those named after it.

    If it comes before `empty_url`, that database is gone by then with all that they own there.
    """
    name = f"Test-{token_hex(4)}"
    connection.execute(sql.SQL("create role {} login").format(sql.Identifier(name)))
    # Another test of this run may have taken it from PUBLIC.
    database = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("grant connect on database {} to {}").format(database, sql.Identifier(name)))
    yield name
    for each in names(connection, "select rolname from pg_roles where starts_with(rolname, %s)", name):
        connection.execute(f'drop owned by "{each}"; drop role "{each}"'.encode())


def names(connection: Connection, query: LiteralString, *parameters: str) -> set[str]:
    return {name for (name,) in connection.execute(query, parameters).fetchall()}


def callable_by(connection: Connection, role: str) -> set[str]:
    return names(
        connection,
        "select proname from pg_proc where pronamespace = 'sepu'::regnamespace "
        "and has_function_privilege(%s, oid, 'execute')",
        role,
    )


def test_what_it_calls_has_the_owners_rights_and_a_path_of_its_own(connection: Connection) -> None:
    """A caller's search path could run the caller's functions and operators with the owner's rights.

    Functions that operators call have their own path too; those that only functions call have their caller's.
    """
    found = connection.execute(
        "select proname, prosecdef, 'search_path=pg_catalog, pg_temp' = any (proconfig) from pg_proc "
        "where pronamespace = 'sepu'::regnamespace"
    ).fetchall()
    assert {name for name, is_definer, _ in found if is_definer} == SERVES | BILLS | CHANGES
    owners = {"prune_results", "forget_names"}
    assert {name for name, _, has_path in found if has_path} == SERVES | BILLS | CHANGES | owners


def test_granting(connection: Connection, database_url: str, role: str, customer: Customer) -> None:
    with connect(make_conninfo(database_url, user=role)) as session:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            customer.meter(session, at=datetime.now(UTC))
        for _ in range(2):  # a second time changes nothing
            grant(connection, role, "service")
            assert callable_by(connection, role) == SERVES
        assert customer.meter(session, at=datetime.now(UTC)).outcome == "charged"
        with pytest.raises(SepuError, match="only sepu, who owns the schema"):
            grant(session, role, "service")
    make_role(connection, role, "service")  # nor does this
    assert callable_by(connection, role) == SERVES
    # As after a dump that was restored without its rights.
    connection.execute("grant execute on all functions in schema sepu to public")
    grant(connection, role, "service")
    assert callable_by(connection, role) == SERVES
    for nobody in ("nobody-has-this", "public", "none", 'a"b'):
        with pytest.raises(SepuError, match="there is no database role"):
            grant(connection, nobody, "service")


# Columns that a role that lists what is no secret may not read in its tables; it reads none of the other tables.
HIDDEN = {
    ("account", "lock_seed"),
    ("api_key", "key_hash"),
    *(("stored_result", name) for name in ("idempotency_key", "fingerprint", "body")),
}
UNREAD = {"key_secret", "receipt", "request_rate", "probe"}


def hidden(connection: Connection, role: str) -> set[tuple[str, str]]:
    """The columns that a role may not read, without those of the tables of which it reads none."""
    columns = connection.execute(
        "select c.relname, a.attname, has_column_privilege(%s, c.oid, a.attname, 'select') from pg_class c "
        "join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped "
        "where c.relnamespace = 'sepu'::regnamespace and c.relkind = 'r'",
        (role,),
    ).fetchall()
    read = {table for table, _, may_read in columns if may_read}
    return {(table, column) for table, column, may_read in columns if not may_read and table in read}


def test_a_role_has_one_purpose_and_people_read_no_secret(connection: Connection, role: str) -> None:
    of_support = {("stored_result", "idempotency_key"), ("stored_result", "fingerprint")}
    for purpose in (*PEOPLE, *reversed(PEOPLE), *PURPOSES, PEOPLE[0]):
        for _ in range(2):  # a second time changes nothing
            grant(connection, role, purpose)
        assert (purpose, role) in granted_roles(connection)
        assert callable_by(connection, role) == CALLS.get(purpose, set())
        if purpose in PEOPLE:
            assert hidden(connection, role) == HIDDEN - (of_support if purpose != "read-only" else set())


BEYOND = [
    ("grant delete on sepu.change to {}", "more than support", "delete on sepu.change", "revoked"),
    ("grant truncate on sepu.change to {}", "more than support", "truncate on sepu.change", "revoked"),
    ("grant update (day) on sepu.usage_day to {}", "more than support", "update on sepu.usage_day (day)", "revoked"),
    ("grant select on sepu.stored_result to {}", "more than support", "select on sepu.stored_result (body)", "revoked"),
    ("grant create on schema sepu to {}", "more than support", "create on sepu", "revoked"),
    ("grant execute on function sepu.in_utc to public", "more than support", "execute on sepu.in_utc", "revoked"),
    ("revoke select on sepu.audit_run from {}", "less than support", "missing",
     "select on sepu.audit_run (audited_at, counters, differences, results)"),
    ("grant execute on function sepu.adjust_usage to {}", "less than billing", "missing", "execute on sepu.unfinished"),
]  # fmt: skip


def test_what_a_role_may_do_beyond_its_purpose_is_found(role: str, empty_url: str) -> None:
    other = f"{role}-other"
    quoted, others = f'"{role}"', f'"{other}"'
    with connect(empty_url) as empty:
        migrate(empty)
        empty.execute(f"create role {others}".encode())
        for given, what, value, needed in BEYOND:
            grant(empty, role, "support")
            assert not_of_purpose(empty) == []
            empty.execute(given.format(quoted).encode())
            (found,) = not_of_purpose(empty)
            assert (found.role, found.what, found.value, found.needed) == (role, what, value, needed)
            for statement in found.statements:
                empty.execute(statement.encode())
            assert not_of_purpose(empty) == []
        twice = f"grant sepu to {others}; grant sepu, {others} to {quoted}"
        for given, of, kinds in (
            (twice, role, {"the rights of sepu", f"the rights of {other}"}),
            (f"alter role {quoted} superuser", role, {"the rights of a superuser"}),
            (f"grant update (granted) on sepu.usage to {others}", other, {"rights to write"}),
            ("grant insert on sepu.usage to public", "PUBLIC", {"rights to write"}),
        ):
            empty.execute(given.encode())
            rights = [right for right in not_of_purpose(empty) if right.role == of]
            assert {right.what for right in rights} == kinds
            done = invoke("db", "check", "--json", SEPU_DATABASE_URL=empty_url)
            told = [json.loads(line) for line in done.stdout.splitlines()]
            assert {(of, right.what, right.value, right.needed) for right in rights} <= {
                (one["role"], one["setting"], one["value"], one["needed"]) for one in told
            }
            for right in rights:
                empty.execute(right.statements[0].encode())
            assert not_of_purpose(empty) == []
        empty.execute(f"grant select on sepu.usage to {others}".encode())
        assert not_of_purpose(empty) == [], "it may read what somebody granted it"


def test_no_role_of_people_changes_the_history_or_is_named_otherwise(
    connection: Connection, database_url: str, role: str, customer: Customer
) -> None:
    grant(connection, role, "accounts")
    change: LiteralString = "select outcome from sepu.make_change('ada', %s, %s, 'another', %s)"
    add: LiteralString = (
        "select outcome from sepu.adjust_usage('ada', %s, %s, gen_random_uuid(), null, 'color_match', 5, 'fair')"
    )
    with connect(make_conninfo(database_url, user=role)) as session:
        for statement in (
            "delete from sepu.change",
            "update sepu.change set role = 'sepu'",
            "insert into sepu.change (account_id, number, role, operator, action, subject) "
            "values ('', 1, 'sepu', 'ada', 'key.revoke', 'x')",
            "truncate sepu.change",
            "select sepu.record_changes('ada', 'key.revoke', '', '{}', '{}')",
            f"select sepu.forget_names('{customer.account_id}')",
            "update sepu.usage set granted = 1000",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute(statement.encode())
        # As somebody would who calls the functions without sepu, under another's name.
        session.execute("set timezone = 'Asia/Shanghai'")
        session.execute(change, ("account.suspend", customer.account_id, '{"status": "suspended"}'))
        assert session.execute(add, ("grant.add", customer.account_id)).fetchone() == ("added",)
        ends = '{"expiresAt": "2099-01-31T12:00:00+02:00"}'
        assert session.execute(change, ("account.set", customer.account_id, ends)).fetchone() == ("done",)
        key = f'{{"keyId": "{customer.account_id}-aaaaaaaa", "keyHash": "{"00" * 32}"}}'
        assert session.execute(change, ("key.issue", customer.account_id, key)).fetchone() == ("done",)
        for wrong in ("account.erase", "history.forget"):
            with pytest.raises(psycopg.errors.InvalidParameterValue):
                session.execute(change, (wrong, customer.account_id, "{}"))
        with pytest.raises(psycopg.errors.CheckViolation):
            session.execute(change, ("account.set", customer.account_id, '{"status": "erased"}'))
        for operator in ("\x1b[2J", "x" * 101):
            with pytest.raises(psycopg.errors.CheckViolation):
                session.execute(add.replace("ada", operator), ("grant.add", customer.account_id))
    issued, ended, granted, suspended = list_changes(connection, account_id=customer.account_id, limit=4)
    assert {change.role for change in (issued, ended, granted, suspended)} == {role}
    assert issued.subject == f"{customer.account_id}-aaaaaaaa"
    assert ended.after == {"expiresAt": "2099-01-31T10:00:00Z"}
    assert (granted.action, granted.operator, granted.before) == ("grant.add", "ada", None)
    assert (suspended.before, suspended.after) == ({"status": "active"}, {"status": "suspended"})
    (added,) = list_adjustments(connection, account_id=customer.account_id)
    assert (added.operator, added.database_role) == ("ada", role)


@pytest.mark.parametrize(
    ("purpose", "granted"),
    [("service", "sepu.admit,"), ("read-only", "sepu.audit_run to"), ("events", "sepu.quota_event to")],
)
def test_an_upgrade_grants_again_and_leaves_new_functions_closed(
    role: str, empty_url: str, purpose: Purpose, granted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The upgrade brings a function and a table for the roles, and an internal function."""
    definer = "returns integer security definer language sql return 1;"
    created = "".join(f"create or replace function sepu.{name}() {definer}\n" for name in ("newer", "inner"))
    created += "create table sepu.newer ();\n"
    newer = statements.functions().text.replace("\nrevoke execute on all", f"\n{created}revoke execute on all")
    read = statements.statement
    with connect(empty_url) as empty:
        migrate(empty)
        grant(empty, role, purpose)
        monkeypatch.setattr(statements, "functions", lambda: statements.Script("functions.sql", newer))
        monkeypatch.setattr(statements, "statement", lambda name: read(name).replace(granted, f"sepu.newer, {granted}"))
        assert migrate(empty) == ["functions.sql"]
        assert callable_by(empty, role) == (SERVES | {"newer"} if purpose == "service" else set())
        assert callable_by(empty, "pg_monitor") == set(), "which was granted nothing"
        if purpose != "service":
            with connect(make_conninfo(empty_url, user=role)) as session:
                session.execute("select from sepu.newer")


# A role's privileges on tables, whole or by column.
GRANTED: dict[Purpose, set[tuple[str, str]]] = {
    "service": {("migration", "SELECT")},
    **{purpose: {(table, "SELECT") for table in set(TABLES) - UNREAD} for purpose in PEOPLE},
    "accounts": {(table, "SELECT") for table in set(TABLES) - UNREAD | {"receipt"}},
    "events": {
        *((table, "SELECT") for table in ("migration", "quota_event", "account", "event_delivery")),
        ("event_delivery", "UPDATE"),
    },
}
# Who may update, delete from or truncate a whole table may lock it too.
LOCKS: LiteralString = """
select relname from pg_class
 where relkind in ('r', 'p', 'v', 'm', 'f') and has_table_privilege(oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
"""
HOLDS: LiteralString = """
select c.relname, p.name
  from pg_class c, unnest('{SELECT,INSERT,UPDATE,REFERENCES,DELETE,TRUNCATE,TRIGGER}'::text[]) p (name)
 where c.relkind in ('r', 'p', 'v', 'm', 'f') and (c.relnamespace = 'sepu'::regnamespace or p.name <> 'SELECT')
   and (has_table_privilege(c.oid, p.name)
        or case when p.name in ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES')
                then has_any_column_privilege(c.oid, p.name) end)
"""
# No role holds any of these.
NOTHING: tuple[LiteralString, ...] = (
    "select datname from pg_database "
    "where datname = current_database() and has_database_privilege(oid, 'CREATE, TEMP')",
    "select nspname from pg_namespace where has_schema_privilege(oid, 'CREATE')",
    "select relname from pg_class where case when relkind = 'S' then has_sequence_privilege(oid, 'USAGE, UPDATE') end",
    "select spcname from pg_tablespace where spcname <> 'pg_default' and has_tablespace_privilege(oid, 'CREATE')",
    "select fdwname from pg_foreign_data_wrapper where has_foreign_data_wrapper_privilege(oid, 'USAGE')",
    "select srvname from pg_foreign_server where has_server_privilege(oid, 'USAGE')",
    "select parname from pg_parameter_acl where has_parameter_privilege(parname, 'SET, ALTER SYSTEM')",
    "select lanname from pg_language where not lanpltrusted and lanname not in ('internal', 'c')",
    "select lanname from pg_language where laninline <> 0 and has_language_privilege(oid, 'USAGE')",
    "select rolname from pg_roles where rolname <> current_user and pg_has_role(oid, 'MEMBER')",
    LOCKS,
    "select rolname from pg_roles where rolname = current_user "
    "and (rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls)",
    "select relname from pg_class where pg_has_role(relowner, 'USAGE')",
    "select proname from pg_proc where (prosecdef or proacl is null) "
    "and pronamespace not in ('sepu'::regnamespace, 'pg_catalog'::regnamespace, 'information_schema'::regnamespace) "
    "and has_function_privilege(oid, 'EXECUTE')",
)
CALLED: LiteralString = """
select proname from pg_proc
 where provolatile = 'v' and pronamespace <> 'sepu'::regnamespace and has_function_privilege(oid, 'EXECUTE')
   and prorettype not in ('trigger'::regtype, 'event_trigger'::regtype, 'internal'::regtype)
   and not 'internal'::regtype = any (proargtypes)
"""
# Postgres's own functions that do more than compute, and that each role may call. They only read, change only the
# role's own sessions, locks and settings or nothing permanent, or check themselves who calls.
HARMLESS = re.compile(
    r"""amvalidate | array_(sample|shuffle) | binary_upgrade_\w+ | brin_\w+ | gin_clean_pending_list | plpgsql_\w+
    | current_query | currtid2? | currval | lastval | nextval | setval | setseed | set_config | ts_(rewrite|stat)
    | clock_timestamp | timeofday | txid_status | random | random_normal | gen_random_uuid | uuidv[47]
    | (cursor|query)_to_xml\w* | lo(read|write) | lo_(close|get|lseek(64)?|open|put|tell(64)?|truncate(64)?|unlink)
    | pg_advisory_unlock\w* | pg_sleep(_for|_until)?
    | pg_(create|copy|drop|sync)_\w*replication_slots? | pg_replication_slot_advance | pg_logical_slot_\w+
    | pg_(clear|restore)_(attribute|relation)_stats | pg_import_system_collations | pg_extension_config_dump
    | pg_nextoid | pg_stop_making_pinned_objects
    | pg_(available|blocking|collation|control|current|database|get|indexes|is)_\w+
    | pg_(isolation|jit|last|lock|notification_queue|partition|prepared|relation|safe|sequence|stat|table)_\w+
    | pg_(tablespace|total|wal|xact)_\w+""",
    re.VERBOSE,
)
# Shows that those queries ask about privileges that Postgres enforces.
REFUSED = (
    "create temp table own (id integer)",
    "create table public.own (id integer)",
    "select lo_create(0)",
    "select pg_logical_emit_message(false, 'own', 'message')",
    "comment on database {} is 'own'",
    "select * from pg_authid",
    "set role sepu",
)


@pytest.mark.parametrize("purpose", PURPOSES)
def test_a_role_has_no_privilege_but_those_of_its_purpose(role: str, empty_url: str, purpose: Purpose) -> None:
    """By the catalog, for everything in a database; and by trying."""
    with connect(empty_url) as empty:
        empty.execute("grant create on schema public to public")  # as before Postgres 15
        closed = "connect" if purpose in PEOPLE else "temporary"  # somebody has closed the database by half
        empty.execute(f"revoke {closed} on database {empty.info.dbname} from public".encode())
        migrate(empty)
        grant(empty, role, purpose)
        assert [right for right in read_open_rights(empty) if right.is_here] == []
        assert names(empty, "select '' where has_database_privilege('pg_monitor', current_database(), 'connect')")
        with connect(make_conninfo(empty_url, user=role)) as session:
            assert callable_by(empty, role) == CALLS.get(purpose, set())
            assert set(session.execute(HOLDS).fetchall()) == GRANTED[purpose]
            for nothing in NOTHING:
                assert names(session, nothing) == set(), nothing
            assert {name for name in names(session, CALLED) if not HARMLESS.fullmatch(name)} == set()
            for statement in REFUSED:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    session.execute(statement.format(empty.info.dbname).encode())


def test_what_only_a_superuser_can_close(role: str, empty_url: str) -> None:
    """The database's owner is not one, so Postgres's own objects stay open, and the owner is told so."""
    with connect(empty_url) as empty:
        database, owner = sql.Identifier(empty.info.dbname), sql.Identifier(role)
        empty.execute(sql.SQL("alter database {} owner to {}").format(database, owner))
        as_owner = make_conninfo(empty_url, user=role)
        served = f'"{role}-served"'
        empty.execute(f"create role {served} connection limit 1".encode())
        empty.execute(f"alter role {served} set temp_file_limit = '1GB'".encode())
        with connect(as_owner) as session:
            migrate(session)
            with pytest.raises(SepuError, match="owns the schema and may do everything"):
                grant(session, role, "service")
            left = [right for right in read_open_rights(session) if right.by_superuser and right.is_here]
            assert len(left) == 3  # the functions, plpgsql, and pg_settings
            assert not any(right.may for right in left)
            assert all(right.statements[0].endswith(f' to "{role}"') for right in left)
            session.execute("create temp table own (id integer)")  # only the owner may
        command = ("db", "grant", served.strip('"'), "--for", "service", "--database-url", as_owner)
        said = invoke(*command)
        assert (said.returncode, said.stdout) == (0, f"role     {role}-served\npurpose  service\n")
        script = said.stderr.partition("as a superuser run in this database:\n")[2]
        assert all(f"\n{statement};\n" in script for right in left for statement in right.statements)
        check = ("db", "check", "--database-url", as_owner, "--json")
        found = invoke(*check)
        assert found.returncode == 1
        assert {right.what for right in left} <= {json.loads(line)["setting"] for line in found.stdout.splitlines()}
        managed = invoke(*check, "--managed")
        assert not {right.what for right in left} & {
            json.loads(line)["setting"] for line in managed.stdout.splitlines()
        }
        assert all(right.what in managed.stderr for right in left), "it warns"
        empty.execute(script.encode())
        with connect(as_owner) as session:
            assert [right for right in read_open_rights(session) if right.is_here] == []
        assert invoke(*command).stderr == ""
        empty.execute(f"alter role {served} reset temp_file_limit".encode())  # another role's does not count
        empty.execute(sql.SQL("alter role {} set temp_file_limit = '1GB'").format(owner))
        (right,) = (right for right in read_open_rights(empty) if right.is_here)
        assert (right.role, right.what) == (f"{role}-served", "temporary files")


def test_who_holds_locks_is_named(empty_url: str, role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not requests, whose locks end with them, nor the owner's commands."""
    with connect(empty_url) as empty:
        migrate(empty)
        with connect(make_conninfo(empty_url, user=role)) as session, connect(empty_url) as operator:
            session.execute("select pg_advisory_lock(1)")
            operator.execute("select pg_advisory_lock(2)")
            assert lock_holders(empty) == [], "not for a minute"
            monkeypatch.setattr(limits.database, "LOCK_HOLDER_SECONDS", 0.0)
            (holder,) = lock_holders(empty)
            assert (holder.role, holder.pid, holder.locks) == (role, session.info.backend_pid, 1)
            done = invoke("db", "check", "--json", SEPU_DATABASE_URL=empty_url)
            found = [json.loads(line) for line in done.stdout.splitlines()]
            (named,) = [one for one in found if one["setting"] == "locks"]
            assert (done.returncode, named["role"]) == (1, role)
            empty.execute(named["repair"].encode())
        until(lambda: lock_holders(empty) == [])  # the session ends after the answer
        with connect(make_conninfo(empty_url, user=role)) as session:
            empty.execute("create table public.own (); grant insert on public.own to public")
            with empty.transaction():
                session.execute("begin; select pg_advisory_xact_lock(3)")
                assert lock_holders(empty) == [], "its transaction is younger than this one"
            session.rollback()
            lock: LiteralString = "savepoint own; insert into public.own default values; "
            session.execute("begin; " + 900 * lock)
            assert lock_holders(empty) == []
            session.execute(101 * lock)
            assert [holder.pid for holder in lock_holders(empty)] == [session.info.backend_pid]


def test_the_embedded_postgres_is_closed(service_url: str) -> None:
    """`sepu serve` owns it, so it closes other databases too."""
    with connect(service_url) as session, pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute("select pg_advisory_lock(1)")
    with pytest.raises(SepuError, match="permission denied for database"):
        connect(make_conninfo(service_url, dbname="template1"))
