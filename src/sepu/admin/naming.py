"""Finds accounts, and checks the names and ids that operators give to accounts and keys."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Literal

import psycopg

from sepu.admin.history import Made
from sepu.database.statements import run
from sepu.errors import SepuError
from sepu.metering.key_format import account_of, is_account_id

_BAD_NAME = "a name has 1 to 200 characters that can be printed, and no space before or after them"
_BAD_EXTERNAL_ID = (
    "an external id has 1 to 128 of A-Z a-z 0-9 . _ : @ / -, begins with a letter or digit, and does not look like the "
    "id of an account"
)


class AccountError(SepuError):
    """The request names something that does not exist or is not allowed; the message says what."""


def find_account(connection: psycopg.Connection, given: str) -> str:
    """Returns the id of the account that has this id or external id, or a key of this id.

    Raises:
        AccountError: no such account.
    """
    if is_account_id(given):  # no external id has this form
        row = run(connection, "find_account", account_id=given).fetchone()
    else:
        row = None
        if (owner := account_of(given)) is not None:
            row = run(connection, "find_key_account", account_id=owner, key_id=given).fetchone()
        # Last: on Citus it needs every worker.
        row = row or run(connection, "find_external_id", external_id=given).fetchone()
    if row is None:
        raise AccountError(f"there is no account {given!r}")
    return str(row[0])


def check_made(made: Made, account_id: str, external_id: str | None = None) -> None:
    """Makes sure that a change to an account or its keys was made.

    Raises:
        AccountError: no such account, it was erased, or another account has the external id.
    """
    if made.outcome == "taken":
        raise AccountError(f"the external id {external_id!r} is that of account {made.holder}")
    if made.outcome == "missing":
        raise AccountError(f"there is no account {account_id!r}, or it was erased")


def new_values(
    name: str | None, external_id: str | None, expires_at: datetime | Literal[""] | None
) -> dict[str, object]:
    """Returns new values as `make_change` takes them. None leaves a value, "" removes it."""
    given = {"name": name, "externalId": external_id, "expiresAt": expires_at}
    return {which: new or None for which, new in given.items() if new is not None}


@contextmanager
def naming(name: str | None, external_id: str | None) -> Iterator[None]:
    """Says what is wrong with a name or an external id that the block stores.

    Raises:
        AccountError: one is malformed, or another key of the account has the external id.
    """
    if name and not name.isprintable():  # it is shown on terminals
        raise AccountError(_BAD_NAME)
    try:
        yield
    except psycopg.errors.CheckViolation as error:
        about_name = error.diag.constraint_name == "name_form"
        raise AccountError(_BAD_NAME if about_name else _BAD_EXTERNAL_ID) from error
    except psycopg.errors.UniqueViolation as error:
        raise AccountError(f"the external id {external_id!r} is that of another key of this account") from error
