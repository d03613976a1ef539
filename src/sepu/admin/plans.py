"""Manages plans: accounts' limits, and the percentages of them at which events are recorded."""

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass

import psycopg

from sepu.admin.history import NO_ACCOUNT, REQUESTS_PER_MINUTE, make_change
from sepu.admin.naming import AccountError
from sepu.database.statements import run
from sepu.limits.plans import PLANNED_UNITS
from sepu.metering.meters import METERS


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan's limits, by meter, and how many accounts are on it."""

    plan_id: str
    limits: Mapping[str, int]
    requests_per_minute: int
    thresholds: Sequence[int]
    """Percentages of the limits; crossing one records an event."""
    accounts: int | None
    """None if a worker of a cluster does not answer."""


def set_plan(
    connection: psycopg.Connection,
    plan_id: str,
    limits: Mapping[str, int] | None = None,
    *,
    requests_per_minute: int | None = None,
    thresholds: Collection[int] | None = None,
) -> None:
    """Creates or changes a plan; its accounts are affected from their next request on.

    `limits` is by meter; `thresholds` are the percentages of them at which events are recorded. Omitted values stay.

    Raises:
        AccountError: a new plan lacks a limit, or the plan's name, a limit or a threshold is out of bounds.
        TypeError: there is no such meter.
    """
    limits = limits or {}
    if not all(1 <= threshold <= 100 for threshold in thresholds or ()):
        raise AccountError("a threshold is a percentage of a limit, from 1 to 100")
    if unknown := sorted(limits.keys() - METERS.keys()):
        raise TypeError(f"a plan has limits for {', '.join(METERS)}, not for {', '.join(unknown)}")
    try:
        with connection.transaction():
            rate = {} if requests_per_minute is None else {REQUESTS_PER_MINUTE: requests_per_minute}
            events = {} if thresholds is None else {"thresholds": sorted(set(thresholds))}
            made = make_change(connection, "plan.set", NO_ACCOUNT, plan_id, {**limits, **rate, **events})
            if plan_id not in made.before:
                _check_new(plan_id, limits, requests_per_minute)
    except (psycopg.errors.CheckViolation, psycopg.errors.NumericValueOutOfRange) as error:
        raise AccountError(
            f"plan {plan_id!r}: the name has 1 to 64 of a-z 0-9 _ -, limits are from 0 to {PLANNED_UNITS}, "
            "requests per minute from 1 to 2147483647"
        ) from error


def delete_plan(connection: psycopg.Connection, plan_id: str) -> None:
    """Deletes a plan that no account has. Its limits are kept for past months of accounts that had it.

    Raises:
        AccountError: no such plan, or an account has it.
    """
    has_accounts = AccountError(f"plan {plan_id!r} has accounts; move them first", "move accounts")
    try:
        made = make_change(connection, "plan.delete", NO_ACCOUNT, plan_id)
    except psycopg.errors.ForeignKeyViolation as error:  # an account was made meanwhile
        raise has_accounts from error
    if made.outcome == "missing":
        raise no_plan(plan_id)
    if made.outcome == "used":
        raise has_accounts


def list_plans(connection: psycopg.Connection, *, limit: int | None = None, skip: int = 0) -> list[Plan]:
    """Returns the plans in the order of their names: all, or at most `limit` after the first `skip`.

    Raises:
        AccountError: a plan has no limit for a meter.
    """
    return _plans(connection, None, limit, skip)


def show_plan(connection: psycopg.Connection, plan_id: str) -> Plan:
    """Returns one plan.

    Raises:
        AccountError: no such plan, or it has no limit for a meter.
    """
    for plan in _plans(connection, plan_id):
        return plan
    raise no_plan(plan_id)


def no_plan(plan_id: str) -> AccountError:
    """Says that there is no such plan."""
    return AccountError(f"there is no plan {plan_id!r}", "set plan")


def no_limit(plan_id: str, meter: str) -> AccountError:
    """Says that a plan has no limit for a meter."""
    return AccountError(f"plan {plan_id!r} has no limit for the meter {meter!r}", "set plan")


def check_limits(plan_id: str, limits: Container[str]) -> None:
    """Makes sure that a plan has a limit for each meter.

    Raises:
        AccountError: it has none for one.
    """
    for meter in METERS:
        if meter not in limits:
            raise no_limit(plan_id, meter)


def _check_new(plan_id: str, limits: Container[str], requests_per_minute: int | None) -> None:
    missing = [name for name in METERS if name not in limits]
    if requests_per_minute is None:
        missing.append("requests per minute")
    if missing:
        reason = f"there is no plan {plan_id!r} yet; a new one needs limits of {', '.join(missing)} too"
        raise AccountError(reason, "set plan")


def _plans(connection: psycopg.Connection, plan_id: str | None, limit: int | None = None, skip: int = 0) -> list[Plan]:
    rows = run(connection, "list_plans", plan_id=plan_id, limit=limit, skip=skip).fetchall()
    counts = _count_accounts(connection, [name for name, *_ in rows])
    plans = []
    for name, limits, requests_per_minute, thresholds in rows:
        accounts = None if counts is None else counts.get(name, 0)
        plans.append(Plan(name, limits, requests_per_minute, thresholds, accounts))
    for plan in plans:
        check_limits(plan.plan_id, plan.limits)
    return plans


def _count_accounts(connection: psycopg.Connection, plan_ids: list[str]) -> dict[str, int] | None:
    """Counts the accounts of plans; None if a cluster node with accounts does not answer."""
    try:
        return dict(run(connection, "count_accounts_of_plans", plan_ids=plan_ids).fetchall())
    except psycopg.OperationalError:
        if connection.closed:
            raise
        return None
