"""Requests from a grammar, each with its meaning by RFC 9110 and RFC 9112."""

from dataclasses import dataclass
from random import Random

from sepu import limits

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: sepu\r\n\r\n"
HOSTS = ["sepu", "", ":", "sepu:80", "127.0.0.1:8000", "[::1]", "[v1.a:b]:1", "a%20b", "a,b", "a_b~!$&'()*+;=-.c"]
NO_HOSTS = [
    "a b", "a/b,c@d", "a@b", "a:b", "a:80:80", "[::1", "::1", "[1:2]", "[::1]a", "[v1]", "a%2", "a%zz", "a?b", "a#b",
    "a\\b", '"a"', "<a>", "a\tb", "[fe80::1%25lo]", "caf\xe9",
]  # fmt: skip
_UPGRADES = ["h2c", "websocket", "TLS/1.0", "h2c, websocket"]
_CONNECTIONS = ["Upgrade", "Upgrade, HTTP2-Settings", "keep-alive, upgrade", "upgrade, close", "close, Upgrade"]


@dataclass(frozen=True)
class Message:
    """The bytes of one request, and positions in them: its beginning, the end of its head, and where it is over.

    It is over when it is complete or refused. The body is None if it is too long to be kept.
    """

    data: bytes
    begin: int
    head: int
    over: int
    method: str
    path: str
    body: bytes | None = b""
    refusal: int | None = None
    keeps: bool = False
    expects: bool = False


def _chunked(rng: Random, body: bytes, trailers: bytes) -> bytes:
    framed = b""
    while body:
        size = rng.choice([1, 7, 4000, len(body)])
        framed += b"%x%b\r\n%b\r\n" % (len(body[:size]), rng.choice([b"", b";a", b';a="b"']), body[:size])
        body = body[size:]
    return framed + b"0\r\n" + trailers + b"\r\n"


def _body(rng: Random) -> bytes:
    large = limits.requests.BODY_BYTES
    return rng.choice([b"", b"", b"{}", SMUGGLED, SMUGGLED * 3, b"\r\n\r\n", b"x" * rng.choice([1, 3000, large])])


def message(rng: Random, number: int) -> Message:
    """Returns one request; its path is its number, and its content never parses as a request."""
    plain = rng.random() < 0.6  # the connection continues after it
    version = "1.1" if plain or rng.random() < 0.8 else "1.0"
    connect = not plain and rng.random() < 0.1
    method = "CONNECT" if connect else rng.choice(["GET", "POST", "POST", "HEAD", "OPTIONS", "DELETE"])
    path = f"sepu:{number}" if connect else f"/{number}"
    target, headers = path, [f"X-Padding: {'x' * rng.choice([0, 0, 1, 2000])}"]
    refusal = None
    if not connect and rng.random() < 0.1:
        target = f"http://{rng.choice([host for host in HOSTS if host not in {'', ':'}])}{path}"
        target = target.replace("%20", "")  # httptools accepts fewer names here
    host = rng.choice(HOSTS)
    if not plain and rng.random() < 0.15:
        host, refusal = rng.choice(NO_HOSTS), 400
    elif not plain and rng.random() < 0.05:
        headers, refusal = ["Host: other"], 400
    if version == "1.1" or rng.random() < 0.8 or refusal:
        headers.append(f"{rng.choice(['Host', 'host'])}: {host}")
    upgrades = rng.random() < 0.3
    options = [rng.choice(["keep-alive", "close", "Close", "close, x"][: 1 if plain else 4])] * (rng.random() < 0.3)
    if upgrades:
        headers.append(f"Upgrade: {rng.choice(_UPGRADES)}")
        options += [rng.choice(_CONNECTIONS[: 3 if plain else 5])] * (rng.random() < 0.8)
    headers += [f"Connection: {option}" for option in options]
    closes = "close" in {each.strip().lower() for option in options for each in option.split(",")}

    body, framed = _body(rng), b""
    match rng.choice(["none", "length", "length", "chunked"]):
        case "length":
            headers.append(f"Content-Length: {len(body)}")
            framed = body
        case "chunked" if version == "1.1" or refusal is None:
            headers.append(f"Transfer-Encoding: {rng.choice(['chunked', 'Chunked'])}")
            trailers = rng.choice(
                [b"", b"", b"Host: a b\r\nUpgrade: h2c\r\n", b"Connection: close\r\n"][: 3 if plain else 4]
            )
            framed = _chunked(rng, body, trailers)
            closes = closes or trailers.startswith(b"Connection")  # forbidden in trailers, but the parser obeys it
            if version == "1.0":
                refusal = 400
        case _:
            body = b""
    expects = False
    if rng.random() < 0.15:
        expects = version == "1.1"
        headers.append("Expect: 100-continue")
    elif refusal is None and not plain and rng.random() < 0.1:
        headers.append("Expect: tea")
        refusal = 417
    rng.shuffle(headers)

    begin = rng.choice([0, 0, 0, 2, 4])
    lines = [f"{method} {target} HTTP/{version}", *headers, "", ""]
    data = b"\r\n" * (begin // 2) + "\r\n".join(lines).encode("latin-1")
    head = over = len(data)
    data += framed
    kept: bytes | None = body
    if connect or refusal:  # nothing after the head is parsed
        kept = b""
    elif framed.endswith(b"0\r\n\r\n") and body and not plain and rng.random() < 0.2:  # an invalid chunk
        data = data.removesuffix(b"0\r\n\r\n")
        over, refusal = len(data) + 1, 400
        data += b"z\r\n\r\n"
    elif (
        not upgrades and framed == body == b"{}" and not plain and rng.random() < 0.3
    ):  # a body too long even to be discarded
        most = limits.requests.BODY_BYTES + limits.requests.DISCARDED_BYTES
        data = data[:head].replace(b"Content-Length: 2\r\n", b"Content-Length: 900000\r\n") + b"y" * (most + 1)
        head += len("900000") - len("2")
        over, kept, closes = len(data), None, True
    else:
        over = len(data)
    keeps = version == "1.1" and not (connect or closes)
    return Message(data, begin, head, over, method, path, kept, refusal, keeps, expects)
