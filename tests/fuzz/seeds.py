"""Requests to every endpoint with known answers, and mutations of their bytes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Seed:
    """A request, and its answer: the status, and content of the body that no other request's answer has."""

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
    """One request with a unique `number`; the `last` of a connection asks to close it."""
    bearer = f"Authorization: Bearer {api_key}"
    idempotency_key = f"fuzz-{number:08d}-{rng.getrandbits(40):010x}"  # no mutation can turn it into another request's
    metered = [bearer, f"Idempotency-Key: {idempotency_key}"]
    close = ["Connection: close"] if last else []
    if rng.random() < 0.2:  # a server may ignore this (RFC 9110, 7.8)
        upgrade = f"Upgrade: {rng.choice(['h2c', 'websocket'])}"
        close = [upgrade, f"Connection: {'upgrade, close' if last else 'Upgrade'}"]
    begin = rng.choice([b"", b"", b"\r\n"])  # RFC 9112, 2.2
    is_bad = last and rng.random() < 0.05
    host = f"Host: {rng.choice(_NO_HOSTS if is_bad else _HOSTS)}"
    red, green, blue = number >> 16 & 255, number >> 8 & 255, number & 255
    body = json.dumps({"colors": [{"r": red, "g": green, "b": blue}], "top": rng.randint(1, 3)}).encode()
    mark = b'"input":{"r":%d,"g":%d,"b":%d}' % (red, green, blue)

    def post(sent: bytes, *framing: str) -> bytes:
        headers = [host, *metered, *(framing or [f"Content-Length: {len(sent)}"]), "Content-Type: application/json"]
        return begin + _request("POST /v1/match", [*headers, *close], sent)

    def get(target: str, *headers: str) -> bytes:
        return begin + _request(f"GET {target}", [host, *headers, *close])

    if is_bad:
        return Seed(post(body), 400, b'"bad_request"')
    length = f"Content-Length: {len(body)}"
    return rng.choice(
        [
            *3 * [Seed(post(body), 200, mark, idempotency_key)],
            *2 * [Seed(post(chunked(rng, body), "Transfer-Encoding: chunked"), 200, mark, idempotency_key)],
            Seed(post(body, "Expect: 100-continue", length), 200, mark, idempotency_key),
            Seed(get("/v1/search?q=tao%20hong&limit=1", *metered), 200, b'"slug":"tao-hong"', idempotency_key),
            Seed(get("/v1/library", bearer), 200, b'"recordCount":161'),
            Seed(get("/v1/usage", bearer), 200, f'"accountId":"{account_id}"'.encode()),
            Seed(get("/healthz"), 200, b'{"status":"ok"}'),
            Seed(get(f"/nowhere/{number}"), 404, b'"not_found"'),
            Seed(get("/v1/library", "Authorization: Bearer nonsense"), 401, b'"unauthorized"'),
            Seed(post(body[:-1]), 400, b'"invalid_json"'),
            Seed(post(body.ljust(16 * 1024 + rng.randint(1, 4000))), 413, b'"payload_too_large"'),
        ]
    )


# Inserted anywhere, and at the beginning of a line.
PIECES = [
    b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\0", b"\xff\xfe", b" ", b"\t", b":", b";", b"%00", b"0\r\n\r\n", b"-1",
    b"\x7f", b"ffffffffffffffff\r\n", b"10000000000000001\r\n",
]  # fmt: skip
LINES = [
    b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: x\r\n", b"Content-Length: 5\r\n",
    b"Content-Length: 99999999999999999999\r\n", b"Content-Length: +1\r\n", b"Host: other\r\n",
    b"Content-Length: 30\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n", b"Expect: 100-continue\r\n",
    b"Expect: tea\r\n", b" folded\r\n", b"CONNECT sepu:80 HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n", b"GET http://sepu/v1/library HTTP/1.0\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    *(b"".join(b"X%d: %b\r\n" % (n, b"y" * (n % 30)) for n in range(count)) for count in (50, 150, 300, 3000)),
    *(b"X: %b\r\n" % (b"z" * length) for length in (8100, 9000, 70_000, 300_000)),
]  # fmt: skip


def mutate(rng: Random, data: bytes, pieces: Sequence[bytes] = PIECES, lines: Sequence[bytes] = LINES) -> bytes:
    """Makes one to three changes."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        at = rng.randrange(len(data) + 1)
        span = data[at : at + rng.choice([1, 2, 8, 64, 1000])]
        rest = data[at + len(span) :]
        begins = data.rfind(b"\n", 0, at) + 1  # beginning of the line
        piece = rng.choice([rng.choice(pieces), rng.choice(pieces), rng.randbytes(rng.choice([1, 4, 300]))])
        match rng.randrange(12):
            case 0 | 1:
                data = data[:at] + bytes([byte ^ 1 << rng.randrange(8) for byte in span[:1]]) + data[at + 1 :]
            case 2 | 3:
                data = data[:at] + piece + data[at:]
            case 4 | 5 | 6:
                data = data[:begins] + rng.choice(lines) + data[begins:]
            case 7:
                data = data[:at] + rng.choice(pieces)[:2] * rng.choice([100, 9000, 75_000]) + data[at:]
            case 8:
                data = data[:at] + rest
            case 9:
                data = data[:at] + span * rng.choice([2, 2, 51]) + rest
            case 10:
                data = data[:at]
            case _:
                data = data[:at] + data[at:].replace(b"\r\n", b"\n", 1)
    return data
