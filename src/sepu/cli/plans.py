"""`sepu plan`: the limits of accounts."""

from collections.abc import Iterable

import click
from psycopg import Connection

from sepu.admin import plans
from sepu.cli.command import F, example, group
from sepu.cli.decorators import prints_change, prints_fields, prints_rows
from sepu.cli.output import Fields, columns, members
from sepu.metering.meters import METERS


def _limit_options(command: F) -> F:
    """Adds an option for the limit of each meter, such as `--match-limit`."""
    for meter in reversed(METERS.values()):
        option, help_text = f"--{meter.operation}-limit", f"{meter.unit.capitalize()} a month."
        command = click.option(meter.name, option, type=click.IntRange(0), help=help_text)(command)
    return command


def _percentages(value: str) -> list[int]:
    """Parses percentages such as 80,95,100; an empty text is none."""
    try:
        return [int(part) for part in value.split(",")] if value else []
    except ValueError:
        raise click.BadParameter(f"{value!r} is not like 80,95,100") from None


@group()
def plan() -> None:
    """Plans: the limits of accounts."""


@plan.command(
    "set",
    epilog=example("plan set standard --match-limit 2000 --search-limit 1000 --requests-per-minute 120"),
)
@click.argument("name")
@_limit_options
@click.option("--requests-per-minute", type=click.IntRange(1), help="The abuse limit.")
@click.option("--thresholds", type=_percentages, help="Percentages of a limit at which an event is recorded.")
@prints_change()
def set_plan(
    connection: Connection,
    name: str,
    requests_per_minute: int | None,
    thresholds: list[int] | None,
    **limits: int | None,
) -> Fields:
    """Make or change a plan. A change applies from an account's next request on.

    A new plan needs all limits; its default thresholds are 80,95,100. Otherwise omitted values stay.
    """
    given = {meter: units for meter, units in limits.items() if units is not None}
    plans.set_plan(connection, name, given, requests_per_minute=requests_per_minute, thresholds=thresholds)
    return members(plans.show_plan(connection, name))


@plan.command("show", epilog=example("plan show standard"))
@click.argument("name")
@prints_fields
def show_plan(connection: Connection, name: str) -> Fields:
    """Show a plan's limits, and how many accounts it has."""
    return members(plans.show_plan(connection, name))


@plan.command("list", epilog=example("plan list"))
@prints_rows(columns(plans.Plan))
def list_plans(connection: Connection) -> Iterable[Fields]:
    """List all plans, in the order of their names."""
    return map(members, plans.list_plans(connection))


@plan.command("delete", epilog=example("plan delete trial"))
@click.argument("name")
@prints_change()
def delete_plan(connection: Connection, name: str) -> Fields:
    """Delete a plan that no account has. Bills of past months keep its limits."""
    plans.delete_plan(connection, name)
    return {"planId": name, "status": "deleted"}
