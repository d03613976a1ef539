"""Key rotation by encrypted receipt: only the account's owner sees the new key."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg
from joserfc.jwk import RSAKey

from sepu.admin import receipts
from sepu.admin.history import recording
from sepu.admin.keys import ListedKey, list_keys, make_key
from sepu.admin.naming import AccountError, lock_account
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
    with recording(connection, "key.rotate", account_id) as keys:
        lock_account(connection, account_id)
        if replaced is not None and replaced not in keys:
            raise AccountError(f"there is no key {replaced!r}")
        made = run(connection, "read_receipt", account_id=account_id, rotation_id=stored_id).fetchone()
        if made is not None:
            made_for, key_id, receipt, issued_at, older_keys_expire_at, is_valid = made
            if made_for != thumbprint:
                raise AccountError(
                    f"rotation {rotation_id!r} was made for another public key, {made_for}", "rotate again"
                )
            if not is_valid:
                raise AccountError(
                    f"rotation {rotation_id!r} was made before, and its key {key_id} is revoked or expired",
                    "rotate again",
                )
            return Rotation(key_id, issued_at, older_keys_expire_at, repeated=True, receipt=receipt)

        old = keys.get(replaced or "", {})
        if old.get("externalId"):
            run(connection, "set_key_names", account_id=account_id, key_id=replaced, name=None, external_id="")
        issued = make_key(connection, account_id, expires_at, old.get("name"), old.get("externalId"))
        if issued.expires_at is not None and issued.expires_at <= issued.issued_at:
            raise AccountError("the new key would have expired already")
        made_at, ends_at = issued.issued_at.astimezone(UTC), issued.expires_at and issued.expires_at.astimezone(UTC)
        contents = receipts.Contents(account_id, issued.key_id, issued.api_key, made_at, ends_at)
        receipt = receipts.seal(contents, public_key)
        expire = made_at + grace  # in UTC: elsewhere a day may have 23 hours
        rotation = Rotation(issued.key_id, issued.issued_at, expire, repeated=False, receipt=receipt)
        which = {"account_id": account_id, "key_id": rotation.key_id}
        run(connection, "expire_other_keys", **which, replaced=replaced, expires_at=expire)
        run(
            connection,
            "record_receipt",
            **which,
            rotation_id=stored_id,
            thumbprint=thumbprint,
            receipt=rotation.receipt,
            older_keys_expire_at=expire,
            issued_at=rotation.issued_at,
        )
        return rotation


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
