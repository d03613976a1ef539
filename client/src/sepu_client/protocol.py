"""Speaks HTTP/1.1 without I/O: makes the bytes of requests, reads those of answers, and asks proxies for tunnels."""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from sepu_client.address import Route
from sepu_client.errors import error_class
from sepu_client.messages import MAX_BODY, Answer, Conversation, Lost, Request, Secret, T
from sepu_client.retries import is_plain, retry_after

if TYPE_CHECKING:
    from sepu_client.tls import Tls

MAX_HEAD = 65_536  # bytes of heads: of an answer and the informational ones before it; the parser takes megabytes
_MAX_CHUNKED = 4 * MAX_BODY  # bytes of a chunked body with its framing
_END_OF_HEAD = b"\r\n\r\n"
_STARTS = (b"HTTP/1.", b"\r\nHTTP/1.")  # the parser also takes RTSP and ICE


class Link:
    """The state of one connection, which carries one exchange at a time."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._origin, self._end = f"{'https' if route.tls else 'http'}://{route.authority}", "\r\n\r\n"
        if route.proxy and not route.tls:  # a proxy that does not tunnel takes whole URLs (RFC 9112, 3.2)
            self._origin = ""
            if route.proxy.authorization:
                self._end = f"\r\nProxy-Authorization: {route.proxy.authorization}\r\n\r\n"
        self._layers: list[Tls] = []  # outermost first
        self._opening: Tls | None = None  # the next one, while it shakes hands

    def open(self) -> Conversation[None]:
        """Does everything before the first request: TLS, and the tunnel of a proxy."""
        route, proxy = self._route, self._route.proxy
        if not (route.tls or route.proxy_tls):
            return
        from sepu_client.tls import Tls  # slow to import, as is `ssl`

        if proxy and route.proxy_tls:
            yield from self._secure(Tls(route.proxy_tls, proxy.host))
        if route.tls:
            if proxy:
                yield from self._within(_tunnel(route.host, route.port, proxy.authorization))
            yield from self._secure(Tls(route.tls, route.host))

    def exchange(self, request: Request) -> Conversation[tuple[Answer, bool]]:
        """Sends a request, and returns its answer, and whether the connection can carry another one."""
        exchange = _exchange(self._bytes, request)
        return self._exchange_within(exchange) if self._layers else exchange

    def stays_open_after(self, received: bytes) -> bool:
        """Returns whether only TLS data, such as a ticket, came between two exchanges."""
        try:
            for layer in self._layers:
                received = layer.decrypted(received)
        except Lost:
            return False
        return not received and all(layer.is_quiet for layer in self._layers)

    def last_words(self) -> bytes:
        """Returns what TLS says before a connection ends that could not be opened: why it refuses the certificate."""
        said = self._opening.encrypted(b"") if self._opening else b""
        for layer in reversed(self._layers):
            said = layer.encrypted(said)
        return said

    def _secure(self, layer: "Tls") -> Conversation[None]:
        self._opening = layer
        yield from self._within(layer.handshake())
        self._opening = None
        self._layers.append(layer)

    def _within(self, conversation: Conversation[T]) -> Conversation[T]:
        for layer in reversed(self._layers):
            conversation = layer.carrying(conversation)
        return conversation

    def _exchange_within(self, exchange: Conversation[tuple[Answer, bool]]) -> Conversation[tuple[Answer, bool]]:
        answer, is_whole = yield from self._within(exchange)
        return answer, is_whole and all(layer.is_quiet for layer in self._layers)

    def _bytes(self, request: Request) -> memoryview:
        start = f"{request.method} {request.url.removeprefix(self._origin)} HTTP/1.1"
        return memoryview(
            ("\r\n".join([start, *map(": ".join, request.headers.items())]) + self._end).encode() + request.body
        )


class _Parts:
    """The parser's findings. `on_header` takes headers and trailers."""

    headers: dict[str, str]
    stays: bool  # whether the head lets the connection carry another exchange
    has_head = is_complete = has_surplus = False

    def __init__(self, on_header: Callable[[bytes, bytes], object]) -> None:
        self.on_header = on_header
        self.body = bytearray()

    def on_headers_complete(self) -> None:
        """Takes the end of a head, also that of another answer."""
        self.has_head, self.has_surplus = True, self.is_complete

    def on_body(self, part: bytes) -> None:
        self.body += part

    def on_message_complete(self) -> None:
        self.is_complete = True


