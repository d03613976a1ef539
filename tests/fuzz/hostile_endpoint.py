"""An endpoint for webhooks that answers from a grammar of hostile answers, chosen by the event that it got."""

import gzip
import re
import socket
import socketserver
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random

from tests.fuzz.seeds import mutate

Symbol = Callable[[Random], bytes]
"""A rule of the grammar."""

TAKEN = b"HTTP/1.1 204 No Content\r\n\r\n"
_FLOOD_BYTES = 64 << 20
_BOMB = gzip.compress(gzip.compress(bytes(64 << 20)))


def _one(*choices: bytes | Symbol) -> Symbol:
    def chosen(rng: Random) -> bytes:
        choice = rng.choice(choices)
        return choice if isinstance(choice, bytes) else choice(rng)

    return chosen


def _all(*parts: bytes | Symbol) -> Symbol:
    return lambda rng: b"".join(part if isinstance(part, bytes) else part(rng) for part in parts)


def _times(part: Symbol, *counts: int) -> Symbol:
    return lambda rng: b"".join(part(rng) for _ in range(rng.choice(counts)))


def _junk(*sizes: int) -> Symbol:
    return lambda rng: rng.randbytes(rng.choice(sizes))


def _digits(*counts: int) -> Symbol:
    return lambda rng: b"".join(b"%d" % rng.randrange(10) for _ in range(rng.choice(counts)))


def _a(*choices: str) -> Symbol:
    return lambda rng: rng.choice(choices).encode()


_number = _one(
    _digits(1, 2, 3, 9, 10, 19, 400, 5000), b"-5", b"+5", b"1e9", b"0x10", b"inf", b"nan", "１２３".encode(), b""
)
_year = _one(_digits(1, 2, 4, 4, 4, 5, 11, 30), "２０３７".encode(), b"-1", b"")
_zone = _one(b"GMT", b"UTC", b"EST", b"Z", b"", _all(_one(b"+", b"-"), _digits(2, 4, 4, 14, 40)), _junk(3))
_date = _all(
    *(_a("Wed", "Wednesday", "", "X", "Wed, Wed"), _a(", ", " ", ",")),
    *(_digits(1, 2, 2, 12), _a(" ", "-", "  "), _a("Oct", "Okt", "13", "", "October"), _a(" ", "-"), _year, b" "),
    *(_digits(2, 2, 9), b":", _digits(2, 2, 9), _a(":", ".", ""), _digits(0, 2, 2, 9), _a(" ", ""), _zone),
)
_asctime = _all(b"Sun Nov  6 08:49:37 ", _year)
_retry_after = _all(_one(b"Retry-After: ", b"retry-after:"), _one(_number, _date, _date, _asctime, _junk(1, 40)))

_host = _one(
    *(
        b"xn--a",
        b"127.0.0.1",
        b"169.254.169.254",
        b"[::1]",
        b"[",
        b"[::1",
        b"localhost",
        b"a" * 300,
        b"",
        b"a..b",
        b"%00",
    ),
    *("ſ.example".encode(), "例え。テスト".encode(), b"user:password@127.0.0.1", b"xn--" + b"9" * 60, _junk(8)),
)
_location = _all(
    b"Location: ",
    _one(
        b"http://", b"https://", b"//", b"mailto:", b"javascript:", b"file://", b"HTTP:", b"", b"ht tp://", b"\x01://"
    ),
    _host,
    _one(b"", b"", _all(b":", _digits(1, 5, 40)), b":", b":x"),
    _one(b"/", b"/redirected", b"", b"?", b"/%zz", b"/" + b"a" * 70_000, b"/\xff\xfe", b"/ b", _junk(20)),
)
_cookie = _all(
    b"Set-Cookie: a=b; ",
    _one(b"expires=", b"max-age=", b"domain=", b"a=" + b" " * 50_000, b"; " * 20_000, b'"' * 30_000),
    _one(_date, _number, _host, _junk(30)),
)
_length = _all(_one(b"Content-Length: ", b"Content-Length:", b"content-length : "), _number)
_framing = _all(b"Transfer-Encoding: ", _a("chunked", "gzip, chunked", "identity", "chunked, chunked", "x", ""))
_encoding = _all(b"Content-Encoding: ", _a("gzip", "gzip, gzip", "br", "zstd", "deflate", "x", "gzip," * 3000))
_other = _one(
    *(b"Connection: close", b"Connection: upgrade", b"Upgrade: h2c", b"Proxy-Authenticate: Basic", b"Trailer: x"),
    *(
        b"WWW-Authenticate: Digest realm=,nonce",
        b"Content-Type: text/html; charset=" + b"x" * 4000,
        b"Link: <>; rel=next",
    ),
    *(b"Keep-Alive: timeout=-1", b" folded", b"no colon", b": no name", b"x\x00y: z", b"X: \xff\xfe", b"X: \x1b[31m"),
    *(b"X: " + b"y" * 99_000, b"X: " + b"y" * 300_000, _all(b"X: ", _junk(1, 200))),
)
header = _all(
    _one(_retry_after, _retry_after, _location, _cookie, _length, _framing, _encoding, _other),
    _one(b"\r\n", b"\r\n", b"\r\n", b"\r\n", b"\n"),
)
_version = _one(
    b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2", b"HTTP/0.9", b"ICY", b"", _junk(8)
)
_STATUSES = b"200 204 301 302 303 307 308 400 401 407 410 429 500 503".split()
_status = _one(
    *_STATUSES,
    *(
        b"101",
        b"103",
        b"000",
        b"099",
        b"600",
        b"999",
        b"20",
        b"2000",
        b"-200",
        "２００".encode(),
        b"",
        _digits(3),
        _junk(3),
    ),
)
_reason = _one(b" OK", b"", b" ", b" \x1b[2J", b" " + b"x" * 70_000, _all(b" ", _junk(10)))
_interim = _times(_one(b"HTTP/1.1 100 \r\n\r\n", b"HTTP/1.1 103 \r\nLink: x\r\n\r\n"), 1, 2, 3000)
_chunk = _all(_one(b"5", b"0", b"ffffffffffffffff", b"-1", b"5;" + b"x" * 9000, b"z"), b"\r\nhello\r\n")
_body = _one(b"", b"", b"{}", b"0\r\n\r\n", _BOMB, _times(_chunk, 1, 5), _junk(10, 70_000))
# What stands behind an answer is not the answer to another webhook.
_second = _one(b"", b"", b"", b"HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n", TAKEN)
_asks = _all(_one(_retry_after, _retry_after, _location, _cookie, _encoding), b"\r\n")
# What every client can read, so that it has to do with what is in it.
_readable = _all(b"HTTP/1.1 ", _one(*_STATUSES), b" \r\n", _times(_asks, 1, 2), b"\r\n", _body, _second)
answer = _one(
    _readable,
    _all(
        _one(b"", b"", b"", _interim),
        *(_version, b" ", _status, _reason, b"\r\n"),
        *(_times(header, 0, 1, 1, 2, 3, 6, 200), _one(b"\r\n", b"\r\n", b"\r\n", b""), _body, _second),
    ),
)


