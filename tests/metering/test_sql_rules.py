"""The rules that keep the SQL fast, deadlock-free and ready for PgBouncer and a distributed Postgres."""

import ast
import re
from importlib.resources import files
from pathlib import Path
from typing import LiteralString

import pytest
from psycopg import Connection
from tests.metering.conftest import MakeCustomer

from sepu.admin import accounts
from sepu.admin.keys import revoke_key
from sepu.admin.usage import show_usage
from sepu.database import statements
from sepu.database.migrate import migrate

SQL = Path(str(files("sepu.database"))) / "sql"
STATEMENTS = {path.stem: statements.parse([path.read_text("utf-8")]) for path in (SQL / "statements").iterdir()}

FORBIDDEN = {
    "(f(...)).* calls f once a column": r"\(\s*[\w.]+\s*\(.*\)\s*\)\s*\.\s*\*",
    "servers of the release before call what would be dropped": r"\bdrop\s+(function|procedure|routine)\b",
    "session advisory locks outlive the transaction": r"\bpg_(try_)?advisory_(lock|unlock)\w*",
    "temporary tables are session state": r"\b(create|replace|into|local|global)\s+temp(orary)?\b",
    "listening is session state": r"\b(listen|unlisten|notify|pg_notify)\b(?!')",  # public.sql names a function
    "settings belong to a function": r"(^|;)\s*(set|reset|discard)\b|\bset_config\s*\([^)]*\bfalse\s*\)",
    "prepared statements are session state": r"(^|;)\s*(prepare|deallocate)\b",
    "statuses are returned": r"\braise\b(?! exception using errcode = '(22023|55000)')",
    'Postgres has a charge of its own, for "char"': r"\bfunction\s+([\w]+\.)?charge\b",
    "a volatile instant differs from node to node": r"\b(clock_timestamp|statement_timestamp|timeofday)\b",
    "randomness differs from node to node": r"\b(random|gen_random_uuid|uuidv4|uuidv7|nextval)\s*\(",
    "exception blocks are subtransactions": r"\bexception\s+when\b",
    "a function of ours in an update differs from node to node": r"\bupdate\b[^;]*\bset\b[^;]*\bsepu\.\w+\s*\(",
    "an instant in a coalesce or case is refused in an update": r"\bset\b[^;]*\b(coalesce|case)\b[^;]*\bnow\s*\(",
    "arithmetic in an upsert's condition is refused": r"\bdo\s+update\b[^;]*\bwhere\b[^;]*[-+]\s*interval\b",
    "an instant in an upsert's update is refused": r"\bdo\s+update\s+set\b[^;]*\bnow\s*\(",
    "a sum with an interval in an upsert is refused": r"\bon\s+conflict\b[^;]*\binterval\b",
    "a simple case in an insert is not planned for one node": r"\binsert\b[^;]*\bcase\s+(?!when\b)",
    "a month of the session's time zone": r"\bto_char\s*\(((?!at time zone 'utc').)*'yyyy-mm'",
    "a function or a table may get more columns": r"select\s+\*",
    "Citus adds no column with a constraint": r"\badd\s+column\b[^;]*\b(constraint|check|unique|primary|references)\b",
}  # fmt: skip
# Names the request to blame in a call of several, which Citus never runs; one subtransaction for all.
RETHROWN = """exception when others then
    raise exception using errcode = sqlstate, message = sqlerrm, detail = coalesce(v_at::text, '');
"""


def code(text: str) -> str:
    """The text without comments, in lower case."""
    return re.sub(r"--[^\n]*", "", text).lower()


FILES = {path.name: code(path.read_text("utf-8")) for path in (*SQL.glob("*.sql"), *SQL.glob("migrations/*.sql"))}
# By the name of the file or statement.
CODE = FILES | {name: code(text) for found in STATEMENTS.values() for name, text in found.items()}


def forbidden(text: str) -> list[str]:
    """The rules that a text breaks."""
    return [why for why, form in FORBIDDEN.items() if re.search(form, text)]


def functions() -> dict[str, str]:
    """The text of each function, by name."""
    text = FILES["functions.sql"]
    return dict(re.findall(r"create or replace function sepu\.(\w+)\s*(\(.*?\$\$.*?\$\$)", text, re.DOTALL))


def rows(connection: Connection, query: LiteralString) -> list[tuple[str, ...]]:
    return connection.execute(query).fetchall()


