"""Makes, names, lists, moves and suspends customers' accounts."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal, LiteralString, TypedDict, Unpack

import psycopg
from joserfc.jwk import RSAKey
from psycopg import sql

from sepu.admin.charges import charged_account
from sepu.admin.history import make_change
from sepu.admin.keys import IssuedKey, issue_key
from sepu.admin.naming import AccountError, check_made, find_account, naming, new_values
from sepu.admin.plans import check_limits, no_plan
from sepu.admin.rotation import Rotation, rotate_key
from sepu.database.statements import run, statement, stream, value
from sepu.metering.key_format import account_of, new_account_id
from sepu.metering.meters import METERS

STATUSES = ("active", "suspended", "expired", "erased")
# Accounts that an error names, if a search finds several.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Account:
    """An account, its limits this month (the plan's plus grants), and its usage this month and last."""

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
    last_month: Mapping[str, int]
    last_used_on: date | None
    """The day, in UTC, of the latest use of any of its keys."""


class Filters(TypedDict, total=False):
    """Filters for a list of accounts; None passes all."""

    account_id: str | None
    plan_id: str | None
    status: str | None
    search: str | None
    """Part of the id, external id or name, or of a key's id; or a key's external id. See `resolve_search`."""
    ends_within: timedelta | None
    """It is active and ends within this time."""
    quiet: bool
    """It used something last month, and nothing this month."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The number of accounts, and their usage by meter this month and last."""

    accounts: int
    committed: Mapping[str, int]
    last_month: Mapping[str, int]


SORTS: dict[str, tuple[LiteralString, str]] = {
    "id": ("account_id", ""),
    "name": ("lower(name)", ""),
    "externalId": ("external_id", ""),
    "status": ("status", ""),
    "plan": ("plan_id", ""),
    "created": ("created_at", ""),
    "ends": ("expires_at", ""),
    "used": ("used_until", ""),
    **{meter.operation: ("used", name) for name, meter in METERS.items()},
    **{f"{meter.operation}-share": ("share", name) for name, meter in METERS.items()},
    **{f"{meter.operation}-change": ("change", name) for name, meter in METERS.items()},
}
"""Sort keys of accounts: a column of the statement, and its meter.

`used` is the last use. A meter has this month's units, their share of the limit, and their change since last month.
"""


def create_account(
    connection: psycopg.Connection,
    plan_id: str,
    name: str | None = None,
    external_id: str | None = None,
    expires_at: datetime | None = None,
) -> IssuedKey:
    """Makes an account with its first key. From `expires_at` on, it counts as suspended.

    Raises:
        AccountError: no such plan, the name or external id is malformed, or another account has the external id.
    """
    with _creating(connection, plan_id, name, external_id, expires_at) as account_id:
        return issue_key(connection, account_id)


def create_sealed_account(
    connection: psycopg.Connection,
    plan_id: str,
    public_key: RSAKey,
    name: str | None = None,
    external_id: str | None = None,
    expires_at: datetime | None = None,
) -> tuple[str, Rotation]:
    """Makes an account like `create_account`, with its first key encrypted to the customer's public key.

    Returns the account's id, and the receipt as the account's first rotation: rotating with the same public key
    returns it again.

    Raises:
        AccountError: as for `create_account`.
    """
    with _creating(connection, plan_id, name, external_id, expires_at) as account_id:
        return account_id, rotate_key(connection, account_id, public_key, public_key.thumbprint(), timedelta())


@contextmanager
def _creating(
    connection: psycopg.Connection,
    plan_id: str,
    name: str | None,
    external_id: str | None,
    expires_at: datetime | None,
) -> Iterator[str]:
    """Makes an account in one transaction with the block, which makes its first key; yields the account's id."""
    account_id = new_account_id()
    try:
        with connection.transaction(), naming(name, external_id):
            names = {"name": name or None, "externalId": external_id or None}
            given = {"planId": plan_id, "expiresAt": expires_at, **names}
            check_made(make_change(connection, "account.create", account_id, given=given), account_id, external_id)
            yield account_id
    except psycopg.errors.ForeignKeyViolation as error:
        raise no_plan(plan_id) from error


def change_account(
    connection: psycopg.Connection,
    account_id: str,
    name: str | None = None,
    external_id: str | None = None,
    expires_at: datetime | Literal[""] | None = None,
) -> None:
    """Changes an account's name, external id and expiry. None leaves a value, "" removes it.

    Raises:
        AccountError: no such account, it was erased, the name or external id is malformed, or another account has the
            external id.
    """
    given = new_values(name, external_id, expires_at)
    with naming(name, external_id):
        check_made(make_change(connection, "account.set", account_id, given=given), account_id, external_id)


def lock_first_account(connection: psycopg.Connection) -> bool:
    """Returns whether this transaction may make the first account; not if another is about to."""
    return bool(value(connection, "lock_first_account"))


def oldest_account(connection: psycopg.Connection) -> str | None:
    """Returns the account that was made first, if any."""
    row = run(connection, "oldest_account").fetchone()
    return None if row is None else row[0]


def show_account(connection: psycopg.Connection, account_id: str) -> Account:
    """Returns one account.

    Raises:
        AccountError: no such account.
    """
    found = list(list_accounts(connection, account_id=account_id))
    if not found:
        raise AccountError(f"there is no account {account_id!r}")
    return found[0]


def look_up(connection: psycopg.Connection, given: str) -> Account:
    """Returns the account with this id, external id or key's id, or the only one that a search finds.

    Raises:
        AccountError: there is none, or there are several.
    """
    try:
        return show_account(connection, find_account(connection, given))
    except AccountError:
        found = list(list_accounts(connection, **resolve_search(connection, given), limit=_NAMED + 1))
    if not found:
        raise AccountError(f"there is no account {given!r}")
    if len(found) > 1:
        named = ", ".join(f"{account.account_id} ({account.name or '-'})" for account in found[:_NAMED])
        more = ", …" if len(found) > _NAMED else ""
        raise AccountError(f"several accounts are like {given!r}: {named}{more}", "search accounts")
    return found[0]


def list_accounts(
    connection: psycopg.Connection,
    *,
    sort: str = "id",
    descending: bool = False,
    limit: int | None = None,
    skip: int = 0,
    **filters: Unpack[Filters],
) -> Generator[Account, None, None]:
    """Returns the accounts that pass all filters, sorted by one of `SORTS`; missing values come last.

    They are one snapshot, read as a stream: close the generator before the connection.
    """
    key, meter = SORTS[sort]
    direction = sql.SQL("desc" if descending else "asc")
    given = {**_parameters(connection, filters, meter), "limit": limit, "skip": skip}
    query = _composed("list_accounts", filters, key=sql.SQL(key), direction=direction)
    with closing(stream(connection, query, given)) as rows:
        for row in rows:
            account = Account(*row)
            check_limits(account.plan_id, account.limits)
            yield account


def resolve_search(connection: psycopg.Connection, search: str) -> Filters:
    """Returns the filters of a search: the account, if the text is the id of a key or a request.

    Finding a request reads all results: call this once for several statements.
    """
    account_id = account_of(search) or charged_account(connection, search)
    return {"search": search} if account_id is None else {"search": None, "account_id": account_id}


def sum_accounts(connection: psycopg.Connection, **filters: Unpack[Filters]) -> Sums:
    """Counts the accounts that pass all filters, and adds up what they used."""
    given = _parameters(connection, filters)
    every = not any(filters.values())
    (count,) = connection.execute(_composed("count_accounts", filters), given).fetchone() or (0,)
    rows = connection.execute(_composed("sum_accounts", filters), {**given, "every": every}).fetchall()
    return Sums(count, {meter: used for meter, used, _ in rows}, {meter: used for meter, _, used in rows})


def _parameters(connection: psycopg.Connection, filters: Filters, meter: str = "") -> dict[str, object]:
    """Returns the statements' parameters."""
    today: date = value(connection, "read_today")
    last = today.replace(day=1) - timedelta(days=1)
    every: dict[str, object] = dict.fromkeys(("account_id", "plan_id", "status", "search", "ends_within"))
    return {**every, **filters, "meter": meter, "this": f"{today:%Y-%m}", "last": f"{last:%Y-%m}"}


def _composed(name: str, filters: Filters, **parts: sql.SQL) -> sql.Composed:
    quiet = sql.SQL(statement("quiet_accounts") if filters.get("quiet") else "")
    return sql.SQL(statement(name)).format(
        matching=sql.SQL(statement("matching_accounts")).format(quiet=quiet), **parts
    )


def set_status(connection: psycopg.Connection, account_id: str, status: str) -> None:
    """Makes an account `active` or `suspended`.

    Raises:
        AccountError: no such account, or it was erased.
    """
    action = "account.reactivate" if status == "active" else "account.suspend"
    check_made(make_change(connection, action, account_id, given={"status": status}), account_id)


def move_account(connection: psycopg.Connection, account_id: str, plan_id: str) -> None:
    """Puts an account on another plan, whose limits apply from its next request on.

    Raises:
        AccountError: no such account, it was erased, or no such plan.
    """
    try:
        check_made(make_change(connection, "account.move", account_id, given={"planId": plan_id}), account_id)
    except psycopg.errors.ForeignKeyViolation as error:
        raise no_plan(plan_id) from error
