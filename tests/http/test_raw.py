"""Requests that no client library would send: malformed, endless, cut off, and bodies in chunks."""

import socket
import struct
import time

import psycopg
import pytest
from tests.http.raw import (
    BAD,
    CHUNKED,
    GET,
    HEAD,
    MALFORMED,
    MALFORMED_TO_THE_STRICT,
    ONE,
    POST,
    TOO_LARGE,
    check_refusal,
    check_requests_in_a_row,
    chunked,
    everything,
    exchange,
    parsed,
)
from tests.serving import Server

from sepu import limits
from sepu.admin.keys import IssuedKey
from sepu.admin.usage import show_usage


def committed(connection: psycopg.Connection, issued: IssuedKey) -> int:
    return show_usage(connection, issued.account_id).usage[0].committed


def needs_no_proxy(server: Server) -> None:
    if server.address.startswith("unix:"):
        pytest.skip("meinheld leaves this to the proxy in front of it")


def uvloop_only(server: Server, reason: str) -> None:
    if server.worker != "uvloop":
        pytest.skip(reason)


CHUNKED_ONE, CHUNKS = chunked(ONE), b"Transfer-Encoding: chunked"
# How a body is framed, what is sent of it, whether our side then closes, how the answer begins, and what is charged.
BODIES: dict[str, tuple[bytes, bytes, bool, bytes, int]] = {
    "chunks": (CHUNKS, chunked(ONE[:7], ONE[7:]), False, b"HTTP/1.1 200", 1),
    "the largest, a byte a chunk": (
        CHUNKS,
        chunked(*(bytes([byte]) for byte in ONE.ljust(limits.BODY_BYTES))),
        False,
        b"HTTP/1.1 200",
        1,
    ),
    "our side closes": (b"Content-Length: %d" % len(ONE), ONE, True, b"HTTP/1.1 200", 1),
    "too many chunks": (CHUNKS, chunked(ONE, b" " * 9000, b" " * 9000), False, b"HTTP/1.1 413", 0),
    "broken chunks": (CHUNKS, b"zz\r\n" + ONE + b"\r\n0\r\n\r\n", False, b"", 0),
    # What arrives is whole JSON; but who declared more has not finished, and is gone.
    "cut off": (b"Content-Length: 100", ONE, True, b"", 0),
    **{f"{n} digits": (b"Content-Length: " + b"9" * n, ONE, True, b"", 0) for n in (10, 18, 40)},
    "no last chunk": (CHUNKS, CHUNKED_ONE[:-5], True, b"", 0),
    "half a last chunk": (CHUNKS, CHUNKED_ONE[:-2], True, b"", 0),
}


@pytest.mark.parametrize(("framing", "sent", "gone", "status", "charged"), BODIES.values(), ids=BODIES)
def test_a_body_is_charged_when_all_of_it_has_come(
    server: Server, connection: psycopg.Connection, issued: IssuedKey,
    framing: bytes, sent: bytes, gone: bool, status: bytes, charged: int,
) -> None:  # fmt: skip
    if gone and charged:
        needs_no_proxy(server)
    answer = exchange(server, issued, framing, sent, gone=gone)
    assert answer.startswith(status)
    assert answer.startswith(b"HTTP/1.1 200") is bool(charged)
    assert b"internal_error" not in answer
    if gone and framing == CHUNKS:
        time.sleep(0.5)  # for a charge that nobody waits for
    assert committed(connection, issued) == charged
    assert "Traceback" not in server.log.read_text()


ANYWHERE = MALFORMED | {
    "no-version": (b"GET /v1/library\r\n\r\n", BAD),
    "later-version": (b"GET /v1/library HTTP/1.3\r\nHost: sepu\r\n\r\n", BAD),
    "http2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", BAD),
    "two-content-types": (POST + b"Content-Type: a/b\r\nContent-Type: a/c\r\n\r\n", BAD),
    "many-headers": (GET + b"X: y\r\n" * 101 + b"\r\n", HEAD),
}
STRICTLY = MALFORMED_TO_THE_STRICT | {
    "endless-uri": (b"GET /" + b"a" * 40_000, HEAD),
    "length-modulo-2^64": (POST + b"Content-Length: 18446744073709551652\r\n\r\n" + ONE, BAD),
    "length-of-19-digits": (POST + b"Content-Length: 1000000000000000000\r\n\r\n" + ONE, BAD),
    "bare-lf-in-an-extension": (CHUNKED + b"1;a\nb\r\nx\r\n0\r\n\r\n", BAD),
    "endless-extension": (CHUNKED + b"1;" + b"a" * 200_000, TOO_LARGE),
    "extensions": (CHUNKED + b"1;x\r\na\r\n" * 25_000, TOO_LARGE),
    "endless-trailers": (CHUNKED + b"0\r\n" + b"a: b\r\n" * 40_000, TOO_LARGE),
}


@pytest.mark.parametrize(("sent", "code"), ANYWHERE.values(), ids=ANYWHERE)
def test_what_is_no_http_is_refused_in_the_contracts_form(server: Server, sent: bytes, code: str) -> None:
    needs_no_proxy(server)
    check_refusal(everything(server, sent), code)


@pytest.mark.parametrize(("sent", "code"), STRICTLY.values(), ids=STRICTLY)
def test_the_default_worker_refuses_more(server: Server, sent: bytes, code: str) -> None:
    uvloop_only(server, "gthread takes it, says it otherwise, or ends it by time")
    check_refusal(everything(server, sent), code)


