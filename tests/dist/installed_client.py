"""The installed client is the one tested, without the server, and works over a socket.

Not part of `make test-all`, which tests the checkout.
"""

import sysconfig
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import requires, version
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.client.blocking import Open

import sepu_client

SERVER = ["sepu", "numpy", "click", "rich", "falcon", "gunicorn", "psycopg", "joserfc"]


class Service(BaseHTTPRequestHandler):
    """Answers 503 at first, then charges a search without results."""

    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(self.headers["Idempotency-Key"])
        content = b'{"datasetVersion":"1.0.0","count":0,"results":[]}'
        self.send_response(503 if len(self.seen) == 1 else 200)
        for name, value in (
            ("Content-Length", len(content)),
            ("X-Request-Id", "0b6f3c1e-7f0a-4a52-9d3a-1c8e5b7d2f40"),
            ("X-Usage-Period", "2026-11"),
            ("X-Usage-Meter", "color_search"),
            ("X-Usage-Limit", 1000),
            ("X-Usage-Committed", 1),
            ("X-Usage-Reserved", 0),
            ("X-Usage-Remaining", 999),
        ):
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *given: object) -> None:
        """Logs nothing: the output is pytest's."""


@pytest.fixture
def service() -> Iterator[ThreadingHTTPServer]:
    class Own(Service):
        seen: list[str] = []  # noqa: RUF012

    with ThreadingHTTPServer(("127.0.0.1", 0), Own) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_it_is_the_installed_one() -> None:
    assert sepu_client.__file__ is not None
    assert Path(sepu_client.__file__).is_relative_to(sysconfig.get_path("purelib"))


def test_nothing_of_the_server_is_there() -> None:
    assert [name for name in SERVER if find_spec(name)] == []
    assert requires("sepu-client") == ["httptools>=0.9", "msgspec>=0.21", "tinycss2>=1.5"]


def test_a_call_over_a_socket(service: ThreadingHTTPServer, open_client: Open) -> None:
    with open_client(f"http://127.0.0.1:{service.server_port}", "a-key") as client:
        answer = client.search("hong")
    assert (answer.count, answer.usage and answer.usage.remaining) == (0, 999)
    assert service.RequestHandlerClass.seen == [answer.idempotency_key] * 2  # type: ignore[attr-defined]


def test_it_knows_its_version() -> None:
    assert sepu_client.__version__ == version("sepu-client")
