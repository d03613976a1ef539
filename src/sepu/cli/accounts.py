"""The operator's commands for plans, accounts and keys."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click
from psycopg import Connection
from rich.console import Console
from rich.table import Table

from sepu.cli.database import database_connection, database_options, prints_fields, with_connection
from sepu.cli.files import first_bytes
from sepu.cli.output import echo_json, instant, json_lines_option, json_option
from sepu.metering import accounts, receipts
from sepu.metering.meters import METERS
from sepu.metering.rotation import rotate_key as rotated

F = TypeVar("F", bound=Callable[..., Any])
Fields = Mapping[str, object]

_LAST_YEAR = 9998  # in some time zones Python has no later one


def rfc3339(value: str) -> datetime:
    """Parses an instant with its offset, such as 2027-01-31T12:00:00Z; click's own type knows no offsets."""
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise click.BadParameter(f"{value!r} is not like 2027-01-31T12:00:00Z")
    if parsed.year > _LAST_YEAR:
        raise click.BadParameter(f"{value!r} is too far off; what does not expire needs no instant")
    if parsed <= datetime.now(UTC):
        raise click.BadParameter(f"{value!r} is in the past: the key would never work")
    return parsed


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def duration(value: str) -> timedelta:
    """Parses a length of time up to a year, such as 7d, 12h, 30m or 0s."""
    form = re.fullmatch(r"([0-9]{1,8})([smhd])", value)
    length = form and timedelta(**{_UNITS[form[2]]: int(form[1])})
    if length is None or length > timedelta(days=366):
        raise click.BadParameter(f"{value!r} is not like 7d, 12h, 30m or 0s, and at most 366d")
    return length


@click.group()
def plan() -> None:
    """Plans: the limits of accounts."""


def _limit_options(command: F) -> F:
    """Adds an option for the limit of each meter, such as `--match-limit`."""
    for meter in reversed(METERS.values()):
        name, help_text = f"--{meter.operation}-limit", f"{meter.unit.capitalize()} a month."
        command = click.option(name, type=click.IntRange(0), required=True, help=help_text)(command)
    return command


def _limit_fields(limits: Mapping[str, int]) -> dict[str, int]:
    """Gives limits by meter as members of a JSON object, such as `matchLimit`."""
    return {f"{meter.operation}Limit": limits[name] for name, meter in METERS.items()}


@plan.command("set")
@click.argument("name")
@_limit_options
@click.option("--requests-per-minute", type=click.IntRange(1), required=True, help="The abuse limit.")
@prints_fields
def set_plan(connection: Connection, name: str, requests_per_minute: int, **limits: int) -> Fields:
    """Make or change a plan. Its accounts feel a change with their next request."""
    accounts.set_plan(connection, name, requests_per_minute=requests_per_minute, **limits)
    by_meter = {meter: limits[found.limit] for meter, found in METERS.items()}
    return {"planId": name, **_limit_fields(by_meter), "requestsPerMinute": requests_per_minute}


@click.group()
def account() -> None:
    """Accounts of customers."""


@account.command("create")
@click.option("--plan", "plan_id", default="standard", show_default=True, help="Its plan: its limits.")
@prints_fields
def create_account(connection: Connection, plan_id: str) -> Fields:
    """Make an account with its first key. The key is shown this once."""
    issued = accounts.create_account(connection, plan_id)
    return {"accountId": issued.account_id, "planId": plan_id, "keyId": issued.key_id, "apiKey": issued.api_key}


@account.command("show")
@click.argument("account_id", metavar="ACCOUNT")
@prints_fields
def show(connection: Connection, account_id: str) -> Fields:
    """Show an account's state and its plan's limits."""
    return _fields(accounts.show_account(connection, account_id))


@account.command("list")
@json_lines_option
@with_connection
def list_accounts(connection: Connection, as_json: bool) -> None:
    """List all accounts, in the order of their ids."""
    for each in accounts.list_accounts(connection):
        if as_json:
            echo_json(_fields(each))
        else:
            click.echo(f"{each.account_id}  {each.status:<9}  {instant(each.created_at)}  {each.plan_id}")


def _fields(shown: accounts.Account) -> Fields:
    return {
        "accountId": shown.account_id,
        "status": shown.status,
        "createdAt": instant(shown.created_at),
        "planId": shown.plan_id,
        **_limit_fields(shown.limits),
        "requestsPerMinute": shown.requests_per_minute,
    }


@account.command("move")
@click.argument("account_id", metavar="ACCOUNT")
@click.option("--plan", "plan_id", required=True, help="Its new plan: its limits.")
@prints_fields
def move_account(connection: Connection, account_id: str, plan_id: str) -> Fields:
    """Put an account on another plan; what it has used this month stays used."""
    accounts.move_account(connection, account_id, plan_id)
    return {"accountId": account_id, "planId": plan_id}


