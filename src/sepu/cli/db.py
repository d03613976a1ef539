"""`sepu db`."""

import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import click
from psycopg import Connection

from sepu.admin.distribute import distribute
from sepu.cli.decorators import REPEATABLE, database_options, prints_change, with_connection
from sepu.cli.output import (
    Form,
    check_output,
    columns,
    echo,
    echo_fields,
    echo_rows,
    example,
    form_options,
    group,
    json_option,
    members,
    note,
    telling,
)
from sepu.database.embedded import embedded_postgres
from sepu.database.migrate import migrate
from sepu.database.opening import clear_errors, connect
from sepu.database.roles import Purpose, grant, left_open
from sepu.database.settings import BrokenSetting, broken_settings


@group()
def db() -> None:
    """Manage the database's schema."""


@db.command("migrate", epilog=example("db migrate"))
@json_option
@database_options
def migrate_database(as_json: bool, database_url: str | None, state_dir: Path) -> None:
    """Apply this release's migrations; applying them again changes nothing."""
    check_output()
    with ExitStack() as stack:
        url = database_url or stack.enter_context(embedded_postgres(state_dir, create=False))
        stack.enter_context(clear_errors())
        applied = migrate(stack.enter_context(connect(url)))
    with telling({}, REPEATABLE):
        echo_fields({"applied": applied}, as_json)


@db.command("grant", epilog=example("db grant sepu_service"))
@click.argument("role")
@click.option("--console", "purpose", flag_value="console", help="Let it read what `sepu console` shows, instead.")
@click.option("--events", "purpose", flag_value="events", help="Let it deliver events, instead.")
@prints_change()
def grant_role(connection: Connection, role: str, purpose: Purpose | None) -> dict[str, str]:
    """Let a database role serve: call the functions that a request calls, and touch nothing else.

    Run by the owner of the schema. `sepu serve` then connects as that role, `sepu console` with --console, and `sepu
    events deliver` with --events.
    """
    grant(connection, role, purpose or "service")
    if statements := left_open(connection):
        note(
            f"{role} can still write what every role can; as a superuser run in this database: {'; '.join(statements)}"
        )
    return {"role": role}


@db.command("check", epilog=example("db check"))
@form_options
@with_connection
def check_settings(connection: Connection, form: Form | None) -> None:
    """Check that no setting of Postgres breaks a promise: for this role, and for each role that serves.

    Run by the owner of the schema. Exit status: 0, all settings are right; 1, it lists those that are not.
    """
    found = broken_settings(connection)
    if found or form:
        echo_rows(columns(BrokenSetting), map(members, found), form or "table")
    else:
        echo("all settings are right")
    if found:
        sys.exit(1)


@db.command("distribute", epilog=example("db distribute"))
@json_option
@with_connection
def distribute_database(connection: Connection, as_json: bool) -> None:
    """Spread the tables and functions over the workers of a Citus cluster, by account.

    Run on the coordinator by the owner of the schema, after each `sepu db migrate`; repeating it changes nothing. Fails
    unless requests are delegated to every worker.
    """
    done = distribute(connection)
    with telling({}, REPEATABLE):
        echo_fields(asdict(done), as_json)
