"""A proxy between a client and the service that applies a given fault to each metered request."""

import http.client
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.endpoint import Threads, answering
from tests.harness.serving import Response

SECONDS = 30
_HOP = {"connection", "keep-alive", "transfer-encoding", "host", "content-length"}


@dataclass
class Attempt:
    """A metered request as the client sent it, and when; `port` identifies its connection."""

    key: str
    line: str
    body: bytes
    port: int
    begun: float


Fault = Callable[["Exchange"], None]


@dataclass
class Between:
    """The proxy between a client and the server at `HOST:PORT`."""

    upstream: str
    faults: Iterator[Fault]
    keeps: bool
    changed: Callable[[Response], Response]
    url: str = ""
    attempts: list[Attempt] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)  # the service's, for metered requests
    unmetered_ports: set[int] = field(default_factory=set)
    given_up: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Exchange(BaseHTTPRequestHandler):
    """One connection of the client. Faults use these methods."""

    protocol_version = "HTTP/1.1"
    timeout = SECONDS
    between: Between

    def handle_any(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key = self.headers.get("Idempotency-Key")
        port: int = self.client_address[1]
        fault: Fault = passing
        if key is None:
            self.between.unmetered_ports.add(port)
            self.close_connection = not self.between.keeps
        else:
            self.between.attempts.append(Attempt(key, self.requestline, self.body, port, time.monotonic()))
            with self.between.lock:
                fault = next(self.between.faults, passing)
        try:
            fault(self)
        except (OSError, http.client.HTTPException):
            self.close_connection = True

    do_GET = do_POST = handle_any  # noqa: N815

    def ask(self) -> Response:
        """The service's answer."""
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
        """Sends the answer, with at most `most` bytes of its body."""
        self.send_response_only(response.status)
        for name, value in {"Content-Length": str(len(response.body)), **response.headers}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(response.body[:most])

    def until_given_up(self) -> None:
        """Sends nothing until the client closes."""
        self.connection.settimeout(SECONDS)
        self.between.given_up += self.connection.recv(1) == b""
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        """Prints nothing."""


def passing(exchange: Exchange) -> None:
    """No fault."""
    exchange.answer(exchange.ask())


def cut_before(exchange: Exchange) -> None:
    """The request does not reach the service."""
    exchange.close_connection = True


def cut_after(exchange: Exchange) -> None:
    """The request is charged, and its answer lost."""
    exchange.ask()
    exchange.close_connection = True


def cut_within(exchange: Exchange) -> None:
    """The answer is cut short."""
    exchange.close_connection = True
    exchange.answer(exchange.ask(), most=50)


def too_slow(exchange: Exchange) -> None:
    """The request is charged, and its answer comes too late."""
    exchange.ask()
    exchange.until_given_up()


def slow_body(exchange: Exchange) -> None:
    """The head of the answer comes in time, its body too late."""
    exchange.answer(exchange.ask(), most=50)
    exchange.until_given_up()


def saying(status: int, body: bytes, **headers: str) -> Fault:
    """An answer that is not the service's, such as that of a proxy."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda exchange: exchange.answer(Response(status, named, body))


@contextmanager
def between(
    upstream: str,
    faults: Iterable[Fault] = (),
    *,
    keeps: bool = False,
    changed: Callable[[Response], Response] = lambda response: response,
) -> Iterator[Between]:
    """Listens until the block ends. Without `keeps` each unmetered answer closes its connection."""
    found = Between(upstream, iter(faults), keeps, changed)
    server = Threads(("127.0.0.1", 0), type("Handler", (Exchange,), {"between": found}))
    found.url = "http://{}:{}".format(*server.server_address)
    with answering(server):
        yield found
