"""What the operator does to accounts, plans and keys. One short transaction each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import psycopg

from sepu.database.statements import run, value
from sepu.errors import SepuError
from sepu.metering import keys
from sepu.metering.meters import METERS, Usage, usages

STATUSES = ("active", "suspended", "erased")
REQUESTS_PER_MINUTE = "requests_per_minute"
"""The abuse limit, where changes name a limit by its meter."""

_PAGE = 5000
_BAD_NAME = "a name has 1 to 200 characters that can be printed, and no space before or after them"
_BAD_EXTERNAL_ID = (
    "an external id has 1 to 128 of A-Z a-z 0-9 . _ : @ / -, begins with a letter or digit, and does not look like the "
    "id of an account"
)
_NO_PLAN = "there is no plan {!r}; make it with: sepu plan set"
_OTHER_KEY = "the external id {!r} is that of another key of this account"
_NO_ACCOUNT = "there is no account {!r}"
_CLOSED = "there is no account {!r}, or it was erased"
_NO_LIMIT = "plan {!r} has no limit for the meter {}; give it one with: sepu plan set"


class AccountError(SepuError):
    """The request names something that does not exist or is not allowed; the message says what."""


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key. `api_key` is shown to its owner once and stored nowhere."""

    account_id: str
    key_id: str
    issued_at: datetime
    expires_at: datetime | None
    api_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A change of what an account may use: of its plan, or of a limit of its plan."""

    at: datetime
    meter: str | None
    """None if it is the plan that changed, and REQUESTS_PER_MINUTE if the abuse limit."""
    before: str | int
    after: str | int


@dataclass(frozen=True, slots=True)
class AccountUsage:
    """An account's state, and its usage of each meter in one period."""

    account_id: str
    external_id: str | None
    name: str | None
    status: str
    plan_id: str
    usage: tuple[Usage, ...]
    changes: tuple[PlanChange, ...] = ()
    """Of its plan and limits within the period, if they were asked for."""


@dataclass(frozen=True, slots=True)
class Account:
    """An account, its plan's limits, and what it used this month, both by meter."""

    account_id: str
    external_id: str | None
    name: str | None
    status: str
    created_at: datetime
    plan_id: str
    limits: Mapping[str, int]
    requests_per_minute: int
    committed: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan's limits, by meter, and how many accounts are on it."""

    plan_id: str
    limits: Mapping[str, int]
    requests_per_minute: int
    thresholds: Sequence[int]
    """Percentages of the limits; a charge that crosses one is an event."""
    accounts: int


@dataclass(frozen=True, slots=True)
class ListedKey:
    """A key as the operator may know it. `state` is valid, expired or revoked."""

    key_id: str
    external_id: str | None
    name: str | None
    state: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_on: date | None
    """The day, in UTC, of its latest request that was not refused for its key or account."""


def set_plan(
    connection: psycopg.Connection, plan_id: str, *, requests_per_minute: int | None = None, **limits: int | None
) -> None:
    """Creates or changes a plan; its accounts feel it with their next request.

    `limits` has a limit for a meter, such as `match_limit`. What is not given, or None, stays as it is. The limits of
    before are kept as history.

    Raises:
        AccountError: the plan is new and not all is given, or the plan's name or a limit is out of bounds.
        TypeError: there is no meter for a limit.
    """
    meters = {meter.limit: meter.name for meter in METERS.values()}
    if not limits.keys() <= meters.keys():
        raise TypeError(f"a plan has the limits {', '.join(sorted(meters))}, not {', '.join(sorted(limits))}")
    try:
        with connection.transaction():
            known = run(connection, "lock_plan", plan_id=plan_id).fetchone()
            per_minute = requests_per_minute if requests_per_minute is not None or known is None else known[0]
            missing = [limit for limit in meters if limits.get(limit) is None] if known is None else []
            if missing or per_minute is None:
                names = [*missing, *(["requests_per_minute"] if per_minute is None else [])]
                options = ", ".join(f"--{name.replace('_', '-')}" for name in names)
                raise AccountError(f"there is no plan {plan_id!r} yet; a new one needs {options} too")
            run(connection, "record_rate_change", plan_id=plan_id, requests_per_minute=per_minute)
            run(connection, "set_plan", plan_id=plan_id, requests_per_minute=per_minute)
            for limit, meter in meters.items():
                if (units := limits.get(limit)) is not None:
                    run(connection, "record_plan_change", plan_id=plan_id, meter=meter, units=units)
                    run(connection, "set_plan_limit", plan_id=plan_id, meter=meter, units=units)
    except psycopg.errors.CheckViolation as error:
        raise AccountError(
            f"plan {plan_id!r}: the name has 1 to 64 of a-z 0-9 _ -, limits are 0 or more, "
            "requests per minute 1 or more"
        ) from error
    except psycopg.errors.NumericValueOutOfRange as error:
        raise AccountError("a limit is larger than 2147483647") from error


