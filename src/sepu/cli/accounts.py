"""The operator's commands for plans, accounts and keys."""

from datetime import datetime
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from sepu.cli.database import database_connection, database_options
from sepu.cli.output import echo_fields, echo_json, json_option
from sepu.metering import accounts


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
        return instant


@click.group()
def plan() -> None:
    """Plans: the limits of accounts."""


@plan.command("set")
@click.argument("name")
@click.option("--match-limit", type=click.IntRange(0), required=True, help="Colours a month.")
@click.option("--search-limit", type=click.IntRange(0), required=True, help="Searches a month.")
@click.option("--requests-per-minute", type=click.IntRange(1), required=True, help="The abuse limit.")
@json_option
@database_options
def set_plan(
    name: str,
    match_limit: int,
    search_limit: int,
    requests_per_minute: int,
    as_json: bool,
    database_url: str | None,
    state_dir: Path,
) -> None:
    """Make or change a plan. Its accounts feel a change with their next request."""
    with database_connection(database_url, state_dir) as connection:
        accounts.set_plan(
            connection,
            name,
            match_limit=match_limit,
            search_limit=search_limit,
            requests_per_minute=requests_per_minute,
        )
    fields = {
        "planId": name,
        "matchLimit": match_limit,
        "searchLimit": search_limit,
        "requestsPerMinute": requests_per_minute,
    }
    echo_fields(fields, as_json)


@click.group()
def account() -> None:
    """Accounts of customers."""


@account.command("create")
@click.option("--plan", "plan_id", default="standard", show_default=True)
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


@account.command("suspend")
@click.argument("account_id", metavar="ID")
@json_option
@database_options
def suspend(account_id: str, as_json: bool, database_url: str | None, state_dir: Path) -> None:
    """Refuse an account's requests from now on."""
    _set_status(account_id, "suspended", as_json, database_url, state_dir)


@account.command("reactivate")
@click.argument("account_id", metavar="ID")
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
