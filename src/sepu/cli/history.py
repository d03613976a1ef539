"""`sepu history`."""

from collections.abc import Iterable
from datetime import datetime

import click
import msgspec
from psycopg import Connection

from sepu.admin.history import Change, list_changes
from sepu.cli.command import command, example, form_options
from sepu.cli.decorators import with_connection
from sepu.cli.output import Fields, Form, columns, echo_rows, members, note
from sepu.cli.times import range_options


@command(epilog=example("history cus_8812 --since 7d"))
@click.argument("account_id", metavar="[ACCOUNT]", required=False)
@range_options("changes")
@click.option("--operator", help="Only changes by an operator of this name.")
@click.option("--role", help="Only changes of a command that logged in as this database role.")
@click.option("--action", help="Only this action, such as key.revoke; or all of a subject: key.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Maximum number of rows.")
@form_options
@with_connection
def history(
    connection: Connection,
    account_id: str | None,
    since: datetime | None,
    until: datetime | None,
    operator: str | None,
    role: str | None,
    action: str | None,
    limit: int,
    form: Form | None,
) -> None:
    """Show who changed what, the newest first: for an account with its keys and its plan, or for all.

    The operator is SEPU_OPERATOR, else the name of the user who ran the command: whatever the command claims. The role
    is the database role that logged in, and is proof. The table shows it where it is not the operator's name.
    """
    found = list_changes(
        connection,
        account_id=account_id,
        since=since,
        until=until,
        operator=operator,
        role=role,
        action=action,
        limit=limit + 1,
    )
    echo_rows(columns(Change), _rows(found[:limit], form), form or "table", _in_table)
    if len(found) > limit:
        note(f"these are the newest {limit}; --limit, --since, --until or a filter shows more or others")


def _rows(changes: Iterable[Change], form: Form | None) -> Iterable[Fields]:
    for change in changes:
        row = members(change)
        if form == "csv":
            row |= {name: row[name] and msgspec.json.encode(row[name]).decode() for name in ("before", "after")}
        yield row


def _in_table(row: Fields) -> Fields:
    return {
        "at": row["at"],
        "operator": row["operator"] if row["operator"] == row["role"] else f"{row['operator']} as {row['role']}",
        "action": row["action"],
        "subject": _subject(row),
        "changed": ", ".join(_in_words(row["before"], row["after"])),
    }


def _subject(row: Fields) -> str:
    """Returns the subject's id, with its account if the id does not begin with that."""
    subject, account_id = str(row["subject"]), str(row["accountId"] or "")
    return subject if subject.startswith(account_id) else f"{subject} of {account_id}"


def _in_words(before: object, after: object) -> Iterable[str]:
    old, new = (state if isinstance(state, dict) else {} for state in (before, after))
    for name in {**old, **new}:
        if before is None:
            yield f"{name} {_word(new[name])}"
        else:
            yield f"{name} {_word(old.get(name))} to {_word(new.get(name))}"


def _word(value: object) -> str:
    return "-" if value is None else ",".join(map(str, value)) if isinstance(value, list) else str(value)
