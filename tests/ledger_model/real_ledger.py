"""The real ledger on a clock that tests set: its functions, its tables, and what operators see."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

import psycopg
from psycopg import Connection, sql
from psycopg.rows import dict_row
from tests.ledger_model.model import Answer, Charge, Fails, Request, Row, Table

from sepu.admin.audit import audit
from sepu.admin.events import list_events
from sepu.admin.export import export_usage
from sepu.admin.keys import list_keys
from sepu.admin.usage import MonthUsage, nearest_limits, show_usage, usage_by_month, usage_in_month
from sepu.database.migrate import migrate
from sepu.database.opening import connect
from sepu.metering import commands
from sepu.metering.key_format import Credential

# The primary key's columns of each table.
TABLES = {
    "plan_allowance": ("plan_id", "allowed", "since"),
    "account": ("account_id",),
    "api_key": ("account_id", "key_hash"),
    "receipt": ("account_id", "rotation_id"),
    "usage": ("account_id", "period", "meter"),
    "usage_day": ("account_id", "period", "meter", "day", "key_id"),
    "adjustment": ("account_id", "adjustment_id"),
    "stored_result": ("account_id", "idempotency_key"),
    "quota_event": ("account_id", "period", "meter", "threshold", "unit_limit"),
    "event_delivery": ("account_id", "period", "meter", "threshold", "unit_limit"),
}
# Tables follow those that refer to them.
_EMPTIED = (*reversed(TABLES), "plan_limit", "plan", "change", "request_rate")


@dataclass
class RealLedger:
    connection: Connection
    clock: tuple[str, str] | None = None

    def empty(self) -> None:
        # PERF: truncation takes 20 ms.
        deletions = [sql.SQL("delete from {}").format(sql.Identifier("sepu", table)) for table in _EMPTIED]
        self.connection.execute(sql.SQL("; ").join(deletions))

    def set_clock(self, now: datetime, zone: str) -> None:
        """Sets the time that Postgres returns, and the session's time zone."""
        clock = (now.isoformat(), zone)
        if clock != self.clock:
            self.connection.execute(
                "select set_config('clock.now', %s, false), set_config('timezone', %s, false)", clock
            )
            self.clock = clock

    def ask(self, requests: Sequence[Request], *, joined: bool) -> list[Answer]:
        """Calls a function for one request, or its counterpart for batches.

        Raises:
            Fails: as a whole.
        """
        asked = [_command(request) for request in requests]
        try:
            if not joined:
                (command,) = asked
                return [self.connection.execute(command.statement, command.parameters).fetchall()]
            columns = [list(column) for column in zip(*(command.parameters for command in asked), strict=True)]
            rows = self.connection.execute(str(asked[0].batch_statement).encode(), columns).fetchall()
        except psycopg.Error as error:
            detail = error.diag.message_detail if joined else None
            raise Fails(error.sqlstate or "", int(detail) if detail else None) from error
        answers = {position: [row[1:] for row in group] for position, group in groupby(rows, itemgetter(0))}
        accounts = [requests[position - 1].account_id for position in answers]
        assert accounts == sorted(accounts), "two batches might wait for each other in a circle"
        return [answers[position] for position in range(1, len(requests) + 1)]

    def table(self, name: str) -> Table:
        with self.connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(sql.SQL("select * from {}").format(sql.Identifier("sepu", name))).fetchall()
        for row in rows:
            row.pop("lock_seed", None)  # random, and the model has no locks
        return {_key(row, TABLES[name]): row for row in rows}

    def plans(self) -> Table:
        found: Table = {}
        rows = self.connection.execute(
            "select plan_id, requests_per_minute, meter, units, thresholds "
            "from sepu.plan join sepu.plan_limit using (plan_id)"
        )
        for plan_id, requests_per_minute, meter, units, thresholds in rows:
            plan = {"requests_per_minute": requests_per_minute, "limits": {}, "thresholds": thresholds}
            found.setdefault(plan_id, plan)["limits"][meter] = units
            assert found[plan_id]["thresholds"] == thresholds
        return found

    def windows(self) -> dict[str, tuple[datetime, int]]:
        """Reads for each account when the minute of its abuse limit began, and how many requests passed in it."""
        rows = self.connection.execute("select account_id, window_start, requests from sepu.request_rate")
        return {account_id: (began, passed) for account_id, began, passed in rows}

    def changes(self) -> tuple[Row, ...]:
        with self.connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(
                "select account_id, changed_at, action, subject, before, after "
                "from sepu.change order by changed_at, account_id, number"
            )
            return tuple(rows)

    def exported(self, account_id: str, period: str) -> tuple[Any, ...] | None:
        found = next(export_usage(self.connection, period, account_id), None)
        if found is None:
            return None
        changes = [(change.at.astimezone(UTC), change.meter, change.before, change.after) for change in found.changes]
        return found.status, found.plan_id, [_used(each) for each in found.usage], sorted(changes, key=str)

    def shown(self, account_id: str) -> tuple[Any, ...]:
        found = show_usage(self.connection, account_id)
        keys = {key.key_id: (key.state, key.last_used_on) for key in list_keys(self.connection, account_id)}
        return found.status, found.plan_id, [_used(each) for each in found.usage], keys

    def near_limits(self, percent: int) -> set[tuple[str, str]]:
        found = nearest_limits(self.connection, percent, 1000)
        return {(each.account_id, used.meter) for each in found for used in each.usage}

    def used_by_month(self, account_id: str | None) -> dict[str | None, dict[str, int]]:
        return {part.name: dict(part.units) for part in usage_by_month(self.connection, account_id)}

    def used_by_day_and_key(self, account_id: str | None, period: str) -> tuple[dict[str | None, dict[str, int]], ...]:
        found = usage_in_month(self.connection, period, account_id)
        return tuple(
            {part.name: dict(part.units) for part in parts if any(part.units.values())}
            for parts in (found.days, found.keys)
        )

    def events(self) -> set[tuple[Any, ...]]:
        return {
            (event.event_id, event.committed, event.crossed_at, event.state) for event in list_events(self.connection)
        }

    def audited(self) -> tuple[int, int, int]:
        """Returns the counters, results and units that an audit added up; fails on any difference."""
        found = audit(self.connection)
        assert found.differences == ()
        return found.counters, found.results, found.units


