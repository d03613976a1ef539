"""`sepu prune`."""

from pathlib import Path

import click

from sepu.cli.database import database_connection, database_options
from sepu.cli.output import echo_fields, json_option, progress
from sepu.metering.prune import LEAST_DAYS, RETENTION_DAYS, count_prunable
from sepu.metering.prune import prune as prune_batches


@click.command()
@click.option(
    "--older-than-days",
    "days",
    type=click.IntRange(LEAST_DAYS, 36500),
    default=RETENTION_DAYS,
    show_default=True,
    help="The retention.",
)
@json_option
@database_options
def prune(days: int, as_json: bool, database_url: str | None, state_dir: Path) -> None:
    """Delete stored results after their retention period. Then their idempotency keys count as new.

    Works beside traffic, in short transactions. May be stopped at any time and repeated.
    """
    results = units = 0
    with (
        database_connection(database_url, state_dir) as connection,
        progress("counters, {task.fields[results]} results") as bar,
    ):
        task = bar.add_task("", total=count_prunable(connection, days), results=0)
        for batch in prune_batches(connection, days):
            results += batch.results
            units += batch.units
            bar.update(task, advance=batch.counters, results=results)
    echo_fields({"olderThanDays": days, "results": results, "units": units}, as_json)
