"""`sepu console`."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import BoundedSemaphore

import click
import psycopg

from sepu import limits
from sepu.cli.command import command, env_option, example, refuse_useless_options
from sepu.cli.decorators import database_options
from sepu.cli.output import Port, echo
from sepu.console.app import create_console
from sepu.console.pages import ServiceState
from sepu.database.connection import snapshot
from sepu.database.embedded import keeper
from sepu.database.opening import DatabaseError, clear_errors, connect, console_url, database
from sepu.extras import how_to_install
from sepu.server import listen
from sepu.server.console import ConsoleServer
from sepu.server.request_log import RequestLog

# Without an answer for this long, the host counts as gone.
_SILENT_SECONDS = limits.console.STATEMENT_SECONDS + 1
# Pages that read the ledger at the same time, and how long the next one waits for its turn.
_READERS = 4
_TURN_SECONDS = 5.0

_ENVIRONMENT = "SEPU_CONSOLE_"
_GRANT = "as the owner of the schema, run: sepu db grant ROLE --for read-only"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@command(epilog=example("console --port 8010"))
@env_option("--host", "Address to listen on.", _ENVIRONMENT, default="127.0.0.1", show_default=True)
@env_option("--port", "Port to listen on.", _ENVIRONMENT, type=Port(), default=8010, show_default=True)
@env_option("--bind", "A unix socket, instead of TCP.", _ENVIRONMENT, metavar="unix:PATH")
@env_option(
    "--allowed-hosts",
    "Host names that browsers use, in addition to --host and localhost.",
    _ENVIRONMENT,
    default="",
    metavar="NAME,...",
)
@env_option(
    "--metrics-urls",
    "Metrics addresses from which the overview shows workers and backups.",
    _ENVIRONMENT,
    default="",
    metavar="URL,...",
)
@database_options
def console(
    host: str,
    port: int,
    bind: str | None,
    allowed_hosts: str,
    metrics_urls: str,
    database_url: str | None,
    state_dir: Path,
) -> None:
    """Serve read-only pages for operators in the foreground, until Ctrl-C or SIGTERM.

    There is no login: anyone who reaches the address sees accounts and usage.
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[RequestLog("auto")])
    if bind is not None:
        refuse_useless_options("--bind", useless=("host", "port"))
    address = listen.address(host, port, bind, "gthread")
    hosts = {host, *_LOOPBACK, *_parts(allowed_hosts)}
    service_state = _service_state_reader(_parts(metrics_urls)) if metrics_urls else ServiceState
    with ExitStack() as stack:
        url = stack.enter_context(database(database_url, state_dir))
        if database_url is None:
            url = console_url(url)

        readers = BoundedSemaphore(_READERS)

        @contextmanager
        def reading() -> Iterator[psycopg.Connection]:
            if not readers.acquire(timeout=_TURN_SECONDS):
                raise DatabaseError(f"{_READERS} pages are being read already; try again")
            try:
                with (
                    clear_errors(),
                    connect(url, _SILENT_SECONDS) as connection,
                    snapshot(connection, limits.console.STATEMENT_SECONDS),
                ):
                    yield connection
            except DatabaseError as error:
                if isinstance(error.__cause__, psycopg.errors.InsufficientPrivilege):
                    raise DatabaseError(f"{error}; {_GRANT}") from error
                raise
            finally:
                readers.release()

        echo(f"The console is at {bind or f'http://{address}/'}")
        each_second = [keeper(state_dir)] if database_url is None else []
        ConsoleServer(address, create_console(reading, hosts, service_state), *each_second).run()


def _service_state_reader(urls: list[str]) -> Callable[[], ServiceState]:
    try:
        from sepu.console.metrics import read_service_state
        from sepu.outgoing import open_client
    except ModuleNotFoundError as error:
        raise click.UsageError(f"--metrics-urls needs: {how_to_install('events')}") from error
    open_client()  # otherwise only a page would show an invalid environment variable
    return partial(read_service_state, urls)


def _parts(given: str) -> list[str]:
    return [part.strip() for part in given.split(",") if part.strip()]