# Created by the first migration, before any table is distributed.
KEY_SECRET = "select sha256(uuid_send(gen_random_uuid())" + " || uuid_send(gen_random_uuid())" * 2
# Citus's coordinator evaluates a default.
LOCK_SEED = "default uuid_hash_extended(gen_random_uuid(), 0)"


def test_the_only_statement_in_python_ends_with_its_transaction() -> None:
    found = [
        text
        for path in SQL.parents[1].rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"SQL", "execute"}
        for text in (ast.literal_eval(one) for one in node.args[:1] if isinstance(one, ast.Constant))
        if text
    ]
    assert found == ["set local role {}"]


@pytest.mark.parametrize("name", CODE)
def test_forbidden_forms(name: str) -> None:
    assert forbidden(CODE[name].replace(RETHROWN, "").replace(KEY_SECRET, "").replace(LOCK_SEED, "")) == []


def test_each_statement_has_a_name_of_its_own() -> None:
    with pytest.raises(ValueError, match="named 'first'"):
        statements.parse(["-- name: first\nselect 1\n", "-- name: first\nselect 2\n"])
    with pytest.raises(ValueError, match="has no name"):
        statements.parse(["select 1\n-- name: first\nselect 2\n"])
    with pytest.raises(KeyError, match="no_such"):
        statements.statement("no_such")


def test_only_calls_of_several_rethrow() -> None:
    assert {name for name, text in functions().items() if RETHROWN in text} == {
        name for name in functions() if "_batch" in name
    }


def joins(statement: str) -> list[str]:
    """The parts of a statement that read more than one table: Citus does not cache such plans."""
    found = re.findall(r"\bjoin\b", statement)
    for clause in re.findall(r"\bfrom\s+(.*?)(?:\bwhere\b|\bgroup\b|\border\b|$)", statement, re.DOTALL):
        outside, inside = clause, 1
        while inside:
            outside, inside = re.subn(r"\([^()]*\)", "", outside)
        if "," in outside:
            found.append(clause)
    return found


CALLED_BY_PEOPLE = {"make_change", "adjust_usage", "unfinished"}


@pytest.mark.parametrize("name", sorted(functions()))
def test_functions_read_one_table_a_statement_and_an_instant_is_an_argument(name: str) -> None:
    arguments, _, body = functions()[name].partition("$$")
    assert [found for statement in body.split(";") for found in joins(statement)] == []
    clock = r"\b(now\s*\(|current_timestamp|localtimestamp|current_date|current_time)\b"
    body = body.replace("if p_now is distinct from now() then", "")
    # A caller could give what people's roles call another instant, and so the history another time.
    without = CALLED_BY_PEOPLE | {"check_instant", "probe"}
    assert name in without or not re.search(clock, body)
    without |= {"key_secret", "needed_settings", "broken_settings", "nodes", "check_node"}
    without |= {"in_utc", "plan_state", "read_states", "forget_names"}
    assert ("p_now timestamptz" in arguments) == (name not in without - {"check_instant"})


def test_what_a_request_calls_is_one_statement() -> None:
    for name in ("admit", "read_usage", "meter_request"):
        text = statements.statement(name)
        assert re.fullmatch(rf"select \w+(, \w+)*\s+from sepu\.{name}\((%s(::uuid)?(, )?)+\)", text)
        columns = text.partition("select ")[2].partition("from")[0].split()
        text = statements.statement(f"{name}_batch")
        assert re.fullmatch(rf"select at(, \w+)+\s+from sepu\.{name}_batch\(\s*(%s::\w+\[\](,\s)?\s*)+\)", text)
        assert text.partition("select at, ")[2].partition("from")[0].split() == columns


def test_a_command_locks_two_numbers_and_a_request_one() -> None:
    """So no idempotency key has the lock of a command: Postgres keeps the two kinds apart."""
    of_requests = called_by_the_service()
    texts = {name: text for name, text in CODE.items() if name != "functions.sql"} | functions()
    locked = {name for name, text in texts.items() if "advisory_xact_lock" in text}
    assert {"meter_one", "make_change", "lock_migrations"} <= locked
    for name in locked:
        for lock in re.findall(r"advisory_xact_lock\(.*", texts[name]):
            two = re.match(r"advisory_xact_lock\(hashtext\('sepu\.\w+'\), 0\)", lock)
            assert (two is None) == (name in of_requests), name


def test_functions_that_wait_for_locks_bound_the_wait(connection: Connection) -> None:
    for name in ("admit", "admit_batch", "read_usage", "read_usage_batch", "meter_request", "meter_request_batch"):
        found = connection.execute(
            "select unnest(proconfig) from pg_proc where oid = %s::regproc", (f"sepu.{name}",)
        ).fetchall()
        assert any(setting.startswith("lock_timeout=") for (setting,) in found)


