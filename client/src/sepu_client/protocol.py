"""Speaks HTTP/1.1 without I/O: makes the bytes of requests, reads those of answers, and asks proxies for tunnels."""

from collections.abc import Callable
from functools import lru_cache

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from sepu_client.address import Route
from sepu_client.messages import MAX_BODY, Answer, Lost, Request
from sepu_client.retries import is_plain
from sepu_client.tls import Conversation, T, Tls

MAX_HEAD = 65_536  # bytes of heads: of an answer and the informational ones before it; the parser takes megabytes
_MAX_CHUNKED = 4 * MAX_BODY  # bytes of a chunked body with its framing
_END_OF_HEAD = b"\r\n\r\n"


class Link:
    """Holds the state of one connection, which carries one exchange at a time."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._layers: list[Tls] = []  # outermost first

    def open(self) -> Conversation[None]:
        """Does everything before the first request: TLS, and the tunnel of a proxy."""
        route, proxy = self._route, self._route.proxy
        if proxy and route.proxy_tls:
            yield from self._secure(Tls(route.proxy_tls, proxy.host))
        if route.tls:
            if proxy:
                yield from self._within(_tunnel(route.host, route.port, proxy.authorization))
            yield from self._secure(Tls(route.tls, route.host))

    def exchange(self, request: Request) -> Conversation[tuple[Answer, bool]]:
        """Sends a request, and returns its answer, and whether the connection can carry another one."""
        answer, is_whole = yield from self._within(_exchange(lambda: self._bytes(request)))
        return answer, is_whole and all(layer.is_quiet for layer in self._layers)

    def stays_open_after(self, received: bytes) -> bool:
        """Returns whether only TLS data, such as a ticket, came between two exchanges."""
        try:
            for layer in self._layers:
                received = layer.decrypted(received)
        except Lost:
            return False
        return not received and all(layer.is_quiet for layer in self._layers)

    def _secure(self, layer: Tls) -> Conversation[None]:
        yield from self._within(layer.handshake())
        self._layers.append(layer)

    def _within(self, conversation: Conversation[T]) -> Conversation[T]:
        for layer in reversed(self._layers):
            conversation = layer.carrying(conversation)
        return conversation

    def _bytes(self, request: Request) -> bytes:
        lines = [f"{request.method} {self._route.target(request.url)} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in request.headers.items()]
        if self._route.proxy and not self._route.tls and self._route.proxy.authorization:
            lines.append(f"Proxy-Authorization: {self._route.proxy.authorization}")
        return "\r\n".join([*lines, "", ""]).encode() + request.body


@lru_cache(256)
def _lower(name: bytes) -> str:
    return name.decode("latin-1").lower()


class _Parts:
    """Takes what the parser finds."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.has_head = self.is_complete = self.has_surplus = False
        self.body = bytearray()

    def on_message_begin(self) -> None:
        self.has_surplus = self.is_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header, and no trailer."""
        if not self.has_head:
            key, text = _lower(name), value.decode("latin-1")
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        self.has_head = True

    def on_body(self, part: bytes) -> None:
        self.body += part

    def on_message_complete(self) -> None:
        self.is_complete = True


def _parse(parser: HttpResponseParser, data: bytes) -> None:
    try:
        parser.feed_data(data)
    except (HttpParserError, HttpParserUpgrade):
        raise Lost("the answer is not HTTP") from None


def _exchange(request: Callable[[], bytes]) -> Conversation[tuple[Answer, bool]]:
    """Returns an answer, and whether its end is known and nothing followed it."""
    received = yield request()
    if not received:
        raise Lost("the connection was closed before an answer", unanswered=True)
    data = bytearray(received)
    read = 0
    while True:
        head = yield from _head(data, MAX_HEAD - read)
        read += len(head)
        parts = _Parts()
        parser = HttpResponseParser(parts)
        _parse(parser, head)
        status = parser.get_status_code()
        if not parts.has_head or parts.body or not parser.get_http_version().startswith("1."):
            raise Lost("the answer is not HTTP")
        if status >= 200:
            break
    headers = parts.headers
    stays = parser.get_http_version() == "1.1" and "close" not in headers.get("connection", "").lower()
    if not is_plain(headers):
        return Answer(status, headers, b""), False
    if parts.is_complete:
        return Answer(status, headers, b""), stays and not data
    if "transfer-encoding" in headers:
        if headers["transfer-encoding"].lower() != "chunked":
            raise Lost("the answer has a transfer coding, and none was accepted")
        is_whole = yield from _chunked(parser, parts, data)
        return Answer(status, headers, bytes(parts.body)), stays and is_whole
    if "content-length" in headers:
        length = int(headers["content-length"])  # which the parser has checked
        while len(data) < min(length, MAX_BODY + 1):
            data += yield from _more()
        is_whole = len(data) == length
        del data[length:]
        return Answer(status, headers, bytes(data)), stays and is_whole
    while len(data) <= MAX_BODY:
        received = yield b""
        if received is None:
            raise Lost("the connection broke within an answer")
        if not received:
            break
        data += received
    return Answer(status, headers, bytes(data)), False


def _head(data: bytearray, most: int) -> Conversation[bytes]:
    """Removes a head from the data."""
    searched = 0
    while (end := data.find(_END_OF_HEAD, searched)) < 0 and len(data) <= most:
        searched = max(0, len(data) - len(_END_OF_HEAD) + 1)
        data += yield from _more()
    end += len(_END_OF_HEAD)
    if not len(_END_OF_HEAD) <= end <= most:
        raise Lost(f"the head of the answer has more than {MAX_HEAD} bytes")
    head = bytes(data[:end])
    del data[:end]
    return head


def _chunked(parser: HttpResponseParser, parts: _Parts, data: bytearray) -> Conversation[bool]:
    """Reads a chunked body; returns whether it ended, and where the data ended.

    The parser skips the ends of lines behind it, so its last bytes are compared.
    """
    read, last = 0, b""
    received = bytes(data)
    while True:
        try:
            _parse(parser, received)
        except Lost:
            if not parts.is_complete:
                raise
            return False  # what followed is not HTTP
        read += len(received)
        last = (last + received)[-6:]
        if parts.is_complete:
            return not parts.has_surplus and last.endswith(_END_OF_HEAD) and last != b"\r\n\r\n\r\n"
        if len(parts.body) > MAX_BODY:
            return False
        if read > _MAX_CHUNKED:
            raise Lost("the answer has too small chunks")
        received = yield from _more()


def _more() -> Conversation[bytes]:
    received = yield b""
    if not received:
        raise Lost("the connection broke within an answer")
    return received


def _tunnel(host: str, port: int, authorization: str) -> Conversation[None]:
    """Asks a proxy for a tunnel. The lengths in its answer mean nothing (RFC 9110, 9.3.6)."""
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    credentials = f"Proxy-Authorization: {authorization}\r\n" if authorization else ""
    received = yield f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{credentials}\r\n".encode()
    data = bytearray(received or b"")
    if not data:
        raise Lost("the proxy closed the connection")
    head = yield from _head(data, MAX_HEAD)
    parts = _Parts()
    parser = HttpResponseParser(parts)
    _parse(parser, head)
    status = parser.get_status_code()
    if not 200 <= status < 300:
        raise Lost(f"the proxy answered {status} to CONNECT", final=400 <= status < 500)
    if data:
        raise Lost("the proxy sent more than the head of an answer to CONNECT")
