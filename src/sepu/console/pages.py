"""Reads each page's content from the ledger."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import falcon
import psycopg

from sepu.admin import accounts, charges, events
from sepu.admin.audit import last_audit
from sepu.admin.export import export_usage
from sepu.admin.grants_and_credits import list_adjustments
from sepu.admin.history import list_changes
from sepu.admin.keys import ENDING_DAYS, list_keys
from sepu.admin.naming import AccountError, find_account
from sepu.admin.plans import list_plans
from sepu.admin.usage import (
    NEAR_PERCENT,
    MonthParts,
    Part,
    nearest_limits,
    read_today,
    usage_by_month,
    usage_in_month,
    usage_of_two_days,
)
from sepu.console.chart import chart
from sepu.database.connection import read_server
from sepu.database.statements import run
from sepu.errors import SepuError
from sepu.limits.console import PAGES, ROWS
from sepu.metering.key_format import account_of
from sepu.metering.meters import METERS, is_month

# For the overview's sums over all accounts; then the page leaves them out.
_OVERVIEW_SECONDS = 0.7

# Returns a parameter of the page's address, or None if it is missing or empty.
Parameter = Callable[[str], str | None]
Page = Callable[..., Mapping[str, Any]]

# How late a daily job may be, as in its alert (SepuAuditOld).
DAILY_IS_OLD = timedelta(hours=26)


@dataclass(frozen=True, slots=True)
class ServiceState:
    """State of workers and backups; None if unknown."""

    workers: int | None = None
    backed_up_at: datetime | None = None
    unread: tuple[str, ...] = ()
    """The addresses that gave no metrics in time."""


class AddressError(SepuError):
    """Says that a parameter of the page's address is not valid."""


def overview(
    connection: psycopg.Connection,
    parameter: Parameter,  # noqa: ARG001
    service_state: Callable[[], ServiceState],
) -> Mapping[str, Any]:
    """Returns the state of the service, and who is near a limit."""
    verdict = last_audit(connection)
    now = datetime.now(UTC)
    service = service_state()
    return {
        "near_percent": NEAR_PERCENT,
        "nearest": nearest_limits(connection, NEAR_PERCENT, ROWS + 1),
        "shown": ROWS,
        "audit": verdict,
        "audit_is_old": verdict is not None and now - verdict.audited_at > DAILY_IS_OLD,
        "database": read_server(connection),
        "backlog": events.count_deliveries(connection),
        "service": service,
        "backup_is_old": service.backed_up_at is not None and now - service.backed_up_at > DAILY_IS_OLD,
        "days": _in_time(connection, usage_of_two_days),
        "ending_days": max(ENDING_DAYS),
        "ending": list_keys(connection, None, ends_within=timedelta(days=max(ENDING_DAYS)), limit=ROWS + 1),
    }


def account_list(connection: psycopg.Connection, parameter: Parameter) -> Mapping[str, Any]:
    """Returns a page of the accounts that pass the filters, sorted by a column, and the sums of all of them.

    The id of an account, a key, a charged request or an event redirects to it instead.
    """
    filters: accounts.Filters = {name: parameter(name) for name in ("search", "plan_id", "status")}  # type: ignore[assignment]
    filters["quiet"] = parameter("quiet") == "yes"
    if given := filters["search"]:
        if not any(parameter(name) for name in ("plan_id", "status", "quiet")):
            _lead_to(connection, given.strip())
        filters |= accounts.resolve_search(connection, given)
    status, sort = filters["status"], parameter("sort") or "id"
    if status is not None and status not in accounts.STATUSES:
        raise AddressError(f"there is no status {status!r}")
    if sort not in accounts.SORTS:
        raise AddressError(f"accounts are not sorted by {sort!r}")
    descending, number = parameter("desc") == "yes", _page_number(parameter)
    found = accounts.list_accounts(
        connection,
        sort=sort,
        descending=descending,
        limit=ROWS + 1,
        skip=number * ROWS,
        **filters,
    )
    page = list(found)
    chosen = {name: parameter(name) or "" for name in ("search", "plan_id", "status")}
    return {
        "accounts": page[:ROWS],
        "sums": accounts.sum_accounts(connection, **filters),
        "sort": sort,
        "descending": descending,
        "filters": {**chosen, "quiet": "yes" if filters["quiet"] else ""},
        "plans": list_plans(connection, limit=ROWS),
        "statuses": accounts.STATUSES,
        **_neighbours(number, len(page) > ROWS),
    }


