"""The accounts of customers: made, named, listed, moved to another plan, suspended."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import psycopg

from sepu.admin.history import recording
from sepu.admin.keys import IssuedKey, issue_key
from sepu.admin.naming import AccountError, claim_external_id, lock_account, naming
from sepu.admin.plans import check_limits, no_plan
from sepu.database.statements import run, value
from sepu.metering.key_format import account_of, new_account_id

STATUSES = ("active", "suspended", "expired", "erased")
_PAGE = 5000


@dataclass(frozen=True, slots=True)
class Account:
    """An account, its limits (its plan's, with what was granted this month), and what it used, both by meter."""

    account_id: str
    external_id: str | None
    name: str | None
    status: str
    """One of `STATUSES`."""
    created_at: datetime
    expires_at: datetime | None
    plan_id: str
    limits: Mapping[str, int]
    requests_per_minute: int
    committed: Mapping[str, int]


def create_account(
    connection: psycopg.Connection,
    plan_id: str,
    name: str | None = None,
    external_id: str | None = None,
    expires_at: datetime | None = None,
) -> IssuedKey:
    """Makes an account with its first key. From `expires_at` on it is as if it were suspended.

    Raises:
        AccountError: no such plan, or the name or the external id has another form or is another account's.
    """
    account_id = new_account_id()
    try:
        with connection.transaction(), naming(name, external_id):
            with recording(connection, "account.create", account_id):
                claim_external_id(connection, account_id, external_id)
                given = {"name": name or None, "external_id": external_id or None, "expires_at": expires_at}
                run(connection, "create_account", account_id=account_id, plan_id=plan_id, **given)
            return issue_key(connection, account_id)
    except psycopg.errors.ForeignKeyViolation as error:
        raise no_plan(plan_id) from error


def change_account(
    connection: psycopg.Connection,
    account_id: str,
    name: str | None = None,
    external_id: str | None = None,
    expires_at: datetime | Literal[""] | None = None,
) -> None:
    """Changes what operators call an account and when it expires. None leaves a value, "" takes it away.

    Raises:
        AccountError: no such account, it was erased, or the name or the external id has another form or is another
            account's.
    """
    with recording(connection, "account.set", account_id), naming(name, external_id):
        lock_account(connection, account_id)
        claim_external_id(connection, account_id, external_id)
        run(connection, "set_account_names", account_id=account_id, name=name, external_id=external_id)
        if expires_at is not None:
            run(connection, "set_account_expiry", account_id=account_id, expires_at=expires_at or None)


def lock_first_account(connection: psycopg.Connection) -> bool:
    """Returns whether this transaction may make the first account; another one may be about to."""
    return bool(value(connection, "lock_first_account"))


def oldest_account(connection: psycopg.Connection) -> str | None:
    """Returns the account that was made first, if there is any."""
    row = run(connection, "oldest_account").fetchone()
    return None if row is None else row[0]


def show_account(connection: psycopg.Connection, account_id: str) -> Account:
    """Returns one account.

    Raises:
        AccountError: no such account.
    """
    for account in list_accounts(connection, account_id=account_id):
        return account
    raise AccountError(f"there is no account {account_id!r}")


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
    """Returns the accounts that pass all filters in the order of their ids, those after a given one.

    `search` is a part of the id, the external id or the name, or the id of a key. Each page is a statement, so an
    account that is made meanwhile may be among them.
    """
    if search is not None:
        search = account_of(search) or search
    filters = {"account_id": account_id, "plan_id": plan_id, "status": status, "search": search}
    while page := run(connection, "list_accounts", after=after, limit=page_size, **filters).fetchall():
        yield from map(_account, page)
        after = page[-1][0]


def set_status(connection: psycopg.Connection, account_id: str, status: str) -> None:
    """Makes an account `active` or `suspended`.

    Raises:
        AccountError: no such account, or it was erased.
    """
    with recording(connection, "account.reactivate" if status == "active" else "account.suspend", account_id):
        lock_account(connection, account_id)
        run(connection, "set_account_status", account_id=account_id, status=status)


def move_account(connection: psycopg.Connection, account_id: str, plan_id: str) -> None:
    """Puts an account on another plan, whose limits count from its next request on.

    Raises:
        AccountError: no such account, it was erased, or no such plan.
    """
    try:
        with recording(connection, "account.move", account_id):
            lock_account(connection, account_id)
            run(connection, "move_account", account_id=account_id, plan_id=plan_id)
    except psycopg.errors.ForeignKeyViolation as error:
        raise no_plan(plan_id) from error


def _account(row: tuple[Any, ...]) -> Account:
    account = Account(*row)
    check_limits(account.plan_id, account.limits)
    return account
