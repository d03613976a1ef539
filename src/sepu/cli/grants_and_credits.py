"""`sepu grant` and `sepu credit`."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import click
from psycopg import Connection

from sepu.admin import grants_and_credits as admin
from sepu.admin.export import export_usage
from sepu.cli.command import F, example, form_options, group
from sepu.cli.decorators import REPEATABLE, prints_change, prints_rows, with_connection
from sepu.cli.output import (
    Fields,
    Form,
    columns,
    echo_rows,
    members,
    month,
    note,
    progress,
    report_success_if_unprinted,
)
from sepu.cli.times import moment
from sepu.database.opening import DatabaseError, DatabaseUnavailableError, clear_errors
from sepu.errors import SepuError
from sepu.metering.meters import METERS

_COLUMNS = columns(admin.Adjustment)
# Fields of the month's usage that it may have changed.
_AFTER = ("limit", "granted", "committed", "credited", "toBill")
_ONCE = "Running it again adds it again; with --id {id} it adds nothing"
# So that -500 is a number, not an option.
_NEGATIVE = {"ignore_unknown_options": True}


def _given(command: F) -> F:
    """Adds the parts of an adjustment, except its month."""
    command = click.option(
        "--id",
        "adjustment_id",
        type=click.UUID,
        help="A UUID; the same one again adds nothing.  [default: a new one]",
    )(command)
    command = click.option("--reason", required=True, help="Why; customers never see it.")(command)
    command = click.argument("units", type=int)(command)
    command = click.argument("meter", metavar="METER", type=click.Choice(list(METERS)))(command)
    return click.argument("account_id", metavar="ACCOUNT")(command)


def _filters(command: F) -> F:
    command = click.option("--month", "period", type=month, help="Only of a UTC month such as 2026-11.")(command)
    return click.argument("account_id", metavar="[ACCOUNT]", required=False)(command)


def _in_table(row: Fields) -> Fields:
    return {
        "on": str(row["at"])[:10],
        "account": row["name"] or row["externalId"] or row["accountId"],
        **{name: row[name] for name in ("period", "meter", "units", "operator", "reason")},
    }


@group()
def grant() -> None:
    """Grants: units beyond the plan's limit, until the month ends."""


@grant.command(
    "add",
    context_settings=_NEGATIVE,
    epilog=example("grant add cus_8812 color_match 500 --reason 'Trade fair, ticket 4711'"),
)
@_given
@click.option("--month", "period", type=month, help="A UTC month such as 2026-11.  [default: the current one]")
@prints_change(_ONCE)
def add_grant(connection: Connection, **given: Any) -> Fields:  # noqa: ANN401
    """Add units to an account's limit of a month, from its next request on.

    Negative units undo a grant, but take back nothing that was used. The plan stays.
    """
    return _add(connection, "grant", **given)


@grant.command("list", epilog=example("grant list cus_8812 --month 2026-11"))
@_filters
@prints_rows(_COLUMNS, _in_table)
def list_grants(connection: Connection, account_id: str | None, period: str | None) -> Iterable[Fields]:
    """List what was granted to an account, or to all, the oldest first."""
    return map(members, admin.list_adjustments(connection, "grant", account_id=account_id, period=period))


@group()
def credit() -> None:
    """Credits: charged units that are not billed."""


@credit.command(
    "add",
    context_settings=_NEGATIVE,
    epilog=example("credit add cus_8812 color_match 120 --month 2026-11 --reason 'Outage of 3 November'"),
)
@_given
@click.option("--month", "period", type=month, required=True, help="The UTC month of the bill, such as 2026-11.")
@prints_change(_ONCE)
def add_credit(connection: Connection, **given: Any) -> Fields:  # noqa: ANN401
    """Take units off an account's bill of a month. They stay charged, and count against the limit.

    Negative units reverse an earlier credit.
    """
    return _add(connection, "credit", **given)


