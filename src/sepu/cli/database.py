"""Finds the database of a command: an external one, or the embedded one of a state directory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import Any

import click
import psycopg
from psycopg.conninfo import make_conninfo

from sepu.admin.naming import find_account
from sepu.cli.output import (
    Fields,
    Form,
    check_output,
    echo_fields,
    echo_rows,
    env_option,
    form_options,
    is_given,
    json_option,
    refuse_idle,
    telling,
)
from sepu.cli.times import by_the_database
from sepu.database.connection import BoundedConnection
from sepu.database.hosts import Hosts, SettingsError
from sepu.database.migrate import MigrationError, migrate, pending
from sepu.database.roles import Purpose, make_role
from sepu.errors import SepuError
from sepu.server.embedded import embedded_postgres, refuse_moved

_CHECK_SECONDS = 5.0


class DatabaseError(SepuError):
    """Says that the database cannot be reached, or refused a statement."""


class DatabaseUnavailableError(DatabaseError):
    """Says that the database is not there or takes no writes now; it may later."""


def database_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds `--database-url` and `--state-dir`, which exclude each other.

    A state directory from which the service has moved is used only if the command line names it.
    """

    @wraps(command)
    def of_one_database(*, database_url: str | None, state_dir: Path, **arguments: Any) -> None:  # noqa: ANN401
        if database_url is not None:
            refuse_idle("--database-url or SEPU_DATABASE_URL", idle=("state_dir",))
        elif not is_given("state_dir"):
            refuse_moved(state_dir)
        command(database_url=database_url, state_dir=state_dir, **arguments)

    decorated = env_option(
        "--state-dir",
        "Directory of the embedded Postgres.",
        default=".sepu",
        show_default=True,
        type=click.Path(file_okay=False, path_type=Path),
    )(of_one_database)
    return env_option("--database-url", "An external Postgres, instead of the embedded one.")(decorated)


def with_connection(command: Callable[..., None]) -> Callable[..., None]:
    """Adds those options, and passes a connection to that database as the first argument.

    ACCOUNT may be an external id or the id of a key; the command gets the account's own id, and instants for lengths of
    time. It does not run if standard output is closed.
    """

    @database_options
    @wraps(command)
    def connected(*, database_url: str | None, state_dir: Path, **arguments: Any) -> None:  # noqa: ANN401
        check_output()
        with database_connection(database_url, state_dir) as connection:
            by_the_database(connection, arguments)
            if arguments.get("account_id") is not None:
                arguments["account_id"] = find_account(connection, arguments["account_id"])
            command(connection, **arguments)

    return connected


def prints_fields(command: Callable[..., Fields]) -> Callable[..., None]:
    """Adds `--json` to that, and prints the fields that the command returns."""

    @json_option
    @with_connection
    @wraps(command)
    def printing(connection: psycopg.Connection, *, as_json: bool, **arguments: Any) -> None:  # noqa: ANN401
        echo_fields(command(connection, **arguments), as_json)

    return printing


REPEATABLE = "Running it again changes nothing more"


def prints_change(now: str = REPEATABLE) -> Callable[[Callable[..., Fields]], Callable[..., None]]:
    """Adds the same to a command that changes something. `now` says what to do if its fields cannot be printed.

    In it `{keyId}` stands for a field.
    """

    def decorate(command: Callable[..., Fields]) -> Callable[..., None]:
        @json_option
        @with_connection
        @wraps(command)
        def printing(connection: psycopg.Connection, *, as_json: bool, **arguments: Any) -> None:  # noqa: ANN401
            try:
                with clear_errors():
                    done = command(connection, **arguments)
            except DatabaseUnavailableError as error:
                raise DatabaseError(f"{error}. It is not known whether this was done; see: sepu history") from error
            with telling(done, now.format_map(done)):
                echo_fields(done, as_json)

        return printing

    return decorate


def prints_rows(
    columns: Sequence[str], in_table: Callable[[Fields], Fields] | None = None
) -> Callable[[Callable[..., Iterable[Fields]]], Callable[..., None]]:
    """Adds `--json` and `--csv` to that, and prints the rows that the command returns (see `echo_rows`)."""

    def decorate(command: Callable[..., Iterable[Fields]]) -> Callable[..., None]:
        @form_options
        @with_connection
        @wraps(command)
        def printing(connection: psycopg.Connection, *, form: Form | None, **arguments: Any) -> None:  # noqa: ANN401
            echo_rows(columns, command(connection, **arguments), form or "table", in_table)

        return printing

    return decorate


@contextmanager
def database(database_url: str | None, state_dir: Path, *, create: bool = False) -> Iterator[str]:
    """Yields the connection string of a database with this release's schema.

    The embedded database is migrated here, and created if asked; an external one belongs to its operator and is only
    checked.

    Raises:
        DatabaseError: an external database cannot be reached.
        MigrationError: an external database lacks a migration, or was made by other ones.
        StartError: the embedded database does not start, or there is none.
    """
    if database_url is None:
        with embedded_postgres(state_dir, create=create) as url:
            with connect(url) as connection:
                migrate(connection)
            yield url
        return
    with clear_errors(), connect(database_url, _CHECK_SECONDS) as connection:
        if due := pending(connection):
            names = ", ".join(script.name for script in due)
            raise MigrationError(f"the database lacks {names}; apply with: sepu db migrate")
    yield database_url


def service_url(url: str) -> str:
    """Returns the connection string of a role that can only serve. Creates the role if there is none."""
    return _role_url(url, "service")


def console_url(url: str) -> str:
    """Returns the connection string of a role that can only read. Creates the role if there is none."""
    return _role_url(url, "console")


def _role_url(url: str, purpose: Purpose) -> str:
    role = f"sepu_{purpose}"
    with clear_errors(), connect(url) as connection:
        make_role(connection, role, purpose)
    return make_conninfo(url, user=role)


@contextmanager
def database_connection(
    database_url: str | None, state_dir: Path, statement_seconds: float | None = None
) -> Iterator[psycopg.Connection]:
    """Yields one connection to that database. Each statement may take so long; without, any time.

    Raises:
        DatabaseError: whatever the database refuses in the block.
    """
    with database(database_url, state_dir) as url, clear_errors(), connect(url, statement_seconds) as connection:
        yield connection


def connect(url: str, statement_seconds: float | None = None) -> psycopg.Connection:
    """Connects, and gives up within seconds if there is no server. Each statement may take so long; without, any time.

    Raises:
        DatabaseError: there is no such server, or it refuses.
    """
    with clear_errors():
        connection = _hosts(url).connect(BoundedConnection)
    connection.statement_seconds = statement_seconds
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # whatever the role's default is
    return connection


@cache
def _hosts(url: str) -> Hosts:
    """Keeps which host answered last, for commands that connect more than once."""
    return Hosts(url, operator=True)


@contextmanager
def clear_errors() -> Iterator[None]:
    """Turns errors of Postgres and of the connection into a DatabaseError."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction) as error:
        raise DatabaseUnavailableError(_reason(error)) from error
    except psycopg.Error as error:
        raise DatabaseError(_reason(error)) from error


def _reason(error: psycopg.Error) -> str:
    if isinstance(error, SettingsError):
        return str(error)
    if error.sqlstate is not None:
        return f"the database refused: {' '.join((error.diag.message_primary or '').split())}"
    return f"the database cannot be reached: {' '.join(str(error).split())}"