def test_names_are_qualified(connection: Connection, make_customer: MakeCustomer) -> None:
    """No search path is relied on: the embedded database's user has the schema's name, an operator's does not."""
    connection.execute("set search_path = ''")
    customer = make_customer(match_limit=1)
    assert customer.meter(connection, "key-0001").outcome == "charged"
    assert customer.meter(connection, "key-0001").outcome == "replayed"
    assert customer.meter(connection, "key-0002").outcome == "quota_exceeded"
    assert customer.admit(connection) == "ok"
    usage = connection.execute(
        "select distinct outcome from sepu.read_usage(%s, %s)", (customer.account_id, customer.credential.key_hash)
    ).fetchone()
    assert usage == ("ok",)
    accounts.set_status(connection, customer.account_id, "suspended")
    revoke_key(connection, customer.key_id)
    assert show_usage(connection, customer.account_id).status == "suspended"
    assert accounts.oldest_account(connection) is not None
    assert migrate(connection) == []


def test_no_index_holds_a_counter(connection: Connection) -> None:
    """Otherwise their updates would no longer be HOT."""
    indexed = rows(
        connection,
        """
        select a.attname from pg_index i
          join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
         where i.indrelid in ('sepu.usage'::regclass, 'sepu.request_rate'::regclass)
        """,
    )
    assert {name for (name,) in indexed} == {"account_id", "period", "meter"}


def test_every_function_is_created_or_replaced(connection: Connection) -> None:
    stored = rows(connection, "select proname from pg_proc where pronamespace = 'sepu'::regnamespace")
    assert sorted(name for (name,) in stored) == sorted(functions()), "and none has two signatures"
    assert len(re.findall(r"(?<!\.)\bcreate\b", FILES["functions.sql"])) == len(functions())


# The tables that a distributed store keeps on every node, or on one.
ELSEWHERE = {"plan", "plan_limit", "plan_allowance", "key_secret", "migration", "audit_run", "probe"}


def test_every_constraint_and_index_is_led_by_the_account(connection: Connection) -> None:
    """Except references to plan."""
    constraints = rows(
        connection,
        """
        select c.conrelid::regclass::text, c.conname, a.attname
          from pg_constraint c
          join pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
         where c.connamespace = 'sepu'::regnamespace and c.contype in ('p', 'u', 'f')
           and (c.contype <> 'f' or c.confrelid <> 'sepu.plan'::regclass)
        """,
    )
    indexes = rows(
        connection,
        """
        select i.indrelid::regclass::text, i.indexrelid::regclass::text, a.attname
          from pg_index i
          join pg_class c on c.oid = i.indrelid
          join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
         where c.relnamespace = 'sepu'::regnamespace
        """,
    )
    led = [row for row in constraints + indexes if row[0].removeprefix("sepu.") not in ELSEWHERE]
    assert len(led) >= 8
    assert [row for row in led if row[2] != "account_id"] == []


def called_by_the_service() -> set[str]:
    """The functions that the service may call, and those that they call."""
    bodies = functions()
    granted = re.findall(r"grant execute on function (.*?) to ", statements.statement("grant_service"))
    found: set[str] = set()
    due = {name for names in granted for name in re.findall(r"sepu\.(\w+)", names)}
    while due:
        found |= due
        due = {name for each in due for name in re.findall(r"\bsepu\.(\w+)\(", bodies[each]) if name in bodies} - found
    return found


def test_no_table_that_a_request_writes_has_a_check(connection: Connection) -> None:
    writes = r"\b(?:insert\s+into|update|delete\s+from)\s+sepu\.(\w+)"
    written = {table for name in called_by_the_service() for table in re.findall(writes, functions()[name])}
    assert {"api_key", "quota_event", "stored_result", "usage"} < written
    checks = "select t.relname, c.conname from pg_constraint c join pg_class t on t.oid = c.conrelid "
    found = rows(connection, checks + "where t.relnamespace = 'sepu'::regnamespace and c.contype = 'c'")
    assert {"account", "plan"} < {table for table, _ in found}
    assert [row for row in found if row[0] in written] == []


def test_every_table_has_a_primary_key(connection: Connection) -> None:
    keyless = (
        "select relname from pg_class where relnamespace = 'sepu'::regnamespace and relkind = 'r' "
        "and not exists (select from pg_index where indrelid = pg_class.oid and indisprimary)"
    )
    assert rows(connection, keyless) == []
