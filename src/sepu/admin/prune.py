"""Deletes stored results past their retention. Their charges stay counted, so the ledger still adds up."""

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass

import psycopg

from sepu import limits
from sepu.admin.history import NO_ACCOUNT, record_changes
from sepu.database.statements import run, value
from sepu.errors import SepuError


@dataclass(frozen=True, slots=True)
class PrunedBatch:
    """Counts of what one transaction deleted."""

    results: int
    units: int


def count_prunable(connection: psycopg.Connection, days: int) -> int:
    """Counts the results older than `days`, exactly: it reads all results."""
    return int(value(connection, "count_prunable", days=days))


def prune(connection: psycopg.Connection, days: int) -> Generator[PrunedBatch]:
    """Deletes results older than `days` by the database's clock, in short transactions. May be stopped and repeated.

    The history records a prune that deletes any. Counters are taken in order, so two prunes cannot deadlock.

    Raises:
        SepuError: stored results do not add up to what their counter was charged.
    """
    recorded = False
    after = {"account_id": "", "period": "", "meter": ""}
    while page := _next_prunable(connection, days, after):
        after = page[-1]
        counters = deque(page)
        while counters:
            results = units = 0
            with connection.transaction():
                while counters and results < limits.retention.RESULTS:
                    room = limits.retention.RESULTS - results
                    deleted, freed = prune_results(connection, days, counters[0], room)
                    results += deleted
                    units += freed
                    if deleted and not recorded:
                        record_changes(connection, "prune", NO_ACCOUNT, {}, {"results": {"olderThanDays": days}})
                        recorded = True
                    if deleted < room:  # otherwise the counter may have more
                        counters.popleft()
            yield PrunedBatch(results, units)


def prune_results(connection: psycopg.Connection, days: int, counter: dict[str, str], limit: int) -> tuple[int, int]:
    """Deletes up to `limit` of a counter's results older than `days`. Returns their number and their units.

    Raises:
        SepuError: the results do not add up to what the counter was charged.
    """
    try:
        ((results, units),) = run(connection, "prune_results", days=days, limit=limit, **counter).fetchall()
    except (psycopg.errors.InvalidParameterValue, psycopg.errors.CheckViolation) as error:
        raise SepuError(
            f"what account {counter['account_id']} stored of {counter['meter']} in {counter['period']} does not add up "
            "to what it was charged",
            "audit",
        ) from error
    return results, units


def prune_deliveries(connection: psycopg.Connection, days: int) -> int:
    """Forgets how events older than `days` were delivered. The events stay."""
    return run(connection, "prune_deliveries", days=days).rowcount


def _next_prunable(connection: psycopg.Connection, days: int, after: dict[str, str]) -> list[dict[str, str]]:
    rows = run(connection, "next_prunable", days=days, limit=limits.retention.COUNTERS, **after).fetchall()
    return [dict(zip(after, row, strict=True)) for row in rows]
