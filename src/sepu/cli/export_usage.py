"""`sepu export-usage`."""

import csv
import sys
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import IO

import click
import msgspec
from psycopg import Connection

from sepu.admin import export
from sepu.admin.history import REQUESTS_PER_MINUTE, PlanChange
from sepu.admin.plans import show_plan
from sepu.admin.usage import read_now
from sepu.cli.command import command, example, json_lines_option
from sepu.cli.decorators import with_connection
from sepu.cli.output import Fields, csv_printer, echo_json, instant, members, month, note, progress
from sepu.errors import SepuError

# A line of `sepu export-usage`, which may list many changes.
_EXPORT_LINE_CHARACTERS = 2**20

_COLUMNS = (
    *("accountId", "planId", "status", "period", "meter", "limit", "committed", "reserved"),
    *("granted", "credited", "toBill", "externalId", "name", "changes", "monthOver", "readAt"),
)
_SINCE = "sinceExport"
# The names of changes that concern all meters.
_OF_ALL_METERS = {None: "planId", REQUESTS_PER_MINUTE: REQUESTS_PER_MINUTE}
# Accounts that a remark names.
_NAMED = 5


class _Billed(msgspec.Struct, frozen=True, rename="camel"):
    """The values of an exported row that a bill depends on."""

    plan_id: str
    limit: int
    committed: int
    reserved: int
    granted: int
    credited: int
    to_bill: int


class _Row(_Billed, frozen=True, rename="camel"):
    account_id: str
    period: str
    meter: str


_Earlier = dict[tuple[str, str], _Billed]
"""By account and meter."""


@command("export-usage", epilog=example("export-usage 2026-11 > 2026-11.csv"))
@click.argument("period", type=month)
@click.option("--exclude-plan", "excluded", metavar="PLAN", multiple=True, help="Leave out its accounts; repeatable.")
@click.option("--draft", is_flag=True, help="Export a month that is not over. The rows say so: monthOver is false.")
@click.option(
    "--since-export",
    metavar="FILE",
    help="Only rows that differ from this export of the month, CSV or JSON, with the differences.",
)
@json_lines_option
@with_connection
def export_usage(
    connection: Connection,
    period: str,
    excluded: tuple[str, ...],
    draft: bool,
    since_export: str | None,
    as_json: bool,
) -> None:
    """Print what every account used in a UTC month, for billing: CSV, a line for each account and meter.

    PERIOD is a month such as 2027-01. Accounts that used nothing are included, accounts made later are not. Plan and
    limit are those at the month's end; changes lists those within the month. Status and names are current. Works during
    traffic.
    """
    for plan_id in excluded:
        show_plan(connection, plan_id)  # raises if there is none
    export.check_begun(connection, period)
    earlier = None if since_export is None else _read_export(since_export, period)
    unfinished = export.why_unfinished(connection, period)
    if unfinished and not draft:
        raise SepuError(f"{unfinished}; --draft exports it as it is now")
    columns = _COLUMNS if earlier is None else (*_COLUMNS, _SINCE)
    of_all = {"monthOver": not unfinished, "readAt": instant(read_now(connection))}
    # On a terminal the lines show the progress themselves.
    with progress("accounts", hidden=sys.stdout.isatty()) as bar:
        task = bar.add_task("", total=export.count_exported(connection, period))
        print_line = echo_json if as_json else csv_printer(columns)
        for account in export.export_usage(connection, period):
            for used in () if account.plan_id in excluded else account.usage:
                changes = [_change(each) for each in account.changes if each.meter in {*_OF_ALL_METERS, used.meter}]
                found = {**members(account), **used.as_dict(), "changes": changes, **of_all}
                if earlier is not None:
                    found[_SINCE] = _differences(earlier.pop((account.account_id, used.meter), None), found)
                    if not found[_SINCE]:
                        continue
                line = {name: found[name] for name in columns}
                print_line(line if as_json else _in_csv(line))
            bar.advance(task)
    if earlier:
        accounts = sorted({account_id for account_id, _ in earlier})
        named = ", ".join(accounts[:_NAMED]) + (", …" if len(accounts) > _NAMED else "")
        note(f"accounts of the earlier export that this one leaves out: {named}")


def _change(change: PlanChange) -> Fields:
    what = _OF_ALL_METERS.get(change.meter, "limit")
    return {"at": instant(change.at), "what": what, "from": change.before, "to": change.after}


def _differences(before: _Billed | None, found: Mapping[str, object]) -> list[Fields]:
    """Returns what changed in a row since the earlier export; all of it, if that had no such row."""
    fields = {field.encode_name: field.name for field in msgspec.structs.fields(_Billed)}
    old = {name: before and getattr(before, field) for name, field in fields.items()}
    return [{"what": name, "from": old[name], "to": found[name]} for name in fields if old[name] != found[name]]


def _in_csv(line: Fields) -> Fields:
    """Returns a line of CSV, with its lists of changes in words."""
    return {
        name: "; ".join(map(_in_words, value)) if isinstance(value, list) else value for name, value in line.items()
    }


def _in_words(change: Fields) -> str:
    at = f"{change['at']} " if "at" in change else ""
    return f"{at}{change['what']} {'-' if change['from'] is None else change['from']} to {change['to']}"


def _read_export(name: str, period: str) -> _Earlier:
    """Reads an earlier export of a month.

    Raises:
        click.BadParameter: the file cannot be read, or is not an export of this month.
    """
    found: _Earlier = {}
    try:
        with click.open_file(name, encoding="utf-8-sig") as file:
            for row in _rows(file):
                if row.period != period:
                    raise click.BadParameter(f"{name!r} is an export of {row.period}, not of {period}")
                found[row.account_id, row.meter] = row
    except (msgspec.MsgspecError, RecursionError, csv.Error) as error:
        raise click.BadParameter(f"{name!r}: row {len(found) + 1} is not one of sepu export-usage") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise click.BadParameter(f"{name!r}: {reason}") from error
    if not found:
        raise click.BadParameter(f"{name!r} has no row of sepu export-usage")
    return found


def _rows(file: IO[str]) -> Iterator[_Row]:
    """Reads the rows of CSV or JSON."""
    lines = iter(lambda: file.readline(_EXPORT_LINE_CHARACTERS), "")
    first = next(lines, "")
    if first.startswith("{"):
        yield from (msgspec.json.decode(line, type=_Row) for line in chain([first], lines))
    else:
        names = next(csv.reader([first]), [])
        rows = (dict(zip(names, cells, strict=False)) for cells in csv.reader(lines))
        yield from (msgspec.convert(row, _Row, strict=False) for row in rows)
