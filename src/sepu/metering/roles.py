"""The database roles of the service and of the delivery of events: each may do what it needs, and nothing else."""

import psycopg
from psycopg import sql

from sepu.errors import SepuError
from sepu.metering import scripts


def grant(connection: psycopg.Connection, role: str, *, events: bool = False) -> None:
    """Lets a role serve, or deliver events; granting again changes nothing.

    Raises:
        SepuError: there is no such role, or the connection is not the owner's.
    """
    with connection.transaction():
        scripts.run(connection, "lock_migrations")
        _grant(connection, role, "grant_events" if events else "grant_service")


def make_service_role(connection: psycopg.Connection, role: str) -> None:
    """Makes a role that may log in and serve, unless it is there.

    Raises:
        SepuError: as for `grant`.
    """
    with connection.transaction():
        scripts.run(connection, "lock_migrations")  # so that only one of several servers makes it
        if not scripts.value(connection, "has_role", role=role):
            connection.execute(_naming("create_role", role))
        _grant(connection, role, "grant_service")


def grant_anew(connection: psycopg.Connection) -> None:
    """Gives the roles that serve already what this release's service needs; in the transaction that migrates."""
    for (role,) in scripts.run(connection, "read_service_roles").fetchall():
        connection.execute(_naming("grant_service", role))


def _grant(connection: psycopg.Connection, role: str, statement: str) -> None:
    # To Postgres the name public is every role, and it only warns a user who may not grant.
    if not scripts.value(connection, "has_role", role=role):
        raise SepuError(f"there is no database role {role!r}; make it with: create role {role} login")
    ((owner, is_owner),) = scripts.run(connection, "read_owner").fetchall()
    if not is_owner:
        raise SepuError(f"only {owner}, who owns the schema, can grant; connect as {owner}")
    connection.execute(_naming(statement, role))


def _naming(statement: str, role: str) -> sql.Composed:
    return sql.SQL(scripts.statement(statement)).format(role=sql.Identifier(role))