@account.command("suspend")
@click.argument("account_id", metavar="ACCOUNT")
@prints_fields
def suspend(connection: Connection, account_id: str) -> Fields:
    """Refuse an account's requests from now on."""
    return _set_status(connection, account_id, "suspended")


@account.command("reactivate")
@click.argument("account_id", metavar="ACCOUNT")
@prints_fields
def reactivate(connection: Connection, account_id: str) -> Fields:
    """Take an account's requests again."""
    return _set_status(connection, account_id, "active")


def _set_status(connection: Connection, account_id: str, status: str) -> Fields:
    accounts.set_status(connection, account_id, status)
    return {"accountId": account_id, "status": status}


@click.group()
def key() -> None:
    """API keys of accounts."""


@key.command("issue")
@click.argument("account_id", metavar="ACCOUNT")
@click.option("--expires-at", type=rfc3339, help="The key works before this instant only.")
@prints_fields
def issue_key(connection: Connection, account_id: str, expires_at: datetime | None) -> Fields:
    """Make one more key. It is shown this once; the account's other keys stay as they are."""
    issued = accounts.issue_key(connection, account_id, expires_at)
    return {
        "accountId": issued.account_id,
        "keyId": issued.key_id,
        "apiKey": issued.api_key,
        "expiresAt": issued.expires_at and issued.expires_at.isoformat(),
    }


@key.command("rotate")
@click.argument("account_id", metavar="ACCOUNT")
@click.option(
    "--public-key", metavar="FILE", type=first_bytes, required=True, help="The JWK that the customer sent; - reads it."
)
@click.option("--grace", type=duration, default="7d", show_default=True, help="How long older keys work on.")
@click.option("--rotation-id", help="Names this rotation.  [default: the public key's thumbprint]")
@click.option("--expires-at", type=rfc3339, help="The new key works before this instant only.")
@json_option
@database_options
def rotate_key(
    account_id: str,
    public_key: bytes,
    grace: timedelta,
    rotation_id: str | None,
    expires_at: datetime | None,
    as_json: bool,
    **where: Any,  # noqa: ANN401
) -> None:
    """Make a new key and print the receipt that its owner opens: nobody else ever sees the key.

    The account's older keys expire after the grace period, if they do not before. The same rotation again, which is the
    same public key and rotation id, changes nothing and prints the same receipt.
    """
    to = receipts.public_key(public_key)
    name = to.thumbprint() if rotation_id is None else rotation_id
    with database_connection(**where) as connection:
        made = rotated(connection, account_id, to, name, grace, expires_at)
    if as_json:
        echo_json(
            {
                "accountId": account_id,
                "keyId": made.key_id,
                "issuedAt": instant(made.issued_at),
                "olderKeysExpireAt": instant(made.older_keys_expire_at),
                "repeated": made.repeated,
                "receipt": made.receipt,
            }
        )
        return
    if made.repeated:
        click.echo(
            f"sepu: this rotation was made at {instant(made.issued_at)}; nothing was changed, and older keys expire at "
            f"{instant(made.older_keys_expire_at)}. A new key needs another --rotation-id",
            err=True,
        )
    click.echo(made.receipt)


@key.command("list")
@click.argument("account_id", metavar="ACCOUNT")
@json_lines_option
@with_connection
def list_keys(connection: Connection, account_id: str, as_json: bool) -> None:
    """List an account's keys, the oldest first: their ids and states, never a key."""
    for each in accounts.list_keys(connection, account_id):
        created, expires, revoked = map(instant, (each.created_at, each.expires_at, each.revoked_at))
        if as_json:
            instants = {"createdAt": created, "expiresAt": expires, "revokedAt": revoked}
            echo_json({"keyId": each.key_id, "state": each.state, **instants})
        else:
            click.echo(
                f"{each.key_id}  {each.state:<7}  created {created}  expires {expires or '-'}  revoked {revoked or '-'}"
            )


@key.command("revoke")
@click.argument("key_id", metavar="KEYID")
@prints_fields
def revoke_key(connection: Connection, key_id: str) -> Fields:
    """Refuse a key from now on."""
    accounts.revoke_key(connection, key_id)
    return {"keyId": key_id, "status": "revoked"}


@click.command()
@click.argument("account_id", metavar="ACCOUNT")
@json_option
@with_connection
def usage(connection: Connection, account_id: str, as_json: bool) -> None:
    """Show an account's usage of the current month."""
    shown = accounts.show_usage(connection, account_id)
    rows = [meter.as_dict() for meter in shown.usage]
    if as_json:
        echo_json({"accountId": account_id, "planId": shown.plan_id, "status": shown.status, "usage": rows})
        return
    table = Table(title=f"{account_id}: {shown.status}, plan {shown.plan_id}", title_justify="left")
    for column in rows[0]:
        table.add_column(column, justify="left" if column in {"period", "meter"} else "right")
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console().print(table)
