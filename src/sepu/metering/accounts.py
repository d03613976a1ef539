"""What the operator does to accounts, plans and keys. One short transaction each."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg

from sepu.errors import SepuError
from sepu.metering import keys
from sepu.metering.meters import METERS, Usage, usages
from sepu.metering.scripts import run, value

_PAGE = 5000
_NO_PLAN = "there is no plan {!r}; make it with: sepu plan set"
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
class AccountUsage:
    """An account's state, and its usage of each meter in one period."""

    account_id: str
    status: str
    plan_id: str
    usage: tuple[Usage, ...]


@dataclass(frozen=True, slots=True)
class Account:
    """An account and its plan's limits, by meter."""

    account_id: str
    status: str
    created_at: datetime
    plan_id: str
    limits: Mapping[str, int]
    requests_per_minute: int


@dataclass(frozen=True, slots=True)
class ListedKey:
    """A key as the operator may know it. `state` is valid, expired or revoked."""

    key_id: str
    state: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


def set_plan(connection: psycopg.Connection, plan_id: str, *, requests_per_minute: int, **limits: int) -> None:
    """Creates or changes a plan; its accounts feel it with their next request.

    `limits` has a limit for each meter, such as `match_limit`.

    Raises:
        AccountError: the plan's name or a limit is out of bounds.
        TypeError: a meter has no limit, or a limit no meter.
    """
    if limits.keys() != (names := {meter.limit for meter in METERS.values()}):
        raise TypeError(f"a plan has the limits {', '.join(sorted(names))}, not {', '.join(sorted(limits))}")
    try:
        with connection.transaction():
            run(connection, "set_plan", plan_id=plan_id, requests_per_minute=requests_per_minute)
            for meter in METERS.values():
                run(connection, "set_plan_limit", plan_id=plan_id, meter=meter.name, units=limits[meter.limit])
    except psycopg.errors.CheckViolation as error:
        raise AccountError(
            f"plan {plan_id!r}: the name has 1 to 64 of a-z 0-9 _ -, limits are 0 or more, "
            "requests per minute 1 or more"
        ) from error
    except psycopg.errors.NumericValueOutOfRange as error:
        raise AccountError("a limit is larger than 2147483647") from error


def create_account(connection: psycopg.Connection, plan_id: str) -> IssuedKey:
    """Makes an account with its first key.

    Raises:
        AccountError: no such plan.
    """
    account_id = keys.new_account_id()
    try:
        with connection.transaction():
            run(connection, "create_account", account_id=account_id, plan_id=plan_id)
            return issue_key(connection, account_id)
    except psycopg.errors.ForeignKeyViolation as error:
        raise AccountError(_NO_PLAN.format(plan_id)) from error


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
    row = run(connection, "show_account", account_id=account_id).fetchone()
    if row is None:
        raise AccountError(f"there is no account {account_id!r}")
    return _account(row)


def list_accounts(connection: psycopg.Connection) -> Iterator[Account]:
    """Gives all accounts in the order of their ids.

    Each page is a statement, so an account that is made meanwhile may be among them.
    """
    after = ""
    while page := run(connection, "list_accounts", after=after, limit=_PAGE).fetchall():
        yield from map(_account, page)
        after = page[-1][0]


def set_status(connection: psycopg.Connection, account_id: str, status: str) -> None:
    """Makes an account `active` or `suspended`.

    Raises:
        AccountError: no such account.
    """
    if run(connection, "set_account_status", account_id=account_id, status=status).rowcount == 0:
        raise AccountError(f"there is no account {account_id!r}")


def move_account(connection: psycopg.Connection, account_id: str, plan_id: str) -> None:
    """Puts an account on another plan, whose limits count from its next request on.

    Raises:
        AccountError: no such account, or no such plan.
    """
    try:
        moved = run(connection, "move_account", account_id=account_id, plan_id=plan_id).rowcount
    except psycopg.errors.ForeignKeyViolation as error:
        raise AccountError(_NO_PLAN.format(plan_id)) from error
    if not moved:
        raise AccountError(f"there is no account {account_id!r}")


def issue_key(connection: psycopg.Connection, account_id: str, expires_at: datetime | None = None) -> IssuedKey:
    """Makes one more key for the account; its other keys stay as they are.

    Raises:
        AccountError: no such account.
    """
    key = keys.new_key(account_id)
    credential = keys.credential(key)
    if credential is None:
        raise AccountError(f"there is no account {account_id!r}")
    key_id = keys.new_key_id(account_id)
    try:
        key_hash = credential.key_hash
        issued_at = value(
            connection, "issue_key", account_id=account_id, key_hash=key_hash, key_id=key_id, expires_at=expires_at
        )
    except psycopg.errors.ForeignKeyViolation as error:
        raise AccountError(f"there is no account {account_id!r}") from error
    return IssuedKey(account_id, key_id, issued_at, expires_at, key)


def list_keys(connection: psycopg.Connection, account_id: str) -> list[ListedKey]:
    """Gives the account's keys, the oldest first.

    Raises:
        AccountError: no such account.
    """
    show_account(connection, account_id)
    return [ListedKey(*row) for row in run(connection, "list_keys", account_id=account_id).fetchall()]


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
        raise AccountError(f"there is no account {account_id!r}")
    status, plan_id, period, *_ = rows[0]
    return account_usage(account_id, status, plan_id, period, [row[3:] for row in rows])


def account_usage(
    account_id: str, status: str, plan_id: str, period: str, rows: Iterable[tuple[Any, ...]]
) -> AccountUsage:
    """Reads an account's rows of meter, limit, committed and reserved.

    Raises:
        AccountError: the plan has no limit for a meter.
    """
    try:
        return AccountUsage(account_id, status, plan_id, usages(period, rows))
    except KeyError as missing:
        raise AccountError(_NO_LIMIT.format(plan_id, missing)) from missing


def _account(row: tuple[Any, ...]) -> Account:
    *_, plan_id, limits, _ = row
    for meter in METERS:
        if meter not in limits:
            raise AccountError(_NO_LIMIT.format(plan_id, repr(meter)))
    return Account(*row)
