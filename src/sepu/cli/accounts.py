"""`sepu account`."""

from collections.abc import Iterable
from contextlib import closing
from datetime import datetime
from typing import Any, Literal

import click
from psycopg import Connection

from sepu.admin import accounts, receipts
from sepu.admin.erase import erase_account
from sepu.cli.decorators import prints_change, prints_fields, prints_rows
from sepu.cli.files import first_bytes
from sepu.cli.output import F, Fields, columns, example, group, instant, members, note_to_person, percent
from sepu.cli.times import duration, ending, ending_or_none
from sepu.metering.meters import METERS


def replace_unseen_key(done: Fields) -> str:
    """Returns what to do if a new key could not be printed."""
    if "receipt" in done:
        return f"To print the receipt: sepu key rotate {done['accountId']} --public-key FILE, with the same public key"
    key_id, account_id = done["keyId"], done["accountId"]
    return (
        f"Nobody has seen the key: revoke it and issue another: sepu key revoke {key_id}; sepu key issue {account_id}"
    )


def naming_options(command: F) -> F:
    """Adds `--name` and `--external-id`."""
    command = click.option("--external-id", help="Its id in another system; must be unique.")(command)
    return click.option("--name", help="What operators call it; customers never see it.")(command)


def _in_table(row: Fields) -> Fields:
    """Returns a table row: for each meter, this month's units and their share of the limit."""
    found: Any = row
    used = {}
    for meter in METERS.values():
        units, limit = (found[meter.operation + suffix] for suffix in ("Committed", "Limit"))
        used[meter.operation] = f"{units} {percent(units, limit).strip()}"
    ends = f" to {found['expiresAt'][:10]}" if found["expiresAt"] and row["status"] == "active" else ""
    return {
        **{name: row[name] for name in ("accountId", "externalId", "name")},
        "status": f"{row['status']}{ends}",
        "planId": row["planId"],
        **used,
        "lastUsedOn": row["lastUsedOn"],
    }


@group()
def account() -> None:
    """Customers' accounts. Wherever a command takes ACCOUNT, an external id or a key's id works too."""


@account.command("create", epilog=example("account create --plan standard --name 'Silk & Co.' --external-id cus_8812"))
@click.option("--plan", "plan_id", default="standard", show_default=True, help="Plan that sets its limits.")
@click.option(
    "--expires-at", type=ending, help="When it ends: a UTC day, which it includes, an instant, or 14d from now."
)
@click.option(
    "--public-key",
    metavar="FILE",
    type=first_bytes,
    help="The customer's JWK; prints a receipt instead of the key. - reads standard input.",
)
@naming_options
@prints_change(replace_unseen_key)
def create_account(
    connection: Connection,
    plan_id: str,
    expires_at: datetime | None,
    public_key: bytes | None,
    name: str | None,
    external_id: str | None,
) -> Fields:
    """Make an account with its first key. The key is shown this once.

    With --public-key the key is encrypted, and nobody but the customer ever sees it.
    """
    ends = {"expiresAt": instant(expires_at)}
    if public_key is None:
        issued = accounts.create_account(connection, plan_id, name, external_id, expires_at)
        shown = {"accountId": issued.account_id, "planId": plan_id, "keyId": issued.key_id}
        return {**shown, "apiKey": issued.api_key, **ends}
    to = receipts.public_key(public_key)
    account_id, made = accounts.create_sealed_account(connection, plan_id, to, name, external_id, expires_at)
    note_thumbprint(to.thumbprint())
    shown = {"accountId": account_id, "planId": plan_id, "keyId": made.key_id}
    return {**shown, "thumbprint": to.thumbprint(), "receipt": made.receipt, **ends}


def note_thumbprint(thumbprint: str) -> None:
    """Asks the operator to have the customer confirm a public key."""
    note_to_person(
        f"the public key's thumbprint is {thumbprint}; the customer must confirm it before you send the receipt"
    )


