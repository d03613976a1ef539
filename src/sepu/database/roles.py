"""Makes and grants database roles. Each has one purpose, and may do only what that needs."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Literal, get_args

import psycopg
from psycopg import sql

from sepu import limits
from sepu.database import statements
from sepu.database.connection import BoundedConnection
from sepu.database.nodes import NodeConnection, NodeFailure, other_nodes
from sepu.errors import SepuError

Purpose = Literal["service", "events", "read-only", "support", "billing", "accounts"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
PEOPLE: tuple[Purpose, ...] = ("read-only", "support", "billing", "accounts")
"""The purposes of people's roles. Each includes those before it."""

Right = tuple[str, str, str | None]
"""A privilege, the object that it is on, and the column, if it is one."""


@dataclass(frozen=True, slots=True)
class OpenRight:
    """A right that a role has and should not have, or lacks and needs, or several of them.

    The statements change that, in one transaction. `is_here` says whether they concern only this database or
    its roles, `may` whether this session may run them, and `by_superuser` whether only a superuser may. `node` is None
    for this server; for another one there are no statements.
    """

    role: str
    what: str
    value: str
    needed: str
    statements: tuple[str, ...]
    is_here: bool
    may: bool
    by_superuser: bool
    node: str | None = None


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A session that has held more locks, or for longer, than requests do, and the statement that ends it."""

    role: str
    pid: int
    locks: int
    since: str
    ending: str


def grant(connection: psycopg.Connection, role: str, purpose: Purpose) -> None:
    """Lets a role do what its purpose needs, and nothing else in the schema; granting again changes nothing.

    Raises:
        SepuError: there is no such role, it is the owner, or the connection is not the owner's.
    """
    with connection.transaction():
        _check_owner(connection)
        statements.run(connection, "lock_migrations")
        # Postgres takes the name `public` to mean every role, and only warns a user who may not grant.
        if not statements.value(connection, "has_role", role=role):
            raise SepuError(f"there is no database role {role!r}; make it with: create role {role} login")
        if statements.value(connection, "owns_schema", role=role):
            raise SepuError(
                f"{role} owns the schema and may do everything; make another role with: create role … login"
            )
        _apply(connection, role, purpose)
        _close(connection)


def make_role(connection: psycopg.Connection, role: str, purpose: Purpose) -> None:
    """Makes a role that may log in and do what its purpose needs, unless it exists; closes other databases too.

    Raises:
        SepuError: the connection is not the owner's.
    """
    with connection.transaction():
        _check_owner(connection)
        statements.run(connection, "lock_migrations")  # so that only one of several servers makes it
        if not statements.value(connection, "has_role", role=role):
            create = sql.SQL(statements.statement("create_role"))
            connections = limits.database.ROLE_CONNECTIONS[purpose]
            connection.execute(create.format(role=sql.Identifier(role), connections=connections))
        _apply(connection, role, purpose)
        _close(connection, everywhere=True)


def grant_anew(connection: psycopg.Connection) -> None:
    """Grants roles that already have a purpose what it needs in this release. Runs in the migration's transaction."""
    if roles := granted_roles(connection):
        for purpose, role in roles:
            _apply(connection, role, purpose)
        _close(connection)


def granted_roles(connection: psycopg.Connection) -> list[tuple[Purpose, str]]:
    """Returns the roles that have a purpose, with it."""
    return statements.run(connection, "read_granted_roles").fetchall()


def read_open_rights(connection: psycopg.Connection) -> list[OpenRight]:
    """Returns what every role may do and should not, what the owner lacks, and which serving roles have no limit.

    Must be called by the owner of the schema.
    """
    ((owner, _),) = statements.run(connection, "read_owner").fetchall()
    with connection.transaction():  # behind a pooler, only a transaction keeps its session
        statements.run(connection, "set_keepers", keepers=[owner])
        query = sql.SQL(statements.statement("read_open_rights")).format(public=sql.SQL(statements.public()))
        rows = connection.execute(query).fetchall()
    found = [
        OpenRight(
            "PUBLIC" if revoke else owner,
            what,
            "granted" if revoke else "missing",
            "revoked" if revoke else "granted",
            (*grants, *([revoke] if revoke else [])),
            *scope,
        )
        for what, grants, revoke, *scope in rows
    ]
    return found + _unbounded(connection)


def read_open_rights_of_nodes(connection: psycopg.Connection) -> list[OpenRight]:
    """Returns what every role may do and should not, or the owner lacks, on the other nodes of a Citus cluster.

    Such rights belong to one database on one node. A node that does not answer is left to `broken_nodes`. Must be
    called by the owner of the schema.
    """
    assert isinstance(connection, BoundedConnection)  # noqa: S101
    query = statements.statement("query_open_rights").format(public=statements.public())
    found = []
    with closing(NodeConnection(connection.another)) as asking:
        for node in other_nodes(connection):
            answer = asking.ask(node, query)
            if isinstance(answer, NodeFailure) or not answer[0]:
                continue
            for what, is_open in json.loads(answer[1]):
                role, value, needed = (
                    ("PUBLIC", "granted", "revoked") if is_open else (connection.info.user, "missing", "granted")
                )
                found.append(OpenRight(role, what, value, needed, (), False, False, True, node))
    return found


