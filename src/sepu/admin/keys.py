"""Issues, lists, names, expires and revokes keys. `rotation.py` replaces them."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Literal

import psycopg

from sepu.admin.history import make_change
from sepu.admin.naming import AccountError, check_made, find_account, naming, new_values
from sepu.admin.usage import read_now
from sepu.database.statements import run, value
from sepu.metering import key_format
from sepu.metering.key_format import Credential

ENDING_DAYS = (7, 30)
"""How soon a key or an account ends of which metrics and the console warn, in days."""


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key. `api_key` is shown to its owner once and stored nowhere."""

    account_id: str
    key_id: str
    issued_at: datetime
    expires_at: datetime | None
    api_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ListedKey:
    """A key as operators see it. `state` is valid, expired or revoked."""

    key_id: str
    external_id: str | None
    name: str | None
    state: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_on: date | None
    """The day, in UTC, of its latest request that was not refused for its key or account."""
    account_name: str | None
    account_external_id: str | None
    account_expires_at: datetime | None


def issue_key(
    connection: psycopg.Connection,
    account_id: str,
    expires_at: datetime | None = None,
    name: str | None = None,
    external_id: str | None = None,
) -> IssuedKey:
    """Makes one more key for the account; its other keys stay as they are.

    Raises:
        AccountError: no such account, it was erased, the name or external id is malformed, or another key has the
            external id.
    """
    key, credential = new_key(connection, account_id)
    with connection.transaction(), naming(name, external_id):
        names = {"name": name or None, "externalId": external_id or None}
        given = {**key_values(credential), **names, "expiresAt": expires_at}
        check_made(make_change(connection, "key.issue", account_id, given=given), account_id)
        return IssuedKey(account_id, credential.key_id, read_now(connection), expires_at, key)


def new_key(connection: psycopg.Connection, account_id: str) -> tuple[str, Credential]:
    """Makes up a key for an account; nothing is stored.

    Raises:
        AccountError: no account has such an id.
    """
    tags = key_format.KeyTags(value(connection, "read_key_secret"))
    key = tags.new_key(account_id)
    credential = tags.credential(key)
    if credential is None:
        raise AccountError(f"there is no account {account_id!r}")
    return key, credential


def key_values(credential: Credential) -> dict[str, str]:
    """Returns what is stored of a key, as `make_change` takes it."""
    return {"keyHash": credential.key_hash.hex(), "keyId": credential.key_id}


def list_keys(
    connection: psycopg.Connection,
    account_id: str | None,
    key_id: str | None = None,
    *,
    ends_within: timedelta | None = None,
    limit: int | None = None,
    skip: int = 0,
) -> list[ListedKey]:
    """Returns the keys of an account, or of all, the oldest first; with `ends_within` those that end soon.

    A key ends with its account at the latest. Returns at most `limit` keys after the first `skip`.

    Raises:
        AccountError: no such account.
    """
    if account_id is not None:
        account_id = find_account(connection, account_id)
    given = {"account_id": account_id, "key_id": key_id, "ends_within": ends_within, "limit": limit, "skip": skip}
    return [ListedKey(*row) for row in run(connection, "list_keys", **given).fetchall()]


def count_ending(connection: psycopg.Connection, within: timedelta) -> tuple[int, int]:
    """Counts the valid keys and the active accounts that end within a time; a key ends with its account."""
    ((keys, accounts),) = run(connection, "count_ending", within=within).fetchall()
    return keys, accounts


def find_keys(connection: psycopg.Connection, text: str) -> tuple[list[ListedKey], int]:
    """Returns the keys that a text contains, and how many other strings in it have the form of a key.

    Those are mistyped, from another deployment, or of an erased account.
    """
    tags = key_format.KeyTags(value(connection, "read_key_secret"))
    named = key_format.keys_in(text)
    accounts = {key.key_id: key.account_id for key in map(tags.credential, named) if key is not None}
    found: list[ListedKey] = []
    for key_id, account_id in accounts.items():
        with suppress(AccountError):  # from a copy of this deployment, with the same secret
            found += list_keys(connection, account_id, key_id)
    return found, len(named) - len(found)


def change_key(
    connection: psycopg.Connection,
    key_id: str,
    name: str | None = None,
    external_id: str | None = None,
    expires_at: datetime | Literal[""] | None = None,
) -> ListedKey:
    """Changes a key's name, external id and expiry; returns it. None leaves a value, "" removes it.

    A revoked key stays revoked.

    Raises:
        AccountError: no such key, the name or external id is malformed, or another key has the external id.
    """
    with naming(name, external_id):
        account_id = _change(connection, "key.set", key_id, new_values(name, external_id, expires_at))
    return list_keys(connection, account_id, key_id)[0]


def revoke_key(connection: psycopg.Connection, key_id: str) -> None:
    """Revokes a key; revoking it again changes nothing.

    Raises:
        AccountError: no such key.
    """
    _change(connection, "key.revoke", key_id)


def _change(connection: psycopg.Connection, action: str, key_id: str, given: Mapping[str, object] | None = None) -> str:
    """Changes a key; returns its account."""
    account_id = key_format.account_of(key_id) or ""
    if make_change(connection, action, account_id, key_id, given).outcome == "missing":
        raise AccountError(f"there is no key {key_id!r}")
    return account_id
