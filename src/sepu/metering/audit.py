"""Whether the ledger adds up: committed = pruned + Σ units of stored results, for every account, period and meter."""

from dataclasses import dataclass

import psycopg

from sepu.metering import scripts


@dataclass(frozen=True, slots=True)
class Difference:
    """A counter that is not what its stored results say."""

    account_id: str
    period: str
    meter: str
    committed: int | None
    """None, as `pruned` then: there is no counter, but results are stored."""
    pruned: int | None
    stored: int | None
    """Units of the stored results; None: there are none."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What was looked at, and what is wrong."""

    counters: int
    results: int
    differences: tuple[Difference, ...]


def audit(connection: psycopg.Connection) -> Audit:
    """Compares every counter with the stored results, in one snapshot: traffic may go on."""
    (row,) = connection.execute(scripts.statement("audit")).fetchall()
    counters, results, differences = row
    return Audit(counters, results, tuple(Difference(*difference) for difference in differences))
