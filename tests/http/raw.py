"""Requests as bytes that no client library would send, and their answers."""

import json
import socket
import uuid
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from tests.harness.serving import Server, until_closed

from sepu.admin.keys import IssuedKey
from sepu.http.errors import ERRORS

ONE = b'{"colors":[{"r":200,"g":60,"b":35}]}'
GET = b"GET /v1/library HTTP/1.1\r\nHost: sepu\r\n"
POST = b"POST /v1/match HTTP/1.1\r\nHost: sepu\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
BAD, URI, HEAD, TOO_LARGE = "bad_request", "uri_too_long", "headers_too_large", "payload_too_large"

# Refused by nginx and by workers that need no proxy, with these codes.
MALFORMED = {
    "no-slash": (b"GET v1/library HTTP/1.1\r\n\r\n", BAD),
    "unencoded-query": ("GET /v1/search?q=桃红 HTTP/1.1\r\nHost: sepu\r\n\r\n".encode(), BAD),
    "non-ascii-path": (b"GET /v1/\xff HTTP/1.1\r\nHost: sepu\r\n\r\n", BAD),
    "version": (b"GET /v1/library HTTP/2.0\r\nHost: sepu\r\n\r\n", BAD),
    "method-in-lower-case": (b"get /v1/library HTTP/1.1\r\nHost: sepu\r\n\r\n", BAD),
    "no-host": (b"GET /v1/library HTTP/1.1\r\n\r\n", BAD),
    "tls": (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", BAD),
    "space-before-colon": (GET + b"X : y\r\n\r\n", BAD),
    "nul": (GET + b"X: a\0b\r\n\r\n", BAD),
    "two-hosts": (GET + b"Host: other\r\n\r\n", BAD),
    "host-with-a-space": (b"GET /v1/library HTTP/1.1\r\nHost: a b\r\n\r\n", BAD),
    "host-with-a-path": (b"GET /v1/library HTTP/1.1\r\nHost: a/b,c@d\r\n\r\n", BAD),
    "length-and-chunked": (POST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", BAD),
    "two-lengths": (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", BAD),
    "negative-length": (POST + b"Content-Length: -1\r\n\r\n", BAD),
    "coding": (POST + b"Transfer-Encoding: gzip\r\n\r\n", BAD),
    "long-uri": (b"GET /v1/search?q=" + b"a" * 9000 + b" HTTP/1.1\r\nHost: sepu\r\n\r\n", URI),
    "long-header": (GET + b"X: " + b"a" * 9000 + b"\r\n\r\n", HEAD),
    "head": (GET + b"".join(b"X%d: %b\r\n" % (n, b"a" * 4000) for n in range(9)) + b"\r\n", HEAD),
}
# Refused by the default worker and nginx; others accept it, answer otherwise, or time out.
MALFORMED_TO_THE_STRICT = {
    "folded": (GET + b"X: a\r\n folded\r\n\r\n", BAD),
    "signed-length": (POST + b"Content-Length: +36\r\n\r\n" + ONE, BAD),
    "same-length-twice": (POST + b"Content-Length: 36\r\nContent-Length: 36\r\n\r\n" + ONE, BAD),
    "two-codings": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", BAD),
    "chunks-in-http-1.0": (CHUNKED.replace(b"1.1", b"1.0") + b"0\r\n\r\n", BAD),
    "chunk-size": (CHUNKED + b"zz\r\n", BAD),
    "chunk-end": (CHUNKED + b"1\r\nxyz", BAD),
}


def metered(issued: IssuedKey, *headers: bytes) -> bytes:
    """The head of a match with a constant idempotency key."""
    own = (b"Content-Type: application/json", b"Idempotency-Key: raw-request-1", b"Authorization: Bearer %b")
    return POST + b"\r\n".join((*own, *headers, b"", b"")) % issued.api_key.encode()


def exchange(server: Server, issued: IssuedKey, framing: bytes, body: bytes, *, gone: bool = False) -> bytes:
    """Sends a match with this framing, and closes our side if `gone`; returns all that comes back."""
    return everything(server, metered(issued, b"Connection: close", framing) + body, end=gone)


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))


def parsed(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers in lower case, and body of a complete, single answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    assert len(body) == int(headers["content-length"])
    assert headers["date"].endswith(" GMT")
    assert abs(parsedate_to_datetime(headers["date"]) - datetime.now(UTC)) < timedelta(minutes=5)
    return int(status.split()[1]), headers, body


def everything(server: Server, *sent: bytes, end: bool = False) -> bytes:
    """What comes back until the server closes; sends each part separately, then closes our side if `end`."""
    with server.socket() as raw:
        for part in sent:
            raw.sendall(part)
        if end:
            raw.shutdown(socket.SHUT_WR)
        return until_closed(raw)


def check_refusal(answer: bytes, code: str) -> dict[str, str]:
    """Checks for that error in the contract's form, and an end of the connection; returns the answer's headers."""
    status, headers, body = parsed(answer)
    check_error(status, headers, body, code)
    assert headers["connection"] == "close"
    return headers


def check_error(status: int, headers: dict[str, str], body: bytes, code: str) -> str:
    """Checks an error for the contract's form; returns its request id."""
    request_id = headers["x-request-id"]
    assert str(uuid.UUID(request_id)) == request_id
    assert uuid.UUID(request_id).version == 4
    assert (status, json.loads(body)) == (ERRORS[code].status, {"error": code, "requestId": request_id})
    assert headers["content-type"] == "application/json"
    assert headers["cache-control"] == "no-store"
    assert headers.get("retry-after") == ERRORS[code].retry_after
    return request_id


def check_requests_in_a_row(server: Server, issued: IssuedKey) -> None:
    head = b"GET %b HTTP/1.1\r\nHost: sepu\r\nAuthorization: Bearer %b\r\n\r\n"
    paths = [b"/v1/library", b"/v1/usage", b"/nowhere", b"/healthz"] * 20
    row = b"".join(head % (path, issued.api_key.encode()) for path in paths)
    last = b"GET /readyz HTTP/1.1\r\nHost: sepu\r\nConnection: close\r\n\r\n"
    rest = everything(server, row, last)
    for mark in [b'{"version"', b'{"outcome"', b'{"error":"not_found"', b'{"status"'] * 20:
        body = rest.index(b"\r\n\r\n") + 4
        assert rest[body:].startswith(mark)
        rest = rest[rest.index(b"HTTP/1.1 ", body) :]
    assert rest.startswith(b"HTTP/1.1 200")
    assert rest.count(b"HTTP/1.1 ") == 1
