"""The hot paths, layer by layer: the suite times them, the gate counts their instructions."""

import asyncio
import atexit
import importlib
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any, cast

import falcon
import falcon.testing
import msgspec
import numpy as np
import uvloop
from bench.queries import QUERIES
from bench.recorded import MOST, SEED, Recorded
from tests.harness.accounts import api_key, key_secret

import sepu
from sepu.http.app import create_app
from sepu.http.observers import ReplyObservers
from sepu.http.request import TimedRequest
from sepu.http.request_checks import Endpoint
from sepu.http.responder import CallbackResponder, Responder
from sepu.http.service import Service
from sepu.library.records import rgb_of
from sepu.metering.batcher import Batcher
from sepu.metering.callers import Callers
from sepu.metering.commands import Command
from sepu.operations.color import color
from sepu.operations.match import Matcher, parse_match
from sepu.operations.search import Searcher, parse_search
from sepu.server.client_address import Network
from sepu.server.connection import App, Connection
from sepu.server.metrics import Blocks
from sepu.server.request_log import RequestLog

RELEASE = sepu.load()
PALETTE = RELEASE.palette()
COLORS = [msgspec.json.encode(color(record)) for record in RELEASE.records], RELEASE.manifest.version
SCANNED = sepu.Palette([rgb_of(record.hex) for record in RELEASE.records])  # without an index
NAMES = RELEASE.names()
# With 10,000, a call differs between layouts of memory (CPython's type cache) by less than the gate's tolerance.
RGB = np.random.default_rng(161).integers(0, 256, (10_000, 3))
LAB = sepu.srgb_to_lab(RGB)

MATCH_BODY = (
    b'{"colors":[{"r":200,"g":60,"b":35},{"r":12.5,"g":0,"b":255},{"r":1,"g":2,"b":3},{"r":90,"g":90,"b":90},'
    b'{"r":255,"g":254,"b":253}],"top":3}'
)
SEARCH_QUERY = "q=%E6%A1%83%E7%BA%A2&limit=10"
# Always the same, because its hash decides how many steps a dictionary takes.
API_KEY = api_key(SEED, 1)
HEADERS = {
    "Authorization": f"Bearer {API_KEY}",
    "Idempotency-Key": "hot-path-1",
    "Content-Type": "application/json",
    "User-Agent": "bench",
    "Accept": "*/*",
}
# The rows that the ledger's functions return for a charge, and for a request that is admitted without one.
_CHARGED = ("charged", "2026-11", 2000, 5, 0, b'{"datasetVersion":"1.0.0","results":[]}')
_ADMITTED = ("ok",)


CALLERS = Callers(time.monotonic, lambda: True)
CALLERS.learn_secret(key_secret(SEED))


class InstantLedger:
    """Replaces the batcher and charges immediately, so that only the code around it is measured."""

    callers = CALLERS

    def submit(self, command: Command[Any], done: Callable[[Any], None]) -> None:
        done(command.reply(command.read([_CHARGED if command.on_duplicate is not None else _ADMITTED])))

    def probe(self, done: Callable[[bool], None]) -> None:
        done(True)


INSTANT: Any = InstantLedger()


@dataclass
class HotPath:
    """A path is made when it is first run."""

    name: str
    make: Callable[[], Callable[[], object]]

    @cached_property
    def run(self) -> Callable[[int], None]:
        """Runs the path this many times."""
        once = self.make()

        def run(times: int) -> None:
            for _ in repeat(None, times):
                once()

        return run


def _nearest(palette: sepu.Palette) -> Callable[[], object]:
    nearest, colours = palette.nearest, RGB[:100].tolist()
    return lambda: [nearest(r, g, b, 3) for r, g, b in colours]


def _operation(operation: Any, parse: Callable[[Any], Any], question: str | bytes) -> Callable[[], object]:  # noqa: ANN401
    def once() -> tuple[bytes, bytes]:
        request = parse(question)
        return request.fingerprint(), operation.answer(request)

    return once


def _decide(endpoint: Endpoint, method: str, body: bytes, query: str = "") -> Callable[[], object]:
    environ = falcon.testing.create_environ(method=method, query_string=query, headers=HEADERS, body=body)
    head = TimedRequest(environ)
    assert isinstance(endpoint.decide(head, body, CALLERS), Command)
    return lambda: endpoint.decide(head, body, CALLERS)


