"""A real `sepu console`, and what it answers."""

import http.client
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.postgres import empty_database
from tests.processes import running, until
from tests.serving import SEPU, Response, free_port

from sepu.cli.database import connect, console_url
from sepu.database.migrate import migrate


@dataclass(frozen=True)
class Console:
    """A running console, and the connection string of the owner of its database."""

    address: str
    owner_url: str

    def get(self, target: str, method: str = "GET", **headers: str) -> Response:
        connection = http.client.HTTPConnection(self.address, timeout=30)
        try:
            connection.request(method, target, headers={name.capitalize(): value for name, value in headers.items()})
            answer = connection.getresponse()
            found: Mapping[str, str] = {name.lower(): value for name, value in answer.getheaders()}
            return Response(answer.status, found, answer.read())
        finally:
            connection.close()

    def page(self, target: str, status: int = 200) -> str:
        """The text of a page."""
        found = self.get(target)
        assert found.status == status, found.body.decode()
        return found.body.decode()


@contextmanager
def console(server_url: str, directory: Path, *options: str) -> Iterator[Console]:
    """Runs the console on a new database of a server, as the role that may only read."""
    with empty_database(server_url) as url:
        with connect(url) as connection:
            migrate(connection)
        address = f"127.0.0.1:{free_port()}"
        environment = {**os.environ, "SEPU_DATABASE_URL": console_url(url)}
        command = [str(SEPU), "console", "--port", address.rpartition(":")[2], *options]
        log = directory / "console.log"
        with log.open("w") as output, running(command, env=environment, stdout=output, stderr=output):
            found = Console(address, url)
            until(lambda: _answers(found), why=log.read_text)
            yield found


def _answers(found: Console) -> bool:
    try:
        return found.get("/static/icon.svg").status == 200
    except OSError:
        return False
