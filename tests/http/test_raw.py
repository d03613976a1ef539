"""Requests that no client library would send: malformed, endless, cut off, and bodies in chunks."""

import json
import socket
import struct
import time
import uuid

import psycopg
import pytest
from tests.serving import Server, until_closed

from sepu import limits
from sepu.metering import accounts

ONE = b'{"colors":[{"r":200,"g":60,"b":35}]}'


def exchange(server: Server, issued: accounts.IssuedKey, framing: bytes, body: bytes, *, gone: bool = False) -> bytes:
    """Sends a match framed as told, and closes our side if `gone`; returns all that comes back."""
    head = (
        b"POST /v1/match HTTP/1.1\r\nHost: sepu\r\nConnection: close\r\nContent-Type: application/json\r\n"
        b"Idempotency-Key: raw-request-1\r\nAuthorization: Bearer %b\r\n%b\r\n\r\n"
    )
    with server.socket() as raw:
        raw.sendall(head % (issued.api_key.encode(), framing) + body)
        if gone:
            time.sleep(0.2)  # so that the request is being served
            raw.shutdown(socket.SHUT_WR)
        return until_closed(raw)


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))


def committed(connection: psycopg.Connection, issued: accounts.IssuedKey) -> int:
    return accounts.show_usage(connection, issued.account_id).usage[0].committed


def test_a_body_in_chunks(server: Server, issued: accounts.IssuedKey, connection: psycopg.Connection) -> None:
    answer = exchange(server, issued, b"Transfer-Encoding: chunked", chunked(ONE[:7], ONE[7:]))
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"slug":"fei-hong"' in answer
    assert committed(connection, issued) == 1


def test_the_limit_holds_for_chunks_too(
    server: Server, issued: accounts.IssuedKey, connection: psycopg.Connection
) -> None:
    answer = exchange(server, issued, b"Transfer-Encoding: chunked", chunked(ONE, b" " * 9000, b" " * 9000))
    assert answer.startswith(b"HTTP/1.1 413")
    assert b'{"error":"payload_too_large","requestId":' in answer
    assert committed(connection, issued) == 0


def test_broken_chunks_are_the_clients_fault(
    server: Server, issued: accounts.IssuedKey, connection: psycopg.Connection
) -> None:
    answer = exchange(server, issued, b"Transfer-Encoding: chunked", b"zz\r\n" + ONE + b"\r\n0\r\n\r\n")
    assert answer[:12] in {b"HTTP/1.1 400", b"HTTP/1.0 400"}
    assert committed(connection, issued) == 0
    assert "Traceback" not in server.log.read_text()


def test_a_body_that_was_cut_off_charges_nothing(
    server: Server, issued: accounts.IssuedKey, connection: psycopg.Connection
) -> None:
    # What arrives is whole JSON; but who declared more has not finished, and is gone.
    answer = exchange(server, issued, b"Content-Length: 100", ONE, gone=True)
    assert not answer.startswith(b"HTTP/1.1 200")
    assert b"internal_error" not in answer
    assert committed(connection, issued) == 0


