"""Checks the ledger, for every account, period and meter: committed = pruned + Σ units of stored results, and what a
prune summed up by day, the events, the grants and the credits are still there.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import psycopg

from sepu.database.statements import run


class Difference(msgspec.Struct, frozen=True, rename="camel"):
    """A counter that differs from its stored results."""

    account_id: str
    period: str
    meter: str
    committed: int | None
    """None, as `pruned` then, if results are stored without a counter."""
    pruned: int | None
    stored: int | None
    """The units of the stored results; None if there are none."""
    dated: int | None
    """Of `pruned`, the units that were summed up by day: all, or none if the account was erased."""
    days: int | None
    """The units of those days; None if there are none."""
    events: int | None
    """How many events its charges recorded."""
    recorded: int | None
    """How many there are; None if there are none."""
    granted: int | None
    """Units by which the limit was raised; never negative."""
    grants: int | None
    """The units of the grants; None if there are neither grants nor credits."""
    credited: int | None
    """Of `committed`, what is not billed."""
    credits: int | None
    """The units of the credits; None if there are neither grants nor credits."""


class Audit(msgspec.Struct, frozen=True, rename="camel"):
    """What was compared, and what differs."""

    counters: int
    results: int
    units: int
    """All that was ever charged: what the counters have committed."""
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class AuditSummary:
    """What an audit found."""

    audited_at: datetime
    counters: int
    results: int
    differences: int


def audit(connection: psycopg.Connection) -> Audit:
    """Compares every counter with the stored results, days, events and adjustments, in one snapshot, during traffic."""
    ((counters, results, units, found),) = run(connection, "audit").fetchall()
    return Audit(counters, results, units, tuple(Difference(*each) for each in sorted(found, key=_counter)))


def record_audit(connection: psycopg.Connection, found: Audit) -> None:
    """Keeps the summary. A standby keeps none."""
    with suppress(psycopg.errors.ReadOnlySqlTransaction):
        counts = {"counters": found.counters, "results": found.results, "differences": len(found.differences)}
        run(connection, "record_audit", **counts)


def last_audit(connection: psycopg.Connection) -> AuditSummary | None:
    """Returns the latest summary that was kept, if there is any."""
    row = run(connection, "last_audit").fetchone()
    return None if row is None else AuditSummary(*row)


def _counter(difference: Sequence[Any]) -> tuple[str, ...]:
    """Returns the account, period and meter of a difference. Citus adds up unordered lists only."""
    return tuple(difference[:3])