def set_thresholds(connection: psycopg.Connection, plan_id: str, thresholds: Iterable[int]) -> None:
    """Says at which percentages of a plan's limits events are recorded, from the next charge on.

    Raises:
        AccountError: no such plan, or a threshold is out of bounds.
    """
    given = sorted(set(thresholds))
    try:
        if run(connection, "set_plan_thresholds", plan_id=plan_id, thresholds=given).rowcount == 0:
            raise AccountError(_NO_PLAN.format(plan_id))
    except (psycopg.errors.CheckViolation, psycopg.errors.NumericValueOutOfRange) as error:
        raise AccountError("a threshold is a percentage of a limit, from 1 to 100") from error


def list_plans(connection: psycopg.Connection) -> list[Plan]:
    """Gives all plans in the order of their names.

    Raises:
        AccountError: a plan has no limit for a meter.
    """
    return [_plan(row) for row in run(connection, "list_plans", plan_id=None).fetchall()]


def show_plan(connection: psycopg.Connection, plan_id: str) -> Plan:
    """Gives one plan.

    Raises:
        AccountError: no such plan, or it has no limit for a meter.
    """
    row = run(connection, "list_plans", plan_id=plan_id).fetchone()
    if row is None:
        raise AccountError(_NO_PLAN.format(plan_id))
    return _plan(row)


def create_account(
    connection: psycopg.Connection, plan_id: str, name: str | None = None, external_id: str | None = None
) -> IssuedKey:
    """Makes an account with its first key.

    Raises:
        AccountError: no such plan, or the name or the external id has another form or is another account's.
    """
    account_id = keys.new_account_id()
    try:
        with connection.transaction(), _naming(name):
            _claim(connection, account_id, external_id)
            names = {"name": name or None, "external_id": external_id or None}
            run(connection, "create_account", account_id=account_id, plan_id=plan_id, **names)
            return issue_key(connection, account_id)
    except psycopg.errors.ForeignKeyViolation as error:
        raise AccountError(_NO_PLAN.format(plan_id)) from error


def find_account(connection: psycopg.Connection, given: str) -> str:
    """Gives the id of the account that has this id or external id.

    Raises:
        AccountError: no such account.
    """
    row = run(connection, "find_account", given=given).fetchone()
    if row is None:
        raise AccountError(_NO_ACCOUNT.format(given))
    return str(row[0])


def lock_account(connection: psycopg.Connection, account_id: str) -> str:
    """Lets nobody else change the account until the transaction ends, and gives its plan.

    Raises:
        AccountError: no such account, or it was erased.
    """
    row = run(connection, "lock_account", account_id=account_id).fetchone()
    if row is None:
        raise AccountError(_CLOSED.format(account_id))
    return str(row[0])


