"""`sepu export-usage`."""

import csv
import re
import sys

import click
from psycopg import Connection

from sepu.cli.database import with_connection
from sepu.cli.output import echo_json, json_lines_option, progress
from sepu.metering import export

_COLUMNS = (
    *("accountId", "planId", "status", "period", "meter", "limit", "committed", "reserved"),
    *("externalId", "name"),
)


def month(value: str) -> str:
    """Checks the form of a UTC month, such as 2027-01."""
    if not re.fullmatch(r"[1-9][0-9]{3}-(0[1-9]|1[0-2])", value):
        raise click.BadParameter(f"{value!r} is not like 2027-01")
    return value


@click.command("export-usage")
@click.argument("period", type=month)
@json_lines_option
@with_connection
def export_usage(connection: Connection, period: str, as_json: bool) -> None:
    """Print what every account used in a UTC month, for billing: CSV, a line for each account and meter.

    PERIOD is a month such as 2027-01. An account that used nothing is there with 0, one that was made later is not.
    Status, plan and limits are those of now. Works beside traffic; a month is final when it is over.
    """
    total = export.count_exported(connection, period)
    # On a terminal the lines show the progress themselves.
    with progress("accounts", hidden=sys.stdout.isatty()) as bar:
        task = bar.add_task("", total=total)
        lines = csv.DictWriter(sys.stdout, _COLUMNS, extrasaction="ignore", lineterminator="\n")
        if not as_json:
            lines.writeheader()
        for account in export.export_usage(connection, period):
            holder = {
                "accountId": account.account_id,
                "planId": account.plan_id,
                "status": account.status,
                "externalId": account.external_id,
                "name": account.name,
            }
            for used in account.usage:
                line = {**holder, **used.as_dict()}
                if as_json:
                    echo_json({column: line[column] for column in _COLUMNS})
                else:
                    lines.writerow(line)
            bar.advance(task)
