"""The other nodes of a Citus cluster. The coordinator connects anew to each of them, as the role that asks it to.

Charges are committed on these nodes, so what the coordinator says about itself does not show whether one is lost.
"""

import json
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from sepu.database import statements
from sepu.database.connection import BoundedConnection, NodeSilentError

# For a node of a Citus cluster to answer an operator's command.
_NODE_SECONDS = 5.0

_REASON_CHARACTERS = 300
# What Citus says if a statement failed on another node.
_NODE = r"([\w.:-]{1,260})"
_UNREACHED = re.compile(
    rf"connection to the remote node \S{{1,63}}@{_NODE} failed with the following error: (.{{1,300}})"
)
_ON_NODE = re.compile(rf"while executing command on {_NODE}")


@dataclass(frozen=True, slots=True)
class NodeState:
    """What a node says about itself.

    `broken` has each setting that breaks a promise, its value, what is needed, and where the session has it from.
    `clock_offset` is by how many seconds its clock is ahead of the coordinator's. `audits` are how many audits it
    stores, and when the latest was, in seconds since the epoch.
    """

    broken: tuple[tuple[str, str, str, str], ...]
    clock_offset: float
    audits: tuple[int, float | None]


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """Why a node did not say anything: `kind` is short, for a metric's label; `reason` is for people."""

    kind: str
    reason: str


NO_ANSWER = NodeFailure("no answer", "no answer")


def failed_on(error: psycopg.Error) -> tuple[str, str] | None:
    """Returns the other node on which a statement failed, and why the coordinator could not connect to it, or ""."""
    if unreached := _UNREACHED.search(error.diag.message_primary or ""):
        return unreached[1], " ".join(unreached[2].split())
    if found := _ON_NODE.findall(error.diag.context or ""):
        return found[-1], ""
    return None


def split_node(node: str) -> tuple[str, int]:
    """Returns a node's host and port."""
    host, _, port = node.rpartition(":")
    return host, int(port)


def read_state(succeeded: bool, result: str) -> NodeState | NodeFailure:
    """Reads what a node answered to `query_state`."""
    if not succeeded:
        return _failure(result)
    found: dict[str, Any] = json.loads(result)
    broken = tuple((name, value, needed, source) for name, value, needed, source in found["broken"])
    return NodeState(broken, found["ahead"], (found["audits"], found["audited"]))


def _failure(message: str) -> NodeFailure:
    reason = " ".join(message.split())[:_REASON_CHARACTERS]
    return NodeFailure("connection" if reason.startswith("failed to connect") else "error", reason)


def other_nodes(connection: psycopg.Connection) -> list[str]:
    """Returns the other nodes of a Citus cluster, as `host:port`. There are none without Citus."""
    found = statements.value(connection, "read_nodes")
    return found.split(",") if found else []


def own_state(connection: psycopg.Connection) -> NodeState:
    """Returns what this server says about itself."""
    state = read_state(True, json.dumps(statements.value(connection, "read_state")))
    assert isinstance(state, NodeState)  # noqa: S101
    return state


class NodeConnection:
    """A connection to the coordinator that asks other nodes. A silent node ends only the current question."""

    def __init__(self, connect: Callable[[], BoundedConnection]) -> None:
        self._connect = connect
        self._connection: BoundedConnection | None = None

    def ask(
        self, node: str, query: str, role: str | None = None, named: str | None = None
    ) -> tuple[bool, str] | NodeFailure:
        """Returns whether a query succeeded as that role, by default the session's, and its value or the error.

        `named` is a role that the query names.
        """
        connection = self._open()
        try:
            with connection.transaction():
                if role is not None:
                    connection.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
                parameters = [*split_node(node), query, named]
                found = connection.execute(statements.statement("look_at_node"), parameters).fetchone()
        except psycopg.OperationalError:
            if not connection.closed:
                raise
            return NO_ANSWER
        assert found is not None  # noqa: S101
        return bool(found[0]), str(found[1])

    def state(self, node: str, role: str | None = None) -> NodeState | NodeFailure:
        """Returns what a node says about itself to that role."""
        answer = self.ask(node, statements.statement("query_state"), role)
        return answer if isinstance(answer, NodeFailure) else read_state(*answer)

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()

    def _open(self) -> BoundedConnection:
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
            self._connection.statement_seconds = _NODE_SECONDS
        return self._connection


class Watch:
    """Looks whether all nodes answer while a statement of an operator's command takes long."""

    def __init__(self, connect: Callable[[], BoundedConnection]) -> None:
        self._connect = connect
        self._silent: set[str] = set()

    def __call__(self) -> bool:
        """Returns whether to look again later.

        Raises:
            NodeSilentError: a node did not answer, twice in a row.
        """
        try:
            with self._connect() as connection:
                nodes = other_nodes(connection)
        except psycopg.Error:  # there is no such function yet, or this role may not call it
            return False
        with closing(NodeConnection(self._connect)) as asking:
            silent = {node for node in nodes if asking.ask(node, "query_login") == NO_ANSWER}
        for node in silent & self._silent:
            raise NodeSilentError(node)
        self._silent = silent
        return bool(nodes)