def name_account(
    connection: psycopg.Connection, account_id: str, name: str | None = None, external_id: str | None = None
) -> None:
    """Changes what operators call an account. None leaves a name as it is, and an empty one takes it away.

    Raises:
        AccountError: no such account, it was erased, or the name or the external id has another form or is another
            account's.
    """
    with connection.transaction(), _naming(name):
        lock_account(connection, account_id)
        _claim(connection, account_id, external_id)
        run(connection, "set_account_names", account_id=account_id, name=name, external_id=external_id)


def _claim(connection: psycopg.Connection, account_id: str, external_id: str | None) -> None:
    """Makes sure that no other account has the external id, until the transaction ends."""
    if external_id:
        run(connection, "lock_external_ids")
        holder = run(connection, "find_account", given=external_id).fetchone()
        if holder is not None and holder[0] not in (account_id, external_id):
            raise AccountError(f"the external id {external_id!r} is that of account {holder[0]}")


@contextmanager
def _naming(name: str | None) -> Iterator[None]:
    """Says what is wrong with a name or an external id."""
    if name and not name.isprintable():  # it is shown on terminals
        raise AccountError(_BAD_NAME)
    try:
        yield
    except psycopg.errors.CheckViolation as error:
        about_name = (error.diag.constraint_name or "").endswith("_name_form")
        raise AccountError(_BAD_NAME if about_name else _BAD_EXTERNAL_ID) from error


def lock_first_account(connection: psycopg.Connection) -> bool:
    """Tells whether this transaction may make the first account; another one may be about to."""
    return bool(value(connection, "lock_first_account"))


def oldest_account(connection: psycopg.Connection) -> str | None:
    """Gives the account that was made first, if there is any."""
    row = run(connection, "oldest_account").fetchone()
    return None if row is None else row[0]


def show_account(connection: psycopg.Connection, account_id: str) -> Account:
    """Gives one account.

    Raises:
        AccountError: no such account.
    """
    for account in list_accounts(connection, account_id=account_id):
        return account
    raise AccountError(_NO_ACCOUNT.format(account_id))


def list_accounts(
    connection: psycopg.Connection,
    *,
    account_id: str | None = None,
    plan_id: str | None = None,
    status: str | None = None,
    search: str | None = None,
    after: str = "",
    page_size: int = _PAGE,
) -> Iterator[Account]:
    """Gives the accounts that pass all filters in the order of their ids, those after a given one.

    `search` is a part of the id, the external id or the name. Each page is a statement, so an account that is made
    meanwhile may be among them.
    """
    filters = {"account_id": account_id, "plan_id": plan_id, "status": status, "search": search}
    while page := run(connection, "list_accounts", after=after, limit=page_size, **filters).fetchall():
        yield from map(_account, page)
        after = page[-1][0]


def set_status(connection: psycopg.Connection, account_id: str, status: str) -> None:
    """Makes an account `active` or `suspended`.

    Raises:
        AccountError: no such account, or it was erased.
    """
    with connection.transaction():
        lock_account(connection, account_id)
        run(connection, "set_account_status", account_id=account_id, status=status)


def move_account(connection: psycopg.Connection, account_id: str, plan_id: str) -> None:
    """Puts an account on another plan, whose limits count from its next request on.

    Raises:
        AccountError: no such account, it was erased, or no such plan.
    """
    try:
        with connection.transaction():
            before = lock_account(connection, account_id)
            if before != plan_id:
                run(connection, "move_account", account_id=account_id, plan_id=plan_id)
                run(connection, "record_account_move", account_id=account_id, from_plan=before, to_plan=plan_id)
    except psycopg.errors.ForeignKeyViolation as error:
        raise AccountError(_NO_PLAN.format(plan_id)) from error