@dataclass(frozen=True)
class Hostile:
    """What is done to one webhook: `answer` is sent in pieces of so many bytes, and then comes the `end`."""

    answer: bytes
    piece: int
    pause: float
    reads_body: bool
    end: str

    @staticmethod
    def of(seed: int, case: int) -> "Hostile":
        """The same for the same seed and case."""
        rng = Random(f"{seed}:{case}")
        made = answer(rng)
        if rng.random() < 0.2:
            made = mutate(rng, made)
        if rng.random() < 0.05:
            made = made[: rng.randrange(len(made) + 1)]
        drips = rng.random() < 0.05
        return Hostile(
            made[:40] if drips else made,
            1 if drips else rng.choice([1 << 20, 1 << 20, 1000, max(1, len(made) // 2)]),
            0.01 if drips else 0,
            rng.random() < 0.9,
            rng.choices(["close", "reset", "half", "hang", "flood", "interim"], [140, 30, 30, 0.5, 0.5, 0.5])[0],
        )


@dataclass
class HostileEndpoint:
    """What runs. `hostile` gives what is done to an event, by its id; nothing: it is taken."""

    url: str
    hostile: Callable[[str], Hostile | None]
    received: Counter[str] = field(default_factory=Counter)
    """How often each event came."""
    strange: list[str] = field(default_factory=list)
    """Requests that are no webhook: where a redirect led."""


class _Handler(socketserver.BaseRequestHandler):
    server: "_Server"
    request: socket.socket

    def handle(self) -> None:
        self.request.settimeout(30)
        with suppress(OSError):
            self._handle()

    def _handle(self) -> None:
        found = self.server.found
        head = b""
        while b"\r\n\r\n" not in head:
            if not (got := self.request.recv(1)):  # so that no byte of the body is taken
                return
            head += got
        event_id = re.search(rb"\r\nwebhook-id: (\S+)\r\n", head, re.IGNORECASE)
        if event_id is None or not head.startswith(b"POST /hooks "):
            found.strange.append(repr(head[:200]))
            return
        name = event_id[1].decode()
        found.received[name] += 1
        hostile = found.hostile(name)
        if hostile is None or hostile.reads_body:
            length = re.search(rb"\r\ncontent-length: (\d+)\r\n", head, re.IGNORECASE)
            left = int(length[1]) if length else 0
            while left and (got := self.request.recv(left)):
                left -= len(got)
        if hostile is None:
            self.request.sendall(TAKEN)
            return
        for start in range(0, len(hostile.answer), hostile.piece):
            self.request.sendall(hostile.answer[start : start + hostile.piece])
            if hostile.pause:
                time.sleep(hostile.pause)
        self._end(hostile.end)

    def _end(self, how: str) -> None:
        match how:
            case "reset":
                self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            case "half":
                self.request.shutdown(socket.SHUT_WR)
                self.request.recv(1)
            case "hang":
                while self.request.recv(1000):
                    pass
            case "flood" | "interim":
                lump = b"HTTP/1.1 100 \r\n\r\n" * 4000 if how == "interim" else bytes(1 << 16)
                for _ in range(_FLOOD_BYTES // len(lump)):
                    self.request.sendall(lump)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64
    found: HostileEndpoint


@contextmanager
def hostile_endpoint(hostile: Callable[[str], Hostile | None]) -> Iterator[HostileEndpoint]:
    """Listens on a free port."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.found = HostileEndpoint(f"http://127.0.0.1:{server.server_address[1]}/hooks", hostile)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.found
        finally:
            server.shutdown()
            thread.join()