class _Wire(asyncio.Transport):
    """Keeps the last write. Each is a system call, as to a socket."""

    sent = b""
    _nowhere = os.open(os.devnull, os.O_WRONLY)

    def write(self, data: "bytes | bytearray | memoryview") -> None:
        self.sent = bytes(data)
        os.write(self._nowhere, data)


class InProcess:
    """Runs the default worker's connection without a socket, from the bytes of a request to those of its response."""

    alive = True

    def __init__(self, service: Service, responder: Responder, loop: asyncio.AbstractEventLoop) -> None:
        self.wsgi: App = create_app(service, responder)
        self.loop = loop
        self.observers = ReplyObservers()
        self.connections: set[Connection] = set()
        self.addresses: Counter[str] = Counter()
        self.trusted_proxies: tuple[Network, ...] = ()
        self.buffer = memoryview(bytearray(16 * 1024))
        self._connection = Connection(self)
        self._wire = _Wire({"peername": ("127.0.0.1", 50000)})
        self._connection.connection_made(self._wire)

    def connections_changed(self) -> None: ...

    def served(self) -> None: ...

    def send(self, request: bytes) -> None:
        self._wire.sent = b""
        self.buffer[: len(request)] = request
        self._connection.buffer_updated(len(request))

    def status(self) -> int:
        """Returns the status of the response; 0 if there is none."""
        return int(self._wire.sent[9:12] or 0)


def request_bytes(
    method: str, path: str, body: bytes = b"", query: str = "", headers: Mapping[str, str] = HEADERS
) -> bytes:
    target = f"{path}?{query}" if query else path
    headers = {"Host": "127.0.0.1:8000", **headers, **({"Content-Length": str(len(body))} if body else {})}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode() + body


def _observers() -> ReplyObservers:
    # Written immediately, because a thread would make the count vary.
    nowhere = RequestLog("json", descriptor=os.open(os.devnull, os.O_WRONLY))
    return ReplyObservers(Blocks().counts(0).replied, nowhere.request)


def _request(
    service: Service, method: str, path: str, body: bytes = b"", query: str = "", recorded: Recorded | None = None
) -> Callable[[], object]:
    """A request from its bytes to those of its response; with a recorded session also batcher, session and libpq."""
    ledger: Any = recorded.batcher if recorded else InstantLedger()
    loop: asyncio.AbstractEventLoop = recorded.loop if recorded else asyncio.new_event_loop()  # does not run
    answer: Callable[[], object] = recorded.answer if recorded else lambda: None
    atexit.register(loop.close)
    server = InProcess(service, CallbackResponder(ledger, _observers()), loop)
    request = request_bytes(method, path, body, query)

    def once() -> None:
        server.send(request)
        answer()
        assert server.status() == 200

    return once


def _over_a_socket(service: Service, method: str, path: str, body: bytes) -> Callable[[], object]:
    """A request on the default worker's event loop, with all that the loop calls."""
    loop = uvloop.new_event_loop()
    atexit.register(loop.close)
    server = InProcess(service, CallbackResponder(cast(Batcher, InstantLedger()), _observers()), loop)
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    loop.run_until_complete(loop.connect_accepted_socket(lambda: Connection(server), ours))
    request, answer = request_bytes(method, path, body), bytearray(1 << 16)

    def read() -> None:
        theirs.recv_into(answer)
        loop.stop()

    loop.add_reader(theirs, read)

    def once() -> None:
        theirs.send(request)
        loop.run_forever()
        assert answer.startswith(b"HTTP/1.1 200")

    return once


class _Answered(socket.socket):
    """The client's end of a pair; the answer to a request is there when it is sent."""

    other: socket.socket
    answer: bytes

    def send(self, data: Any, flags: int = 0) -> int:  # noqa: ANN401
        sent = super().send(data, flags)
        self.other.recv_into(bytearray(sent))
        self.other.send(self.answer)
        return sent


