"""Runs a real `sepu console` and reads its answers."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.processes import running, until
from tests.harness.serving import SEPU, Response, Server, free_port, is_ready

from sepu.database.opening import console_url


@dataclass
class Console(Server):
    """A running console, and the connection string of its database's owner."""

    owner_url: str = field(kw_only=True)

    def get(self, target: str, method: str = "GET", **headers: str) -> Response:
        return self.request(method, target, {name.capitalize(): value for name, value in headers.items()})

    def page(self, target: str, status: int = 200) -> str:
        found = self.get(target)
        assert (found.status, found.headers["content-type"]) == (status, "text/html; charset=utf-8"), found.body
        return found.body.decode()


@contextmanager
def console(owner_url: str, *options: str) -> Iterator[Console]:
    """Runs the console on a migrated database, as the read-only role."""
    address = f"127.0.0.1:{free_port()}"
    environment = {**os.environ, "SEPU_DATABASE_URL": console_url(owner_url)}
    few_files = ("sh", "-c", 'ulimit -Sn 256 && exec "$@"', "sh")  # the console allows itself more
    command = [*few_files, str(SEPU), "console", "--port", address.rpartition(":")[2], *options]
    with (
        tempfile.NamedTemporaryFile(prefix="sepu-console-") as output,
        running(command, env=environment, stdout=output, stderr=output) as process,
    ):
        log = Path(output.name)
        found = Console("console", address, process, log, owner_url=owner_url)
        until(lambda: is_ready(found, "/static/icon.svg"), why=log.read_text)
        yield found