def parsed(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers in lower case, and body of an answer that is whole and alone."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    assert len(body) == int(headers["content-length"])
    return int(status.split()[1]), headers, body


GET = b"GET /v1/library HTTP/1.1\r\nHost: sepu\r\n"
POST = b"POST /v1/match HTTP/1.1\r\nHost: sepu\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
BAD, URI, HEAD = (400, "bad_request"), (414, "uri_too_long"), (431, "headers_too_large")


@pytest.mark.parametrize(
    ("sent", "refused"),
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\r\n\r\n", BAD, id="tls"),
        pytest.param(b"GET /v1/library\r\n\r\n", BAD, id="no-version"),
        pytest.param(b"GET v1/library HTTP/1.1\r\n\r\n", BAD, id="no-slash"),
        pytest.param(b"GET /v1/\xff HTTP/1.1\r\n\r\n", BAD, id="non-ascii-path"),
        pytest.param(b"GET /v1/library HTTP/2.0\r\n\r\n", BAD, id="version"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", BAD, id="http2"),
        pytest.param(b"get /v1/library HTTP/1.1\r\n\r\n", BAD, id="method-in-lower-case"),
        pytest.param(b"GET /v1/library HTTP/1.1\r\n\r\n", BAD, id="no-host"),
        pytest.param(GET + b"X : y\r\n\r\n", BAD, id="space-before-colon"),
        pytest.param(GET + b"X: a\0b\r\n\r\n", BAD, id="nul"),
        pytest.param(GET + b"Host: other\r\n\r\n", BAD, id="two-hosts"),
        pytest.param(POST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", BAD, id="length-and-chunked"),
        pytest.param(POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", BAD, id="two-lengths"),
        pytest.param(POST + b"Content-Length: -1\r\n\r\n", BAD, id="negative-length"),
        pytest.param(POST + b"Content-Type: a/b\r\nContent-Type: a/c\r\n\r\n", BAD, id="two-content-types"),
        pytest.param(POST + b"Transfer-Encoding: gzip\r\n\r\n", BAD, id="coding"),
        pytest.param(b"GET /v1/search?q=" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", URI, id="long-uri"),
        pytest.param(GET + b"X: " + b"a" * 9000 + b"\r\n\r\n", HEAD, id="long-header"),
        pytest.param(GET + b"X: y\r\n" * 101 + b"\r\n", HEAD, id="many-headers"),
        pytest.param(GET + b"".join(b"X%d: %b\r\n" % (n, b"a" * 4000) for n in range(9)) + b"\r\n", HEAD, id="head"),
    ],
)
def test_what_is_no_http_is_refused_in_the_contracts_form(
    server: Server, sent: bytes, refused: tuple[int, str]
) -> None:
    needs_no_proxy(server)
    check_refusal(everything(server, sent), *refused)


def check_refusal(answer: bytes, status: int, code: str) -> None:
    found, headers, body = parsed(answer)
    request_id = headers["x-request-id"]
    assert str(uuid.UUID(request_id)) == request_id
    assert (found, json.loads(body)) == (status, {"error": code, "requestId": request_id})
    assert headers["content-type"] == "application/json"
    assert headers["cache-control"] == "no-store"
    assert headers["connection"] == "close"


def needs_no_proxy(server: Server) -> None:
    if server.address.startswith("unix:"):
        pytest.skip("meinheld leaves this to the proxy in front of it")


def everything(server: Server, *sent: bytes, end: bool = False) -> bytes:
    """What comes back until the server closes; each part is sent on its own, and then our side closed if told."""
    answer = b""
    with server.socket() as raw:
        for part in sent:
            raw.sendall(part)
        if end:
            raw.shutdown(socket.SHUT_WR)
        while part := raw.recv(65536):
            answer += part
    return answer


def uvloop_only(server: Server, reason: str) -> None:
    if server.worker != "uvloop":
        pytest.skip(reason)


@pytest.mark.parametrize(
    ("sent", "refused"),
    [
        pytest.param(b"GET /" + b"a" * 40_000, HEAD, id="endless-uri"),
        pytest.param(GET + b"X: a\r\n folded\r\n\r\n", BAD, id="folded"),
        pytest.param(POST + b"Content-Length: 18446744073709551652\r\n\r\n" + ONE, BAD, id="length-modulo-2^64"),
        pytest.param(POST + b"Content-Length: 1000000000000000000\r\n\r\n" + ONE, BAD, id="length-of-19-digits"),
        pytest.param(POST + b"Content-Length: +36\r\n\r\n" + ONE, BAD, id="signed-length"),
        pytest.param(POST + b"Content-Length: 36\r\nContent-Length: 36\r\n\r\n" + ONE, BAD, id="same-length-twice"),
        pytest.param(POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", BAD, id="two-codings"),
        pytest.param(
            POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BAD, id="chunked-1.0"
        ),
        pytest.param(CHUNKED + b"1;a\nb\r\nx\r\n0\r\n\r\n", BAD, id="bare-lf-in-an-extension"),
        pytest.param(CHUNKED + b"zz\r\n", BAD, id="chunk-size"),
        pytest.param(CHUNKED + b"1\r\nxyz", BAD, id="chunk-end"),
        pytest.param(CHUNKED + b"1;" + b"a" * 200_000, (413, "payload_too_large"), id="endless-extension"),
        pytest.param(CHUNKED + b"1;x\r\na\r\n" * 25_000, (413, "payload_too_large"), id="extensions"),
        pytest.param(CHUNKED + b"0\r\n" + b"a: b\r\n" * 40_000, (413, "payload_too_large"), id="endless-trailers"),
    ],
)
def test_the_default_worker_refuses_more(server: Server, sent: bytes, refused: tuple[int, str]) -> None:
    uvloop_only(server, "gthread takes it, says it otherwise, or ends it by time")
    check_refusal(everything(server, sent), *refused)


def test_an_expectation_that_nobody_knows(server: Server) -> None:
    needs_no_proxy(server)
    answer = everything(server, GET + b"Expect: tea\r\nConnection: close\r\n\r\n")
    check_refusal(answer, 417, "expectation_failed")


def test_the_largest_body_may_come_a_byte_a_chunk(
    server: Server, issued: accounts.IssuedKey, connection: psycopg.Connection
) -> None:
    body = ONE.ljust(limits.BODY_BYTES)
    framed = chunked(*(body[at : at + 1] for at in range(len(body))))
    answer = exchange(server, issued, b"Transfer-Encoding: chunked", framed)
    assert answer.startswith(b"HTTP/1.1 200")
    assert committed(connection, issued) == 1


def test_a_connection_goes_on_after_a_body_too_large(server: Server, issued: accounts.IssuedKey) -> None:
    uvloop_only(server, "the others close")
    body = ONE.ljust(limits.BODY_BYTES + limits.DISCARDED_BYTES)
    head = b"Host: sepu\r\nContent-Type: application/json\r\nIdempotency-Key: raw-request-1\r\n"
    head += b"Authorization: Bearer %b\r\n" % issued.api_key.encode()
    post = b"POST /v1/match HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nHost: sepu\r\nConnection: close\r\n\r\n"
    answer = everything(server, post % (head, len(body)) + body + last)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert answer.endswith(b'{"status":"ok"}')
    body += b" "
    check_refusal(everything(server, post % (head, len(body)) + body + last), 413, "payload_too_large")


@pytest.mark.parametrize("length", [b"1000000000", b"999999999999999999", b"9" * 40])
def test_a_body_far_short_of_its_length_charges_nothing(
    server: Server, issued: accounts.IssuedKey, connection: psycopg.Connection, length: bytes
) -> None:
    answer = exchange(server, issued, b"Content-Length: " + length, ONE, gone=True)
    assert not answer.startswith(b"HTTP/1.1 200")
    assert committed(connection, issued) == 0


def test_a_header_moves_no_path(server: Server, issued: accounts.IssuedKey) -> None:
    needs_no_proxy(server)
    head = b"GET %b HTTP/1.1\r\nHost: sepu\r\nSCRIPT_NAME: /x\r\nAuthorization: Bearer %b\r\nConnection: close\r\n\r\n"
    for target, status in ((b"/v1/usage", 200), (b"/x/v1/usage", 404)):
        assert parsed(everything(server, head % (target, issued.api_key.encode())))[0] == status


def test_absolute_targets_name_the_same_resource(server: Server, issued: accounts.IssuedKey) -> None:
    needs_no_proxy(server)
    head = (
        b"GET http://sepu.example:80%b HTTP/1.1\r\nHost: sepu\r\nAuthorization: Bearer %b\r\nConnection: close\r\n\r\n"
    )
    for target, status in (
        (b"/v1/usage", 200),
        (b"/v1/library?x=1", 200),
        (b"/v1/usag", 404),
        (b"", 404),
        (b"//v1/usage", 404),
    ):
        assert parsed(everything(server, head % (target, issued.api_key.encode())))[0] == status


@pytest.mark.parametrize(
    "head",
    [
        GET + b"Connection: close, keep-alive\r\n\r\n",
        GET + b"Connection: keep-alive\r\nConnection: CLOSE\r\n\r\n",
        GET.replace(b"1.1", b"1.0") + b"Connection: keep-alive\r\n\r\n",
    ],
)
def test_an_answer_is_the_last_if_the_client_wants_it(server: Server, head: bytes) -> None:
    needs_no_proxy(server)
    answer = everything(server, head + GET + b"\r\n")
    assert answer.count(b"HTTP/1.") == 1
    assert parsed(answer)[1]["connection"] == "close"


def test_an_upgrade_is_ignored(server: Server, issued: accounts.IssuedKey) -> None:
    needs_no_proxy(server)
    upgrades = (
        b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        b"Upgrade: websocket\r\n",
        b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
    )
    for upgrade in upgrades:
        head = GET + upgrade + b"Connection: Upgrade\r\nAuthorization: Bearer %b\r\n\r\n" % issued.api_key.encode()
        answer = everything(server, head + GET + b"Connection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.count(b"HTTP/1.1 ") == 2


def test_one_side_may_close_and_still_read(
    server: Server, issued: accounts.IssuedKey, connection: psycopg.Connection
) -> None:
    needs_no_proxy(server)
    one = GET + b"Authorization: Bearer %b\r\n\r\n" % issued.api_key.encode()
    assert everything(server, one * 3, end=True).count(b'{"version":') == 3
    assert exchange(server, issued, b"Content-Length: %d" % len(ONE), ONE, gone=True).startswith(b"HTTP/1.1 200")
    assert committed(connection, issued) == 1


def test_half_a_request_behind_a_whole_one_is_refused(server: Server) -> None:
    uvloop_only(server, "the others close")
    whole = b"GET /healthz HTTP/1.1\r\nHost: sepu\r\n\r\n"
    answer = everything(server, whole + whole[:-5], end=True)
    assert answer.startswith(b"HTTP/1.1 200 ")
    check_refusal(answer[answer.index(b"HTTP/1.1 400 ") :], *BAD)


def test_chunks_without_an_end_charge_nothing(
    server: Server, issued: accounts.IssuedKey, connection: psycopg.Connection
) -> None:
    whole = chunked(ONE)
    for cut in (len(whole) - 5, len(whole) - 2):  # before the last chunk, and in its end: all of the body has come
        answer = exchange(server, issued, b"Transfer-Encoding: chunked", whole[:cut], gone=True)
        assert not answer.startswith(b"HTTP/1.1 200")
    time.sleep(0.5)  # for a charge that nobody waits for
    assert committed(connection, issued) == 0
    assert "Traceback" not in server.log.read_text()


def test_who_leaves_without_the_answer_is_charged_once(
    server: Server, issued: accounts.IssuedKey, connection: psycopg.Connection
) -> None:
    request = b"Content-Length: %d\r\n\r\n%b" % (len(ONE), ONE)
    head = (
        b"POST /v1/match HTTP/1.1\r\nHost: sepu\r\nContent-Type: application/json\r\n"
        b"Idempotency-Key: raw-request-1\r\nAuthorization: Bearer %b\r\n" % issued.api_key.encode()
    )
    for reset in (False, True):
        with server.socket() as raw:
            if reset:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.sendall(head + request)
    answer = exchange(server, issued, b"Content-Length: %d" % len(ONE), ONE)
    if answer.startswith(b"HTTP/1.1 409"):  # the first is still at it
        time.sleep(2)
        answer = exchange(server, issued, b"Content-Length: %d" % len(ONE), ONE)
    assert answer.startswith(b"HTTP/1.1 200")
    assert committed(connection, issued) == 1


def test_requests_in_a_row_are_answered_in_order(server: Server, issued: accounts.IssuedKey) -> None:
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
