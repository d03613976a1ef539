"""Serves one HTTP/1.1 connection by callbacks, without tasks or futures.

httptools parses strictly. This module checks the rest of RFC 9112: one Host, `chunked` as the only transfer coding,
limits on all input, and a time limit on every wait. The requests of a connection are answered in order, one at a time.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from io import BytesIO
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import unquote_to_bytes

import httptools

from sepu import limits
from sepu.http.app import environ_name
from sepu.http.observer import RequestObserver
from sepu.http.replies import Reply
from sepu.http.responder import SEND
from sepu.http.wire import refuse, response

App = Callable[..., Iterable[bytes]]  # WSGI (PEP 3333)

# Bytes that are parsed at a time. They limit the pipelined requests in memory and the time for one connection.
_SLICE_BYTES = 2048
_KNOWN_NAMES = 500
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_NEVER = float("inf")
_BODY = frozenset({"CONTENT_LENGTH", "HTTP_TRANSFER_ENCODING"})
# With two of these, two servers could read a request in different ways.
_SINGLE = frozenset({"HTTP_HOST", "CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_TRANSFER_ENCODING"})


class Owner(Protocol):
    """Describes the worker that serves connections."""

    loop: asyncio.AbstractEventLoop
    observer: RequestObserver
    connections: "set[Connection]"
    buffer: memoryview  # input that is not parsed yet
    alive: bool

    @property
    def wsgi(self) -> App:
        """Runs the application, which answers by `environ[SEND]`."""

    def served(self) -> None:
        """Counts a request."""


class _Request(NamedTuple):
    environ: dict[str, Any]
    keep_alive: bool
    has_body: bool  # of its response


class Connection(asyncio.BufferedProtocol):
    """Parses, serves and answers."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._loop = owner.loop
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._base: dict[str, Any] = {}
        # of the request that is being parsed
        self._url = b""
        self._environ: dict[str, Any] | None = None  # once the head is complete
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._held = 0  # bytes of it, without its body
        # of those that are parsed
        self._requests: deque[_Request] = deque()
        self._unparsed = b""
        self._refusal: int | None = None  # sent after the answers to earlier requests
        self._last = False  # no further request is parsed
        self._at_hand: _Request | None = None
        self._running = False
        # of the connection
        self._at_end = False  # the client has sent everything
        self._stuck = False  # the client does not read its answers
        self._reading = True
        self._closing = False
        self.deadline = self._loop.time() + limits.REQUEST_SECONDS

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuses a connection over the limit, and closes it at once."""
        self._transport = cast("asyncio.Transport", transport)
        connections = self._owner.connections
        connections.add(self)
        if len(connections) > limits.CONNECTIONS:
            refuse(503, self._transport.write, self._owner.observer)
            self._at_end = True
            self._close()
            return
        peer = transport.get_extra_info("peername")
        self._base = {
            "REMOTE_ADDR": peer[0] if isinstance(peer, tuple) else "",
            "SCRIPT_NAME": "",
            "SERVER_NAME": "sepu",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": False,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
            SEND: self._send,
        }

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Forgets the connection, and drops the answer to its current request."""
        self._closing = True
        self._owner.connections.discard(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Lends the worker's buffer: its content is parsed or copied before another connection reads."""
        return self._owner.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Takes the input. Drops that of a closing connection."""
        if self._closing or self._last:
            return
        data = self._owner.buffer[:nbytes]
        if self._at_hand is None and not self._unparsed and nbytes <= _SLICE_BYTES:
            self._parse(data)
        else:
            self._unparsed += data
        self._go_on()

    def eof_received(self) -> bool:
        """Notes that the client has sent everything; it may still wait for answers."""
        self._at_end = True
        self._go_on()
        return not self._closing

    def pause_writing(self) -> None:
        """Gives the client some time to read its answers."""
        self._stuck = True
        self.deadline = self._loop.time() + limits.ANSWER_SECONDS

    def resume_writing(self) -> None:
        """Continues with the client's input."""
        self._stuck = False
        if not self._closing:
            self._await()
            self._go_on()

    # --- called by the worker

    def check(self, now: float) -> None:
        """Ends a wait that is too long."""
        if now < self.deadline:
            return
        if self._closing or self._stuck:
            self._transport.abort()
        elif self._held:
            self._refuse(408)
        else:
            self._close()

    def close_if_idle(self) -> None:
        """Closes the connection, unless a request is being received or served."""
        if not (self._at_hand or self._requests or self._held or self._unparsed or self._closing):
            self._close()

    # --- called by the parser

    def on_message_begin(self) -> None:
        """Begins a request, perhaps after another in the same input."""
        self._held = max(self._held, 1)
        self._url = b""
        self._environ = None
        self._headers = []
        self._body = []
        self._body_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Takes the target or a part of it."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header; ignores trailers, which come after the body."""
        if self._environ is None:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Checks the head and creates the environ from it."""
        parser = self._parser
        version = parser.get_http_version()
        method = parser.get_method().decode()
        url = self._url
        if version not in {"1.1", "1.0"}:
            raise _RefusedError(400)
        if len(method) + len(url) + len(" HTTP/1.1 ") > limits.LINE_BYTES:
            raise _RefusedError(414)
        environ = self._base.copy()
        _add_headers(environ, self._headers)
        target, _, query = url.decode("ascii").partition("?")
        scheme, colon, rest = target.partition("://")
        if colon and scheme.lower() in {"http", "https"}:  # absolute-form, which RFC 9112 requires of servers
            target = "/" + rest.partition("/")[2]
        environ["REQUEST_METHOD"] = method
        environ["PATH_INFO"] = unquote_to_bytes(target).decode("latin-1") if "%" in target else target
        environ["QUERY_STRING"] = query
        if "HTTP_HOST" not in environ and version == "1.1":
            raise _RefusedError(400)
        if (coding := environ.get("HTTP_TRANSFER_ENCODING")) is not None and (
            coding.lower() != "chunked" or version == "1.0"
        ):
            raise _RefusedError(400)
        length = environ.get("CONTENT_LENGTH", "0")
        if not (length.isascii() and length.isdigit() and len(length) <= limits.LENGTH_DIGITS):
            raise _RefusedError(400)
        if (expectation := environ.get("HTTP_EXPECT")) is not None:
            if expectation.lower() != "100-continue":
                raise _RefusedError(417)
            # It cannot go between the answers to earlier requests. The client sends its body without it after a while.
            if version == "1.1" and (coding or int(length)) and self._at_hand is None and not self._requests:
                self._transport.write(_CONTINUE)
        self._environ = environ

    def on_body(self, body: bytes) -> None:
        """Takes a part of the body. Keeps one byte over the limit; closes the connection if the body is much larger."""
        self._held -= len(body)
        if self._last:
            return
        if self._body_bytes <= limits.BODY_BYTES:
            self._body.append(body)
        self._body_bytes += len(body)
        if self._body_bytes > limits.BODY_BYTES + limits.DISCARDED_BYTES:
            self._last = True
            self._complete(keep_alive=False)

    def on_message_complete(self) -> None:
        """Appends the complete request to the earlier ones."""
        self._held = 0
        if not self._last:
            keep_alive = self._parser.should_keep_alive() and self._parser.get_http_version() == "1.1"
            self._last = not keep_alive
            self._complete(keep_alive)

    # ---

    def _complete(self, keep_alive: bool) -> None:
        environ = self._environ
        assert environ is not None  # noqa: S101
        environ["wsgi.input"] = BytesIO(b"".join(self._body))
        self._requests.append(_Request(environ, keep_alive, environ["REQUEST_METHOD"] != "HEAD"))

    def _parse(self, data: "memoryview | bytes") -> None:
        if not self._held:
            self.deadline = self._loop.time() + limits.REQUEST_SECONDS
        self._held += len(data)
        while True:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                # A server may ignore an upgrade and answer as usual.
                data = self._without_upgrade() + bytes(data[upgrade.args[0] :])
                if self._last or not data:
                    break
                self._held = len(data)
                continue
            except httptools.HttpParserError as error:
                if not self._last:
                    cause = error.__context__
                    self._stop(cause.status if isinstance(cause, _RefusedError) else 400)
            break
        if self._held > limits.HEAD_BYTES and self._environ is None:
            self._stop(431)
        elif self._held > limits.FRAMING_BYTES:
            self._stop(413)

    def _without_upgrade(self) -> bytes:
        """Takes back the last request if it has a body, and returns its head without the upgrade, to be parsed again.

        httptools takes such a body for further requests.
        """
        last = self._requests[-1].environ if self._requests else {}
        if last is not self._environ or "HTTP_UPGRADE" not in last or not _BODY & last.keys():
            return b""
        self._requests.pop()
        self._last = False
        parser = self._parser
        line = b"%b %b HTTP/%b\r\n" % (parser.get_method(), self._url, parser.get_http_version().encode())
        # It has been told to continue.
        kept = [header for header in self._headers if header[0].lower() not in {b"upgrade", b"expect"}]
        return line + b"".join(b"%b: %b\r\n" % header for header in kept) + b"\r\n"

    def _stop(self, status: int) -> None:
        """Refuses the request that is being parsed, and stops reading."""
        self._refusal = status
        self._last = True

    def _go_on(self) -> None:
        """Serves parsed requests, then parses further input, until it must wait."""
        if self._running:
            return
        self._running = True
        try:
            while not (self._at_hand or self._stuck or self._closing) and self._step():
                pass
        finally:
            self._running = False
        self._read(not self._unparsed or self._closing)

    def _step(self) -> bool:
        """Does the next step; returns whether another can follow at once."""
        if self._requests:
            self._serve(self._requests.popleft())
        elif self._refusal is not None:
            self._refuse(self._refusal)
        elif self._last:
            self._close()
        elif self._unparsed:
            data, self._unparsed = self._unparsed[:_SLICE_BYTES], self._unparsed[_SLICE_BYTES:]
            self._parse(data)
            if self._unparsed:  # other connections come first
                self._loop.call_soon(self._go_on)
                return False
        elif not self._at_end:
            return False
        elif self._held:
            self._refuse(400)
        else:
            self._close()
        return True

    def _read(self, wanted: bool) -> None:
        if wanted != self._reading and not self._transport.is_closing():
            self._reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _serve(self, request: _Request) -> None:
        self._at_hand = request
        self.deadline = _NEVER
        self._owner.served()
        self._owner.wsgi(request.environ, _ignore)

    def _send(self, reply: Reply, request_id: str) -> None:
        """Answers the current request."""
        request, self._at_hand = self._at_hand, None
        if self._closing or request is None:
            return
        close = not (request.keep_alive and self._owner.alive)
        self._transport.write(response(reply, request_id, close=close, with_body=request.has_body))
        if close:
            self._close()
        else:
            self._await()
            self._go_on()

    def _await(self) -> None:
        """Sets the time limit of the client's next action."""
        if self._at_hand:
            self.deadline = _NEVER
        elif not self._stuck:
            self.deadline = self._loop.time() + (limits.REQUEST_SECONDS if self._held else limits.IDLE_SECONDS)

    def _refuse(self, status: int) -> None:
        refuse(status, self._transport.write, self._owner.observer)
        self._close()

    def _close(self) -> None:
        """Closes the sending side, and the rest when the client closes: closing at once could cut off the answer."""
        self._closing = True
        self._requests.clear()
        self._unparsed = b""
        self.deadline = self._loop.time() + limits.LINGER_SECONDS
        if self._at_end:
            self._transport.close()
        elif not self._transport.is_closing():
            self._transport.write_eof()
            self._read(True)


class _RefusedError(Exception):
    """Ends the parsing of a request."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def _ignore(*_: object) -> None:
    """Ignores what Falcon would send, because the reply does not pass through it."""


@lru_cache(_KNOWN_NAMES)
def _environ_name(name: bytes) -> str | None:
    """Returns a header's name in the environ, or None if an underscore could make it look like another."""
    return None if b"_" in name else environ_name(name.decode("ascii"))


def _add_headers(environ: dict[str, Any], headers: list[tuple[bytes, bytes]]) -> None:
    if len(headers) > limits.HEADERS:
        raise _RefusedError(431)
    line, left = limits.LINE_BYTES - len(": "), limits.HEAD_BYTES
    for name, value in headers:
        length = len(name) + len(value)
        left -= length
        if length > line or left < 0:
            raise _RefusedError(431)
        key = _environ_name(name)
        if key is None:
            continue
        text = value.decode("latin-1").strip(" \t")
        if key in environ:
            if key in _SINGLE:
                raise _RefusedError(400)
            text = f"{environ[key]},{text}"
        environ[key] = text
