"""Looks at each node of a Citus cluster from time to time, over its own session: no charge waits for that.

The charges of the accounts on a node commit there. The coordinator's probe does not show whether they can.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import psycopg

from sepu import limits
from sepu.database import statements
from sepu.database.nodes import NO_ANSWER, NodeFailure, read_state, split_node
from sepu.metering.observer import LedgerObserver
from sepu.metering.session import Session, SessionLost

log = logging.getLogger("sepu.ledger")

_LOOK_AT_NODE = statements.statement("look_at_node")
_QUERY_STATE = statements.statement("query_state")


class NodeWatch:
    """Looks at one node after the other, and reports what they answered once all have."""

    def __init__(
        self, open_session: Callable[[], Awaitable[Session]], loop: asyncio.AbstractEventLoop, observer: LedgerObserver
    ) -> None:
        self._open_session = open_session
        self._loop = loop
        self._observer = observer
        self._looked_at = float("-inf")
        self._looking: asyncio.Task[None] | None = None

    def look_if_due(self, nodes: Sequence[str]) -> None:
        """Looks at these nodes, unless it did so lately or is doing so."""
        now = self._loop.time()
        is_looking = self._looking is not None and not self._looking.done()
        if nodes and not is_looking and now - self._looked_at >= limits.probes.NODES_SECONDS:
            self._looked_at = now
            self._looking = self._loop.create_task(self._look(nodes))

    async def close(self) -> None:
        """Ends a look."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])

    async def _look(self, nodes: Sequence[str]) -> None:
        problems: dict[str, str] = {}
        session: Session | None = None
        try:
            for node in nodes:
                if session is None or session.is_closed:
                    session = await self._open_session()
                problem = await _look_at(node, session)
                problems[node] = "" if problem is None else problem.kind
                if problem is not None:
                    log.error("node %s: %s", node, problem.reason)
        except (psycopg.Error, TimeoutError):
            pass  # there was no session with the coordinator, so nothing is known of the other nodes
        finally:
            if session is not None:
                session.close()
        self._observer.looked_at_nodes(problems)


async def _look_at(node: str, session: Session) -> NodeFailure | None:
    """Returns what keeps a node from committing charges; None if nothing does."""
    outcome = await session.ask(_LOOK_AT_NODE, (*split_node(node), _QUERY_STATE, ""))
    if isinstance(outcome, SessionLost):
        return NO_ANSWER
    if isinstance(outcome, Exception):
        return NodeFailure("error", type(outcome).__name__)
    ((succeeded, result),) = outcome
    found = read_state(succeeded, result)
    if isinstance(found, NodeFailure):
        return found
    return _unsafe(found.broken) if found.broken else None


def _unsafe(broken: Sequence[tuple[str, str, str, str]]) -> NodeFailure:
    reasons = (f"{name} is {value} instead of {needed}" for name, value, needed, _ in broken)
    return NodeFailure(", ".join(name for name, *_ in broken), f"{', '.join(reasons)}; see: sepu db check")
