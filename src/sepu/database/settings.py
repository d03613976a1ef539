"""Checks the settings of Postgres that the ledger relies on. `sepu.needed_settings` in `functions.sql` lists them.

On a Citus cluster, also asks each other node, as each role that has a purpose.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from statistics import median_low

import psycopg

from sepu.database import statements
from sepu.database.connection import BoundedConnection
from sepu.database.nodes import NodeConnection, NodeFailure, NodeState, other_nodes
from sepu.database.roles import granted_roles

# Between the clocks of two nodes. Time synchronisation keeps them within milliseconds; a look takes less than a second.
_CLOCK_SECONDS = 5.0

# `alter role … set` stores these spellings as they were written; Postgres reads them as on or off.
_SPELLINGS = {"true": "on", "yes": "on", "1": "on", "false": "off", "no": "off", "0": "off"}

# By the source that pg_settings shows in a role's own session, where it has a setting from.
_SOURCES = {
    "client": "the connection",
    "database user": "role {0} in database {1}",
    "user": "role {0}",
    "database": "all roles in database {1}",
    "global": "all roles",
}


@dataclass(frozen=True, slots=True)
class BrokenSetting:
    """A setting that breaks a promise; `set_by` is a role, a database, the server or the connection.

    `node` is None for this server. Of other nodes, `setting` may also be `clock` or `connection`, without `set_by`.
    """

    role: str
    setting: str
    value: str
    needed: str
    set_by: str | None
    node: str | None = None


def broken_settings(connection: psycopg.Connection) -> list[BrokenSetting]:
    """Returns the settings that break a promise in sessions of this role and of the roles that serve.

    On Citus, includes those of other nodes (see `broken_nodes`). Must be called by the owner of the schema.
    """
    serving = [role for purpose, role in granted_roles(connection) if purpose == "service"]
    rows = statements.run(connection, "check_settings", roles=serving)
    own = [
        BrokenSetting(role, setting, value, " or ".join(accepted), set_by)
        for role, setting, value, accepted, set_by in rows.fetchall()
        if _SPELLINGS.get(value.lower(), value.lower()) not in accepted
    ]
    return own + broken_nodes(connection)


def broken_nodes(connection: psycopg.Connection) -> list[BrokenSetting]:
    """Returns what keeps other nodes of a Citus cluster from serving, as each role that has a purpose sees it.

    Must be called by the owner of the schema, who must be a member of these roles.
    """
    assert isinstance(connection, BoundedConnection)  # noqa: S101
    granted = granted_roles(connection)
    owner, database = connection.info.user, connection.info.dbname
    found: list[BrokenSetting] = []
    clock_offsets: dict[str | None, float] = {None: 0.0}
    with closing(NodeConnection(connection.another)) as asking:
        for node in other_nodes(connection):
            state = asking.state(node)
            if isinstance(state, NodeFailure):
                found.append(_unreached(owner, state.reason, node))
                continue
            clock_offsets[node] = state.clock_offset
            found += _settings(state, owner, node, database)
            for purpose, role in granted:
                found += _of_role(asking, node, role, purpose, database)
    return [*found, *_clocks(clock_offsets, owner)]


def _of_role(asking: NodeConnection, node: str, role: str, purpose: str, database: str) -> Iterator[BrokenSetting]:
    try:
        if purpose == "service":
            state = asking.state(node, role)
        else:
            answer = asking.ask(node, statements.statement("query_login"), role)
            state = answer if isinstance(answer, NodeFailure) else NodeFailure("", "" if answer[0] else answer[1])
    except psycopg.errors.InsufficientPrivilege:
        yield _unreached(role, "cannot be checked", node, f"grant {role} to the owner of the schema")
        return
    if isinstance(state, NodeState):
        yield from _settings(state, role, node, database)
    elif state.reason:
        yield _unreached(role, state.reason, node, _advice(asking, node, role, database))


def _settings(state: NodeState, role: str, node: str, database: str) -> Iterator[BrokenSetting]:
    for name, value, needed, source in state.broken:
        set_by = _SOURCES.get(source, "the server").format(role, database)
        yield BrokenSetting(role, name, value, needed, set_by, node)


def _advice(asking: NodeConnection, node: str, role: str, database: str) -> str:
    """Returns what to look at if the owner can connect to a node, but a role cannot."""
    answer = asking.ask(node, statements.statement("query_connect"), named=role)
    if isinstance(answer, NodeFailure) or answer == (True, "t"):
        return "pg_hba.conf there, and ~postgres/.pgpass here"
    return f"grant connect on database {database} to {role}" if answer[0] else answer[1]


def _unreached(role: str, reason: str, node: str, needed: str = "an answer") -> BrokenSetting:
    return BrokenSetting(role, "connection", reason, needed, None, node)


def _clocks(clock_offsets: dict[str | None, float], owner: str) -> Iterator[BrokenSetting]:
    middle = median_low(clock_offsets.values())
    for node, seconds in clock_offsets.items():
        if abs(seconds - middle) > _CLOCK_SECONDS:
            value = f"{seconds - middle:+.0f} s"
            yield BrokenSetting(owner, "clock", value, "the other nodes' time", None, node)