def issue_key(
    connection: psycopg.Connection,
    account_id: str,
    expires_at: datetime | None = None,
    name: str | None = None,
    external_id: str | None = None,
) -> IssuedKey:
    """Makes one more key for the account; its other keys stay as they are.

    Raises:
        AccountError: no such account, it was erased, or the name or the external id has another form or is another
            key's.
    """
    key = keys.new_key(account_id)
    credential = keys.credential(key)
    if credential is None:
        raise AccountError(_NO_ACCOUNT.format(account_id))
    key_id = keys.new_key_id(account_id)
    try:
        with connection.transaction(), _naming(name):
            lock_account(connection, account_id)
            issued_at = value(
                connection,
                "issue_key",
                account_id=account_id,
                key_hash=credential.key_hash,
                key_id=key_id,
                expires_at=expires_at,
                name=name or None,
                external_id=external_id or None,
            )
    except psycopg.errors.UniqueViolation as error:
        raise AccountError(_OTHER_KEY.format(external_id)) from error
    return IssuedKey(account_id, key_id, issued_at, expires_at, key)


def list_keys(connection: psycopg.Connection, account_id: str) -> list[ListedKey]:
    """Gives the account's keys, the oldest first.

    Raises:
        AccountError: no such account.
    """
    account_id = find_account(connection, account_id)
    return [ListedKey(*row) for row in run(connection, "list_keys", account_id=account_id).fetchall()]


def name_key(
    connection: psycopg.Connection, key_id: str, name: str | None = None, external_id: str | None = None
) -> ListedKey:
    """Changes what operators call a key, and gives it. None leaves a name as it is, and an empty one takes it away.

    Raises:
        AccountError: no such key, or the name or the external id has another form or is another key's of the account.
    """
    account_id = keys.account_of(key_id)
    named = {"account_id": account_id, "key_id": key_id, "name": name, "external_id": external_id}
    try:
        with connection.transaction(), _naming(name):
            if account_id is None or run(connection, "set_key_names", **named).rowcount == 0:
                raise AccountError(f"there is no key {key_id!r}")
            return next(key for key in list_keys(connection, account_id) if key.key_id == key_id)
    except psycopg.errors.UniqueViolation as error:
        raise AccountError(_OTHER_KEY.format(external_id)) from error


def revoke_key(connection: psycopg.Connection, key_id: str) -> None:
    """Revokes a key; revoking it again changes nothing.

    Raises:
        AccountError: no such key.
    """
    account_id = keys.account_of(key_id)
    if run(connection, "revoke_key", account_id=account_id, key_id=key_id).rowcount == 0:
        raise AccountError(f"there is no key {key_id!r}")


def show_usage(connection: psycopg.Connection, account_id: str) -> AccountUsage:
    """Gives the account and its usage of the current period, whatever its status.

    Raises:
        AccountError: no such account.
    """
    rows = run(connection, "show_usage", account_id=account_id).fetchall()
    if not rows:
        raise AccountError(_NO_ACCOUNT.format(account_id))
    external_id, name, status, plan_id, period, *_ = rows[0]
    return account_usage((account_id, external_id, name, status, plan_id), period, [row[5:] for row in rows])


def account_usage(
    account: tuple[str, str | None, str | None, str, str],
    period: str,
    rows: Iterable[tuple[Any, ...]],
    changes: tuple[PlanChange, ...] = (),
) -> AccountUsage:
    """Reads an account's rows of meter, limit, committed and reserved.

    Raises:
        AccountError: the plan has no limit for a meter.
    """
    try:
        return AccountUsage(*account, usages(period, rows), changes)
    except KeyError as missing:
        raise AccountError(_NO_LIMIT.format(account[-1], missing)) from missing


def _account(row: tuple[Any, ...]) -> Account:
    account = Account(*row)
    _check_limits(account.plan_id, account.limits)
    return account


def _plan(row: tuple[Any, ...]) -> Plan:
    plan = Plan(*row)
    _check_limits(plan.plan_id, plan.limits)
    return plan


def _check_limits(plan_id: str, limits: Mapping[str, int]) -> None:
    for meter in METERS:
        if meter not in limits:
            raise AccountError(_NO_LIMIT.format(plan_id, repr(meter)))