def _parse(parser: HttpResponseParser, data: bytes) -> None:
    try:
        parser.feed_data(data)
    except (HttpParserError, HttpParserUpgrade):
        raise Lost("the answer is not HTTP") from None


def _exchange(to_bytes: Callable[[Request], memoryview], request: Request) -> Conversation[tuple[Answer, bool]]:
    """Returns an answer, and whether its end is known and nothing followed it."""
    data = yield to_bytes(request)
    if not data:
        raise Lost("the connection was closed before an answer", unanswered=True)
    parser, parts, data = yield from _final_head(data)
    status, headers, stays = parser.get_status_code(), parts.headers, parts.stays
    if not is_plain(headers):
        return Answer(status, headers, b""), False
    if parts.is_complete:
        return Answer(status, headers, b""), stays and not data
    if "transfer-encoding" in headers:
        if headers["transfer-encoding"].lower() != "chunked":
            raise Lost("the answer has a transfer coding, and none was accepted")
        is_whole = yield from _chunked(parser, parts, data)
        return Answer(status, headers, bytes(parts.body)), stays and is_whole
    length = int(headers.get("content-length", "-1"))  # which the parser has checked
    if len(data) == length:
        return Answer(status, headers, data), stays
    data, is_whole = yield from _body(data, length, status)
    return Answer(status, headers, data), stays and is_whole


def _final_head(data: bytes) -> Conversation[tuple[HttpResponseParser, _Parts, bytes]]:
    """Reads the head of an answer, after those of informational ones. Returns what follows it too."""
    left = MAX_HEAD
    while True:
        end = data.find(_END_OF_HEAD, 0, left) + len(_END_OF_HEAD)
        if end >= len(_END_OF_HEAD):  # PERF: mostly it is whole
            head, data = data[:end], data[end:]
        else:
            head, data = yield from _head(data, left)
        left -= len(head)
        try:
            parser, parts = _parsed(head)
            if "transfer-encoding" in parts.headers and b"\t\r\n" in head:  # the parser takes no tab after "chunked"
                parser, parts = _parsed(_mended(head))
        except Lost:
            parser, parts = _parsed(_mended(head))
        if not 100 <= parser.get_status_code() < 200:
            return parser, parts, data


def _parsed(head: bytes) -> tuple[HttpResponseParser, _Parts]:
    """Returns what a head has. Equal lines of one field count once, except those of a transfer coding.

    Some servers in between repeat fields.
    """
    # PERF: mostly no name occurs twice, and no value ends with white space: then no Python runs for each line.
    fields: dict[bytes, bytes] = {}
    parser, parts = _fed(head, fields.setdefault)
    values = b"\n".join([*fields.values(), b""]).decode("latin-1")
    headers = dict(zip(_names(b"\n".join(fields)), values.split("\n"), strict=False))
    if len(headers) != head.count(b"\n") - 2 or " \n" in values or "\t" in values:
        lines: list[tuple[bytes, bytes]] = []
        parser, parts = _fed(head, lambda name, value: lines.append((name, value)))
        headers = {}
        for name, value in lines:
            key, text = name.decode("latin-1").lower(), value.rstrip().decode("latin-1")
            known = headers.setdefault(key, text)
            if known is not text and (known != text or key == "transfer-encoding"):
                headers[key] = f"{known}, {text}"
    parts.headers = headers
    parts.stays = b"HTTP/1.1" in head[:10] and "close" not in headers.get("connection", "").lower()
    return parser, parts


@lru_cache(16)
def _names(lines: bytes) -> list[str]:
    return lines.decode("latin-1").lower().split("\n")


