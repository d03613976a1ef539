"""Lists of everybody when rows hold times that no command stores, as after a mistake by hand."""

from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from falcon.testing import TestClient
from psycopg import sql
from tests.charging import charge
from tests.cli.running import Run, lines, text

from sepu.admin import accounts
from sepu.admin.grants_and_credits import adjust_usage
from sepu.admin.keys import IssuedKey
from sepu.console.app import create_console
from sepu.database.opening import DatabaseUnavailableError, clear_errors, console_url, database_connection

NOW = datetime.now(UTC)
# What each account's rows hold, and the period of such a charge.
VALUES = {
    "infinity": f"{NOW:%Y-%m}",
    "-infinity": f"{NOW:%Y-%m}",
    "20000-01-01 00:00:00+00": "20000-01",
    "0044-03-15 00:00:00+00 BC": "0044-03",
}
TIMES = """
select c.relname, a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
 where c.relnamespace = 'sepu'::regnamespace and c.relkind = 'r'
   and a.atttypid in ('timestamptz'::regtype, 'date'::regtype)
   and exists (select from pg_attribute o where o.attrelid = c.oid and o.attname = 'account_id')
"""
OF_ALL = (
    *("account list", "account list --sort created --json", "account list --sort used", "account list --csv"),
    *("account list --ends-within 30d", "key list --ends-within 30d", "usage", "usage --by day", "top --at-least 0"),
    *("events list", "events list --json", "grant list", "grant list --json", "history", "history --json", "plan list"),
    *(f"export-usage {NOW:%Y-%m} --draft", "events deliver --print --once"),
)
LISTS = ("account list --sort", "account list --csv", "top", "events list", "grant list", "export-usage")
OF_ONE = ("account show", "key list", "usage", "usage --by day", "usage --by key", "charges", "events list", "history")


@pytest.fixture
def spoilt(connection: psycopg.Connection) -> dict[str, IssuedKey]:
    """An account for each value, in all its times, and a sane one."""
    made = {}
    for value in (*VALUES, "sane"):
        made[value] = accounts.create_account(connection, "standard", value.partition(" ")[0])
        account_id = made[value].account_id
        adjust_usage(connection, "grant", account_id, "color_match", 1, reason="fair")
        charge(connection, made[value].api_key, "key-0001", 1990, NOW)
        connection.execute(
            "insert into sepu.usage_day values (%s, %s, 'color_match', %s, %s, 1)",
            (account_id, f"{NOW:%Y-%m}", NOW, made[value].key_id),
        )
    # Rows of one instant have different numbers.
    connection.execute("update sepu.change set number = extract(epoch from changed_at) * 1000000 + number")
    columns = connection.execute(TIMES.encode()).fetchall()
    assert len(columns) >= 15
    for value, period in VALUES.items():
        account_id = made[value].account_id
        for table, column in columns:
            change = sql.SQL("update {} set {} = %s where account_id = %s")
            named = change.format(sql.Identifier("sepu", table), sql.Identifier(column))
            connection.execute(named, (value, account_id))
        for table in ("usage", "stored_result", "usage_day"):
            connection.execute(
                sql.SQL("update {} set period = %s where account_id = %s").format(sql.Identifier("sepu", table)),
                (period, account_id),
            )
    connection.execute("insert into sepu.audit_run values ('infinity', 1, 1, 0)")
    connection.execute("insert into sepu.plan_allowance values ('standard', 'color_match', 'infinity', 2000)")
    return made


def test_no_stored_time_breaks_a_list(
    run: Run, spoilt: dict[str, IssuedKey], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGTZ", "UTC")  # Postgres writes the times that Python does not have
    of_each = [f"{command} {issued.account_id}" for command in OF_ONE for issued in spoilt.values()]
    for command in (*OF_ALL, *of_each):
        done = run(*command.split())
        assert done.returncode == 0 or "was made after" in done.stderr, (command, done.stderr)
        if command in OF_ALL and command.startswith(LISTS):
            assert "sane" in done.stdout, command
    assert text(run("events", "deliver", "--print", "--once", "--metrics-file", str(tmp_path / "metrics"))) == ""
    shown = {row["accountId"]: row["createdAt"] for row in lines(run("account", "list", "--json"))}
    assert {value: shown[spoilt[value].account_id] for value in VALUES} == {value: value for value in VALUES}
    assert text(run("account", "set", spoilt["infinity"].account_id, "--name", "Silk", "--expires-at", ""))


def test_no_stored_time_breaks_a_page(ledger_url: str, spoilt: dict[str, IssuedKey], tmp_path: Path) -> None:
    console = create_console(lambda: database_connection(console_url(ledger_url), tmp_path), ["localhost"])
    client = TestClient(console)
    pages = ["/", "/accounts", "/accounts?sort=created&desc=yes", "/events", "/history", "/plans", "/usage"]
    for issued in spoilt.values():
        pages += [f"/accounts/{issued.account_id}{part}" for part in ("/charges", "/history", "")]
    for page in pages:
        found = client.simulate_get(page, host="localhost")
        assert found.status_code == 200 or "was made after" in found.text, (page, found.text)
        if page in {"/", "/accounts", "/events", "/history"}:
            assert spoilt["sane"].account_id in found.text, page


def test_a_read_only_database_is_unavailable_but_one_with_a_bad_value_is_not(connection: psycopg.Connection) -> None:
    with pytest.raises(Exception, match="^the database has or gets an unreadable value: ") as found, clear_errors():
        connection.execute("select '20000-01-01'::timestamp").fetchall()
    assert not isinstance(found.value, DatabaseUnavailableError)
    connection.execute("set default_transaction_read_only = on")
    with pytest.raises(DatabaseUnavailableError), clear_errors():
        connection.execute("update sepu.plan set plan_id = plan_id")


def test_python_sorts_stored_times_as_postgres_does(connection: psycopg.Connection) -> None:
    query = "select text::timestamptz, text::date from unnest(%s::text[]) text order by 1"
    for column in zip(*connection.execute(query, ([*VALUES, "1000-01-01"],)).fetchall(), strict=True):
        assert sorted(column) == [*column]
