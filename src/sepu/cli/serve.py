"""`sepu serve` and `sepu db`."""

import logging
from pathlib import Path
from typing import get_args

import click

from sepu.cli.database import connect, database, database_options
from sepu.cli.output import echo_fields, json_option
from sepu.http import routes
from sepu.http.service import Service
from sepu.library.release import load_release
from sepu.metering import accounts
from sepu.metering.migrate import migrate
from sepu.server import listen
from sepu.server.embedded import embedded_postgres
from sepu.server.gunicorn import Server, Settings, Worker

_DEMO = """\
This database is new, so here is a demo account, {account_id}. Its key is shown this once:

  {api_key}

Try it, in another terminal:

{curls}
"""


@click.command()
@click.option("--host", envvar="SEPU_HOST", default="127.0.0.1", show_default=True, help="[env: SEPU_HOST]")
@click.option(
    "--port",
    envvar="SEPU_PORT",
    type=click.IntRange(1, 65535),
    default=8000,
    show_default=True,
    help="[env: SEPU_PORT]",
)
@click.option(
    "--bind", envvar="SEPU_BIND", metavar="unix:PATH", help="A unix socket, instead of TCP.  [env: SEPU_BIND]"
)
@click.option(
    "--workers",
    envvar="SEPU_WORKERS",
    type=click.IntRange(1, 256),
    default=2,
    show_default=True,
    help="Processes.  [env: SEPU_WORKERS]",
)
@click.option(
    "--worker",
    envvar="SEPU_WORKER",
    type=click.Choice(get_args(Worker)),
    default="asgi",
    show_default=True,
    help="Their kind; meinheld only behind a proxy.  [env: SEPU_WORKER]",
)
@database_options
def serve(
    host: str,
    port: int,
    bind: str | None,
    workers: int,
    worker: Worker,
    database_url: str | None,
    state_dir: Path,
) -> None:
    """Serve the HTTP interface in the foreground, until Ctrl-C or SIGTERM."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s [%(process)d] [%(levelname)s] %(name)s: %(message)s")
    address = listen.address(host, port, bind, worker)
    if bind is None:
        listen.require_free(host, port)
    service = Service.of(load_release())
    with database(database_url, state_dir) as url:
        if database_url is None:
            _greet(url, address)
        click.echo(f"sepu: serving on {address}; Ctrl-C stops it")
        Server(Settings(address, workers, worker, url), service).run()


def _greet(url: str, address: str) -> None:
    """On an embedded database without accounts: makes one and shows how to use it."""
    with connect(url) as connection:
        if accounts.has_accounts(connection):
            return
        issued = accounts.create_account(connection, "standard")
    curl = (
        f"curl --unix-socket {address[5:]} http://localhost"
        if address.startswith("unix:")
        else f"curl http://{address}"
    )
    bearer = f"-H 'Authorization: Bearer {issued.api_key}'"
    curls = [
        f"{curl}{routes.LIBRARY} {bearer}",
        f"{curl}{routes.USAGE} {bearer}",
        f"{curl}{routes.MATCH} {bearer} -H 'Idempotency-Key: demo-match-1' "
        """-H 'Content-Type: application/json' -d '{"colors":[{"r":200,"g":60,"b":35}],"top":3}'""",
        f"{curl}{routes.SEARCH} {bearer} -H 'Idempotency-Key: demo-search-1' -G --data-urlencode 'q=桃红'",
    ]
    lines = "\n\n".join(f"  {line}" for line in curls)
    click.echo(_DEMO.format(account_id=issued.account_id, api_key=issued.api_key, curls=lines))


@click.group()
def db() -> None:
    """The database's schema."""


@db.command("migrate")
@json_option
@database_options
def migrate_database(as_json: bool, database_url: str | None, state_dir: Path) -> None:
    """Apply this release's migrations; applying them again changes nothing."""
    if database_url is None:
        with embedded_postgres(state_dir) as url, connect(url) as connection:
            applied = migrate(connection)
    else:
        with connect(database_url) as connection:
            applied = migrate(connection)
    echo_fields({"applied": applied if as_json else ", ".join(applied) or "nothing to apply"}, as_json)
