"""Checks for every account, period and meter that committed = pruned + Σ units of stored results, and that the
pruned days, events, grants and credits are still there.

Each audit is stored on every node of a Citus cluster. A node that lacks one was restored to an older state than the
others: what it has adds up, but it lacks the charges answered since.
"""

from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import psycopg

from sepu.database.connection import BoundedConnection
from sepu.database.nodes import NodeConnection, NodeFailure, other_nodes, own_state
from sepu.database.statements import run
from sepu.errors import SepuError


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
    outdated_nodes: tuple[str, ...] = ()
    """Nodes of a Citus cluster that lack earlier audits, so they are older than the others."""


@dataclass(frozen=True, slots=True)
class AuditSummary:
    """What an audit found."""

    audited_at: datetime
    counters: int
    results: int
    differences: int


def audit(connection: psycopg.Connection) -> Audit:
    """Compares every counter with the stored results, days, events and adjustments, in one snapshot, during traffic.

    Raises:
        SepuError: a node of a Citus cluster does not answer.
    """
    # Audits that run at the same time are stored on one node after the other, so read again what differs.
    outdated = _outdated_nodes(connection) and _outdated_nodes(connection)
    ((counters, results, units, found),) = run(connection, "audit").fetchall()
    return Audit(counters, results, units, tuple(Difference(*each) for each in sorted(found, key=_counter)), outdated)


def _outdated_nodes(connection: psycopg.Connection) -> tuple[str, ...]:
    nodes = other_nodes(connection)
    if not nodes:
        return ()
    assert isinstance(connection, BoundedConnection)  # noqa: S101
    states = {"the coordinator": own_state(connection)}
    with closing(NodeConnection(connection.another)) as asking:
        for node in nodes:
            state = asking.state(node)
            if isinstance(state, NodeFailure):
                raise SepuError(f"the node {node}: {state.reason}; its accounts were not read")
            states[node] = state
    most = max(state.audits for state in states.values())
    return tuple(node for node, state in states.items() if state.audits != most)


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
