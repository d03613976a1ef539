"""A real `sepu serve` for tests, and a client over real sockets."""

import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from tests.harness.processes import children, running, until

from sepu.admin.keys import IssuedKey

ONE_COLOUR = b'{"colors":[{"r":200,"g":60,"b":35}]}'
SEPU = Path(sysconfig.get_path("scripts")) / "sepu"
WORKERS = ("uvloop", "gthread", "meinheld")
START_SECONDS = 30
Socket = socket.socket  # `Server.socket` hides the name


def with_limits(**subjects: dict[str, float]) -> list[str | Path]:
    """`sepu` with some of its limits changed."""
    changes = [f"vars(limits.{subject}).update({values!r})" for subject, values in subjects.items()]
    lines = ("from sepu import limits", *changes, "from sepu.cli.main import main", "main()")
    return [sys.executable, "-c", "; ".join(lines)]


def why_not(worker: str) -> str | None:
    if worker == "meinheld" and not find_spec("meinheld"):
        return "meinheld is not installed: `make meinheld` does so on Linux with CPython 3.11 or 3.12"
    return None


needs_meinheld = pytest.mark.skipif(why_not("meinheld") is not None, reason=str(why_not("meinheld")))
EACH_WORKER = [
    "uvloop",
    pytest.param("gthread", marks=pytest.mark.slow),
    pytest.param("meinheld", marks=[pytest.mark.slow, needs_meinheld]),
]


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@dataclass(frozen=True)
class Response:
    """An HTTP response; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str | None:
        return self.json["error"] if self.status >= 400 else None


@dataclass
class Server:
    """A running server; `address` is `HOST:PORT` or `unix:PATH`."""

    worker: str
    address: str
    process: subprocess.Popen[str]
    log: Path
    _kept: http.client.HTTPConnection | None = field(default=None, repr=False)

    def connect(self, timeout: float = 30) -> http.client.HTTPConnection:
        if self.address.startswith("unix:"):
            return UnixConnection(self.address[5:], timeout)
        return http.client.HTTPConnection(self.address, timeout=timeout)

    def socket(self) -> Socket:
        """A plain socket, for requests that no client library would send."""
        connection = self.connect()
        connection.connect()
        raw: Socket = connection.sock
        return raw

    def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        *,
        keep: bool = False,
    ) -> Response:
        """Sends one request, on a new connection or on a kept one."""
        connection = (self._kept if keep else None) or self.connect()
        try:
            connection.request(
                method, target, body, dict(headers or {}), encode_chunked=not isinstance(body, bytes | None)
            )
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            response = Response(answer.status, found, answer.read())
        finally:
            if not keep:
                connection.close()
        if keep:
            self._kept = connection
        return response

    def match(self, issued: IssuedKey, idempotency_key: str, *, keep: bool = False) -> Response:
        headers = {
            "Authorization": f"Bearer {issued.api_key}",
            "Idempotency-Key": idempotency_key,
            "Content-Type": "application/json",
        }
        return self.request("POST", "/v1/match", headers, ONE_COLOUR, keep=keep)

    def hang_up(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def workers(self) -> list[int]:
        return [worker.pid for worker in children(self.process.pid)]


Served = Callable[[str], Server]


def until_closed(raw: socket.socket, seconds: float = START_SECONDS) -> bytes:
    """All further data from the server; raises after `seconds` of silence."""
    raw.settimeout(seconds)
    answer = b""
    try:
        while part := raw.recv(65536):
            answer += part
    except ConnectionResetError:
        pass
    return answer


def free_port() -> int:
    """A port below the range from which the system assigns ports to clients."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def serving(
    worker: str,
    database_url: str | None,
    *,
    workers: int = 2,
    ready: str = "/readyz",
    unix: bool = False,
    address: str | None = None,
    program: Sequence[str | Path] = (SEPU,),
    options: Sequence[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Server]:
    """Runs `sepu serve` until the block ends, then stops it gracefully; without a URL, on an embedded database."""
    with tempfile.TemporaryDirectory(prefix="sepu-") as directory:
        if address is None:
            on_path = unix or worker == "meinheld"
            address = f"unix:{directory}/http" if on_path else f"127.0.0.1:{free_port()}"
        where = ["--bind", address] if address.startswith("unix:") else ["--port", address.rpartition(":")[2]]
        log = Path(directory) / "log"
        at_database = {"SEPU_DATABASE_URL": database_url, "SEPU_STATE_DIR": directory} if database_url else {}
        with (
            log.open("w") as output,
            running(
                [*program, "serve", "--worker", worker, "--workers", str(workers), *where, *options],
                env={**os.environ, **at_database, **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            ) as process,
        ):
            server = Server(worker, address, process, log)
            try:
                until(lambda: is_ready(server, ready), seconds=START_SECONDS, why=log.read_text)
                yield server
            finally:
                server.hang_up()


def is_ready(server: Server, path: str) -> bool:
    assert server.process.poll() is None, server.log.read_text()
    with suppress(OSError):
        return server.request("GET", path).status == 200
    return False
