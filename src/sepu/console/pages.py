"""What each page shows, read from the ledger."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import psycopg

from sepu.admin import accounts, events
from sepu.admin.audit import last_audit
from sepu.admin.export import export_usage
from sepu.admin.keys import list_keys
from sepu.admin.naming import find_account
from sepu.admin.plans import list_plans
from sepu.admin.usage import NEAR_PERCENT, Part, nearest_limits, read_today, usage_by_day, usage_by_key, usage_by_month
from sepu.errors import SepuError
from sepu.metering.meters import METERS, is_month

# Returns a parameter of the page's address, or None if it is missing or empty.
Parameter = Callable[[str], str | None]
Page = Callable[..., Mapping[str, Any]]

_NEAREST = 50
_ACCOUNTS = 50
_EVENTS = 100
# The daily job may be late, as its alert has it (SepuAuditOld).
AUDIT_IS_OLD = timedelta(hours=26)


class AddressError(SepuError):
    """Says that a parameter of the page's address is not valid."""


def overview(connection: psycopg.Connection, parameter: Parameter) -> Mapping[str, Any]:  # noqa: ARG001
    """Returns who is near a limit, and the last audit."""
    verdict = last_audit(connection)
    return {
        "near_percent": NEAR_PERCENT,
        "nearest": nearest_limits(connection, NEAR_PERCENT, _NEAREST + 1),
        "shown": _NEAREST,
        "audit": verdict,
        "audit_is_old": verdict is not None and datetime.now(UTC) - verdict.audited_at > AUDIT_IS_OLD,
    }


def account_list(connection: psycopg.Connection, parameter: Parameter) -> Mapping[str, Any]:
    """Returns a page of the accounts that pass the filters."""
    filters = {name: parameter(name) for name in ("search", "plan_id", "status")}
    status = filters["status"]
    if status is not None and status not in accounts.STATUSES:
        raise AddressError(f"there is no status {status!r}")
    found = accounts.list_accounts(connection, after=parameter("after") or "", page_size=_ACCOUNTS + 1, **filters)
    page = list(islice(found, _ACCOUNTS + 1))
    return {
        "accounts": page[:_ACCOUNTS],
        "after": page[_ACCOUNTS - 1].account_id if len(page) > _ACCOUNTS else None,
        "is_first": parameter("after") is None,
        "filters": {name: given or "" for name, given in filters.items()},
        "plans": list_plans(connection),
        "statuses": accounts.STATUSES,
    }


def account(connection: psycopg.Connection, parameter: Parameter, account_id: str) -> Mapping[str, Any]:
    """Returns one account: a month with its days and keys, and its other months."""
    account_id = find_account(connection, account_id)
    month = _month(connection, parameter)
    found = list(export_usage(connection, month, account_id))
    if not found:
        raise AddressError(f"account {account_id} was made after {month}")
    return {
        "account": accounts.show_account(connection, account_id),
        "month": month,
        "used": found[0],
        "events": list(events.list_events(connection, account_id=account_id, period=month)),
        "months": _with_bars(usage_by_month(connection, account_id)),
        "days": _with_bars(usage_by_day(connection, month, account_id)),
        "keys": list_keys(connection, account_id),
        "by_key": {part.name: part.units for part in usage_by_key(connection, month, account_id)},
    }


def event_list(connection: psycopg.Connection, parameter: Parameter) -> Mapping[str, Any]:
    """Returns the latest events of a month, by the state of their delivery."""
    month, state = _month(connection, parameter), parameter("state")
    if state is not None and state not in events.STATES:
        raise AddressError(f"no event is {state!r}")
    found = list(events.list_events(connection, period=month, state=state, latest=_EVENTS + 1))
    return {
        "month": month,
        "state": state,
        "states": events.STATES,
        "events": list(reversed(found))[:_EVENTS],
        "are_more": len(found) > _EVENTS,
    }


def plan_list(connection: psycopg.Connection, parameter: Parameter) -> Mapping[str, Any]:  # noqa: ARG001
    """Returns all plans."""
    return {"plans": list_plans(connection)}


def usage(connection: psycopg.Connection, parameter: Parameter) -> Mapping[str, Any]:
    """Returns the months of all accounts together, and the days of one month."""
    month = _month(connection, parameter)
    return {
        "month": month,
        "months": _with_bars(usage_by_month(connection)),
        "days": _with_bars(usage_by_day(connection, month)),
    }


def _month(connection: psycopg.Connection, parameter: Parameter) -> str:
    """Returns the month that is asked for, or the current one by the database's clock."""
    current = f"{read_today(connection):%Y-%m}"
    month = parameter("month") or current
    if not is_month(month):
        raise AddressError(f"{month!r} is not a month like {current}")
    if month > current:
        raise AddressError(f"the month {month} has not begun")
    return month


def _with_bars(parts: Iterable[Part]) -> list[tuple[Part, float]]:
    """Adds to each part how much of a full bar it fills: the largest one is full."""
    sums = [(part, sum(part.units[meter] for meter in METERS)) for part in parts]
    most = max((units for _, units in sums), default=0)
    return [(part, units / most if most else 0.0) for part, units in sums]
