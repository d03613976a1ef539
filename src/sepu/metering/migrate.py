"""Plain ordered migrations, applied under a lock in one transaction."""

from collections.abc import Sequence
from functools import cache

import psycopg

from sepu.errors import SepuError
from sepu.metering import roles, scripts


class MigrationError(SepuError):
    """The database's schema and this release do not fit; the message says what to do."""


def pending(connection: psycopg.Connection) -> list[scripts.Script]:
    """Gives what this release would apply, in order.

    Raises:
        MigrationError: a migration was edited after it had been applied.
    """
    applied: dict[str, str] = {}
    if scripts.value(connection, "has_migrations"):
        applied = dict(scripts.run(connection, "read_migrations").fetchall())
    due = []
    migrations = scripts.migrations()
    functions = scripts.functions()
    for script in migrations:
        if script.name not in applied:
            due.append(script)
        elif applied[script.name] != script.sha256:
            raise MigrationError(f"migration {script.name} is not the one that was applied to this database")
    # A database with migrations of a later release has its functions too: an older server must not put its own back.
    newer = applied.keys() - {functions.name, *(script.name for script in migrations)}
    if not newer and applied.get(functions.name) != functions.sha256:
        due.append(functions)
    return due


def migrate(connection: psycopg.Connection) -> list[str]:
    """Applies what is pending and returns the names; all of it or nothing.

    Raises:
        MigrationError: an applied migration was edited, or the database has another encoding than UTF8.
    """
    if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
        raise MigrationError(
            f"the database's encoding is {encoding}; make one with: encoding 'UTF8' template template0"
        )
    with connection.transaction():
        scripts.run(connection, "lock_migrations")
        scripts.run(connection, "create_migration_table")
        due = pending(connection)
        for script in due:
            connection.execute(script.text)
            scripts.run(connection, "record_migration", name=script.name, sha256=script.sha256)
        if due:
            roles.grant_anew(connection)
    return [script.name for script in due]


def holds_migrations(rows: Sequence[tuple[str | None, ...]]) -> bool:
    """Tells whether what a probe read of `sepu.migration` covers this release's migrations.

    Later ones, and newer functions, are fine: during a rolling upgrade the old servers keep serving.
    """
    ((applied,),) = rows
    return set((applied or "").split(",")) >= _applied_migrations()


@cache
def _applied_migrations() -> frozenset[str]:
    """This release's migrations as a probe reads them."""
    return frozenset(f"{script.name}={script.sha256}" for script in scripts.migrations())
