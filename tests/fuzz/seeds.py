"""Requests of every endpoint whose answers are known, and what may be done to their bytes."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Seed:
    """A request, and its answer: the status, and what the body contains and no other request's would."""

    data: bytes
    status: int
    mark: bytes
    idempotency_key: str | None = None


_HOSTS = ["sepu"] * 5 + ["sepu:80", "127.0.0.1:8000", "[::1]", "a_b"]
_NO_HOSTS = ["a b", "a/b,c@d"]


def _request(line: str, headers: list[str], body: bytes = b"") -> bytes:
    return "\r\n".join([f"{line} HTTP/1.1", *headers, "", ""]).encode() + body


def chunked(rng: Random, body: bytes) -> bytes:
    """Returns a body in chunks of any size, some with an extension or a trailer."""
    framed = b""
    while body:
        size = rng.randint(1, len(body))
        framed += b"%x%b\r\n%b\r\n" % (size, rng.choice([b"", b"", b";a=b"]), body[:size])
        body = body[size:]
    return framed + b"0\r\n" + rng.choice([b"", b"", b"X-Trailer: y\r\n"]) + b"\r\n"


def seed(rng: Random, api_key: str, account_id: str, number: int, *, last: bool) -> Seed:
    """One request; `number` is its own, and the `last` of a connection asks to close it."""
    bearer = f"Authorization: Bearer {api_key}"
    idempotency_key = f"fuzz-{number:08d}-{rng.getrandbits(40):010x}"  # no mutation makes another request's of it
    metered = [bearer, f"Idempotency-Key: {idempotency_key}"]
    close = ["Connection: close"] if last else []
    if rng.random() < 0.2:  # which a server may ignore (RFC 9110, 7.8)
        close = [
            f"Upgrade: {rng.choice(['h2c', 'websocket'])}",
            f"Connection: {'upgrade, close' if last else 'Upgrade'}",
        ]
    begin = rng.choice([b"", b"", b"\r\n"])  # RFC 9112, 2.2
    host = f"Host: {rng.choice(_HOSTS)}"
    red, green, blue = number >> 16 & 255, number >> 8 & 255, number & 255
    body = json.dumps({"colors": [{"r": red, "g": green, "b": blue}], "top": rng.randint(1, 3)}).encode()
    mark = b'"input":{"r":%d,"g":%d,"b":%d}' % (red, green, blue)
    a_json = "Content-Type: application/json"

    def post(headers: list[str], sent: bytes) -> bytes:
        return begin + _request("POST /v1/match", [host, *headers, a_json, *close], sent)

    def get(target: str, headers: list[str]) -> bytes:
        return begin + _request(f"GET {target}", [host, *headers, *close])

    if last and rng.random() < 0.05:
        host = f"Host: {rng.choice(_NO_HOSTS)}"
        return Seed(post([*metered, f"Content-Length: {len(body)}"], body), 400, b'"bad_request"')
    match rng.randrange(14):
        case 0 | 1 | 2:
            framed = [*metered, f"Content-Length: {len(body)}"]
            return Seed(post(framed, body), 200, mark, idempotency_key)
        case 3 | 4:
            framed = [*metered, "Transfer-Encoding: chunked"]
            return Seed(post(framed, chunked(rng, body)), 200, mark, idempotency_key)
        case 5:
            framed = [*metered, "Expect: 100-continue", f"Content-Length: {len(body)}"]
            return Seed(post(framed, body), 200, mark, idempotency_key)
        case 6:
            return Seed(get("/v1/search?q=tao%20hong&limit=1", metered), 200, b'"slug":"tao-hong"', idempotency_key)
        case 7:
            return Seed(get("/v1/library", [bearer]), 200, b'"recordCount":161')
        case 8:
            return Seed(get("/v1/usage", [bearer]), 200, f'"accountId":"{account_id}"'.encode())
        case 9:
            return Seed(get("/healthz", []), 200, b'{"status":"ok"}')
        case 10:
            return Seed(get(f"/nowhere/{number}", []), 404, b'"not_found"')
        case 11:
            return Seed(get("/v1/library", ["Authorization: Bearer nonsense"]), 401, b'"unauthorized"')
        case 12:
            cut = body[:-1]
            return Seed(post([*metered, f"Content-Length: {len(cut)}"], cut), 400, b'"invalid_json"')
        case _:
            large = body.ljust(16 * 1024 + rng.randint(1, 4000))
            return Seed(post([*metered, f"Content-Length: {len(large)}"], large), 413, b'"payload_too_large"')


_PIECES = [
    b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\0", b"\xff\xfe", b" ", b"\t", b":", b";", b"%00", b"0\r\n\r\n", b"-1",
    b"\x7f", b"ffffffffffffffff\r\n", b"10000000000000001\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: x\r\n", b"Content-Length: 5\r\n", b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: +1\r\n", b"Host: other\r\n", b"Connection: close\r\n", b"Connection: keep-alive\r\n",
    b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n", b"Expect: 100-continue\r\n",
    b"Expect: tea\r\n", b" folded\r\n", b"CONNECT sepu:80 HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n", b"GET http://sepu/v1/library HTTP/1.0\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
]  # fmt: skip


def _span(rng: Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice([1, 2, 8, 64, 1000]))


def _flip(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _insert(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice([rng.choice(_PIECES), rng.randbytes(rng.choice([1, 4, 300]))]) + data[at:]


def _insert_header(rng: Random, data: bytes) -> bytes:
    ends = [at + 2 for at in range(len(data)) if data.startswith(b"\r\n", at)]
    at = rng.choice(ends or [0])
    flood = b"".join(b"X%d: %b\r\n" % (n, b"y" * rng.randrange(30)) for n in range(rng.choice([50, 150, 300, 3000])))
    long = b"X: %b\r\n" % (b"z" * rng.choice([8100, 9000, 70_000, 300_000]))
    return data[:at] + rng.choice([rng.choice(_PIECES), rng.choice(_PIECES), flood, long]) + data[at:]


def _lengthen(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice([b"a", b"\r\n", b" ", b"0", b"\0"]) * rng.choice([100, 9000, 150_000]) + data[at:]


def _delete(rng: Random, data: bytes) -> bytes:
    start, end = _span(rng, data)
    return data[:start] + data[end:]


def _duplicate(rng: Random, data: bytes) -> bytes:
    start, end = _span(rng, data)
    return data[:end] + data[start:end] * rng.choice([1, 1, 50]) + data[end:]


def _truncate(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def _bare(rng: Random, data: bytes) -> bytes:
    at = data.find(b"\r\n", rng.randrange(len(data)))
    return data if at < 0 else data[:at] + data[at + 1 :]


def _smuggle(rng: Random, data: bytes) -> bytes:
    """Both framings, either first."""
    framings = [b"Content-Length: %d\r\n" % rng.choice([0, 4, 30]), b"Transfer-Encoding: chunked\r\n"]
    rng.shuffle(framings)
    at = data.find(b"\r\n") + 2
    return data[:at] + b"".join(framings) + data[at:]


_MUTATIONS: list[Callable[[Random, bytes], bytes]] = [
    _flip, _flip, _insert, _insert, _insert_header, _insert_header, _lengthen, _delete, _duplicate, _truncate, _bare,
    _smuggle,
]  # fmt: skip


def mutate(rng: Random, data: bytes) -> bytes:
    """One to three changes."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        if data:
            data = rng.choice(_MUTATIONS)(rng, data)
    return data