def account(connection: psycopg.Connection, parameter: Parameter, account_id: str) -> Mapping[str, Any]:
    """Returns one account: a month with its days and keys, and its other months."""
    account_id = find_account(connection, account_id)
    month, day = _month(connection, parameter), _day(parameter)
    found = list(export_usage(connection, month, account_id))
    if not found:
        raise AddressError(f"account {account_id} was made after {month}")
    parts = usage_in_month(connection, month, account_id, day)
    turns = {name: _page_number(parameter, name) for name in ("keys", "grants")}
    keys = list_keys(connection, account_id, limit=ROWS + 1, skip=turns["keys"] * ROWS)
    skip = turns["grants"] * ROWS
    latest = list_adjustments(connection, account_id=account_id, period=month, latest=ROWS + 1, skip=skip)
    adjustments = list(latest)
    return {
        "account": accounts.show_account(connection, account_id),
        "month": month,
        "used": found[0],
        "events": list(events.list_events(connection, account_id=account_id, period=month)),
        "adjustments": adjustments[-ROWS:],
        "adjustment_pages": _neighbours(turns["grants"], len(adjustments) > ROWS),
        "months": _with_bars(usage_by_month(connection, account_id)),
        **_days(parts, day),
        "keys": keys[:ROWS],
        "key_pages": _neighbours(turns["keys"], len(keys) > ROWS),
        "by_key": {part.name: part.units for part in parts.keys},
    }


def charge_list(connection: psycopg.Connection, parameter: Parameter, account_id: str) -> Mapping[str, Any]:
    """Returns a page of an account's charges, the newest first, by day, key or request; and that key."""
    shown = accounts.show_account(connection, find_account(connection, account_id))
    request_id, key_id, day = parameter("request"), parameter("key"), _day(parameter)
    if request_id is not None and not charges.REQUEST_ID.fullmatch(request_id.lower()):
        raise AddressError(f"{request_id!r} is not the id of a request, such as 6f1c0d2e-8a4b-4c1d-9e5f-0a1b2c3d4e5f")
    found = charges.list_charges(
        connection,
        shown.account_id,
        key_id=key_id,
        **(charges.times_of(day) if day else charges.Range()),
        request_id=request_id and request_id.lower(),
        before=_before(parameter),
        limit=ROWS + 1,
    )
    page = list(found)
    last = page[ROWS - 1] if len(page) > ROWS else None
    return {
        "account": shown,
        "charges": page[:ROWS],
        "next": last and f"{last.created_at.astimezone(UTC).isoformat()}~{last.request_id}",
        "is_first": parameter("before") is None,
        "filters": {"day": day or "", "key": key_id or "", "request": request_id or ""},
        "key": next(iter(list_keys(connection, shown.account_id, key_id)), None) if key_id else None,
        "pruned": charges.pruned_months(connection, shown.account_id),
    }


def account_history(connection: psycopg.Connection, parameter: Parameter, account_id: str) -> Mapping[str, Any]:
    """Returns a page of operators' changes to an account."""
    shown = accounts.show_account(connection, find_account(connection, account_id))
    return {"account": shown, **_changes(connection, parameter, shown.account_id)}


def history(connection: psycopg.Connection, parameter: Parameter) -> Mapping[str, Any]:
    """Returns a page of operators' changes."""
    return {"account": None, **_changes(connection, parameter)}


def event_list(connection: psycopg.Connection, parameter: Parameter) -> Mapping[str, Any]:
    """Returns one event, or the latest ones of a month, by the state of their delivery."""
    if event_id := parameter("event"):
        try:
            one = events.show_event(connection, event_id)
        except SepuError as error:
            raise AddressError(str(error)) from None
        return {
            "month": one.period,
            "state": None,
            "states": events.STATES,
            "events": [one],
            "one": one,
            "are_more": False,
        }
    month, state = _month(connection, parameter), parameter("state")
    if state is not None and state not in events.STATES:
        raise AddressError(f"no event is {state!r}")
    found = list(events.list_events(connection, period=month, state=state, latest=ROWS + 1))
    return {
        "month": month,
        "state": state,
        "states": events.STATES,
        "events": list(reversed(found))[:ROWS],
        "one": None,
        "are_more": len(found) > ROWS,
    }


