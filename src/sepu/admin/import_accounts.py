"""Makes many accounts from a list; a repetition makes only those that are missing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import psycopg
from joserfc.jwk import RSAKey

from sepu.admin.accounts import Account, create_account, create_sealed_account, show_account
from sepu.admin.keys import IssuedKey
from sepu.admin.naming import AccountError
from sepu.admin.rotation import Rotation
from sepu.database.statements import run

Column = Literal["name", "plan_id", "expires_at"]
Outcome = Literal["made", "exists", "differs"]


@dataclass(frozen=True, slots=True)
class WantedAccount:
    """An account that a list asks for. `line` is its place in the list."""

    line: int
    external_id: str
    plan_id: str
    name: str | None = None
    expires_at: datetime | None = None
    public_key: RSAKey | None = None
    """The customer's: the first key is then a receipt."""


@dataclass(frozen=True, slots=True)
class ImportedAccount:
    """What became of an account of a list."""

    line: int
    external_id: str
    account_id: str | None
    """None if it would be made."""
    outcome: Outcome
    difference: str | None = None
    """What differs: the value here, and the one in the list."""


NewKey = tuple[str, IssuedKey | Rotation]
"""An account's id and its first key, plain or as a receipt."""


def import_accounts(
    connection: psycopg.Connection,
    wanted: Sequence[WantedAccount],
    compared: Sequence[Column],
    keep: Callable[[WantedAccount, NewKey], None],
    *,
    dry_run: bool = False,
) -> Iterator[ImportedAccount]:
    """Makes the accounts that do not exist, each in a transaction of its own; leaves the others as they are.

    An account is known by its external id, and differs if one of the `compared` columns does. `keep` stores a new
    account's key, before the account is committed: if that fails, there is no account. A dry run makes none.

    Raises:
        AccountError: an account of the list cannot be made; those before it were.
    """
    names = [each.external_id for each in wanted]
    existing: dict[str, str] = dict(run(connection, "find_external_ids", external_ids=names).fetchall())
    for each in wanted:
        if (found := existing.get(each.external_id)) is not None:
            difference = _difference(show_account(connection, found), each, compared)
            outcome: Outcome = "differs" if difference else "exists"
            yield ImportedAccount(each.line, each.external_id, found, outcome, difference)
            continue
        try:
            with connection.transaction(force_rollback=dry_run):
                made = _make(connection, each)
                if not dry_run:
                    keep(each, made)
        except AccountError as error:
            raise AccountError(f"line {each.line}: {error}") from error
        yield ImportedAccount(each.line, each.external_id, None if dry_run else made[0], "made")


def _make(connection: psycopg.Connection, each: WantedAccount) -> NewKey:
    given = (each.name, each.external_id, each.expires_at)
    if each.public_key is not None:
        return create_sealed_account(connection, each.plan_id, each.public_key, *given)
    issued = create_account(connection, each.plan_id, *given)
    return issued.account_id, issued


def _difference(found: Account, each: WantedAccount, compared: Sequence[Column]) -> str | None:
    pairs = ((column, getattr(found, column), getattr(each, column)) for column in compared)
    return "; ".join(f"{column} {here!s} here, {there!s} in the list" for column, here, there in pairs if here != there)
