"""What the operator does to accounts, plans and keys. One short transaction each."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

import psycopg

from sepu.errors import SepuError
from sepu.metering import keys, scripts
from sepu.metering.commands import METERS, Usage

_PAGE = 5000
_NO_PLAN = "there is no plan {!r}; make it with: sepu plan set"


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
    """An account's state and both meters in the current period."""

    account_id: str
    status: str
    plan_id: str
    usage: tuple[Usage, Usage]


@dataclass(frozen=True, slots=True)
class Account:
    """An account and its plan's limits."""

    account_id: str
    status: str
    created_at: datetime
    plan_id: str
    match_limit: int
    search_limit: int
    requests_per_minute: int


@dataclass(frozen=True, slots=True)
class ListedKey:
    """A key as the operator may know it. `state` is valid, expired or revoked."""

    key_id: str
    state: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


def set_plan(
    connection: psycopg.Connection,
    plan_id: str,
    *,
    match_limit: int,
    search_limit: int,
    requests_per_minute: int,
) -> None:
    """Creates or changes a plan; its accounts feel it with their next request.

    Raises:
        AccountError: the plan's name or a limit is out of bounds.
    """
    try:
        connection.execute(
            scripts.statement("set_plan"),
            {
                "plan_id": plan_id,
                "match_limit": match_limit,
                "search_limit": search_limit,
                "requests_per_minute": requests_per_minute,
            },
        )
    except psycopg.errors.CheckViolation as error:
        raise AccountError(
            f"plan {plan_id!r}: the name has 1 to 64 of a-z 0-9 _ -, limits are 0 or more, "
            "requests per minute 1 or more"
        ) from error
    except psycopg.errors.NumericValueOutOfRange as error:
        raise AccountError("a limit is larger than 2147483647") from error


def create_account(connection: psycopg.Connection, plan_id: str) -> IssuedKey:
    """A new account with its first key.

    Raises:
        AccountError: no such plan.
    """
    account_id = keys.new_account_id()
    try:
        with connection.transaction():
            connection.execute(scripts.statement("create_account"), {"account_id": account_id, "plan_id": plan_id})
            return issue_key(connection, account_id)
    except psycopg.errors.ForeignKeyViolation as error:
        raise AccountError(_NO_PLAN.format(plan_id)) from error


def lock_first_account(connection: psycopg.Connection) -> bool:
    """Whether this transaction may make the first account if there is none; another one may be about to."""
    ((locked,),) = connection.execute(scripts.statement("lock_first_account")).fetchall()
    return bool(locked)


def oldest_account(connection: psycopg.Connection) -> str | None:
    """The account that was made first, if any exists."""
    row = connection.execute(scripts.statement("oldest_account")).fetchone()
    return None if row is None else row[0]


def show_account(connection: psycopg.Connection, account_id: str) -> Account:
    """One account.

    Raises:
        AccountError: no such account.
    """
    row = connection.execute(scripts.statement("show_account"), {"account_id": account_id}).fetchone()
    if row is None:
        raise AccountError(f"there is no account {account_id!r}")
    return Account(*row)


def list_accounts(connection: psycopg.Connection) -> Iterator[Account]:
    """All accounts in the order of their ids, a page a statement: those that are made meanwhile may be among them."""
    after = ""
    while page := connection.execute(scripts.statement("list_accounts"), {"after": after, "limit": _PAGE}).fetchall():
        yield from (Account(*row) for row in page)
        after = page[-1][0]


def set_status(connection: psycopg.Connection, account_id: str, status: str) -> None:
    """Makes an account `active` or `suspended`.

    Raises:
        AccountError: no such account.
    """
    cursor = connection.execute(scripts.statement("set_account_status"), {"account_id": account_id, "status": status})
    if cursor.rowcount == 0:
        raise AccountError(f"there is no account {account_id!r}")


def move_account(connection: psycopg.Connection, account_id: str, plan_id: str) -> None:
    """Puts an account on another plan, whose limits count from its next request on.

    Raises:
        AccountError: no such account, or no such plan.
    """
    try:
        cursor = connection.execute(scripts.statement("move_account"), {"account_id": account_id, "plan_id": plan_id})
    except psycopg.errors.ForeignKeyViolation as error:
        raise AccountError(_NO_PLAN.format(plan_id)) from error
    if cursor.rowcount == 0:
        raise AccountError(f"there is no account {account_id!r}")


def issue_key(connection: psycopg.Connection, account_id: str, expires_at: datetime | None = None) -> IssuedKey:
    """One more key for the account; its other keys stay as they are.

    Raises:
        AccountError: no such account.
    """
    key = keys.new_key(account_id)
    credential = keys.credential(key)
    if credential is None:
        raise AccountError(f"there is no account {account_id!r}")
    key_id = keys.new_key_id(account_id)
    try:
        ((issued_at,),) = connection.execute(
            scripts.statement("issue_key"),
            {
                "account_id": account_id,
                "key_hash": credential.key_hash,
                "key_id": key_id,
                "expires_at": expires_at,
            },
        ).fetchall()
    except psycopg.errors.ForeignKeyViolation as error:
        raise AccountError(f"there is no account {account_id!r}") from error
    return IssuedKey(account_id, key_id, issued_at, expires_at, key)


def list_keys(connection: psycopg.Connection, account_id: str) -> list[ListedKey]:
    """The account's keys, the oldest first.

    Raises:
        AccountError: no such account.
    """
    show_account(connection, account_id)
    rows = connection.execute(scripts.statement("list_keys"), {"account_id": account_id}).fetchall()
    return [ListedKey(*row) for row in rows]


def revoke_key(connection: psycopg.Connection, key_id: str) -> None:
    """Revokes a key; revoking it again changes nothing.

    Raises:
        AccountError: no such key.
    """
    account_id = keys.account_of(key_id)
    cursor = connection.execute(scripts.statement("revoke_key"), {"account_id": account_id, "key_id": key_id})
    if cursor.rowcount == 0:
        raise AccountError(f"there is no key {key_id!r}")


def show_usage(connection: psycopg.Connection, account_id: str) -> AccountUsage:
    """The account as the operator sees it, whatever its status.

    Raises:
        AccountError: no such account.
    """
    row = connection.execute(scripts.statement("show_usage"), {"account_id": account_id}).fetchone()
    if row is None:
        raise AccountError(f"there is no account {account_id!r}")
    status, plan_id, period, *meters = row
    usage = (Usage(period, METERS[0], *meters[:3]), Usage(period, METERS[1], *meters[3:]))
    return AccountUsage(account_id, status, plan_id, usage)
