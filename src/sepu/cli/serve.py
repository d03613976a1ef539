"""`sepu serve`."""

import logging
import os
from collections.abc import Callable
from contextlib import ExitStack
from ipaddress import ip_network
from pathlib import Path
from typing import get_args

import click

from sepu import limits
from sepu.cli.command import command, env_option, example, refuse_useless_options
from sepu.cli.decorators import database_options
from sepu.cli.demo_account import greet
from sepu.cli.output import Port, note
from sepu.database.embedded import keeper, mark_moved, mark_used
from sepu.database.opening import database, service_url
from sepu.library.release import load_release
from sepu.server import WEB_CONCURRENCY, cores, listen
from sepu.server.client_address import Network
from sepu.server.gunicorn import Server, Settings, Worker
from sepu.server.request_log import LogFormat, RequestLog

# Longer than any load balancer keeps one.
_MAX_IDLE_SECONDS = 2 * 3600


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
@env_option(
    "--workers",
    "Worker processes.",
    type=click.IntRange(1, cores.MAX_WORKERS),
    default=cores.default_workers,
    show_default="half of the cores that it may use",
)
@env_option(
    "--worker",
    "Type of worker; meinheld only behind a proxy.",
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
    "--batches/--no-batches",
    "Let simultaneous requests of a worker share database calls; not on Citus.",
    default=True,
)
@env_option(
    "--idle-seconds",
    "Close a connection after this time without a request.",
    type=click.IntRange(1, _MAX_IDLE_SECONDS),
    default=limits.connections.IDLE_SECONDS,
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
    batches: bool,
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
        refuse_useless_options("--bind", useless=("host", "port"))
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
        settings = Settings(address, workers, worker, url, trusted_proxies, batches, metrics_bind, idle_seconds)
        Server(settings, release, request_log, *each_second).run()


def _open_standard_streams() -> None:
    """Opens closed standard streams. Otherwise the next opened file would get their number and their output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)
