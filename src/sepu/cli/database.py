"""The database that a command works on: an external one, or the embedded one of a state directory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import psycopg

from sepu.metering.migrate import MigrationError, migrate, pending
from sepu.server.embedded import embedded_postgres

F = TypeVar("F", bound=Callable[..., Any])

_CONNECT_SECONDS = 5


def database_options(command: F) -> F:
    """Adds `--database-url` and `--state-dir`."""
    command = click.option(
        "--state-dir",
        envvar="SEPU_STATE_DIR",
        default=".sepu",
        show_default=True,
        type=click.Path(file_okay=False, path_type=Path),
        help="Where the embedded Postgres lives.  [env: SEPU_STATE_DIR]",
    )(command)
    return click.option(
        "--database-url",
        envvar="SEPU_DATABASE_URL",
        help="An external Postgres, instead of the embedded one.  [env: SEPU_DATABASE_URL]",
    )(command)


@contextmanager
def database(database_url: str | None, state_dir: Path) -> Iterator[str]:
    """The connection string of a database that holds this release's schema.

    The embedded database is migrated here; an external one belongs to its operator and is only checked.

    Raises:
        MigrationError: an external database lacks a migration.
        StartError: the embedded database does not start.
    """
    if database_url is None:
        with embedded_postgres(state_dir) as url:
            with connect(url) as connection:
                migrate(connection)
            yield url
        return
    with connect(database_url) as connection:
        if due := pending(connection):
            names = ", ".join(script.name for script in due)
            raise MigrationError(f"the database lacks {names}; apply with: sepu db migrate --database-url ...")
    yield database_url


@contextmanager
def database_connection(database_url: str | None, state_dir: Path) -> Iterator[psycopg.Connection]:
    """One connection to that database."""
    with database(database_url, state_dir) as url, connect(url) as connection:
        yield connection


def connect(url: str) -> psycopg.Connection:
    """A connection that gives up on an absent server in seconds."""
    return psycopg.connect(url, autocommit=True, connect_timeout=_CONNECT_SECONDS, application_name="sepu")
