"""`sepu account`."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, nullcontext
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

import click
from psycopg import Connection

from sepu.admin import accounts, receipts
from sepu.admin.erase import delete_unused_account, erase_account, last_bill
from sepu.admin.import_accounts import ImportedAccount, NewKey, Outcome, WantedAccount
from sepu.admin.import_accounts import import_accounts as import_accounts_of
from sepu.cli.account_files import keeping_keys, read_accounts
from sepu.cli.command import F, example, form_options, group
from sepu.cli.decorators import prints_change, prints_fields, prints_rows, with_connection
from sepu.cli.files import first_bytes
from sepu.cli.output import Fields, Form, columns, echo_rows, instant, members, note, note_to_person, percent, progress
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
    ends = f" to {_last_day(found['expiresAt'])}" if found["expiresAt"] and row["status"] == "active" else ""
    return {
        **{name: row[name] for name in ("accountId", "externalId", "name")},
        "status": f"{row['status']}{ends}",
        "planId": row["planId"],
        **used,
        "lastUsedOn": row["lastUsedOn"],
    }


def _last_day(ends: str) -> str:
    """Returns the UTC day that an end belongs to: the one before midnight."""
    return str(date.fromisoformat(ends[:10]) - timedelta(days=1)) if ends.endswith("T00:00:00Z") else ends[:10]


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


@account.command("import", epilog=example("account import customers.csv --keys-file keys.csv"))
@click.argument("file", metavar="FILE")
@click.option("--plan", "plan_id", default="standard", show_default=True, help="Plan of accounts without a planId.")
@click.option(
    "--public-keys",
    metavar="DIRECTORY",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Customers' JWKs, EXTERNAL_ID.jwk: the keys become receipts.",
)
@click.option(
    "--keys-file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to add the new keys or receipts. Only you can read it.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be made.")
@form_options
@with_connection
def import_accounts(
    connection: Connection,
    file: str,
    plan_id: str,
    public_keys: Path | None,
    keys_file: Path | None,
    dry_run: bool,
    form: Form | None,
) -> None:
    """Make the accounts of a CSV that do not exist yet, each with its first key.

    FILE has the columns externalId, name, planId and expiresAt; only the first is required. An account that exists is
    left as it is. Exit status: 1 if one differs from the file. May be stopped and repeated with the same files.
    """
    wanted, compared = read_accounts(file, plan_id, public_keys)
    if keys_file is None and not dry_run:
        raise click.UsageError("give a --keys-file for the new keys, or --dry-run")
    outcomes = dict.fromkeys(get_args(Outcome), 0)

    def imported(keep: Callable[[WantedAccount, NewKey], None]) -> Iterator[Fields]:
        with progress("accounts", hidden=sys.stdout.isatty()) as bar:
            for each in bar.track(
                import_accounts_of(connection, wanted, compared, keep, dry_run=dry_run), total=len(wanted)
            ):
                outcomes[each.outcome] += 1
                yield members(each)

    with keeping_keys(keys_file) if keys_file and not dry_run else nullcontext(lambda *_: None) as keep:
        echo_rows(columns(ImportedAccount), imported(keep), form or "table")
    note(f"accounts: {', '.join(f'{outcome} {count}' for outcome, count in outcomes.items())}")
    if dry_run:
        note("nothing was changed")
    if outcomes["differs"]:
        sys.exit(1)


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
@click.option("--yes", is_flag=True, help="Do not ask.")
@prints_change()
def erase(connection: Connection, account_id: str, yes: bool) -> Fields:
    """Erase a customer's data: names, keys, receipts, events, stored results and days of usage.

    The account stays, closed, with each month's units for billing, and the audit still adds up. Prints the last bills
    first: afterwards nothing connects them with the customer. May be stopped and repeated with the account's own id.
    """
    bills = last_bill(connection, account_id)
    external_id = bills[-1].external_id if bills else None  # if an erasure was interrupted
    for bill in bills:
        units = ", ".join(f"{used.to_bill} of {used.meter}" for used in bill.usage)
        note(f"to bill for {bill.usage[0].period}, external id {external_id or '-'}: {units}")
    if not yes:
        click.confirm("This cannot be undone. Erase the account?", abort=True, err=True)
    erased = erase_account(connection, account_id)
    return {"accountId": account_id, "externalId": external_id, "status": "erased", **members(erased)}


@account.command("delete", epilog=example("account delete cus_8812"))
@click.argument("account_id", metavar="ACCOUNT")
@prints_change()
def delete(connection: Connection, account_id: str) -> Fields:
    """Delete an account that was never used, with its keys."""
    keys = delete_unused_account(connection, account_id)
    return {"accountId": account_id, "status": "deleted", "keys": keys}


def _set_status(connection: Connection, account_id: str, status: str) -> Fields:
    accounts.set_status(connection, account_id, status)
    shown = accounts.show_account(connection, account_id)  # which may have expired
    return {"accountId": account_id, "status": shown.status, "expiresAt": instant(shown.expires_at)}
