"""`sepu key`: API keys of accounts."""

import sys
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

import click
from psycopg import Connection

from sepu import limits
from sepu.admin import keys, receipts
from sepu.admin.naming import find_account
from sepu.admin.rotation import preview_rotation
from sepu.admin.rotation import rotate_key as rotated
from sepu.cli.accounts import naming_options, note_thumbprint, replace_unseen_key
from sepu.cli.command import example, group, json_option
from sepu.cli.decorators import REPEATABLE, prints_change, prints_rows, with_connection
from sepu.cli.files import first_bytes
from sepu.cli.output import (
    Fields,
    columns,
    echo,
    echo_json,
    echo_rows,
    instant,
    members,
    note,
    note_to_person,
    report_success_if_unprinted,
)
from sepu.cli.times import duration, ending, ending_or_none
from sepu.errors import SepuError
from sepu.metering.key_format import account_of


@group()
def key() -> None:
    """API keys of accounts."""


@key.command("issue", epilog=example("key issue cus_8812 --name 'web shop' --expires-at 2099-01-31T12:00:00Z"))
@click.argument("account_id", metavar="ACCOUNT")
@click.option(
    "--expires-at", type=ending, help="When it ends: a UTC day, which it includes, an instant, or 7d from now."
)
@naming_options
@prints_change(replace_unseen_key)
def issue_key(
    connection: Connection, account_id: str, expires_at: datetime | None, name: str | None, external_id: str | None
) -> Fields:
    """Make one more key. It is shown this once; the account's other keys stay as they are."""
    issued = keys.issue_key(connection, account_id, expires_at, name, external_id)
    note_to_person("all keys of an account share its limits; a staging system needs an account of its own")
    return {
        "accountId": issued.account_id,
        "keyId": issued.key_id,
        "apiKey": issued.api_key,
        "expiresAt": instant(issued.expires_at),
    }


@key.command("set", epilog=example("key set gfhi7crqxq5fijj3-tyjxpcyh --expires-at 7d"))
@click.argument("key_id", metavar="KEYID")
@click.option(
    "--expires-at",
    type=ending_or_none,
    help="When it ends: a UTC day, which it includes, an instant, or 7d from now; '' for never.",
)
@naming_options
@prints_change()
def change_key(
    connection: Connection,
    key_id: str,
    expires_at: datetime | Literal[""] | None,
    name: str | None,
    external_id: str | None,
) -> Fields:
    """Change a key's name, external id or end. Omitted values stay, and empty ones are removed."""
    changed = keys.change_key(connection, key_id, name, external_id, expires_at)
    if expires_at and changed.state == "revoked":
        note(f"{key_id} stays revoked: its end changes nothing. A new key: sepu key issue {account_of(key_id)}")
    return members(changed)


@key.command("rotate", epilog=example("key rotate cus_8812 --public-key sepu-public.jwk --grace 7d"))
@click.argument("given", metavar="ACCOUNT|KEYID")
@click.option(
    "--public-key", metavar="FILE", type=first_bytes, required=True, help="The customer's JWK; - reads standard input."
)
@click.option("--grace", type=duration, default="7d", show_default=True, help="How long older keys keep working.")
@click.option("--dry-run", is_flag=True, help="Only list the keys that would expire, and when.")
@click.option("--rotation-id", help="Names this rotation.  [default: the public key's thumbprint]")
@click.option(
    "--expires-at", type=ending, help="When the new key ends: a UTC day, which it includes, an instant, or 7d from now."
)
@json_option
@with_connection
def rotate_key(
    connection: Connection,
    given: str,
    public_key: bytes,
    grace: timedelta,
    dry_run: bool,
    rotation_id: str | None,
    expires_at: datetime | None,
    as_json: bool,
) -> None:
    """Make a new key and print the receipt that its owner opens: nobody else ever sees the key.

    The account's older keys expire after the grace period, if not before. With KEYID only that key expires, and the new
    one takes over its name and external id. Repeating a rotation, with the same public key and rotation id, changes
    nothing and prints the same receipt.
    """
    account_id = find_account(connection, given)
    replaced = None if account_of(given) is None else given
    to = receipts.public_key(public_key)
    thumbprint = to.thumbprint()
    rotation = thumbprint if rotation_id is None else rotation_id
    if dry_run:
        _preview(connection, account_id, to, rotation, grace, expires_at, replaced, as_json)
        return
    made = rotated(connection, account_id, to, rotation, grace, expires_at, replaced=replaced)
    done = {"accountId": account_id, "thumbprint": thumbprint, **members(made)}
    with report_success_if_unprinted(done, f"{REPEATABLE}, and prints the same receipt"):
        if as_json:
            echo_json(done)
            return
        if made.repeated:
            note(
                f"this rotation was made at {instant(made.issued_at)}; nothing was changed, and older keys expire at "
                f"{instant(made.older_keys_expire_at)}. A new key needs another --rotation-id"
            )
        note_thumbprint(thumbprint)
        echo(made.receipt)


