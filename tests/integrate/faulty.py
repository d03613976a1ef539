"""A proxy between a client and the service that spoils metered requests, each in a given way."""

import http.client
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.serving import Response

SECONDS = 30
_HOP = {"connection", "keep-alive", "transfer-encoding", "host"}


@dataclass
class Attempt:
    """A metered request as the client sent it, and when; `port` tells its connection."""

    key: str
    line: str
    body: bytes
    port: int
    begun: float


Fault = Callable[["Exchange"], None]


@dataclass
class Between:
    """What stands between a client and the server at `HOST:PORT`."""

    upstream: str
    faults: list[Fault]
    keeps: bool
    changed: Callable[[Response], Response]
    url: str = ""
    attempts: list[Attempt] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)  # of the service, for metered requests
    unmetered_ports: set[int] = field(default_factory=set)
    given_up: int = 0


class Exchange(BaseHTTPRequestHandler):
    """One connection of the client. A fault uses these methods."""

    protocol_version = "HTTP/1.1"
    timeout = SECONDS
    between: Between

    def handle_any(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key = self.headers.get("Idempotency-Key")
        port: int = self.client_address[1]
        if key is None:
            self.between.unmetered_ports.add(port)
            self.close_connection = not self.between.keeps
            self.answer(self.ask())
            return
        self.between.attempts.append(Attempt(key, self.requestline, self.body, port, time.monotonic()))
        fault = self.between.faults.pop(0) if self.between.faults else passing
        fault(self)

    do_GET = do_POST = handle_any  # noqa: N815

    def ask(self) -> Response:
        """What the service answers."""
        connection = http.client.HTTPConnection(self.between.upstream, timeout=SECONDS)
        try:
            headers = {name.title(): value for name, value in self.headers.items() if name.lower() not in _HOP}
            connection.request(self.command, self.path, self.body or None, headers)
            found = connection.getresponse()
            named = {name: value for name, value in found.getheaders() if name.lower() not in _HOP}
            if "Idempotency-Key" in headers:
                self.between.statuses.append(found.status)
            return self.between.changed(Response(found.status, named, found.read()))
        finally:
            connection.close()

    def answer(self, response: Response, *, most: int | None = None) -> None:
        """Sends it, or so many bytes of its body."""
        self.send_response_only(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(response.body[:most])

    def cut(self) -> None:
        self.close_connection = True

    def until_given_up(self) -> None:
        """Says nothing until the client closes."""
        self.connection.settimeout(SECONDS)
        self.between.given_up += self.connection.recv(1) == b""
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        """Prints nothing."""


def passing(exchange: Exchange) -> None:
    """Does nothing bad."""
    exchange.answer(exchange.ask())


def as_it_is(response: Response) -> Response:
    """Changes nothing."""
    return response


@contextmanager
def between(
    upstream: str,
    faults: Sequence[Fault] = (),
    *,
    keeps: bool = False,
    changed: Callable[[Response], Response] = as_it_is,
) -> Iterator[Between]:
    """Listens until the block ends. Without `keeps` each unmetered answer closes its connection."""
    found = Between(upstream, list(faults), keeps, changed)
    handler = type("Handler", (Exchange,), {"between": found})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        found.url = "http://{}:{}".format(*server.server_address)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
