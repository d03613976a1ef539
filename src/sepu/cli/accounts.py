"""The operator's commands for plans, accounts and keys."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table

from sepu.cli.database import database_connection, database_options
from sepu.cli.files import FirstBytes
from sepu.cli.output import echo_fields, echo_json, instant, json_lines_option, json_option
from sepu.metering import accounts, receipts
from sepu.metering.meters import METERS
from sepu.metering.rotation import rotate_key as rotated

F = TypeVar("F", bound=Callable[..., Any])

_LAST_YEAR = 9998  # in some time zones Python has no later one


class Rfc3339(click.ParamType[datetime]):
    """An instant with its offset, such as 2027-01-31T12:00:00Z."""

    name = "RFC3339"

    def convert(self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Parses; click's own type knows no offsets."""
        if isinstance(value, datetime):
            return value
        try:
            instant = datetime.fromisoformat(value)
        except ValueError:
            instant = None
        if instant is None or instant.tzinfo is None:
            self.fail(f"{value!r} is not like 2027-01-31T12:00:00Z", param, ctx)
        if instant.year > _LAST_YEAR:
            self.fail(f"{value!r} is too far off; what does not expire needs no instant", param, ctx)
        if instant <= datetime.now(UTC):
            self.fail(f"{value!r} is in the past: the key would never work", param, ctx)
        return instant


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Duration(click.ParamType[timedelta]):
    """A length of time up to a year, such as 7d, 12h, 30m or 0s."""

    name = "duration"

    def convert(self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Parses a number and its unit."""
        if isinstance(value, timedelta):
            return value
        form = re.fullmatch(r"([0-9]{1,8})([smhd])", value)
        length = form and timedelta(**{_UNITS[form[2]]: int(form[1])})
        if length is None or length > timedelta(days=366):
            self.fail(f"{value!r} is not like 7d, 12h, 30m or 0s, and at most 366d", param, ctx)
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
@json_option
@database_options
def set_plan(
    name: str, requests_per_minute: int, as_json: bool, database_url: str | None, state_dir: Path, **limits: int
) -> None:
    """Make or change a plan. Its accounts feel a change with their next request."""
    with database_connection(database_url, state_dir) as connection:
        accounts.set_plan(connection, name, requests_per_minute=requests_per_minute, **limits)
    by_meter = {meter: limits[found.limit] for meter, found in METERS.items()}
    echo_fields({"planId": name, **_limit_fields(by_meter), "requestsPerMinute": requests_per_minute}, as_json)


@click.group()
def account() -> None:
    """Accounts of customers."""


@account.command("create")
@click.option("--plan", "plan_id", default="standard", show_default=True, help="Its plan: its limits.")
@json_option
@database_options
def create_account(plan_id: str, as_json: bool, database_url: str | None, state_dir: Path) -> None:
    """Make an account with its first key. The key is shown this once."""
    with database_connection(database_url, state_dir) as connection:
        issued = accounts.create_account(connection, plan_id)
    fields = {
        "accountId": issued.account_id,
        "planId": plan_id,
        "keyId": issued.key_id,
        "apiKey": issued.api_key,
    }
    echo_fields(fields, as_json)


@account.command("show")
@click.argument("account_id", metavar="ACCOUNT")
@json_option
@database_options
def show(account_id: str, as_json: bool, database_url: str | None, state_dir: Path) -> None:
    """Show an account's state and its plan's limits."""
    with database_connection(database_url, state_dir) as connection:
        shown = accounts.show_account(connection, account_id)
    echo_fields(_fields(shown), as_json)


@account.command("list")
@json_lines_option
@database_options
def list_accounts(as_json: bool, database_url: str | None, state_dir: Path) -> None:
    """List all accounts, in the order of their ids."""
    with database_connection(database_url, state_dir) as connection:
        for each in accounts.list_accounts(connection):
            if as_json:
                echo_json(_fields(each))
            else:
                click.echo(f"{each.account_id}  {each.status:<9}  {instant(each.created_at)}  {each.plan_id}")


def _fields(shown: accounts.Account) -> dict[str, str | int | None]:
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
@json_option
@database_options
def move_account(account_id: str, plan_id: str, as_json: bool, database_url: str | None, state_dir: Path) -> None:
    """Put an account on another plan; what it has used this month stays used."""
    with database_connection(database_url, state_dir) as connection:
        accounts.move_account(connection, account_id, plan_id)
    echo_fields({"accountId": account_id, "planId": plan_id}, as_json)


@account.command("suspend")
@click.argument("account_id", metavar="ACCOUNT")
@json_option
@database_options
def suspend(account_id: str, as_json: bool, database_url: str | None, state_dir: Path) -> None:
    """Refuse an account's requests from now on."""
    _set_status(account_id, "suspended", as_json, database_url, state_dir)


@account.command("reactivate")
@click.argument("account_id", metavar="ACCOUNT")
@json_option
@database_options
def reactivate(account_id: str, as_json: bool, database_url: str | None, state_dir: Path) -> None:
    """Take an account's requests again."""
    _set_status(account_id, "active", as_json, database_url, state_dir)


def _set_status(account_id: str, status: str, as_json: bool, database_url: str | None, state_dir: Path) -> None:
    with database_connection(database_url, state_dir) as connection:
        accounts.set_status(connection, account_id, status)
    echo_fields({"accountId": account_id, "status": status}, as_json)


@click.group()
def key() -> None:
    """API keys of accounts."""


@key.command("issue")
@click.argument("account_id", metavar="ACCOUNT")
@click.option("--expires-at", type=Rfc3339(), help="The key works before this instant only.")
@json_option
@database_options
def issue_key(
    account_id: str, expires_at: datetime | None, as_json: bool, database_url: str | None, state_dir: Path
) -> None:
    """Make one more key. It is shown this once; the account's other keys stay as they are."""
    with database_connection(database_url, state_dir) as connection:
        issued = accounts.issue_key(connection, account_id, expires_at)
    fields = {
        "accountId": issued.account_id,
        "keyId": issued.key_id,
        "apiKey": issued.api_key,
        "expiresAt": issued.expires_at and issued.expires_at.isoformat(),
    }
    echo_fields(fields, as_json)


@key.command("rotate")
@click.argument("account_id", metavar="ACCOUNT")
@click.option("--public-key", type=FirstBytes(), required=True, help="The JWK that the customer sent; - reads it.")
@click.option("--grace", type=Duration(), default="7d", show_default=True, help="How long older keys work on.")
@click.option("--rotation-id", help="Names this rotation.  [default: the public key's thumbprint]")
@click.option("--expires-at", type=Rfc3339(), help="The new key works before this instant only.")
@json_option
@database_options
def rotate_key(
    account_id: str,
    public_key: bytes,
    grace: timedelta,
    rotation_id: str | None,
    expires_at: datetime | None,
    as_json: bool,
    database_url: str | None,
    state_dir: Path,
) -> None:
    """Make a new key and print the receipt that its owner opens: nobody else ever sees the key.

    The account's older keys expire after the grace period, if they do not before. The same rotation again, which is the
    same public key and rotation id, changes nothing and prints the same receipt.
    """
    to = receipts.public_key(public_key)
    with database_connection(database_url, state_dir) as connection:
        made = rotated(
            connection, account_id, to, to.thumbprint() if rotation_id is None else rotation_id, grace, expires_at
        )
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
@database_options
def list_keys(account_id: str, as_json: bool, database_url: str | None, state_dir: Path) -> None:
    """List an account's keys, the oldest first: their ids and states, never a key."""
    with database_connection(database_url, state_dir) as connection:
        found = accounts.list_keys(connection, account_id)
    rows = [
        {
            "keyId": each.key_id,
            "state": each.state,
            "createdAt": instant(each.created_at),
            "expiresAt": instant(each.expires_at),
            "revokedAt": instant(each.revoked_at),
        }
        for each in found
    ]
    if as_json:
        for row in rows:
            echo_json(row)
        return
    for row in rows:
        click.echo(
            f"{row['keyId']}  {row['state']:<7}  created {row['createdAt']}  expires {row['expiresAt'] or '-'}  "
            f"revoked {row['revokedAt'] or '-'}"
        )


@key.command("revoke")
@click.argument("key_id", metavar="KEYID")
@json_option
@database_options
def revoke_key(key_id: str, as_json: bool, database_url: str | None, state_dir: Path) -> None:
    """Refuse a key from now on."""
    with database_connection(database_url, state_dir) as connection:
        accounts.revoke_key(connection, key_id)
    echo_fields({"keyId": key_id, "status": "revoked"}, as_json)


@click.command()
@click.argument("account_id", metavar="ACCOUNT")
@json_option
@database_options
def usage(account_id: str, as_json: bool, database_url: str | None, state_dir: Path) -> None:
    """Show an account's usage of the current month."""
    with database_connection(database_url, state_dir) as connection:
        shown = accounts.show_usage(connection, account_id)
    if as_json:
        echo_json(
            {
                "accountId": shown.account_id,
                "planId": shown.plan_id,
                "status": shown.status,
                "usage": [meter.as_dict() for meter in shown.usage],
            }
        )
        return
    table = Table(title=f"{shown.account_id}: {shown.status}, plan {shown.plan_id}", title_justify="left")
    for column in shown.usage[0].as_dict():
        table.add_column(column, justify="left" if column in {"period", "meter"} else "right")
    for meter in shown.usage:
        table.add_row(*map(str, meter.as_dict().values()))
    Console().print(table)
