"""Key rotation by encrypted receipt: only the account's owner sees the new key."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg
from joserfc.jwk import RSAKey

from sepu.admin import receipts
from sepu.admin.history import make_change
from sepu.admin.keys import ListedKey, key_values, list_keys, new_key
from sepu.admin.naming import AccountError, check_made
from sepu.admin.usage import read_now
from sepu.database.statements import run

_ROTATION_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rotation:
    """A rotation, made just now or before."""

    key_id: str
    issued_at: datetime
    older_keys_expire_at: datetime
    repeated: bool
    """It was made before; this call changed nothing."""
    receipt: str


def rotate_key(
    connection: psycopg.Connection,
    account_id: str,
    public_key: RSAKey,
    rotation_id: str,
    grace: timedelta,
    expires_at: datetime | None = None,
    *,
    replaced: str | None = None,
) -> Rotation:
    """Makes a key for the account, encrypted to its owner's public key; older keys expire after the grace period.

    With a key's id as `replaced`, only that key expires, and the new one takes over its name and external id. Repeating
    a rotation changes nothing and gives the same receipt; each replaced key has its own rotation ids. It is one
    transaction.

    Raises:
        AccountError: no such account or key, the account was erased, the rotation was made for another public key, its
            key is invalid, or an argument is out of bounds.
    """
    thumbprint = public_key.thumbprint()
    if not _ROTATION_ID.fullmatch(rotation_id):
        raise AccountError("a rotation id has 1 to 128 of A-Z a-z 0-9 . _ : -")
    stored_id = rotation_id if replaced is None else f"{replaced}:{rotation_id}"
    which = {"account_id": account_id, "rotation_id": stored_id}
    made = run(connection, "read_receipt", **which).fetchone()
    if made is None:
        with connection.transaction():
            key, credential = new_key(connection, account_id)
            made_at, ends_at = read_now(connection).astimezone(UTC), expires_at and expires_at.astimezone(UTC)
            if ends_at is not None and ends_at <= made_at:
                raise AccountError("the new key would have expired already")
            contents = receipts.Contents(account_id, credential.key_id, key, made_at, ends_at)
            rotation = Rotation(
                credential.key_id,
                made_at,
                made_at + grace,  # in UTC: elsewhere a day may have 23 hours
                repeated=False,
                receipt=receipts.seal(contents, public_key),
            )
            change = make_change(
                connection,
                "key.rotate",
                account_id,
                given={
                    **key_values(credential),
                    "expiresAt": expires_at,
                    "replaced": replaced,
                    "rotationId": stored_id,
                    "thumbprint": thumbprint,
                    "receipt": rotation.receipt,
                    "olderKeysExpireAt": rotation.older_keys_expire_at,
                },
            )
        if change.outcome == "missing" and replaced is not None and change.before:
            raise AccountError(f"there is no key {replaced!r}")
        check_made(change, account_id)
        if change.outcome == "done":
            return rotation
        made = run(connection, "read_receipt", **which).fetchone()  # another operator has just made it
        assert made is not None  # noqa: S101
    made_for, key_id, receipt, issued_at, older_keys_expire_at, is_valid = made
    if made_for != thumbprint:
        raise AccountError(f"rotation {rotation_id!r} was made for another public key, {made_for}", "rotate again")
    if not is_valid:
        raise AccountError(
            f"rotation {rotation_id!r} was made before, and its key {key_id} is revoked or expired", "rotate again"
        )
    return Rotation(key_id, issued_at, older_keys_expire_at, repeated=True, receipt=receipt)


def preview_rotation(
    connection: psycopg.Connection,
    account_id: str,
    public_key: RSAKey,
    rotation_id: str,
    grace: timedelta,
    expires_at: datetime | None = None,
    *,
    replaced: str | None = None,
) -> tuple[list[ListedKey], dict[str, ListedKey]]:
    """Returns the account's keys before, and by id after, a rotation that is rolled back.

    Raises:
        AccountError: as for `rotate_key`.
    """
    before = list_keys(connection, account_id)
    with connection.transaction(force_rollback=True):
        rotate_key(connection, account_id, public_key, rotation_id, grace, expires_at, replaced=replaced)
        return before, {key.key_id: key for key in list_keys(connection, account_id)}