def test_an_expectation_that_nobody_knows(server: Server) -> None:
    needs_no_proxy(server)
    answer = everything(server, GET + b"Expect: tea\r\nConnection: close\r\n\r\n")
    check_refusal(answer, "expectation_failed")


def test_a_connection_goes_on_after_a_body_too_large(server: Server, issued: IssuedKey) -> None:
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
    check_refusal(everything(server, post % (head, len(body)) + body + last), TOO_LARGE)


TARGETS = {
    (b"/v1/usage", b"SCRIPT_NAME: /x"): 200,
    (b"/x/v1/usage", b"SCRIPT_NAME: /x"): 404,  # a header moves no path
    **{(b"http://sepu.example:80" + path, b"X: y"): 200 for path in (b"/v1/usage", b"/v1/library?x=1")},
    **{(b"http://sepu.example:80" + path, b"X: y"): 404 for path in (b"/v1/usag", b"", b"//v1/usage")},
}


def test_a_target_is_a_path_or_absolute(server: Server, issued: IssuedKey) -> None:
    needs_no_proxy(server)
    head = b"GET %b HTTP/1.1\r\nHost: sepu\r\n%b\r\nAuthorization: Bearer %b\r\nConnection: close\r\n\r\n"
    for (target, header), status in TARGETS.items():
        assert parsed(everything(server, head % (target, header, issued.api_key.encode())))[0] == status


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


def test_an_upgrade_is_ignored(server: Server, issued: IssuedKey) -> None:
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


@pytest.mark.parametrize("apart", [False, True])
def test_the_body_beside_an_upgrade_belongs_to_its_request(
    server: Server, issued: IssuedKey, connection: psycopg.Connection, apart: bool
) -> None:
    """Java's HTTP client asks for HTTP/2 with its first request to each http:// address."""
    needs_no_proxy(server)
    authorization = b"Authorization: Bearer %b\r\n" % issued.api_key.encode()
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    head = POST + upgrade + authorization + b"Content-Type: application/json\r\nIdempotency-Key: upgraded-1\r\n"
    # What the body says is no request, even if it looks like one.
    smuggled = GET + authorization + b"\r\n"
    for framed, answers in (
        (b"Content-Length: %d\r\n\r\n" % len(ONE) + ONE, (b'"slug":"fei-hong"', b'"version":')),
        (b"Transfer-Encoding: chunked\r\n\r\n" + chunked(ONE[:7], ONE[7:]), (b'"slug":"fei-hong"', b'"version":')),
        (b"Content-Length: %d\r\n\r\n" % len(smuggled) + smuggled, (b'"invalid_json"', b'"version":')),
        (b"Content-Length: 0\r\n\r\n", (b'"body_required"', b'"version":')),
        (b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(ONE) + ONE, (b'"slug":"fei-hong"', b'"version":')),
    ):
        at = (head + framed).index(b"\r\n\r\n") + 4
        whole = head + framed
        last = GET + authorization + b"Connection: close\r\n\r\n"
        answer = everything(server, *((whole[:at], whole[at:], last) if apart else (whole + last,)))
        answer = answer.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"", 1)
        assert answer.count(b"HTTP/1.1 ") == 2
        first, _, second = answer[8:].partition(b"HTTP/1.1 ")
        assert answers[0] in first
        assert answers[1] in second
    assert committed(connection, issued) == 1


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_an_upgrade_may_be_on_the_last_request(
    server: Server, issued: IssuedKey, connection: psycopg.Connection, version: bytes
) -> None:
    needs_no_proxy(server)
    head = (POST + b"Connection: upgrade, close\r\nUpgrade: h2c\r\n").replace(b"1.1", version)
    head += b"Authorization: Bearer %b\r\nContent-Type: application/json\r\n" % issued.api_key.encode()
    head += b"Idempotency-Key: upgraded-1\r\nContent-Length: %d\r\n\r\n" % len(ONE)
    assert parsed(everything(server, head + ONE + GET + b"\r\n"))[0] == 200
    assert committed(connection, issued) == 1


def test_a_connect_is_refused_and_ends_the_connection(server: Server, issued: IssuedKey) -> None:
    needs_no_proxy(server)
    smuggled = GET + b"Authorization: Bearer %b\r\n\r\n" % issued.api_key.encode()
    head = b"CONNECT sepu:80 HTTP/1.1\r\nHost: sepu\r\nContent-Length: %d\r\n\r\n" % len(smuggled)
    check_refusal(everything(server, head + smuggled), "not_found")


def test_half_a_request_behind_a_whole_one_is_refused(server: Server) -> None:
    uvloop_only(server, "the others close")
    whole = b"GET /healthz HTTP/1.1\r\nHost: sepu\r\n\r\n"
    answer = everything(server, whole + whole[:-5], end=True)
    assert answer.startswith(b"HTTP/1.1 200 ")
    check_refusal(answer[answer.index(b"HTTP/1.1 400 ") :], BAD)


def test_who_leaves_without_the_answer_is_charged_once(
    server: Server, issued: IssuedKey, connection: psycopg.Connection
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


def test_requests_in_a_row_are_answered_in_order(server: Server, issued: IssuedKey) -> None:
    check_requests_in_a_row(server, issued)