@credit.command(
    "range",
    epilog=example("credit range --since 2026-11-03T09:12Z --until 2026-11-03T10:40Z --reason Outage --dry-run"),
)
@click.argument("account_id", metavar="[ACCOUNT]", required=False)
@click.option("--since", metavar="TIME", type=moment, required=True, help="Its beginning: an instant or a day.")
@click.option("--until", metavar="TIME", type=moment, required=True, help="Its end, which is not part of it.")
@click.option("--reason", required=True, help="Why; customers never see it.")
@click.option("--dry-run", is_flag=True, help="Change nothing, and show what would be credited.")
@form_options
@with_connection
def credit_range(
    connection: Connection,
    account_id: str | None,
    since: datetime,
    until: datetime,
    reason: str,
    dry_run: bool,
    form: Form | None,
) -> None:
    """Take what was charged in a range of time off the bills of all accounts, or of one.

    The same range again credits nothing twice, even if a run was interrupted. With --dry-run a time may also be a
    length of time ago, such as 2h. Units stay charged, and count against the limit.
    """
    given = click.get_current_context().params
    fixed = f"--since {since.isoformat()} --until {until.isoformat()}"
    is_fixed = not any(isinstance(given[name], timedelta) for name in ("since", "until"))
    if not (is_fixed or dry_run):
        raise click.UsageError(f"a second run would use other times and credit twice; give instants: {fixed}")
    admin.check_reason(reason)
    found = admin.find_range_credits(connection, since, until, account_id)
    if not dry_run:
        found = _credit_all(connection, found, reason)
    units: dict[str, Counter[str]] = {}
    for each in found:
        units.setdefault(each.outcome, Counter())[each.meter] += each.units
    with report_success_if_unprinted({}, REPEATABLE):
        echo_rows(columns(admin.RangeCredit), map(members, found), form or "table", _range_in_table, nothing=None)
    sums = (
        f"{outcome}: {', '.join(f'{of[meter]} of {meter}' for meter in METERS if of[meter])}"
        for outcome, of in sorted(units.items())
        if outcome != "nothing_left"
    )
    note("; ".join(sums) or "nothing that was charged in this range can be credited")
    if not is_fixed:
        note(f"to credit this range: {fixed}")


def _credit_all(connection: Connection, found: list[admin.RangeCredit], reason: str) -> list[admin.RangeCredit]:
    done = []
    with progress("credits") as bar:
        task = bar.add_task("", total=len(found))
        for each in found:
            try:
                with clear_errors():
                    done.append(admin.credit_range(connection, each, reason))
            except SepuError as error:
                raise SepuError(
                    f"{error}. {len(done)} of {len(found)} were processed: run this again, and none is credited twice"
                ) from error
            bar.advance(task)
    return done


def _range_in_table(row: Fields) -> Fields:
    account = row["name"] or row["externalId"] or row["accountId"]
    return {"account": account, **{name: row[name] for name in ("period", "meter", "charged", "units", "outcome")}}


@credit.command("list", epilog=example("credit list cus_8812 --month 2026-11"))
@_filters
@prints_rows(_COLUMNS, _in_table)
def list_credits(connection: Connection, account_id: str | None, period: str | None) -> Iterable[Fields]:
    """List what was credited to an account, or to all, the oldest first."""
    return map(members, admin.list_adjustments(connection, "credit", account_id=account_id, period=period))


def _add(
    connection: Connection,
    kind: admin.Kind,
    account_id: str,
    adjustment_id: UUID | None,
    **given: Any,  # noqa: ANN401
) -> Fields:
    """Adds it, and returns it with its month's usage. If the outcome is unknown, the error gives its id."""
    own_id = str(adjustment_id or uuid4())
    try:
        with clear_errors():
            added = admin.adjust_usage(connection, kind, account_id, adjustment_id=own_id, **given)
            (shown,) = export_usage(connection, added.period, account_id)
    except DatabaseUnavailableError as error:
        raise DatabaseError(
            f"{error}. It is not known whether the {kind} was added: run this again with --id {own_id}, "
            "and it is added once"
        ) from error
    (used,) = (used for used in shown.usage if used.meter == added.meter)
    return {**members(added), **{name: value for name, value in used.as_dict().items() if name in _AFTER}}
