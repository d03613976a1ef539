"""What accounts used: this month with its limits, over time, and who is near a limit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby
from typing import Any

import psycopg

from sepu.admin.history import PlanChange
from sepu.admin.naming import AccountError
from sepu.admin.plans import check_limits
from sepu.database.statements import run, value
from sepu.metering.meters import METERS, Usage

NEAR_PERCENT = 80
"""Of a limit: who used so much is near it."""


class MonthUsage(Usage, frozen=True):
    """One meter of one account in one month, as it is billed. The limit is the plan's and what was granted."""

    granted: int
    credited: int

    @property
    def to_bill(self) -> int:
        """Returns the units charged and not credited."""
        return self.committed - self.credited

    def as_dict(self) -> dict[str, str | int]:
        """Returns what operators see of it."""
        billed = {"granted": self.granted, "credited": self.credited, "toBill": self.to_bill}
        return {**super().as_dict(), **billed}


@dataclass(frozen=True, slots=True)
class AccountUsage:
    """An account's state, and its usage of each meter in one period."""

    account_id: str
    external_id: str | None
    name: str | None
    status: str
    plan_id: str
    usage: tuple[MonthUsage, ...]
    changes: tuple[PlanChange, ...] = ()
    """Of its plan and limits within the period, if they were asked for."""


@dataclass(frozen=True, slots=True)
class Part:
    """What was used in a month or a day, or with a key."""

    name: str | None
    """The month, the day or the key's id; None for what erased accounts used."""
    units: Mapping[str, int]
    """By meter."""


@dataclass(frozen=True, slots=True)
class DayAndDayBefore:
    """The units of a day and of the day before: all of them, and those until the same time of the day."""

    today: int
    yesterday: int
    yesterday_by_now: int


def show_usage(connection: psycopg.Connection, account_id: str) -> AccountUsage:
    """Returns the account and its usage of the current period, whatever its status.

    Raises:
        AccountError: no such account, or its plan has no limit for a meter.
    """
    rows = run(connection, "show_usage", account_id=account_id).fetchall()
    if not rows:
        raise AccountError(f"there is no account {account_id!r}")
    external_id, name, status, plan_id, period, *_ = rows[0]
    return account_usage((account_id, external_id, name, status, plan_id), period, [row[5:] for row in rows])


def account_usage(
    account: tuple[str, str | None, str | None, str, str],
    period: str,
    rows: Sequence[tuple[Any, ...]],
    changes: tuple[PlanChange, ...] = (),
) -> AccountUsage:
    """Reads an account's rows of meter, limit, committed, reserved, granted and credited.

    Raises:
        AccountError: the plan has no limit for a meter.
    """
    check_limits(account[-1], [meter for meter, *_ in rows])
    found = {meter: MonthUsage(period, meter, *rest) for meter, *rest in rows}
    return AccountUsage(*account, tuple(found[meter] for meter in METERS), changes)


def read_today(connection: psycopg.Connection) -> date:
    """Returns the day in UTC, by the database's clock."""
    found: date = value(connection, "read_today")
    return found


def usage_by_month(connection: psycopg.Connection, account_id: str | None = None) -> list[Part]:
    """Returns the months in which an account, or anybody, used something."""
    return _parts(run(connection, "usage_by_month", account_id=account_id).fetchall())


def usage_by_day(connection: psycopg.Connection, period: str | None, account_id: str | None = None) -> list[Part]:
    """Returns each day of a UTC month, by default the current one, until today, after what has no day."""
    today = read_today(connection)
    period = period or f"{today:%Y-%m}"
    return _each_day(_in_month(connection, period, account_id), period, today)


def usage_by_key(connection: psycopg.Connection, period: str | None, account_id: str) -> list[Part]:
    """Returns the keys with which an account used something in a month, after what has no key; see usage_by_day."""
    return _added_up(_in_month(connection, period or f"{read_today(connection):%Y-%m}", account_id), 1)


def usage_by_day_and_key(connection: psycopg.Connection, period: str, account_id: str) -> tuple[list[Part], list[Part]]:
    """Returns both, with the account's results read once."""
    rows = _in_month(connection, period, account_id)
    return _each_day(rows, period, read_today(connection)), _added_up(rows, 1)


def usage_by_hour(connection: psycopg.Connection, day: date, account_id: str | None = None) -> list[Part]:
    """Returns the 24 hours of a UTC day, `00` to `23`; only what is still stored counts."""
    found = {part.name: part for part in _parts(run(connection, "usage_on_day", day=day, account_id=account_id))}
    return [found.get(hour) or Part(hour, dict.fromkeys(METERS, 0)) for hour in (f"{n:02}" for n in range(24))]


def usage_of_two_days(connection: psycopg.Connection) -> dict[str, DayAndDayBefore]:
    """Returns by meter what all accounts used today and yesterday; only what is still stored counts."""
    rows = {meter: DayAndDayBefore(*units) for meter, *units in run(connection, "usage_of_two_days")}
    return {meter: rows.get(meter) or DayAndDayBefore(0, 0, 0) for meter in METERS}


def nearest_limits(connection: psycopg.Connection, percent: int, limit: int) -> list[AccountUsage]:
    """Returns who used so much of a meter's limit this month, each with that meter, the nearest to a limit first."""
    rows = run(connection, "top_accounts", percent=percent, limit=limit).fetchall()
    return [
        AccountUsage(account_id, external_id, name, status, plan_id, (MonthUsage(*used),))
        for account_id, external_id, name, status, plan_id, *used in rows
    ]


def _in_month(connection: psycopg.Connection, period: str, account_id: str | None) -> list[tuple[Any, ...]]:
    return run(connection, "usage_in_month", period=period, account_id=account_id).fetchall()


def _each_day(rows: Iterable[tuple[Any, ...]], period: str, today: date) -> list[Part]:
    found = {part.name: part for part in _added_up(rows, 0)}
    day = date.fromisoformat(f"{period}-01")
    while f"{day:%Y-%m}" == period and day <= today:
        found.setdefault(day.isoformat(), Part(day.isoformat(), dict.fromkeys(METERS, 0)))
        day += timedelta(days=1)
    return sorted(found.values(), key=lambda part: part.name or "")


def _added_up(rows: Iterable[tuple[Any, ...]], column: int) -> list[Part]:
    """Adds up the rows of a month by day (0) or by key (1); what has none comes first."""
    found: dict[str | None, dict[str, int]] = {}
    for *names, meter, units in rows:
        parts = found.setdefault(names[column], dict.fromkeys(METERS, 0))
        if meter in parts:
            parts[meter] += units
    return [Part(name, found[name]) for name in sorted(found, key=lambda name: name or "")]


def _parts(rows: Iterable[tuple[Any, ...]]) -> list[Part]:
    parts = []
    for name, meters in groupby(rows, lambda row: row[0]):
        units = {meter: used for _, meter, used in meters}
        parts.append(Part(name, {meter: units.get(meter, 0) for meter in METERS}))
    return parts
