"""Checks for every account, period and meter that committed = pruned + Σ units of stored results, and that the
pruned days, events, grants and credits are still there.
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
    """None, like `pruned`, if results are stored without a counter."""
    pruned: int | None
    stored: int | None
    """The units of the stored results; None if there are none."""
    dated: int | None
    """Units of `pruned` that were summed up by day: all, or none if the account was erased."""
    days: int | None
    """The units of those days; None if there are none."""
    events: int | None
    """How many events its charges recorded."""
    recorded: int | None
    """How many of them are stored; None if there are none."""
    granted: int | None
    """Units by which the limit was raised; never negative."""
    grants: int | None
    """The units of the grants; None if there are neither grants nor credits."""
    credited: int | None
    """Units of `committed` that are not billed."""
    credits: int | None
    """The units of the credits; None if there are neither grants nor credits."""
    invalid: int
    """How many of its rows sepu never writes: a result of less than one unit, an event whose threshold its charge did
    not reach, or the counter itself with a negative number or `pruned` above `committed`."""


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
    """Stores the summary, except on a standby."""
    with suppress(psycopg.errors.ReadOnlySqlTransaction):
        counts = {"counters": found.counters, "results": found.results, "differences": len(found.differences)}
        run(connection, "record_audit", **counts)


def last_audit(connection: psycopg.Connection) -> AuditSummary | None:
    """Returns the latest stored summary, if any."""
    row = run(connection, "last_audit").fetchone()
    return None if row is None else AuditSummary(*row)


def _counter(difference: Sequence[Any]) -> tuple[str, ...]:
    """Returns a difference's account, period and meter. Citus cannot sort aggregated lists."""
    return tuple(difference[:3])
