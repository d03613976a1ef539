"""Looks at each node of a Citus cluster from time to time, over its own session: no charge waits for that.

The charges of the accounts on a node commit there. The coordinator's probe does not show whether they can.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sepu import limits
from sepu.database import statements
from sepu.database.nodes import NO_ANSWER, NodeFailure, NodeState, read_state, split_node
from sepu.metering.codec import Row, Rows
from sepu.metering.commands import Command
from sepu.metering.failure import LedgerUnavailable
from sepu.metering.fair_queue import PendingCall
from sepu.metering.lanes import Lane
from sepu.metering.observer import LedgerObserver
from sepu.metering.session import SessionLost

log = logging.getLogger("sepu.ledger")

_LOOK_AT_NODE = statements.statement("look_at_node")
_QUERY_STATE = statements.statement("query_state")


class NodeWatch:
    """Sends a call for each node over a lane, and reports what they answered once all are settled."""

    def __init__(self, time: Callable[[], float], observer: LedgerObserver) -> None:
        self.lane: Lane
        self._time = time
        self._observer = observer
        self._looked_at = float("-inf")
        self._waiting = 0
        self._problems: dict[str, NodeFailure | None] = {}  # by node; None if charges can commit there

    def look_if_due(self, nodes: Sequence[str]) -> None:
        """Looks at these nodes, unless it did so lately or is doing so."""
        now = self._time()
        if self._waiting or not nodes or now - self._looked_at < limits.probes.NODES_SECONDS:
            return
        self._looked_at = now
        self._waiting = len(nodes)
        self._problems = {}
        for node in nodes:
            self._observer.command_began()
            done = partial(self._answered, node)
            self.lane.add(PendingCall(_look_at(node), done, now + limits.probes.NODES_SECONDS))

    def settle(self, calls: Sequence[PendingCall], outcome: Rows | Exception, _: bool) -> None:
        """Gives a call its answer. The lane calls this."""
        self._observer.command_ended()
        for call in calls:
            call.done(outcome if isinstance(outcome, Exception) else call.command.read(outcome))

    def _answered(self, node: str, answer: object) -> None:
        self._waiting -= 1
        match answer:
            case NodeState(broken=broken):
                self._problems[node] = _unsafe(broken) if broken else None
            case NodeFailure():
                self._problems[node] = answer
            case SessionLost():
                self._problems[node] = NO_ANSWER
            case LedgerUnavailable():
                pass  # there was no session with the coordinator, so nothing is known of the node
            case Exception() as error:
                self._problems[node] = NodeFailure("error", type(error).__name__)
        if (problem := self._problems.get(node)) is not None:
            log.error("node %s: %s", node, problem.reason)
        if not self._waiting:
            self._observer.looked_at_nodes(
                {each: "" if found is None else found.kind for each, found in self._problems.items()}
            )


def _unsafe(broken: Sequence[tuple[str, str, str, str]]) -> NodeFailure:
    reasons = (f"{name} is {value} instead of {needed}" for name, value, needed, _ in broken)
    return NodeFailure(", ".join(name for name, *_ in broken), f"{', '.join(reasons)}; see: sepu db check")


def _look_at(node: str) -> Command[Any]:
    return Command(_LOOK_AT_NODE, (*split_node(node), _QUERY_STATE, ""), _read_look)


def _read_look(rows: Sequence[Row]) -> NodeState | NodeFailure:
    ((succeeded, result),) = rows
    return read_state(succeeded, result)
