"""Exports every account's usage of a month, for billing."""

from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from time import monotonic, sleep
from typing import Any

import psycopg

from sepu.admin.history import PlanChange, read_moves
from sepu.admin.usage import AccountUsage, account_usage, read_today
from sepu.database import statements
from sepu.database.connection import read_server, snapshot
from sepu.errors import SepuError
from sepu.metering.meters import METERS

_PAGE = 5000
# For transactions that began in the month to end. A request's takes a second at most, unless a standby is silent.
_DRAIN_SECONDS = 10.0
_POLL_SECONDS = 0.1
# Transactions that a message names.
_NAMED = 5

Allowances = list[tuple[datetime, int | None]]
"""What a plan allowed, and since when, oldest first. None: the plan was deleted."""


@dataclass(frozen=True, slots=True)
class _Plans:
    """Limits of accounts in a month."""

    moves: dict[str, list[PlanChange]]
    """By account, since the month began, oldest first."""
    allowances: dict[tuple[str, str], Allowances]
    """By plan, and meter or REQUESTS_PER_MINUTE."""
    changes: list[tuple[str, PlanChange]]
    """Of the month, each with its plan."""

    def plan(self, account_id: str, plan_now: str, at: datetime) -> str:
        """Returns the plan that an account had."""
        return next((str(move.before) for move in self.moves.get(account_id, ()) if move.at > at), plan_now)

    def limit(self, plan_id: str, meter: str, at: datetime) -> int | None:
        """Returns the limit that a plan had, or the last before it was deleted, or its first one."""
        kept = [each for each in self.allowances.get((plan_id, meter), []) if each[1] is not None]
        return next((units for since, units in reversed(kept) if since <= at), kept[0][1] if kept else None)

    def changes_of(self, account_id: str, plan_now: str, created_at: datetime, end: datetime) -> tuple[PlanChange, ...]:
        """Returns an account's changes until the month's end, in order of time."""
        moves = [move for move in self.moves.get(account_id, ()) if move.at < end]
        limits = [
            change
            for plan_id, change in self.changes
            if change.at > created_at and self.plan(account_id, plan_now, change.at) == plan_id
        ]
        return tuple(sorted([*moves, *limits], key=lambda change: change.at))


def _read_plans(
    connection: psycopg.Connection, period: str, account_id: str | None, month: datetime, end: datetime
) -> _Plans:
    allowances: dict[tuple[str, str], Allowances] = defaultdict(list)
    for plan_id, allowed, since, units in statements.run(connection, "read_allowances"):
        allowances[plan_id, allowed].append((since, units))
    changes = [
        (plan_id, PlanChange(since, allowed, before, after))
        for (plan_id, allowed), kept in allowances.items()
        for (_, before), (since, after) in pairwise(kept)
        if month <= since < end and before is not None and after is not None
    ]
    return _Plans(read_moves(connection, period, account_id), allowances, changes)


def check_begun(connection: psycopg.Connection, period: str) -> None:
    """Makes sure that a UTC month has begun, by the database's clock.

    Raises:
        SepuError: it has not.
    """
    current = f"{read_today(connection):%Y-%m}"
    if period > current:
        raise SepuError(f"the month {period} has not begun; it is {current}")


def why_unfinished(connection: psycopg.Connection, period: str) -> str | None:
    """Returns why the ledger may not have all charges of a UTC month yet; None once it has.

    A charge belongs to the month in which its transaction began. So this waits some seconds for transactions that may
    have begun before the month's end. Charges that it waited for are only in snapshots that are taken later.
    """
    if not statements.value(connection, "month_has_ended", period=period):
        return f"the month {period} is not over"
    if read_server(connection).is_standby:
        return "this is a standby, which does not know what still runs on its primary"
    until = monotonic() + _DRAIN_SECONDS
    running = _running(connection, period)
    while running and monotonic() < until:
        sleep(_POLL_SECONDS)
        running &= _running(connection, period)
    if not running:
        return None
    named = "; ".join(sorted(running)[:_NAMED]) + ("; …" if len(running) > _NAMED else "")
    return f"transactions that may have begun in {period} are still running: {named}"


def _running(connection: psycopg.Connection, period: str) -> set[str]:
    """Names the transactions that may have begun before a month's end, on all nodes."""
    if statements.value(connection, "has_citus"):
        query = psycopg.ClientCursor(connection).mogrify(statements.statement("list_unfinished"), {"period": period})
        rows = statements.run(connection, "list_unfinished_on_all_nodes", statement=query).fetchall()
    else:
        rows = statements.run(connection, "list_unfinished", period=period).fetchall()
    return {each for (found,) in rows if found for each in found.split(", ")}


def count_exported(connection: psycopg.Connection, period: str) -> int:
    """Counts the accounts that `export_usage` returns."""
    return int(statements.value(connection, "count_exported", period=period))


def export_usage(connection: psycopg.Connection, period: str, account_id: str | None = None) -> Generator[AccountUsage]:
    """Returns the usage of these accounts, or of one, ordered by id, in one snapshot, a page at a time.

    Plan and limits are those at the month's end, or now if it is not over; limits include grants. Status and names are
    current.

    Raises:
        AccountError: a plan has no limit for a meter.
    """
    month = datetime.strptime(period, "%Y-%m").replace(tzinfo=UTC)
    end = (month + timedelta(days=32)).replace(day=1)
    with snapshot(connection):
        plans = _read_plans(connection, period, account_id, month, end)
        with connection.cursor(name="export_usage") as cursor:
            cursor.itersize = _PAGE
            rows = cursor.execute(statements.statement("export_usage"), {"period": period, "account_id": account_id})
            for account, meters in groupby(rows, lambda row: row[:6]):
                yield _usage(account, period, [row[6:] for row in meters], plans, end)


def _usage(
    account: tuple[str, str | None, str | None, str, str, datetime],
    period: str,
    used: Iterable[tuple[Any, ...]],
    plans: _Plans,
    end: datetime,
) -> AccountUsage:
    account_id, external_id, name, status, plan_now, created_at = account
    last = end - timedelta(microseconds=1)
    plan_id = plans.plan(account_id, plan_now, last)
    units = {meter: of_meter for meter, *of_meter in used}
    limits = {meter: plans.limit(plan_id, meter, last) for meter in METERS}
    rows = []
    for meter, limit in limits.items():
        committed, reserved, granted, credited = units.get(meter, (0, 0, 0, 0))
        if limit is not None:
            rows.append((meter, limit + granted, committed, reserved, granted, credited))
    changes = plans.changes_of(account_id, plan_now, created_at, end)
    return account_usage((account_id, external_id, name, status, plan_id), period, rows, changes)
