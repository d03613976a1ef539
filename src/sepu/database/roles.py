"""Makes and grants database roles. Each has a purpose, and may do only what that needs."""

from typing import Literal

import psycopg
from psycopg import sql

from sepu.database import statements
from sepu.errors import SepuError

Purpose = Literal["service", "console", "events"]


def grant(connection: psycopg.Connection, role: str, purpose: Purpose = "service") -> None:
    """Lets a role do what its purpose needs; granting again changes nothing.

    Raises:
        SepuError: there is no such role, or the connection is not the owner's.
    """
    with connection.transaction():
        statements.run(connection, "lock_migrations")
        _grant(connection, role, purpose)


def make_role(connection: psycopg.Connection, role: str, purpose: Purpose = "service") -> None:
    """Makes a role that may log in and do what its purpose needs, unless it exists.

    Raises:
        SepuError: as for `grant`.
    """
    with connection.transaction():
        statements.run(connection, "lock_migrations")  # so that only one of several servers makes it
        if not statements.value(connection, "has_role", role=role):
            connection.execute(_naming("create_role", role))
        _grant(connection, role, purpose)


def grant_anew(connection: psycopg.Connection) -> None:
    """Grants roles that already have a purpose what it needs in this release. Runs in the migration's transaction."""
    for purpose, role in statements.run(connection, "read_granted_roles").fetchall():
        _apply(connection, role, purpose)


def left_open(connection: psycopg.Connection) -> list[str]:
    """Returns statements that revoke rights from every role, which only the database's owner or a superuser may run."""
    return [statement for statement, _ in statements.run(connection, "read_left_open").fetchall()]


def _grant(connection: psycopg.Connection, role: str, purpose: Purpose) -> None:
    # Postgres takes the name `public` to mean every role, and only warns a user who may not grant.
    if not statements.value(connection, "has_role", role=role):
        raise SepuError(f"there is no database role {role!r}; make it with: create role {role} login")
    ((owner, is_owner),) = statements.run(connection, "read_owner").fetchall()
    if not is_owner:
        raise SepuError(f"only {owner}, who owns the schema, can grant; connect as {owner}")
    _apply(connection, role, purpose)


def _apply(connection: psycopg.Connection, role: str, purpose: Purpose) -> None:
    connection.execute(_naming(f"grant_{purpose}", role))
    for revoke, may in statements.run(connection, "read_left_open").fetchall():
        if may:
            connection.execute(revoke)


def _naming(statement: str, role: str) -> sql.Composed:
    return sql.SQL(statements.statement(statement)).format(role=sql.Identifier(role))
