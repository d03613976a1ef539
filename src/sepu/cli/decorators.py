"""Decorators of commands that use a database: its options, a connection, and how the result is printed."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click
import psycopg

from sepu.admin.naming import find_account
from sepu.cli.command import env_option, form_options, is_given, json_option, refuse_useless_options
from sepu.cli.output import Fields, Form, check_output, echo_fields, echo_rows, report_success_if_unprinted
from sepu.cli.times import by_the_database
from sepu.database.embedded import refuse_moved
from sepu.database.opening import DatabaseError, DatabaseUnavailableError, clear_errors, database_connection


def database_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds `--database-url` and `--state-dir`, which exclude each other.

    A state directory from which the service has moved is used only if the command line names it.
    """

    @wraps(command)
    def of_one_database(*, database_url: str | None, state_dir: Path, **arguments: Any) -> None:  # noqa: ANN401
        if database_url is not None:
            refuse_useless_options("--database-url or SEPU_DATABASE_URL", useless=("state_dir",))
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
    """Adds the database's options, and passes a connection to it as the first argument.

    The command gets ACCOUNT as the account's own id, and lengths of time as instants. It does not run if standard
    output is closed.
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
    """Adds a connection and `--json`, and prints the fields that the command returns."""

    @json_option
    @with_connection
    @wraps(command)
    def printing(connection: psycopg.Connection, *, as_json: bool, **arguments: Any) -> None:  # noqa: ANN401
        echo_fields(command(connection, **arguments), as_json)

    return printing


REPEATABLE = "Running it again changes nothing more"


def prints_change(
    now: str | Callable[[Fields], str] = REPEATABLE,
) -> Callable[[Callable[..., Fields]], Callable[..., None]]:
    """Like `prints_fields`, for a command that changes something.

    `now` is what to do if the fields cannot be printed: a text, in which `{id}` stands for a field, or a function of
    the fields.
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
            with report_success_if_unprinted(done, now.format_map(done) if isinstance(now, str) else now(done)):
                echo_fields(done, as_json)

        return printing

    return decorate


def prints_rows(
    columns: Sequence[str], in_table: Callable[[Fields], Fields] | None = None
) -> Callable[[Callable[..., Iterable[Fields]]], Callable[..., None]]:
    """Adds a connection, `--json` and `--csv`, and prints the rows that the command returns (see `echo_rows`)."""

    def decorate(command: Callable[..., Iterable[Fields]]) -> Callable[..., None]:
        @form_options
        @with_connection
        @wraps(command)
        def printing(connection: psycopg.Connection, *, form: Form | None, **arguments: Any) -> None:  # noqa: ANN401
            echo_rows(columns, command(connection, **arguments), form or "table", in_table)

        return printing

    return decorate
