"""Makes and grants database roles. Each has a purpose, and may do only what that needs."""

from dataclasses import dataclass
from typing import Literal, get_args

import psycopg
from psycopg import sql

from sepu import limits
from sepu.database import statements
from sepu.errors import SepuError

Purpose = Literal["service", "console", "events"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)


@dataclass(frozen=True, slots=True)
class OpenRight:
    """A right that a role has and should not have, or lacks and needs.

    The statements change that, in one transaction. `is_here` says whether they concern only this database or
    its roles, `may` whether this session may run them, and `by_superuser` whether only a superuser may.
    """

    role: str
    what: str
    value: str
    needed: str
    statements: tuple[str, ...]
    is_here: bool
    may: bool
    by_superuser: bool


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A session that has held more locks, or for longer, than requests do, and the statement that ends it."""

    role: str
    pid: int
    locks: int
    since: str
    ending: str


def grant(connection: psycopg.Connection, role: str, purpose: Purpose = "service") -> None:
    """Lets a role do what its purpose needs; granting again changes nothing.

    Raises:
        SepuError: there is no such role, or the connection is not the owner's.
    """
    with connection.transaction():
        _check_owner(connection)
        statements.run(connection, "lock_migrations")
        # Postgres takes the name `public` to mean every role, and only warns a user who may not grant.
        if not statements.value(connection, "has_role", role=role):
            raise SepuError(f"there is no database role {role!r}; make it with: create role {role} login")
        _apply(connection, role, purpose)
        _close(connection)


def make_role(connection: psycopg.Connection, role: str, purpose: Purpose = "service") -> None:
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


def left_open(connection: psycopg.Connection) -> list[OpenRight]:
    """Returns what every role may do and should not, what the owner lacks, and which serving roles have no limit.

    Must be called by the owner of the schema.
    """
    ((owner, _),) = statements.run(connection, "read_owner").fetchall()
    with connection.transaction():  # behind a pooler, only a transaction keeps its session
        statements.run(connection, "set_keepers", keepers=[owner])
        query = sql.SQL(statements.statement("read_left_open")).format(public=sql.SQL(statements.public()))
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
    ((database, may),) = statements.run(connection, "read_database").fetchall()
    names = {"role": sql.Identifier(role), "database": sql.Identifier(database)}
    connection.execute(sql.SQL(statements.statement(f"grant_{purpose}")).format(**names))
    if may:
        connection.execute(sql.SQL(statements.statement("grant_connect")).format(**names))


def _close(connection: psycopg.Connection, *, everywhere: bool = False) -> None:
    """Closes what this session may, by default in this database only: others may belong to other applications."""
    for right in left_open(connection):
        if right.may and (right.is_here or everywhere):
            for statement in right.statements:
                connection.execute(statement.encode())