def not_of_purpose(connection: psycopg.Connection) -> list[OpenRight]:
    """Returns what roles may do in the schema beyond their purpose, and what they lack for it.

    Of roles without a purpose, only those that may write to a table: they may read what somebody granted them.
    """
    purposes = {role: purpose for purpose, role in granted_roles(connection)}
    ((owner, _),) = statements.run(connection, "read_owner").fetchall()
    rights: dict[str, set[Right]] = defaultdict(set)
    for role, *right in statements.run(connection, "read_rights", roles=[*purposes, owner]):
        rights[role].add((right[0], right[1], right[2]))
    found = []
    for role, what, remedy in statements.run(connection, "read_memberships", roles=list(purposes)):
        rights.pop(role, None)  # it may do everything; a role may be named for several memberships
        found.append(_of_ledger(role, what, "granted", "revoked", remedy))
    for role, purpose in purposes.items():
        needed = _needed(purpose, rights[owner])
        held = rights.get(role, needed)
        repair = _grants(connection, role, purpose)
        if more := held - needed:
            found.append(_of_ledger(role, f"more than {purpose}", _named(more), "revoked", *repair))
        if less := needed - held:
            found.append(_of_ledger(role, f"less than {purpose}", "missing", _named(less), *repair))
    for role, tables, remedy in statements.run(connection, "read_writers", roles=list(purposes)):
        found.append(_of_ledger(role, "rights to write", tables, "revoked", remedy))
    return found


def lock_holders(connection: psycopg.Connection) -> list[LockHolder]:
    """Returns sessions that hold locks as no request does; not the owner's, nor superusers'."""
    found = statements.run(connection, "read_lock_holders", seconds=limits.database.LOCK_HOLDER_SECONDS)
    return [LockHolder(*row) for row in found.fetchall()]


def _unbounded(connection: psycopg.Connection) -> list[OpenRight]:
    bounds = {role: limits.database.ROLE_CONNECTIONS[purpose] for purpose, role in granted_roles(connection)}
    rows = statements.run(
        connection,
        "read_unbounded_roles",
        roles=list(bounds),
        connections=list(bounds.values()),
        files=limits.database.ROLE_TEMP_FILES,
    )
    return [
        OpenRight(role, what, value, needed, (statement,), *scope)
        for role, what, value, needed, statement, *scope in rows.fetchall()
    ]


def _check_owner(connection: psycopg.Connection) -> None:
    ((owner, is_owner),) = statements.run(connection, "read_owner").fetchall()
    if not is_owner:
        raise SepuError(f"only {owner}, who owns the schema, can grant; connect as {owner}")


def _apply(connection: psycopg.Connection, role: str, purpose: Purpose) -> None:
    for text in _grants(connection, role, purpose):
        connection.execute(text.encode())
    ((database, may),) = statements.run(connection, "read_database").fetchall()
    if may:
        names = {"role": sql.Identifier(role), "database": sql.Identifier(database)}
        connection.execute(sql.SQL(statements.statement("grant_connect")).format(**names))


def _grants(connection: psycopg.Connection, role: str, purpose: Purpose) -> list[str]:
    """Returns the statements that leave a role with its purpose's rights in the schema, and no other."""
    names = ["revoke_rights", *_parts(purpose)]
    texts = [sql.SQL(statements.statement(name)).format(role=sql.Identifier(role)) for name in names]
    return [each.strip() for text in texts for each in _plain(text.as_string(connection)).split(";")]


def _parts(purpose: Purpose) -> list[str]:
    """Returns the names of the statements that grant a purpose's rights."""
    included = PEOPLE[: PEOPLE.index(purpose) + 1] if purpose in PEOPLE else (purpose,)
    return [f"grant_{each.replace('-', '_')}" for each in included]


def _needed(purpose: Purpose, every: set[Right]) -> set[Right]:
    """Returns a purpose's rights, as its statements grant them; `every` are all rights that there are."""
    found: set[Right] = set()
    for name in _parts(purpose):
        for privileges, objects in _GRANT.findall(_plain(statements.statement(name))):
            for privilege, columns in _PRIVILEGE.findall(privileges):
                named, parts = set(re.findall(r"[\w.]+", objects)), set(re.findall(r"\w+", columns))
                found |= {
                    right
                    for right in every
                    if right[0] == privilege and right[1] in named and (not parts or right[2] in parts)
                }
    return found


_GRANT = re.compile(r"grant (.+?) on (?:function |schema )?(.+?) to \{role\}", re.DOTALL)
_PRIVILEGE = re.compile(r"(\w+)(?: \(([^)]*)\))?")


def _plain(text: str) -> str:
    """Returns SQL without comments, in one line."""
    return " ".join(re.sub(r"--.*", "", text).split())


def _named(rights: Iterable[Right]) -> str:
    """Returns rights in words, by object: `select on sepu.stored_result (body), delete on sepu.change`."""
    parts: dict[tuple[str, str], list[str]] = defaultdict(list)
    for privilege, name, part in sorted(rights, key=lambda right: (right[1], right[0], right[2] or "")):
        parts[privilege, name] += [] if part is None else [part]
    return ", ".join(
        f"{privilege} on {name}" + (f" ({', '.join(columns)})" if columns else "")
        for (privilege, name), columns in parts.items()
    )


def _of_ledger(role: str, what: str, value: str, needed: str, *remedies: str) -> OpenRight:
    return OpenRight(role, what, value, needed, remedies, is_here=True, may=True, by_superuser=False)


def _close(connection: psycopg.Connection, *, everywhere: bool = False) -> None:
    """Closes what this session may, by default in this database only: others may belong to other applications."""
    for right in read_open_rights(connection):
        if right.may and (right.is_here or everywhere):
            for statement in right.statements:
                connection.execute(statement.encode())
