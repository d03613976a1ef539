"""Opens the database of a command: an external one, or the embedded one of a state directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from sepu.database import nodes
from sepu.database.connection import BoundedConnection, NodeSilentError
from sepu.database.embedded import embedded_postgres
from sepu.database.hosts import Hosts, SettingsError
from sepu.database.migrate import MigrationError, migrate, pending
from sepu.database.roles import Purpose, make_role
from sepu.database.times import read_every_time
from sepu.errors import SepuError

# For a command to check the schema of an external database.
_SCHEMA_SECONDS = 5.0


class DatabaseError(SepuError):
    """Says that the database cannot be reached, refused a statement, or has an unreadable value."""


class DatabaseUnavailableError(DatabaseError):
    """Says that the database is unavailable or accepts no writes now, but may later."""


@contextmanager
def database(database_url: str | None, state_dir: Path, *, create: bool = False) -> Iterator[str]:
    """Yields the connection string of a database with this release's schema.

    Migrates the embedded database, and creates it if `create` is set. Only checks an external one, which belongs to its
    operator.

    Raises:
        DatabaseError: an external database cannot be reached.
        MigrationError: an external database lacks a migration, or was made by other migrations.
        StartError: the embedded database does not start, or there is none.
    """
    if database_url is None:
        with embedded_postgres(state_dir, create=create) as url:
            with connect(url) as connection:
                migrate(connection)
            yield url
        return
    with clear_errors(), connect(database_url, _SCHEMA_SECONDS) as connection:
        if due := pending(connection):
            names = ", ".join(script.name for script in due)
            raise MigrationError(f"the database lacks {names}; apply with: sepu db migrate")
    yield database_url


def service_url(url: str) -> str:
    """Returns the connection string of a role that can only serve. Creates the role if there is none."""
    return _role_url(url, "sepu_service", "service")


def console_url(url: str) -> str:
    """Returns the connection string of a role that can only read. Creates the role if there is none."""
    return _role_url(url, "sepu_console", "read-only")


def _role_url(url: str, role: str, purpose: Purpose) -> str:
    with clear_errors(), connect(url) as connection:
        make_role(connection, role, purpose)
    return make_conninfo(url, user=role)


@contextmanager
def database_connection(
    database_url: str | None, state_dir: Path, statement_seconds: float | None = None
) -> Iterator[psycopg.Connection]:
    """Yields one connection to that database. `statement_seconds` limits each statement, unless it is None.

    Raises:
        DatabaseError: the database refuses a statement of the block.
    """
    with database(database_url, state_dir) as url, clear_errors(), connect(url, statement_seconds) as connection:
        yield connection


def connect(url: str, statement_seconds: float | None = None) -> psycopg.Connection:
    """Connects, or gives up within seconds. `statement_seconds` limits each statement, unless it is None.

    Raises:
        DatabaseError: the server does not exist, or refuses.
    """
    with clear_errors():
        connection = _hosts(url).connect(BoundedConnection)
    read_every_time(connection)
    connection.statement_seconds = statement_seconds
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # whatever the role's default is
    connection.another = another = partial(_hosts(url).connect, BoundedConnection)
    connection.while_slow = nodes.Watch(another)
    return connection


@cache
def _hosts(url: str) -> Hosts:
    """Remembers which host answered last, for commands that connect more than once."""
    return Hosts(url, operator=True)


@contextmanager
def clear_errors() -> Iterator[None]:
    """Turns errors from Postgres and from the connection into a DatabaseError."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction) as error:
        raise DatabaseUnavailableError(_reason(error)) from error
    except psycopg.Error as error:
        refused = isinstance(error, psycopg.errors.InsufficientPrivilege)
        raise DatabaseError(_reason(error), "another role" if refused else None) from error


def _reason(error: psycopg.Error) -> str:
    if isinstance(error, SettingsError | NodeSilentError):
        return str(error)
    if error.sqlstate is not None:
        where = f", on {found[0]}" if (found := nodes.failed_on(error)) else ""
        return f"the database refused{where}: {' '.join((error.diag.message_primary or '').split())}"
    reached = "cannot be reached" if isinstance(error, psycopg.OperationalError) else "has or gets an unreadable value"
    return f"the database {reached}: {' '.join(str(error).split())}"
