"""`sepu export-usage`."""

import csv
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from sepu.cli.database import database_connection, database_options
from sepu.cli.output import echo_json, json_lines_option, progress
from sepu.metering import export
from sepu.metering.accounts import AccountUsage

_COLUMNS = ("accountId", "planId", "status", "period", "meter", "limit", "committed", "reserved")


class Month(click.ParamType[str]):
    """A UTC month, such as 2027-01."""

    name = "YYYY-MM"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Checks its form."""
        if not re.fullmatch(r"[1-9][0-9]{3}-(0[1-9]|1[0-2])", value):
            self.fail(f"{value!r} is not like 2027-01", param, ctx)
        return value


@click.command("export-usage")
@click.argument("period", type=Month())
@json_lines_option
@database_options
def export_usage(period: str, as_json: bool, database_url: str | None, state_dir: Path) -> None:
    """Print what every account used in a UTC month, for billing: CSV, a line for each account and meter.

    PERIOD is a month such as 2027-01. An account that used nothing is there with 0, one that was made later is not.
    Status, plan and limits are those of now. Works beside traffic; a month is final when it is over.
    """
    with database_connection(database_url, state_dir) as connection:
        total = export.count_exported(connection, period)
        # On a terminal the lines show the progress themselves.
        with progress("accounts", hidden=sys.stdout.isatty()) as bar:
            task = bar.add_task("", total=total)
            lines = csv.writer(sys.stdout, lineterminator="\n")
            if not as_json:
                lines.writerow(_COLUMNS)
            for account in export.export_usage(connection, period):
                for values in _lines(account):
                    if as_json:
                        echo_json(dict(zip(_COLUMNS, values, strict=True)))
                    else:
                        lines.writerow(values)
                bar.advance(task)


def _lines(account: AccountUsage) -> Iterator[tuple[str | int, ...]]:
    for used in account.usage:
        yield (
            account.account_id,
            account.plan_id,
            account.status,
            used.period,
            used.meter,
            used.limit,
            used.committed,
            used.reserved,
        )
