"""Every account's usage of a month, for billing."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import psycopg

from sepu.admin.history import PlanChange, read_moves, read_plan_changes
from sepu.admin.usage import AccountUsage, account_usage, read_today
from sepu.database import statements
from sepu.database.connection import snapshot
from sepu.errors import SepuError
from sepu.metering.meters import METERS

_PAGE = 5000


@dataclass(frozen=True, slots=True)
class _Plans:
    """The plans of accounts and the limits of plans: those of now, and what changed since a month began."""

    limits: dict[tuple[str, str], int]
    """By plan and meter."""
    moves: dict[str, list[PlanChange]]
    """By account, the first one first."""
    changes: dict[tuple[str, str], list[PlanChange]]
    """By plan and meter, the first one first."""

    def plan(self, account_id: str, plan_now: str, at: datetime) -> str:
        """Returns the plan that an account had."""
        return next((str(move.before) for move in self.moves.get(account_id, ()) if move.at > at), plan_now)

    def limit(self, plan_id: str, meter: str, at: datetime) -> int | None:
        """Returns the limit that a plan had."""
        later = (change.before for change in self.changes.get((plan_id, meter), ()) if change.at > at)
        found = next(later, self.limits.get((plan_id, meter)))
        return None if found is None else int(found)

    def changes_of(self, account_id: str, plan_now: str, end: datetime) -> tuple[PlanChange, ...]:
        """Returns what changed for an account until the month's end, in the order of time."""
        moves = [move for move in self.moves.get(account_id, ()) if move.at < end]
        limits = [
            change
            for (plan_id, _), changes in self.changes.items()
            for change in changes
            if change.at < end and self.plan(account_id, plan_now, change.at) == plan_id
        ]
        return tuple(sorted([*moves, *limits], key=lambda change: change.at))


def check_begun(connection: psycopg.Connection, period: str) -> None:
    """Makes sure that a UTC month has begun, by the database's clock.

    Raises:
        SepuError: it has not.
    """
    current = f"{read_today(connection):%Y-%m}"
    if period > current:
        raise SepuError(f"the month {period} has not begun; it is {current}")


def count_exported(connection: psycopg.Connection, period: str) -> int:
    """Counts the accounts that were made before the UTC month was over."""
    return int(statements.value(connection, "count_exported", period=period))


def export_usage(connection: psycopg.Connection, period: str, account_id: str | None = None) -> Generator[AccountUsage]:
    """Returns those accounts, or one of them, in the order of their ids, in one snapshot, a page at a time.

    Plan and limits are those of the month's end, or of now if it goes on; limits have what was granted. Status and
    names are those of now.

    Raises:
        AccountError: a plan has no limit for a meter.
    """
    month = datetime.strptime(period, "%Y-%m").replace(tzinfo=UTC)
    end = (month + timedelta(days=32)).replace(day=1)
    with snapshot(connection):
        limits = {(plan_id, meter): units for plan_id, meter, units in statements.run(connection, "read_plan_limits")}
        plans = _Plans(limits, read_moves(connection, period, account_id), read_plan_changes(connection, period))
        with connection.cursor(name="export_usage") as cursor:
            cursor.itersize = _PAGE
            rows = cursor.execute(statements.statement("export_usage"), {"period": period, "account_id": account_id})
            for account, meters in groupby(rows, lambda row: row[:5]):
                yield _usage(account, period, [row[5:] for row in meters], plans, end)


def _usage(
    account: tuple[str, str | None, str | None, str, str],
    period: str,
    used: Iterable[tuple[Any, ...]],
    plans: _Plans,
    end: datetime,
) -> AccountUsage:
    account_id, external_id, name, status, plan_now = account
    last = end - timedelta(microseconds=1)
    plan_id = plans.plan(account_id, plan_now, last)
    units = {meter: of_meter for meter, *of_meter in used}
    limits = {meter: plans.limit(plan_id, meter, last) for meter in METERS}
    rows = []
    for meter, limit in limits.items():
        committed, reserved, granted, credited = units.get(meter, (0, 0, 0, 0))
        if limit is not None:
            rows.append((meter, limit + granted, committed, reserved, granted, credited))
    changes = plans.changes_of(account_id, plan_now, end)
    return account_usage((account_id, external_id, name, status, plan_id), period, rows, changes)
