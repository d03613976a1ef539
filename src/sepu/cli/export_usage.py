"""`sepu export-usage`."""

import sys

import click
from psycopg import Connection

from sepu.admin import export
from sepu.admin.history import REQUESTS_PER_MINUTE, PlanChange
from sepu.admin.plans import show_plan
from sepu.cli.decorators import with_connection
from sepu.cli.output import (
    Fields,
    command,
    csv_printer,
    echo_json,
    example,
    instant,
    json_lines_option,
    members,
    month,
    progress,
)

_COLUMNS = (
    *("accountId", "planId", "status", "period", "meter", "limit", "committed", "reserved"),
    *("granted", "credited", "toBill", "externalId", "name", "changes"),
)
# The names of changes that concern all meters.
_OF_ALL_METERS = {None: "planId", REQUESTS_PER_MINUTE: REQUESTS_PER_MINUTE}


@command("export-usage", epilog=example("export-usage 2026-11 > 2026-11.csv"))
@click.argument("period", type=month)
@click.option("--exclude-plan", "excluded", metavar="PLAN", multiple=True, help="Leave out its accounts; repeatable.")
@json_lines_option
@with_connection
def export_usage(connection: Connection, period: str, excluded: tuple[str, ...], as_json: bool) -> None:
    """Print what every account used in a UTC month, for billing: CSV, a line for each account and meter.

    PERIOD is a month such as 2027-01. Accounts that used nothing are included, accounts made later are not. Plan and
    limit are those at the month's end; changes lists those within the month. Status and names are current. Works during
    traffic; a month is final when it is over.
    """
    for plan_id in excluded:
        show_plan(connection, plan_id)  # raises if there is none
    export.check_begun(connection, period)
    total = export.count_exported(connection, period)
    # On a terminal the lines show the progress themselves.
    with progress("accounts", hidden=sys.stdout.isatty()) as bar:
        task = bar.add_task("", total=total)
        print_line = echo_json if as_json else csv_printer(_COLUMNS)
        for account in export.export_usage(connection, period):
            for used in () if account.plan_id in excluded else account.usage:
                changes = [_change(each) for each in account.changes if each.meter in {*_OF_ALL_METERS, used.meter}]
                found = {**members(account), **used.as_dict(), "changes": changes}
                line = {name: found[name] for name in _COLUMNS}
                print_line(line if as_json else {**line, "changes": "; ".join(map(_in_words, changes))})
            bar.advance(task)


def _change(change: PlanChange) -> Fields:
    what = _OF_ALL_METERS.get(change.meter, "limit")
    return {"at": instant(change.at), "what": what, "from": change.before, "to": change.after}


def _in_words(change: Fields) -> str:
    return f"{change['at']} {change['what']} {change['from']} to {change['to']}"
