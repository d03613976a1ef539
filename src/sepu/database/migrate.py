"""Applies ordered migrations under a lock, in one transaction.

Requests queue behind a migration that waits for a table. So it gives up on the lock before they do, and tries again.
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import psycopg

from sepu import limits
from sepu.database import roles, statements
from sepu.errors import SepuError

_OTHER_MIGRATIONS = (
    "this database was made by other migrations: by an unreleased version, or by files that somebody edited. Export "
    "what you need with that version, then migrate a new database, or run `sepu serve` with a new --state-dir; see "
    "docs/versioning.md#the-schema"
)


class MigrationError(SepuError):
    """The database's schema does not fit this release. The message says what to do."""


def pending(connection: psycopg.Connection) -> list[statements.Script]:
    """Returns the scripts that this release would apply, in order.

    Raises:
        MigrationError: other migrations, those of an unreleased version, made the database.
    """
    applied: dict[str, str] = {}
    if statements.value(connection, "has_migrations"):
        applied = dict(statements.run(connection, "read_migrations").fetchall())
    migrations, functions = statements.migrations(), statements.functions()
    due = [script for script in migrations if script.name not in applied]
    if applied and (migrations[0] in due or any(applied.get(s.name, s.sha256) != s.sha256 for s in migrations)):
        raise MigrationError(_OTHER_MIGRATIONS)
    # A later release's migrations come with its functions, which an older server must not replace with its own.
    newer = applied.keys() - {functions.name, *(script.name for script in migrations)}
    if not newer and applied.get(functions.name) != functions.sha256:
        due.append(functions)
    return due


def schema_of_release() -> str:
    """Returns the schema that this release needs: the number of its last migration, and a digest of all its scripts.

    Until 0.1.0 is published, its only migration changes in place: then the digest differs, and the number does not.
    """
    return _schema({script.name: script.sha256 for script in (*statements.migrations(), statements.functions())})


def schema_of_database(connection: psycopg.Connection) -> str:
    """Returns the schema that a database has, in the form of `schema_of_release`."""
    return _schema(dict(statements.run(connection, "read_migrations").fetchall()))


def _schema(applied: Mapping[str, str]) -> str:
    number = max(int(name[:4]) for name in applied if name[:4].isdecimal())
    scripts = "\n".join(f"{name}={applied[name]}" for name in sorted(applied))
    return f"{number}-{hashlib.sha256(scripts.encode()).hexdigest()[:8]}"


def migrate(connection: psycopg.Connection) -> list[str]:
    """Applies all pending scripts or none, and returns their names. May run during traffic.

    Raises:
        MigrationError: as for `pending`; or the database's encoding is not UTF8; or other transactions kept the tables
            locked.
    """
    if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
        raise MigrationError(
            f"the database's encoding is {encoding}; make one with: encoding 'UTF8' template template0"
        )
    until = time.monotonic() + limits.database.MIGRATION_SECONDS
    holders: set[Any] | None = None
    while True:
        try:
            return _migrate(connection, until - time.monotonic())
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            now = set(statements.run(connection, "list_lock_holders").fetchall())
            if time.monotonic() + limits.database.MIGRATION_PAUSE_SECONDS > until:
                raise MigrationError(_explain(now if holders is None else holders & now)) from None
            holders = now
        time.sleep(limits.database.MIGRATION_PAUSE_SECONDS)


def _migrate(connection: psycopg.Connection, seconds: float) -> list[str]:
    with connection.transaction():
        _limit_locks(connection, seconds)
        statements.run(connection, "lock_migrations")
        _limit_locks(connection, limits.database.MIGRATION_LOCK_SECONDS)
        statements.run(connection, "create_migration_table")
        due = pending(connection)
        for script in due:
            for statement in script.statements:  # Citus forwards the text, and accepts only one statement at a time
                connection.execute(statement)
            statements.run(connection, "record_migration", name=script.name, sha256=script.sha256)
        if due:
            roles.grant_anew(connection)
    return [script.name for script in due]


def _limit_locks(connection: psycopg.Connection, seconds: float) -> None:
    statements.run(connection, "limit_locks", milliseconds=str(max(1, round(seconds * 1000))))


def _explain(holders: set[Any]) -> str:
    """Says which transactions held the tables at the last two attempts."""
    users = [
        f"\n  process {pid} of {role} ({application}), since {since or 'an unknown time'}"
        for pid, _, role, application, since in sorted(holders)
    ]
    return (
        f"the tables were in use for {limits.database.MIGRATION_SECONDS:g} seconds. Nothing was changed.\n"
        "Migrate later, or end what uses them (select pg_terminate_backend(…)):"
        + ("".join(users) or "\n  different transactions each time")
    )


def holds_migrations(rows: Sequence[tuple[Any, ...]]) -> bool:
    """Returns whether the migrations that a probe read include all of this release's migrations.

    Later migrations and newer functions are fine: during a rolling upgrade, old servers keep serving.
    """
    ((applied, *_),) = rows
    return set((applied or "").split(",")) >= _applied_migrations()


@cache
def _applied_migrations() -> frozenset[str]:
    """Returns this release's migrations in the form that a probe reads."""
    return frozenset(f"{script.name}={script.sha256}" for script in statements.migrations())
