"""A webhook endpoint: it keeps what it receives, and answers as the test says."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer
from typing import Any

import msgspec
from standardwebhooks.webhooks import Webhook


@dataclass(frozen=True)
class Received:
    headers: dict[str, str]
    body: bytes

    @property
    def event_id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    def verify(self, secret: str) -> None:
        """Checks the signature with the reference library, as an endpoint does."""
        Webhook(secret).verify(self.body, self.headers)


Reply = tuple[int, dict[str, str]]


@dataclass
class Endpoint:
    """A running endpoint. `reply` returns status and headers; it may take its time."""

    url: str
    reply: Callable[[Received], Reply]
    received: list[Received] = field(default_factory=list)

    @property
    def ids(self) -> list[str]:
        return [one.event_id for one in self.received]


class Threads(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextmanager
def answering(server: BaseServer) -> Iterator[None]:
    """Runs a server in a thread until the block ends."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def endpoint(port: int = 0, reply: Callable[[Received], Reply] = lambda _: (204, {})) -> Iterator[Endpoint]:
    """Listens on the port, by default a free one."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 30

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got = Received({name.lower(): value for name, value in self.headers.items()}, body)
            running.received.append(got)
            status, headers = running.reply(got)
            self.send_response(status)
            for name, value in {"content-length": "0", **headers}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    server = Threads(("127.0.0.1", port), Handler)
    running = Endpoint(f"http://127.0.0.1:{server.server_port}/hooks", reply)
    with answering(server):
        yield running
