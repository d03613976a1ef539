"""Grants and credits: units that an operator adds to a month's limit, and units that are taken off its bill."""

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

import psycopg

from sepu import limits
from sepu.admin.naming import AccountError
from sepu.admin.operator import operator_name
from sepu.admin.plans import no_limit
from sepu.admin.usage import read_now
from sepu.database.statements import run, value
from sepu.errors import SepuError

# After the end of a range of time, before its charges are credited: by then each is committed, or has failed.
_SETTLED_SECONDS = 60.0
# Characters of the reason of a grant or a credit.
_REASON_CHARACTERS = 1000

Kind = Literal["grant", "credit"]
Outcome = Literal["due", "credited", "repeated", "nothing_left"]


class BusyError(SepuError):
    """Says that others hold the account or its counter, and nothing was changed."""


@dataclass(frozen=True, slots=True)
class Adjustment:
    """A grant or a credit. It never changes; an opposite one undoes it."""

    id: str
    account_id: str
    external_id: str | None
    name: str | None
    kind: Kind
    period: str
    meter: str
    units: int
    """Negative ones undo others."""
    reason: str | None
    """None if the account was erased."""
    at: datetime
    operator: str
    """The name that the operator gave; see `operator_name`."""
    database_role: str


@dataclass(frozen=True, slots=True)
class RangeCredit:
    """The units that an account was charged for a meter in a range of time, and their credit."""

    id: str
    """The credit's id, the same for the same range."""
    account_id: str
    external_id: str | None
    name: str | None
    period: str
    meter: str
    charged: int
    units: int
    """The units credited, or still to credit; fewer than were charged if the bill has fewer left."""
    outcome: Outcome
    """`repeated`: the same range was credited before."""


def check_reason(reason: str) -> None:
    """Makes sure that a reason can be stored.

    Raises:
        SepuError: it is malformed.
    """
    if not (reason.isprintable() and reason.strip() and len(reason) <= _REASON_CHARACTERS):
        raise SepuError(f"a reason has 1 to {_REASON_CHARACTERS} characters that can be printed")


def adjust_usage(
    connection: psycopg.Connection,
    kind: Kind,
    account_id: str,
    meter: str,
    units: int,
    *,
    reason: str,
    period: str | None = None,
    adjustment_id: str | None = None,
    command: str = "add",
) -> Adjustment:
    """Grants units for a month, by default the current one, or credits them; negative ones do the opposite.

    An id is applied once: repeating it returns the first result. Waits for charges in progress. The history names the
    `command`.

    Raises:
        AccountError: no such account, it was erased, or its plan has no limit for the meter.
        BusyError: others held the account or its counter for too long.
        SepuError: the reason, the month, the id or the units are out of bounds.
    """
    check_reason(reason)
    if units == 0 or abs(units) > limits.plans.PLANNED_UNITS:
        raise SepuError(f"units are a number from 1 to {limits.plans.PLANNED_UNITS}, or a negative one")
    adjustment_id = adjustment_id or str(uuid.uuid4())
    given: dict[str, object] = {"account_id": account_id, "adjustment_id": adjustment_id, "action": f"{kind}.{command}"}
    given |= {"meter": meter, "units": units, "period": period, "reason": reason, "operator": operator_name()}
    deadline = time.monotonic() + limits.plans.ADJUSTMENT_SECONDS
    while True:
        try:
            with connection.transaction():
                _adjust(connection, given, kind)
            return next(list_adjustments(connection, account_id=account_id, adjustment_id=adjustment_id))
        except psycopg.errors.LockNotAvailable as error:
            if time.monotonic() > deadline:
                raise BusyError(
                    f"account {account_id} is busy: others held it for "
                    f"{limits.plans.ADJUSTMENT_SECONDS} seconds, and nothing was changed; try again"
                ) from error


def find_range_credits(
    connection: psycopg.Connection, since: datetime, until: datetime, account_id: str | None = None
) -> list[RangeCredit]:
    """Returns what accounts, or one, were charged from `since` until before `until`, and what can be credited of it.

    Raises:
        SepuError: the range is not over, or is so old that results of its days were pruned.
    """
    if until > read_now(connection) - timedelta(seconds=_SETTLED_SECONDS):
        raise SepuError(f"the range must end at least {_SETTLED_SECONDS:g} seconds ago: charges may be under way")
    times = {"since": since, "until": until, "account_id": account_id}
    name = " ".join(at.astimezone(UTC).isoformat() for at in (since, until))
    rows = run(connection, "list_range_charges", **times, range=name).fetchall()
    # Last, so that a simultaneous prune is seen.
    if pruned := value(connection, "sum_pruned_of_days", **times):
        raise SepuError(
            f"{pruned} units of these days have no results any more, so nobody knows which lie in the range; "
            "credit them by hand",
            "credit by hand",
        )
    return [RangeCredit(*row) for row in rows]


def credit_range(connection: psycopg.Connection, found: RangeCredit, reason: str) -> RangeCredit:
    """Credits what is due for a range, once per id; returns the outcome.

    Raises:
        AccountError: the account was erased meanwhile, or its plan has no limit for the meter.
        BusyError: others held the account or its counter for too long.
        SepuError: the reason is out of bounds, or other credits left less on the bill meanwhile.
    """
    if found.outcome != "due":
        return found
    given = {"reason": reason, "period": found.period, "adjustment_id": found.id, "command": "range"}
    adjust_usage(connection, "credit", found.account_id, found.meter, found.units, **given)
    return replace(found, outcome="credited")


def list_adjustments(
    connection: psycopg.Connection,
    kind: Kind | None = None,
    *,
    account_id: str | None = None,
    adjustment_id: str | None = None,
    period: str | None = None,
    latest: int | None = None,
    skip: int = 0,
) -> Iterator[Adjustment]:
    """Returns the grants, the credits or both that pass the filters, the oldest first.

    `latest` keeps only that many of the newest, after skipping the `skip` newest.
    """
    filters = {"kind": kind, "account_id": account_id, "adjustment_id": adjustment_id, "period": period}
    for row in run(connection, "list_adjustments", **filters, latest=latest, skip=skip):
        yield Adjustment(*row)


def _adjust(connection: psycopg.Connection, given: dict[str, object], kind: Kind) -> None:
    """Adds it, unless it was added before."""
    run(connection, "limit_lock_waits", milliseconds=str(round(limits.database.LOCK_SECONDS * 1000)))
    row = run(connection, "adjust_usage", **given).fetchone()
    assert row is not None  # noqa: S101
    outcome, period, month, plan_id, lowest, highest = row
    where = f"of {given['meter']} in {period}"
    match outcome, kind:
        case "missing", _:
            raise AccountError(f"there is no account {given['account_id']!r}, or it was erased")
        case "unlimited", _:
            raise no_limit(plan_id, str(given["meter"]))
        case "id_taken", _:
            raise SepuError(f"the id {given['adjustment_id']} is that of another grant or credit of this account")
        case "month_over", _:
            raise SepuError(f"the month {period} is over, and a grant would change nothing", "credit")
        case "month_to_come", _:
            raise SepuError(f"the month {period} has not begun; it is {month}")
        case "too_few", "grant":
            raise SepuError(f"at most {-lowest} units {where} can be taken back: the rest is used, or was not granted")
        case "too_many", "grant":
            raise SepuError(f"at most {highest} more units {where} can be granted")
        case "too_few", _:
            raise SepuError(f"at most {-lowest} units {where} can be billed again: no more are credited")
        case "too_many", _:
            raise SepuError(
                f"at most {highest} units {where} can be credited: no more are charged, or they are credited already"
            )