@contextmanager
def real_ledger(url: str, start: datetime) -> Iterator[RealLedger]:
    """Migrates an empty database in which `now()` returns the test's clock.

    The session's search path puts it before Postgres's `now()`: in defaults, statements and commands alike. The
    functions that read the clock themselves are replaced.
    """
    with connect(url) as root:
        database = sql.Identifier(root.info.dbname)
        root.execute("create schema clock")
        root.execute(
            "create function clock.now() returns timestamptz language sql stable "
            "as $$ select current_setting('clock.now')::timestamptz $$"
        )
        root.execute(sql.SQL("alter database {} set search_path = clock, pg_catalog").format(database))
        root.execute(sql.SQL("alter database {} set clock.now = {}").format(database, sql.Literal(start.isoformat())))
    with connect(url) as connection:
        migrate(connection)
        for (text,) in connection.execute(
            "select pg_get_functiondef(oid) from pg_proc where oid = any "
            "('{sepu.check_instant,sepu.make_change,sepu.adjust_usage}'::regproc[])"
        ).fetchall():
            connection.execute(text.replace("now()", "clock.now()"))
        yield RealLedger(connection)


def _command(request: Request) -> commands.Command[Any]:
    credential = Credential(request.account_id, request.key_hash)
    if isinstance(request.what, Charge):
        asked = request.what
        charge = commands.Charge(asked.meter, asked.units, asked.fingerprint, asked.body)
        return commands.meter_request(credential, asked.key, charge, asked.request_id)
    return commands.admit(credential) if request.what == "admit" else commands.read_usage(credential)


def _key(row: Row, columns: Sequence[str]) -> Any:
    """Removes the primary key from a row, and returns it."""
    found = tuple(row.pop(column) for column in columns)
    return found[0] if len(found) == 1 else found


def _used(used: MonthUsage) -> tuple[Any, ...]:
    return used.meter, used.limit, used.committed, used.reserved, used.granted, used.credited