@account.command("set", epilog=example("account set cus_8812 --name 'Silk and Company'"))
@click.argument("account_id", metavar="ACCOUNT")
@click.option(
    "--expires-at",
    type=ending_or_none,
    help="When it ends: a UTC day, which it includes, an instant, or 14d from now; '' for never.",
)
@naming_options
@prints_change()
def change_account(
    connection: Connection,
    account_id: str,
    expires_at: datetime | Literal[""] | None,
    name: str | None,
    external_id: str | None,
) -> Fields:
    """Change an account's name, external id or end. Omitted values stay, and empty ones are removed.

    After its end an account's requests are refused, as if it were suspended.
    """
    accounts.change_account(connection, account_id, name, external_id, expires_at)
    return members(accounts.show_account(connection, account_id))


@account.command("show", epilog=example("account show cus_8812"))
@click.argument("given", metavar="ACCOUNT")
@prints_fields
def show(connection: Connection, given: str) -> Fields:
    """Show an account's state, its limits, and what it used in this month and the last.

    Part of its name works too, if no other account has it.
    """
    return members(accounts.look_up(connection, given))


@account.command("list", epilog=example("account list --sort match-share --desc --limit 10"))
@click.option("--search", help="Only accounts with this in their id, external id or name, or in the id of a key.")
@click.option("--plan", "plan_id", help="Only accounts of this plan.")
@click.option("--status", type=click.Choice(accounts.STATUSES), help="Only accounts in this state.")
@click.option("--ends-within", type=duration, help="Only active accounts that end within this time, such as 30d.")
@click.option("--quiet", is_flag=True, help="Only accounts that used something last month, and nothing this month.")
@click.option(
    "--sort",
    type=click.Choice(list(accounts.SORTS)),
    default="id",
    show_default=True,
    metavar="COLUMN",
    help=f"One of {', '.join(accounts.SORTS)}: used is the last use, share that of the limit, change since last month.",
)
@click.option("--desc", "descending", is_flag=True, help="The largest or latest first.")
@click.option("--limit", type=click.IntRange(1), help="Maximum number of rows.")
@prints_rows(columns(accounts.Account), _in_table)
def list_accounts(connection: Connection, search: str | None, **given: Any) -> Iterable[Fields]:  # noqa: ANN401
    """List accounts with the usage of this month and the one before."""
    if search is not None:
        given |= accounts.resolve_search(connection, search)
    with closing(accounts.list_accounts(connection, **given)) as found:
        yield from map(members, found)


@account.command("move", epilog=example("account move cus_8812 --plan standard"))
@click.argument("account_id", metavar="ACCOUNT")
@click.option("--plan", "plan_id", required=True, help="New plan, which sets its limits.")
@prints_change()
def move_account(connection: Connection, account_id: str, plan_id: str) -> Fields:
    """Put an account on another plan; this month's usage still counts."""
    accounts.move_account(connection, account_id, plan_id)
    return {"accountId": account_id, "planId": plan_id}


@account.command("suspend", epilog=example("account suspend cus_8812"))
@click.argument("account_id", metavar="ACCOUNT")
@prints_change()
def suspend(connection: Connection, account_id: str) -> Fields:
    """Refuse an account's requests from now on."""
    return _set_status(connection, account_id, "suspended")


@account.command("reactivate", epilog=example("account reactivate cus_8812"))
@click.argument("account_id", metavar="ACCOUNT")
@prints_change()
def reactivate(connection: Connection, account_id: str) -> Fields:
    """Accept an account's requests again."""
    return _set_status(connection, account_id, "active")


@account.command("erase", epilog=example("account erase cus_8812"))
@click.argument("account_id", metavar="ACCOUNT")
@click.confirmation_option("--yes", prompt="This cannot be undone. Erase the account?", help="Do not ask.")
@prints_change()
def erase(connection: Connection, account_id: str) -> Fields:
    """Erase a customer's data: names, keys, receipts, events, stored results and days of usage.

    The account stays, closed, with each month's units for billing, and the audit still adds up. May be stopped and
    repeated with the account's own id.
    """
    erased = erase_account(connection, account_id)
    return {"accountId": account_id, "status": "erased", **members(erased)}


def _set_status(connection: Connection, account_id: str, status: str) -> Fields:
    accounts.set_status(connection, account_id, status)
    shown = accounts.show_account(connection, account_id)  # which may have expired
    return {"accountId": account_id, "status": shown.status, "expiresAt": instant(shown.expires_at)}
