"""Serves one HTTP/1.1 connection with callbacks, without tasks or futures.

httptools parses strictly. This module enforces the rest of RFC 9112, such as one Host and no transfer coding but
`chunked`. It limits all input and every wait. A connection's requests are answered in order, one at a time.

A connection is always in one `State`. Its input has a state of its own, which may be ahead: while one request is being
answered, part of the next may have arrived. Only `_enter` changes the connection's state, and it sets the deadline.
"""

import asyncio
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable
from enum import Enum
from functools import lru_cache
from io import BytesIO
from typing import Any, Protocol, cast
from urllib.parse import unquote_to_bytes

import httptools
import msgspec

from sepu import limits
from sepu.http.observers import ReplyObservers
from sepu.http.replies import Reply
from sepu.http.request import CONTENT_LENGTH, CONTENT_TYPE, READ, environ_name
from sepu.http.responder import SEND
from sepu.http.wire import refuse, response
from sepu.server.client_address import Network, connection_address
from sepu.server.host import is_host

App = Callable[..., Iterable[bytes]]  # WSGI (PEP 3333)

# Bytes parsed at a time. This bounds a connection's pipelined requests in memory and its hold on the event loop.
_SLICE_BYTES = 2048
_KNOWN_NAMES = 500
_LINE_BYTES = limits.requests.LINE_BYTES - len(": ")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_NEVER = float("inf")
_EXPECT = "HTTP_EXPECT"
# If one of these occurred twice, two servers could parse the request differently (RFC 9112, 3.2, 6.3; RFC 9110, 5.3).
_SINGLE = frozenset({"HTTP_HOST", CONTENT_LENGTH, CONTENT_TYPE, "HTTP_TRANSFER_ENCODING"})
_READ = frozenset({*READ, *_SINGLE, _EXPECT, "HTTP_UPGRADE"})


class State(Enum):
    """What a connection waits for, and the longest wait in seconds.

    The states of the first group also apply to the input. BODY keeps the deadline of HEAD.
    """

    NEW = "the first byte of the first request", limits.requests.REQUEST_SECONDS
    IDLE = "the first byte of the next request (RFC 9112, 9.3)", limits.connections.IDLE_SECONDS
    HEAD = "the rest of a head (RFC 9112, 2.1)", limits.requests.REQUEST_SECONDS
    BODY = "the rest of a body (RFC 9112, 6)", limits.requests.REQUEST_SECONDS
    ENDED = "the answers that are due; no further input is parsed (RFC 9112, 9.6)", _NEVER

    SERVING = "the application", limits.requests.APPLICATION_SECONDS
    STUCK = "the client to take its answers", limits.requests.ANSWER_SECONDS
    CLOSING = "the client to close its side (RFC 9112, 9.6)", limits.requests.LINGER_SECONDS
    LOST = "nothing", _NEVER

    def __init__(self, _awaited: str, seconds: float) -> None:
        self.seconds = seconds


# PERF: Python looks up a module-level name faster than a member of an enumeration.
_NEW, _IDLE, _HEAD, _BODY, _ENDED, _SERVING, _STUCK, _CLOSING, _LOST = State
_BETWEEN = (_IDLE, _NEW)  # no byte of the next request has been parsed
_OPEN = (_IDLE, _BODY, _HEAD, _ENDED, _NEW)  # the states of the input


class Owner(Protocol):
    """Describes the worker that serves connections."""

    loop: asyncio.AbstractEventLoop
    observers: ReplyObservers
    connections: "set[Connection]"
    addresses: Counter[str]  # connections from each address that is not a proxy's
    trusted_proxies: tuple[Network, ...]
    buffer: memoryview  # the event loop reads input into it
    alive: bool

    @property
    def wsgi(self) -> App:
        """Returns the application, which answers through `environ[SEND]`."""

    def connections_changed(self) -> None:
        """Publishes the number of open connections."""

    def served(self) -> None:
        """Counts a request."""


class _Request(msgspec.Struct, frozen=True):
    environ: dict[str, Any]
    keep_alive: bool
    has_body: bool  # whether its response has one