def _preview(
    connection: Connection,
    account_id: str,
    to: receipts.PublicKey,
    rotation_id: str,
    grace: timedelta,
    expires_at: datetime | None,
    replaced: str | None,
    as_json: bool,
) -> None:
    """Lists the keys whose end a rotation would change."""
    before, after = preview_rotation(connection, account_id, to, rotation_id, grace, expires_at, replaced=replaced)
    rows = [
        {**members(key), "wouldExpireAt": instant(after[key.key_id].expires_at)}
        for key in before
        if key.expires_at != after[key.key_id].expires_at
    ]
    echo_rows(
        (*columns(keys.ListedKey), "wouldExpireAt"),
        rows,
        "json" if as_json else "table",
        lambda row: {**_in_table(row), "wouldExpireAt": row["wouldExpireAt"]},
        nothing="no key would expire earlier",
    )
    note("nothing was changed")


def _in_table(row: Fields) -> Fields:
    """Returns a table row, with the earlier end of the key and its account."""
    ends = row["revokedAt"] or min(filter(None, (row["expiresAt"], row["accountExpiresAt"])), default=None, key=str)
    return {
        "keyId": row["keyId"],
        "account": row["accountName"] or row["accountExternalId"],
        "name": row["name"] or row["externalId"],
        "state": row["state"],
        "ends": ends,
        "lastUsedOn": row["lastUsedOn"],
    }


@key.command("list", epilog=example("key list cus_8812"))
@click.argument("account_id", metavar="[ACCOUNT]", required=False)
@click.option("--ends-within", type=duration, help="Only valid keys that end, or whose account ends, within this time.")
@prints_rows(columns(keys.ListedKey), _in_table)
def list_keys(connection: Connection, account_id: str | None, ends_within: timedelta | None) -> Iterable[Fields]:
    """List an account's keys, or all keys that end soon: their ids and states, never a key.

    The last use is a UTC day.
    """
    if account_id is None and ends_within is None:
        raise click.UsageError("give an ACCOUNT; only --ends-within works without one")
    return map(members, keys.list_keys(connection, account_id, ends_within=ends_within))


@key.command("find", epilog=example("key find < leaked.txt"))
@prints_rows(columns(keys.ListedKey), _in_table)
def find_keys(connection: Connection) -> Iterable[Fields]:
    """Say which keys a text contains, such as a leaked one. The text is read from standard input, and never printed.

    A terminal does not show what you type or paste. The id of a key begins with that of its account.
    """
    if sys.stdin.isatty():
        given = click.prompt("API key", hide_input=True, err=True).encode(errors="replace")
    else:
        given = first_bytes("-")
    if len(given) == limits.files.KEY_BYTES:
        note(f"only the first {limits.files.KEY_BYTES} bytes are read")
    found, unknown = keys.find_keys(connection, given.decode("ascii", "replace"))
    if not found and not unknown:
        raise SepuError("standard input has no whole API key: sepu_, and 78 more characters")
    if not found:
        raise SepuError(f"no key belongs to this database; keys of another, or mistyped: {unknown}")
    if unknown:
        note(f"keys that are mistyped, or not of this database: {unknown}")
    return map(members, found)


@key.command("revoke", epilog=example("key revoke gfhi7crqxq5fijj3-tyjxpcyh"))
@click.argument("key_id", metavar="KEYID")
@prints_change()
def revoke_key(connection: Connection, key_id: str) -> Fields:
    """Refuse a key from now on."""
    keys.revoke_key(connection, key_id)
    return {"keyId": key_id, "status": "revoked"}
