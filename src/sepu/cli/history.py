"""`sepu history`."""

from collections.abc import Iterable
from datetime import datetime

import click
import msgspec
from psycopg import Connection

from sepu.admin.history import Change, list_changes
from sepu.cli.database import with_connection
from sepu.cli.output import Fields, Form, columns, command, echo_rows, example, form_options, members, note
from sepu.cli.times import beginning


@command(epilog=example("history cus_8812 --since 7d"))
@click.argument("account_id", metavar="[ACCOUNT]", required=False)
@click.option("--since", type=beginning, help="Only changes since this day or instant, or so long ago, as 7d.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Maximum number of rows.")
@form_options
@with_connection
def history(
    connection: Connection, account_id: str | None, since: datetime | None, limit: int, form: Form | None
) -> None:
    """Show who changed what, the newest first: of an account with its keys and its plan, or of all.

    The operator is what SEPU_OPERATOR said, else the name of the user who ran the command. The role is that of the
    database that the command logged in as.
    """
    found = list_changes(connection, account_id=account_id, since=since, limit=limit + 1)
    echo_rows(columns(Change), _rows(found[:limit], form), form or "table", _in_table)
    if len(found) > limit:
        note(f"these are the newest {limit}; --limit or --since takes more or others")


def _rows(changes: Iterable[Change], form: Form | None) -> Iterable[Fields]:
    for change in changes:
        row = members(change)
        if form == "csv":
            row |= {name: row[name] and msgspec.json.encode(row[name]).decode() for name in ("before", "after")}
        yield row


def _in_table(row: Fields) -> Fields:
    return {
        "at": row["at"],
        "operator": row["operator"],
        "action": row["action"],
        "subject": row["subject"],
        "changed": ", ".join(_in_words(row["before"], row["after"])),
    }


def _in_words(before: object, after: object) -> Iterable[str]:
    old, new = (state if isinstance(state, dict) else {} for state in (before, after))
    for name in {**old, **new}:
        if before is None:
            yield f"{name} {_word(new[name])}"
        else:
            yield f"{name} {_word(old.get(name))} to {_word(new.get(name))}"


def _word(value: object) -> str:
    return "-" if value is None else ",".join(map(str, value)) if isinstance(value, list) else str(value)