class Connection(asyncio.BufferedProtocol):
    """Parses and serves the requests of one client."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._loop = owner.loop
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._address: str | None = None
        self._base: dict[str, Any] = {}
        # The request that is being parsed.
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._environ: dict[str, Any] | None = None  # set when the head is complete
        self._keep_alive = True  # our checks allow it; the parser must too
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._other_bytes = 0  # bytes parsed after its first slice, minus body bytes
        # The requests already parsed.
        self._requests: deque[_Request] = deque()
        self._current: _Request | None = None
        self._refusal = 400  # the status to send after these requests' answers, once the input has ended
        # The connection itself.
        self._input = _NEW
        self._state = _LOST
        self.deadline: float
        self._enter(_NEW)
        self._unparsed = b""
        self._at_end = False  # no further input is expected
        self._reading = True
        self._running = False

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Counts the connection, and refuses and closes it if it is over a limit."""
        self._transport = cast("asyncio.Transport", transport)
        owner = self._owner
        peer = transport.get_extra_info("peername")
        remote_addr = peer[0] if isinstance(peer, tuple) else ""
        self._address = connection_address(remote_addr, owner.trusted_proxies)
        owner.connections.add(self)
        owner.connections_changed()
        if self._address is not None:
            owner.addresses[self._address] += 1
        of_address = 0 if self._address is None else owner.addresses[self._address]
        if len(owner.connections) > limits.connections.OF_A_WORKER or of_address > limits.connections.OF_AN_ADDRESS:
            self._at_end = True
            self._refuse(503)
            return
        self._base = {
            "REMOTE_ADDR": remote_addr,
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
        self._enter(_LOST)
        self._input = _ENDED
        self._owner.connections.discard(self)
        self._owner.connections_changed()
        if self._address is not None:
            self._owner.addresses[self._address] -= 1
            if not self._owner.addresses[self._address]:
                del self._owner.addresses[self._address]

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Returns the worker's buffer. Its data is parsed or copied before another connection uses it."""
        return self._owner.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Takes input. Drops it if no more requests are accepted."""
        if self._input is _ENDED:
            return
        data = self._owner.buffer[:nbytes]
        if self._state in _OPEN and not self._unparsed and nbytes <= _SLICE_BYTES:
            self._parse(data)
        else:
            self._unparsed += data
        self._advance()

    def eof_received(self) -> bool:
        """Records that the client has finished sending. It may still be waiting for answers."""
        self._at_end = True
        self._advance()
        return self._state is not _CLOSING

    def pause_writing(self) -> None:
        """Sets the deadline by which the client must read its answers."""
        if self._state in _OPEN:
            self._enter(_STUCK)

    def resume_writing(self) -> None:
        """Continues with the client's input."""
        if self._state is _STUCK:
            self._enter(self._input)
            self._advance()

    # --- called by the worker

    def check(self, now: float) -> None:
        """Ends a wait that has passed its deadline."""
        if now < self.deadline:
            return
        if self._state in _BETWEEN:
            self.close_if_idle()  # a 408 could be taken for the next request's answer
        elif self._state in {_HEAD, _BODY}:
            self._refuse(408)  # RFC 9110, 15.5.9
        elif self._state is _SERVING:
            self._refuse(500)
        else:
            self._transport.abort()

    def close_if_idle(self) -> None:
        """Closes the connection, unless a request is being received or served."""
        if self._state in _BETWEEN and not self._unparsed:
            self._close()

    # --- called by the parser

    def on_message_begin(self) -> None:
        """Begins a request; the input may hold several. Empty lines do not begin one (RFC 9112, 2.2)."""
        if self._input not in _BETWEEN:
            if self._input is _ENDED:
                raise _RefusedError(400)  # stops the parser
            return  # this is the head that `_body_parser` made
        self._input = _HEAD
        self._url = b""
        self._headers = []
        self._environ = None
        self._body = []
        self._body_bytes = 0
        self._other_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Appends the target, or a part of it."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header; ignores trailers, which come after the body."""
        if self._environ is None:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Checks the head and creates the environ from it."""
        if self._environ is not None:  # this is the head that `_body_parser` made
            self._input = _BODY
            return
        parser = self._parser
        version = parser.get_http_version()
        method = parser.get_method().decode()
        url = self._url
        if version not in {"1.1", "1.0"}:  # RFC 9112, 2.3
            raise _RefusedError(400)
        if len(method) + len(url) + len(" HTTP/1.1 ") > limits.requests.LINE_BYTES:
            raise _RefusedError(414)  # RFC 9112, 3
        environ = self._base.copy()
        _add_headers(environ, self._headers, self._other_bytes + _SLICE_BYTES)
        target, _, query = url.decode("ascii").partition("?")
        if not target.startswith("/"):
            scheme, colon, rest = target.partition("://")
            if colon and scheme.lower() in {"http", "https"}:  # absolute-form: RFC 9112, 3.2.2
                authority, _, path = rest.partition("/")
                if not authority or not is_host(authority):  # RFC 9110, 4.2.1 and 4.2.4
                    raise _RefusedError(400)
                target = "/" + path
        environ["REQUEST_METHOD"] = method
        environ["PATH_INFO"] = unquote_to_bytes(target).decode("latin-1") if "%" in target else target
        environ["QUERY_STRING"] = query
        host = environ.get("HTTP_HOST")
        if not (version == "1.0" if host is None else is_host(host)):  # RFC 9112, 3.2
            raise _RefusedError(400)
        if (coding := environ.get("HTTP_TRANSFER_ENCODING")) is not None and (
            coding.lower() != "chunked" or version == "1.0"
        ):
            raise _RefusedError(400)  # RFC 9112, 6.1 and 6.3
        length = environ.get("CONTENT_LENGTH", "0")
        if not (length.isascii() and length.isdigit() and len(length) <= limits.requests.LENGTH_DIGITS):
            raise _RefusedError(400)  # RFC 9110, 8.6
        if (expectation := environ.get(_EXPECT)) is not None:  # RFC 9110, 10.1.1
            if expectation.lower() != "100-continue":
                raise _RefusedError(417)
            if version == "1.0":
                del environ[_EXPECT]
        self._environ = environ
        # Bytes after the head of a CONNECT are never a request, even if it is refused (RFC 9110, 9.3.6; RFC 9931, 8).
        is_connect = method == "CONNECT"
        self._keep_alive = version == "1.1" and not is_connect
        if "HTTP_UPGRADE" in environ and (coding or int(length)) and not is_connect and parser.should_upgrade():
            # The parser that reads a body after an Upgrade has not seen this head, so keep-alive is decided here.
            self._keep_alive = self._keep_alive and parser.should_keep_alive()
        else:
            self._input = _BODY

    def on_body(self, body: bytes) -> None:
        """Takes a part of the body. Drops the parts beyond the limit, and stops if the body is much larger."""
        self._other_bytes -= len(body)
        if self._body_bytes <= limits.requests.BODY_BYTES:
            self._body.append(body)
        self._body_bytes += len(body)
        if self._body_bytes > limits.requests.BODY_BYTES + limits.requests.DISCARDED_BYTES:
            self._complete(keep_alive=False)
            raise _RefusedError(413)  # stops the parser; the application answers

    def on_message_complete(self) -> None:
        """Queues the complete request behind the earlier ones."""
        if self._input is _BODY:
            self._complete(self._keep_alive and self._parser.should_keep_alive())

    # --- parsing and serving

    def _complete(self, keep_alive: bool) -> None:
        environ = self._environ
        assert environ is not None  # noqa: S101
        environ["wsgi.input"] = BytesIO(b"".join(self._body))
        self._requests.append(_Request(environ, keep_alive, environ["REQUEST_METHOD"] != "HEAD"))
        self._input = _IDLE if keep_alive else _ENDED

    def _parse(self, data: "memoryview | bytes") -> None:
        self._other_bytes += len(data)
        while True:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:  # a server may ignore an Upgrade (RFC 9110, 7.8)
                if self._input is _HEAD:
                    self._parser = self._body_parser()
                data = data[upgrade.args[0] :]
                continue
            except httptools.HttpParserError as error:
                cause = error.__context__
                self._stop(cause.args[0] if isinstance(cause, _RefusedError) else 400)
            break
        if self._input is _HEAD and self._other_bytes > limits.requests.HEAD_BYTES:
            self._stop(431)  # RFC 6585, 5
        elif self._input is _BODY and self._other_bytes > limits.requests.FRAMING_BYTES:
            self._stop(413)

    def _body_parser(self) -> httptools.HttpRequestParser:
        """Returns a new parser that is ready to read the current request's body."""
        assert self._environ is not None  # noqa: S101
        chunked = "HTTP_TRANSFER_ENCODING" in self._environ
        framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {self._environ['CONTENT_LENGTH']}"
        parser = httptools.HttpRequestParser(self)
        parser.feed_data(f"POST / HTTP/1.1\r\n{framing}\r\n\r\n".encode())
        return parser

    def _stop(self, status: int) -> None:
        """Stops parsing, to refuse the request with this status; does nothing if parsing has already stopped."""
        if self._input is not _ENDED:
            self._input = _ENDED
            self._refusal = status

    def _advance(self) -> None:
        """Serves parsed requests, then parses further input, until it must wait."""
        if self._running:
            return
        self._running = True
        parsed = False
        while self._state in _OPEN:
            if self._requests:
                self._serve(self._requests.popleft())
            elif self._input is _ENDED:
                self._refuse(self._refusal)
            elif self._unparsed and not parsed:
                data, self._unparsed = self._unparsed[:_SLICE_BYTES], self._unparsed[_SLICE_BYTES:]
                self._parse(data)
                parsed = True
            elif self._unparsed or not self._at_end:
                self._enter(self._input)
                if self._unparsed:  # let other connections go first
                    self._loop.call_soon(self._advance)
                elif self._input is _BODY:
                    self._send_continue()
                break
            elif self._input in _BETWEEN:
                self._close()
            else:
                self._refuse(400)  # RFC 9112, 8
        self._running = False
        self._set_reading(not self._unparsed)

    def _enter(self, state: State) -> None:
        """Enters a state and sets its deadline, unless the connection is already in that state."""
        before = self._state
        if state is before:
            return
        self._state = state
        if before is not _HEAD or state is not _BODY:
            self.deadline = self._loop.time() + state.seconds

    def _send_continue(self) -> None:
        """Sends 100 Continue if the client expects it: once, after all earlier answers (RFC 9110, 10.1.1)."""
        if self._environ is not None and self._environ.pop(_EXPECT, None) is not None:
            self._transport.write(_CONTINUE)

    def _set_reading(self, wanted: bool) -> None:
        if wanted != self._reading and not self._transport.is_closing():
            self._reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _serve(self, request: _Request) -> None:
        self._current = request
        self._enter(_SERVING)
        self._owner.served()
        self._owner.wsgi(request.environ, _ignore)

    def _send(self, reply: Reply, request_id: str) -> None:
        """Answers the current request."""
        request = self._current
        if self._state is not _SERVING or request is None:
            return
        self._enter(self._input)
        close = not (request.keep_alive and self._owner.alive)
        self._transport.write(response(reply, request_id, close=close, with_body=request.has_body))
        if close:
            self._close()
        elif self._input is not _IDLE or self._requests or self._unparsed or self._at_end:
            self._advance()

    def _refuse(self, status: int) -> None:
        refuse(status, self._transport.write, self._owner.observers)
        self._close()

    def _close(self) -> None:
        """Closes the sending side now, the rest when the client closes: doing both now could lose an answer."""
        self._enter(_CLOSING)
        self._input = _ENDED
        self._requests.clear()
        self._unparsed = b""
        if self._at_end:
            self._transport.close()
        elif not self._transport.is_closing():
            self._transport.write_eof()
            self._set_reading(True)


class _RefusedError(Exception):
    """Stops the parser. The argument is the status with which to refuse the request."""


def _ignore(*_: object) -> None:
    """Ignores Falcon's status and headers, because the reply is sent through `environ[SEND]`."""


@lru_cache(_KNOWN_NAMES)
def _environ_name(name: bytes) -> str | None:
    """Returns a header's name in the environ; None if no code reads it, or an underscore makes it look like another."""
    found = environ_name(name.decode("ascii"))
    return found if found in _READ and b"_" not in name else None


def _add_headers(environ: dict[str, Any], headers: list[tuple[bytes, bytes]], most_bytes: int) -> None:
    """Adds the headers to the environ. `most_bytes` is an upper bound on their total size."""
    if len(headers) > limits.requests.HEADERS:
        raise _RefusedError(431)
    if most_bytes > _LINE_BYTES:  # PERF: rarely true, and checking each header takes 5% of a request's opcodes
        sizes = [len(name) + len(value) for name, value in headers]
        if max(sizes, default=0) > _LINE_BYTES or sum(sizes) > limits.requests.HEAD_BYTES:
            raise _RefusedError(431)
    for name, value in headers:
        key = _environ_name(name)
        if key is None:
            continue
        text = value.decode("latin-1").strip(" \t")
        if key in environ:
            if key in _SINGLE:
                raise _RefusedError(400)
            text = f"{environ[key]},{text}"
        environ[key] = text