def plan_list(connection: psycopg.Connection, parameter: Parameter) -> Mapping[str, Any]:
    """Returns a page of the plans."""
    number = _page_number(parameter)
    found = list_plans(connection, limit=ROWS + 1, skip=number * ROWS)
    return {"plans": found[:ROWS], **_neighbours(number, len(found) > ROWS)}


def usage(connection: psycopg.Connection, parameter: Parameter) -> Mapping[str, Any]:
    """Returns the months of all accounts together, and the days of one month."""
    month, day = _month(connection, parameter), _day(parameter)
    return {
        "month": month,
        "months": _with_bars(usage_by_month(connection)),
        **_days(usage_in_month(connection, month, day=day), day),
    }


def _days(parts: MonthParts, day: date | None) -> Mapping[str, Any]:
    """Returns the days of a month and, if a day is asked for, its hours; and a chart of the finer ones."""
    finer = chart(parts.hours or parts.days)
    return {"day": day, "days": _with_bars(parts.days), "hours": _with_bars(parts.hours), "chart": finer}


def _changes(connection: psycopg.Connection, parameter: Parameter, account_id: str | None = None) -> Mapping[str, Any]:
    number = _page_number(parameter)
    found = list_changes(connection, account_id=account_id, limit=ROWS + 1, skip=number * ROWS)
    return {"changes": found[:ROWS], **_neighbours(number, len(found) > ROWS)}


def _neighbours(number: int, are_more: bool) -> Mapping[str, int | None]:
    """Returns the numbers of the pages before and after, from 0."""
    return {"previous": number - 1 if number else None, "following": number + 1 if are_more else None}


def _in_time(connection: psycopg.Connection, read: Callable[[psycopg.Connection], Any]) -> Any:  # noqa: ANN401
    """Returns the last read of a page; None if it would take too long."""
    try:
        with connection.transaction():
            run(connection, "limit_statements", milliseconds=str(round(_OVERVIEW_SECONDS * 1000)))
            return read(connection)
    except psycopg.errors.QueryCanceled:
        return None


def _lead_to(connection: psycopg.Connection, given: str) -> None:
    """Redirects to the thing that has this id.

    Raises:
        falcon.HTTPSeeOther: it exists.
    """
    if (charged := charges.charged_account(connection, given)) is not None:
        raise falcon.HTTPSeeOther(f"/accounts/{charged}/charges?request={given.lower()}")
    if ":" in given:
        with suppress(SepuError):
            events.show_event(connection, given)
            raise falcon.HTTPSeeOther(f"/events?event={given}")
    with suppress(AccountError):
        found = f"/accounts/{find_account(connection, given)}"
        raise falcon.HTTPSeeOther(found if account_of(given) is None else f"{found}/charges?key={given}")


def _page_number(parameter: Parameter, name: str = "page") -> int:
    given = parameter(name) or "0"
    if not (given.isascii() and given.isdecimal() and len(given) <= 5 and int(given) <= PAGES):
        raise AddressError(f"there is no page {given!r}")
    return int(given)


def _day(parameter: Parameter) -> date | None:
    given = parameter("day")
    if given is None:
        return None
    try:
        if len(given) == len("2027-01-31"):
            return date.fromisoformat(given)
    except ValueError:
        pass
    raise AddressError(f"{given!r} is not a day like 2027-01-31")


def _before(parameter: Parameter) -> tuple[datetime, str] | None:
    """Reads the charge after which a page begins."""
    given = parameter("before")
    if given is None:
        return None
    at, _, request_id = given.partition("~")
    try:
        if charges.REQUEST_ID.fullmatch(request_id) and (found := datetime.fromisoformat(at)).tzinfo:
            return found, request_id
    except ValueError:
        pass
    raise AddressError("this page of charges does not exist; begin with the first")


def _month(connection: psycopg.Connection, parameter: Parameter) -> str:
    """Returns the month that is asked for, by itself or by a day, or the current one by the database's clock."""
    current, day = f"{read_today(connection):%Y-%m}", _day(parameter)
    month = f"{day:%Y-%m}" if day is not None else parameter("month") or current
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