def _fed(head: bytes, on_header: Callable[[bytes, bytes], object]) -> tuple[HttpResponseParser, _Parts]:
    parts = _Parts(on_header)
    parser = HttpResponseParser(parts)
    _parse(parser, head)
    if not parts.has_head or parts.body or not head.startswith(_STARTS):
        raise Lost("the answer is not HTTP")
    return parser, parts


def _mended(head: bytes) -> bytes:
    """Returns a head without what a client has to accept and the parser does not.

    That is white space after a value (RFC 9112, 5.1), a folded line (5.2), and a repeated length (RFC 9110, 8.6).
    """
    start, *lines = head.split(b"\r\n")
    parts: list[list[bytes]] = []
    for line in lines:
        if parts and line.startswith((b" ", b"\t")):
            parts[-1].append(line.strip(b" \t"))
        else:
            parts.append([line.rstrip(b" \t")])
    fields = [b" ".join(each) for each in parts]
    others = [field for field in fields if not field.lower().startswith(b"content-length:")]
    stated = [field.partition(b":")[2] for field in fields if field.lower().startswith(b"content-length:")]
    lengths = {length.strip(b" \t") for lengths in stated for length in lengths.split(b",")}
    if len(lengths) == 1:
        fields = [b"Content-Length: " + lengths.pop(), *others]
    return b"\r\n".join([start, *fields])


def _head(data: bytes, most: int) -> Conversation[tuple[bytes, bytes]]:
    """Returns the head that the data begins with, and what follows it."""
    end = data.find(_END_OF_HEAD)
    if end < 0:
        grown = bytearray(data)
        while end < 0 and len(grown) <= most:
            searched = max(0, len(grown) - len(_END_OF_HEAD) + 1)
            grown += yield from _more()
            end = grown.find(_END_OF_HEAD, searched)
        data = bytes(grown)
    end += len(_END_OF_HEAD)
    if not len(_END_OF_HEAD) <= end <= most:
        raise Lost(f"the head of the answer has more than {MAX_HEAD} bytes")
    return data[:end], data[end:]


def _body(data: bytes, length: int, status: int) -> Conversation[tuple[bytes, bool]]:
    """Returns a body, and whether nothing followed it. One without a length, -1, ends with the connection.

    Some proxies refuse a request before they have read it. The unread rest then resets the connection, so such an
    error may end in any way.
    """
    grown = bytearray(data)
    if length >= 0:
        while len(grown) < min(length, MAX_BODY + 1):
            grown += yield from _more()
        return bytes(grown[:length]), len(grown) == length
    while len(grown) <= MAX_BODY:
        received = yield b""
        if received is None and status < 400:
            raise Lost("the connection broke within an answer")
        if not received:
            break
        grown += received
    return bytes(grown), False


def _chunked(parser: HttpResponseParser, parts: _Parts, received: bytes) -> Conversation[bool]:
    """Reads a chunked body; returns whether it ended exactly where the data did.

    The parser skips line ends after the body, so this compares the last bytes.
    """
    parser.set_dangerous_leniencies(lenient_spaces_after_chunk_size=True)  # "bad white space" (RFC 9112, 7.1.1)
    read, last = 0, b""
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
            raise Lost("the answer's chunks are too small")
        received = yield from _more()


def _more() -> Conversation[bytes]:
    received = yield b""
    if not received:
        raise Lost("the connection broke within an answer")
    return received


def _tunnel(host: str, port: int, authorization: str) -> Conversation[None]:
    """Asks a proxy for a tunnel. The lengths in its answer mean nothing (RFC 9110, 9.3.6)."""
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    credentials = Secret(f"Proxy-Authorization: {authorization}\r\n" if authorization else "")
    received = yield memoryview(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{credentials}\r\n".encode())
    if not received:
        raise Lost("the proxy closed the connection")
    parser, parts, surplus = yield from _final_head(received)
    status = parser.get_status_code()
    if not 200 <= status < 300:
        reason = f"the proxy answered {status} to CONNECT"
        raise Lost(reason, final=not error_class(status, None).retryable, retry_after=retry_after(parts.headers))
    if surplus:
        raise Lost("the proxy sent more than the head of an answer to CONNECT")
