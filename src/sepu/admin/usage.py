"""Reads accounts' usage: this month's with its limits, over time, and near a limit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg

from sepu.admin.history import PlanChange
from sepu.admin.naming import AccountError
from sepu.admin.plans import check_limits
from sepu.database.statements import run, value
from sepu.metering.meters import METERS, Usage

NEAR_PERCENT = 80
"""Percent of a limit from which an account is near it."""


class MonthUsage(Usage, frozen=True):
    """One meter of one account in one month, as it is billed. The limit includes grants."""

    granted: int
    credited: int

    @property
    def to_bill(self) -> int:
        """Returns the units charged and not credited."""
        return self.committed - self.credited

    def as_dict(self) -> dict[str, str | int]:
        """Returns the fields that operators see."""
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
    """Changes of its plan and limits within the period, if asked for."""


@dataclass(frozen=True, slots=True)
class Part:
    """What was used in a month, a day or an hour, or with a key."""

    name: str | None
    """The month, the day, the hour (`00` to `23`) or the key's id; None for what erased accounts used."""
    units: Mapping[str, int]
    """By meter."""


@dataclass(frozen=True, slots=True)
class MonthParts:
    """Usage of a month by day and by key, and by the hours of one day where results are stored."""

    days: list[Part]
    keys: list[Part]
    hours: list[Part]


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


def read_now(connection: psycopg.Connection) -> datetime:
    """Returns the time in UTC, by the database's clock."""
    found: datetime = value(connection, "read_now")
    return found.astimezone(UTC)


def read_today(connection: psycopg.Connection) -> date:
    """Returns the day in UTC, by the database's clock."""
    found: date = value(connection, "read_today")
    return found


def days_of_month(period: str) -> tuple[date, date]:
    """Returns the first and the last day of a month such as 2026-11."""
    first = date.fromisoformat(f"{period}-01")
    return first, (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)


def usage_by_month(connection: psycopg.Connection, account_id: str | None = None) -> list[Part]:
    """Returns the months in which an account, or anybody, used something."""
    return _added_up(run(connection, "usage_by_month", account_id=account_id))


def usage_in_month(
    connection: psycopg.Connection, period: str | None = None, account_id: str | None = None, day: date | None = None
) -> MonthParts:
    """Returns the parts of a UTC month, by default the current one, of an account or of all, and the hours of one day.

    Days run until today; keys are of one account only. A part without a name comes first: usage that has no day or
    key. With a day, the keys' units are that day's.
    """
    today = read_today(connection)
    period = period or f"{today:%Y-%m}"
    rows = run(connection, "usage_in_month", period=period, account_id=account_id, day=day).fetchall()
    first, last = days_of_month(period)
    month = (f"{first + timedelta(days=n)}" for n in range((min(today, last) - first).days + 1))
    return MonthParts(
        _added_up(((name and f"{name}", meter, units) for name, _, _, meter, units in rows), month),
        _added_up((key_id, meter, units) for on, _, key_id, meter, units in rows if day in (None, on)),
        []
        if day is None
        else _added_up(
            ((f"{hour:02}", meter, units) for _, hour, _, meter, units in rows if hour is not None),
            (f"{hour:02}" for hour in range(24)),
        ),
    )


def usage_of_two_days(connection: psycopg.Connection) -> dict[str, DayAndDayBefore]:
    """Returns by meter what all accounts used today and yesterday; counts only stored results."""
    rows = {meter: DayAndDayBefore(*units) for meter, *units in run(connection, "usage_of_two_days")}
    return {meter: rows.get(meter) or DayAndDayBefore(0, 0, 0) for meter in METERS}


def nearest_limits(connection: psycopg.Connection, percent: int, limit: int) -> list[AccountUsage]:
    """Returns accounts that used at least `percent` of a meter's limit this month, by meter, nearest first."""
    rows = run(connection, "top_accounts", percent=percent, limit=limit).fetchall()
    return [
        AccountUsage(account_id, external_id, name, status, plan_id, (MonthUsage(*used),))
        for account_id, external_id, name, status, plan_id, *used in rows
    ]


def _added_up(rows: Iterable[tuple[str | None, str, int]], names: Iterable[str] = ()) -> list[Part]:
    """Adds up rows of a part's name, a meter and its units, sorted by name; each given name has a part."""
    found: dict[str | None, dict[str, int]] = {name: dict.fromkeys(METERS, 0) for name in names}
    for name, meter, units in rows:
        parts = found.setdefault(name, dict.fromkeys(METERS, 0))
        if meter in parts:
            parts[meter] += units
    return [Part(name, found[name]) for name in sorted(found, key=lambda name: name or "")]
