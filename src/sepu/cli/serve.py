"""`sepu serve` and `sepu db`."""

import logging
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from ipaddress import ip_network
from pathlib import Path
from typing import get_args

import click
from psycopg import Connection

from sepu import limits
from sepu.admin.distribute import distribute
from sepu.cli.database import (
    REPEATABLE,
    clear_errors,
    connect,
    database,
    database_options,
    prints_change,
    service_url,
    with_connection,
)
from sepu.cli.demo_account import greet
from sepu.cli.output import (
    Form,
    Port,
    check_output,
    columns,
    command,
    echo,
    echo_fields,
    echo_rows,
    env_option,
    example,
    form_options,
    group,
    json_option,
    members,
    note,
    refuse_idle,
    telling,
)
from sepu.database.migrate import migrate
from sepu.database.roles import Purpose, grant, left_open
from sepu.database.settings import BrokenSetting, broken_settings
from sepu.library.release import load_release
from sepu.server import WEB_CONCURRENCY, listen
from sepu.server.client_address import Network
from sepu.server.embedded import embedded_postgres, keeper, mark_moved, mark_used
from sepu.server.gunicorn import Server, Settings, Worker
from sepu.server.request_log import LogFormat, RequestLog


def networks(value: str) -> tuple[Network, ...]:
    """Parses addresses and networks, such as 10.0.0.7,10.1.0.0/16,fd00::/8."""
    try:
        return tuple(ip_network(part.strip()) for part in value.split(",") if part.strip())
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@command(epilog=example("serve --port 8000 --metrics-bind 127.0.0.1:9391"))
@env_option("--host", "Address to listen on.", default="127.0.0.1", show_default=True)
@env_option("--port", "Port to listen on.", type=Port(), default=8000, show_default=True)
@env_option("--bind", "A unix socket, instead of TCP.", metavar="unix:PATH")
@env_option("--workers", "Processes.", type=click.IntRange(1, 256), default=2, show_default=True)
@env_option(
    "--worker",
    "Kind of the workers; meinheld only behind a proxy.",
    type=click.Choice(get_args(Worker)),
    default="uvloop",
    show_default=True,
)
@env_option(
    "--trusted-proxies",
    "Proxies on other machines; their connections are not limited by address.",
    type=networks,
    default="",
    metavar="NETWORK,...",
)
@env_option(
    "--join/--no-join",
    "Let simultaneous requests of a worker share database calls; not on Citus.",
    default=True,
)
@env_option(
    "--idle-seconds",
    "Close a connection after this time without a request.",
    type=click.IntRange(1, limits.LONGEST_IDLE_SECONDS),
    default=limits.IDLE_SECONDS,
    show_default=True,
)
@env_option("--metrics-bind", "Address for Prometheus to read metrics, without a key.", metavar="HOST:PORT")
@env_option(
    "--log-format",
    "Format of the log on standard error; auto: text on a terminal, else JSON.",
    type=click.Choice(get_args(LogFormat)),
    default="auto",
    show_default=True,
)
@env_option("--log-requests/--no-log-requests", "Log each request as a line.", default=True)
@database_options
def serve(
    host: str,
    port: int,
    bind: str | None,
    workers: int,
    worker: Worker,
    trusted_proxies: tuple[Network, ...],
    join: bool,
    idle_seconds: int,
    metrics_bind: str | None,
    log_format: LogFormat,
    log_requests: bool,
    database_url: str | None,
    state_dir: Path,
) -> None:
    """Serve the HTTP interface in the foreground, until Ctrl-C or SIGTERM."""
    _open_standard_streams()
    request_log = RequestLog(log_format, requests=log_requests)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[request_log])
    if bind is not None:
        refuse_idle("--bind", idle=("host", "port"))
    if WEB_CONCURRENCY is not None:
        note("WEB_CONCURRENCY does nothing; the number of workers is --workers or SEPU_WORKERS")
    address = listen.address(host, port, bind, worker)
    release = load_release()
    with ExitStack() as stack:
        url = stack.enter_context(database(database_url, state_dir, create=True))
        each_second: list[Callable[[], None]] = []
        if database_url is None:
            greet(url, address, state_dir)
            mark_used(state_dir)
            each_second.append(keeper(state_dir))
            url = service_url(url)
        else:
            mark_moved(state_dir)
        settings = Settings(address, workers, worker, url, trusted_proxies, join, metrics_bind, idle_seconds)
        Server(settings, release, request_log, *each_second).run()


def _open_standard_streams() -> None:
    """Opens closed standard streams. Otherwise the next opened file would get their number and their output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)


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
        echo_fields({"applied": applied if as_json else ", ".join(applied) or "nothing to apply"}, as_json)


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

    Run on the coordinator by the owner of the schema, after each `sepu db migrate`; again, it changes nothing. Fails
    unless requests are really delegated to every worker.
    """
    done = distribute(connection)
    with telling({}, REPEATABLE):
        if as_json:
            echo_fields({"distributed": done.distributed, "workers": done.workers}, as_json)
        else:
            distributed = ", ".join(done.distributed) or "nothing to distribute"
            echo_fields({"distributed": distributed, "workers": ", ".join(done.workers)}, as_json)
