"""`sepu prune`."""

import click
from psycopg import Connection

from sepu import limits
from sepu.admin.prune import count_prunable, prune_deliveries
from sepu.admin.prune import prune as prune_batches
from sepu.cli.command import command, example
from sepu.cli.decorators import prints_change
from sepu.cli.output import progress

# So no retry within a month is charged twice, whatever the operator types. And no charge waits for a prune, which locks
# the counters that it prunes: those are of past months.
_MIN_DAYS = 31


@command(epilog=example("prune --older-than-days 90"))
@click.option(
    "--older-than-days",
    "days",
    type=click.IntRange(_MIN_DAYS, 36500),
    default=limits.retention.DAYS,
    show_default=True,
    help="The retention.",
)
@prints_change()
def prune(connection: Connection, days: int) -> dict[str, int]:
    """Delete stored results after their retention period. Then their idempotency keys count as new.

    Also deletes deliveries of events of that age; the events stay.

    Works during traffic, in short transactions. May be stopped at any time and repeated.
    """
    results = units = 0
    with progress("results") as bar:
        task = bar.add_task("", total=None)
        if not bar.disable:  # counting reads all results
            bar.update(task, total=count_prunable(connection, days))
            bar.reset(task)
        for batch in prune_batches(connection, days):
            results += batch.results
            units += batch.units
            bar.advance(task, batch.results)
    deliveries = prune_deliveries(connection, days)
    return {"olderThanDays": days, "results": results, "units": units, "deliveries": deliveries}