def _client_match() -> Callable[[], object]:
    """A call of the client, from a colour to the objects of the answer."""
    # Not above: no worker imports the client, and it would count as a worker's memory.
    from sepu_client import Client
    from sepu_client.socket_connection import SocketConnection

    body = Matcher(PALETTE, *COLORS).answer(parse_match(b'{"colors":[{"r":200,"g":60,"b":35}],"top":1}'))
    lines = {"Content-Length": str(len(body)), "Content-Type": "application/json", "Server": "gunicorn"}
    lines |= {f"X-Usage-{name}": "1" for name in ("Period", "Meter", "Limit", "Committed", "Reserved", "Remaining")}
    lines |= {"X-Request-Id": "00000000-0000-0000-0000-000000000000"}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())

    def connected() -> Client:
        client = Client("http://127.0.0.1", API_KEY, proxy="")
        ours, theirs = socket.socketpair()
        connection = _Answered(fileno=ours.detach())
        connection.other, connection.answer = theirs, f"HTTP/1.1 200 OK\r\n{head}\r\n".encode() + body
        connection.setblocking(False)
        client._connections.give_back(SocketConnection(connection, client._route))
        atexit.register(client.close)
        atexit.register(theirs.close)
        return client

    client = connected()

    def connect_anew() -> None:
        nonlocal client
        client = connected()

    # The gate counts in a child, where a client closes the connections of its parent.
    os.register_at_fork(after_in_child=connect_anew)
    return lambda: client.match([(200, 60, 35)])


def _client_import() -> Callable[[], object]:
    """Its own modules; those of Python are loaded already."""

    def once() -> object:
        for name in [name for name in sys.modules if name.partition(".")[0] == "sepu_client"]:
            del sys.modules[name]
        return importlib.import_module("sepu_client")

    return once


def hot_paths(url: str = "") -> list[HotPath]:
    """Returns all paths; those of the ledger need a database with the accounts of `recorded`."""
    service, match = Service.of(RELEASE), ("POST", "/v1/match", MATCH_BODY)
    paths = [
        HotPath("core: nearest 3 of 100 colours, by the grid", lambda: _nearest(PALETTE)),
        HotPath("core: nearest 3 of 100 colours, by scanning", lambda: _nearest(SCANNED)),
        HotPath("core: nearest 3 of an array of 10,000 colours", lambda: lambda: PALETTE.nearest_batch(RGB, 3)),
        HotPath("core: differences of 1,000 colours from all", lambda: lambda: PALETTE.delta_e(RGB[:1_000])),
        HotPath("core: CIEDE2000 of 9,999 pairs", lambda: lambda: sepu.ciede2000(LAB[1:], LAB[:-1])),
        HotPath("core: sRGB to L*a*b* of 10,000 colours", lambda: lambda: sepu.srgb_to_lab(RGB)),
        HotPath("core: 120 searches", lambda: lambda: [NAMES.search(q, 10) for q in QUERIES]),
        HotPath("operation: match", lambda: _operation(Matcher(PALETTE, *COLORS), parse_match, MATCH_BODY)),
        HotPath("operation: search", lambda: _operation(Searcher(NAMES, *COLORS), parse_search, SEARCH_QUERY)),
        HotPath("decision: match", lambda: _decide(service.match, "POST", MATCH_BODY)),
        HotPath("decision: search", lambda: _decide(service.search, "GET", b"", SEARCH_QUERY)),
        HotPath("HTTP: parser and response", lambda: _request(service, "GET", "/healthz")),
        HotPath("request: match", lambda: _request(service, *match)),
        HotPath("request: search", lambda: _request(service, "GET", "/v1/search", b"", SEARCH_QUERY)),
        HotPath("request: library", lambda: _request(service, "GET", "/v1/library")),
        HotPath("request: match, over a socket", lambda: _over_a_socket(service, *match)),
        HotPath("client: match", _client_match),
        HotPath("client: import", _client_import),
    ]
    if url:
        paths += [
            HotPath("ledger: charge", lambda: Recorded(url, 1).round),
            HotPath("ledger: 1 charge, then 16 in a batch", lambda: Recorded(url, MOST).round),
            HotPath("request: match, with the ledger", lambda: _request(service, *match, recorded=Recorded(url, 1))),
        ]
    return paths
