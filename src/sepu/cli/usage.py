"""`sepu usage` and `sepu top`."""

from collections.abc import Iterable, Sequence
from datetime import datetime

import click
from psycopg import Connection

from sepu.admin import export
from sepu.admin.keys import list_keys
from sepu.admin.usage import (
    NEAR_PERCENT,
    AccountUsage,
    Part,
    nearest_limits,
    show_usage,
    usage_by_month,
    usage_in_month,
)
from sepu.cli.command import command, example, form_options
from sepu.cli.decorators import prints_rows, with_connection
from sepu.cli.output import Fields, Form, bar, columns, echo, echo_fields, echo_json, echo_rows, members, month, percent
from sepu.cli.times import utc_day
from sepu.errors import SepuError


@command(epilog=example("usage cus_8812 --month 2026-11 --by day"))
@click.argument("account_id", metavar="[ACCOUNT]", required=False)
@click.option("--month", "period", type=month, help="A UTC month such as 2026-11.  [default: the current one]")
@click.option("--by", type=click.Choice(["month", "day", "key"]), help="One row for each.")
@click.option("--day", metavar="YYYY-MM-DD", type=utc_day, help="With --by key: of this UTC day, instead of a month.")
@form_options
@with_connection
def usage(
    connection: Connection,
    account_id: str | None,
    period: str | None,
    by: str | None,
    day: datetime | None,
    form: Form | None,
) -> None:
    """Show the usage of an account, or of all together: of a month, by month, by day or by key.

    Without ACCOUNT it is by month unless --by says otherwise. Days are UTC. Usage of erased accounts is in a
    row without day or key.
    """
    if day is not None:
        if by != "key" or period is not None:
            raise click.UsageError("--day needs --by key, and no --month")
        period = f"{day:%Y-%m}"
    if by is None and account_id is not None:
        _show_month(connection, account_id, period, form)
        return
    if period is not None:
        export.check_begun(connection, period)
    if by in (None, "month"):
        if period is not None:
            raise click.UsageError("--by month shows all months; omit --month, or use --by day")
        _echo_parts("period", usage_by_month(connection, account_id), form)
    elif by == "day":
        _echo_parts("day", usage_in_month(connection, period, account_id).days, form)
    elif account_id is None:
        raise click.UsageError("--by key needs an ACCOUNT")
    else:
        names = {key.key_id: key.name or key.external_id for key in list_keys(connection, account_id)}
        _echo_parts("keyId", usage_in_month(connection, period, account_id, day and day.date()).keys, form, names)


def _show_month(connection: Connection, account_id: str, period: str | None, form: Form | None) -> None:
    """Shows one month with its limits."""
    if period is None:
        shown = show_usage(connection, account_id)
    else:
        export.check_begun(connection, period)
        found = list(export.export_usage(connection, period, account_id))
        if not found:
            raise SepuError(f"account {account_id!r} was made after {period}")
        (shown,) = found
    shown_first = {name: members(shown)[name] for name in ("accountId", "externalId", "name", "planId", "status")}
    rows = [used.as_dict() for used in shown.usage]
    if form == "json":
        echo_json({**shown_first, "usage": rows})
    elif form == "csv":
        echo_rows((*shown_first, *rows[0]), ({**shown_first, **row} for row in rows), "csv")
    else:
        echo_fields({**shown_first, "period": shown.usage[0].period}, as_json=False)
        echo()
        echo_rows((), rows, "table", _with_share)


def _with_share(row: Fields) -> Fields:
    committed, limit = int(str(row["committed"])), int(str(row["limit"]))
    shown = {name: row[name] for name in ("meter", "limit", "committed", "credited", "toBill")}
    return {**shown, "used": f"{percent(committed, limit)} {bar(committed, limit)}".rstrip()}


def _echo_parts(
    title: str, parts: Sequence[Part], form: Form | None, names: dict[str, str | None] | None = None
) -> None:
    """Prints a row for each part, with the units of each meter; and in the table a bar for their sum."""
    _, *units = columns(Part)
    most = max((sum(part.units.values()) for part in parts), default=0)

    def row(part: Part) -> Fields:
        found = members(part)
        named = {} if names is None else {"name": names.get(part.name or "")}
        return {title: found.pop("name"), **named, **found}

    def with_bar(row: Fields) -> Fields:
        return {**row, "": bar(sum(int(str(row[name])) for name in units), most)}

    echo_rows((title, *(["name"] if names is not None else []), *units), map(row, parts), form or "table", with_bar)


_NEAR = ("accountId", "externalId", "name", "status", "planId", "period", "meter", "limit", "committed", "percent")


@command(epilog=example("top --at-least 95"))
@click.option(
    "--at-least",
    metavar="PERCENT",
    type=click.IntRange(0, 1000),
    default=NEAR_PERCENT,
    show_default=True,
    help="Of a limit. 100 is at the limit.",
)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Maximum number of rows.")
@prints_rows(
    _NEAR,
    lambda row: {
        **{name: row[name] for name in ("accountId", "name", "planId", "meter", "committed", "limit")},
        "used": f"{row['percent']:>3} %",
    },
)
def top(connection: Connection, at_least: int, limit: int) -> Iterable[Fields]:
    """Show who is near or at a limit this month, the nearest first: a row for each account and meter."""
    return map(_near, nearest_limits(connection, at_least, limit))


def _near(shown: AccountUsage) -> Fields:
    (used,) = shown.usage
    taken = used.committed + used.reserved
    found = {**members(shown), **used.as_dict(), "percent": taken * 100 // used.limit if used.limit else 100}
    return {name: found[name] for name in _NEAR}
