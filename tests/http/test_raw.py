"""Requests that no client library would send: malformed, endless, cut off, and bodies in chunks.

Upgrades, pipelines and expectations: tests/server/test_wire.py.
"""

import socket
import struct
from contextlib import ExitStack

import psycopg
import pytest
from tests.harness.processes import until
from tests.harness.serving import Served, Server, until_closed
from tests.http.conftest import OTHERS
from tests.http.contract import committed
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
    metered,
    parsed,
)

from sepu import limits
from sepu.admin.keys import IssuedKey


@pytest.fixture(params=["uvloop", "gthread", *OTHERS[1:]])
def server(request: pytest.FixtureRequest, served: Served) -> Server:
    """gthread too in every run: it takes bodies by code of its own."""
    return served(request.param)


@pytest.fixture(params=["uvloop", "gthread"])
def direct(request: pytest.FixtureRequest, served: Served) -> Server:
    """Servers that clients may reach without a proxy: meinheld leaves these checks to its proxy."""
    return served(request.param)


CHUNKED_ONE, CHUNKS = chunked(ONE), b"Transfer-Encoding: chunked"
LARGEST = chunked(*(bytes([byte]) for byte in ONE.ljust(limits.requests.BODY_BYTES)))
# The framing, the bytes sent, whether our side then closes, how the answer begins, and the charge.
BODIES: dict[str, tuple[bytes, bytes, bool, bytes, int]] = {
    "chunks": (CHUNKS, chunked(ONE[:7], ONE[7:]), False, b"HTTP/1.1 200", 1),
    "the largest, a byte a chunk": (CHUNKS, LARGEST, False, b"HTTP/1.1 200", 1),
    "our side closes": (b"Content-Length: %d" % len(ONE), ONE, True, b"HTTP/1.1 200", 1),
    "too many chunks": (CHUNKS, chunked(ONE, b" " * 9000, b" " * 9000), False, b"HTTP/1.1 413", 0),
    "broken chunks": (CHUNKS, b"zz\r\n" + ONE + b"\r\n0\r\n\r\n", False, b"", 0),
    # Whole JSON, but shorter than its framing declares, and the client is gone.
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
    if gone and charged and server.worker == "meinheld":
        pytest.skip("meinheld takes this for a client that has left")
    answer = exchange(server, issued, framing, sent, gone=gone)
    assert answer.startswith(status)
    assert answer.startswith(b"HTTP/1.1 200") is bool(charged)
    assert b"internal_error" not in answer
    again = exchange(server, issued, CHUNKS, CHUNKED_ONE)
    assert again.startswith(b"HTTP/1.1 200")
    assert (b"idempotency-replayed" in again.lower()) is bool(charged)
    assert committed(connection, issued.account_id) == 1
    assert "Traceback" not in server.log.read_text()


ANYWHERE = MALFORMED | {
    "no-version": (b"GET /v1/library\r\n\r\n", BAD),
    "later-version": (b"GET /v1/library HTTP/1.3\r\nHost: sepu\r\n\r\n", BAD),
    "http2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", BAD),
    "two-content-types": (POST + b"Content-Type: a/b\r\nContent-Type: a/c\r\n\r\n", BAD),
    "many-headers": (GET + b"X: y\r\n" * limits.requests.HEADERS + b"\r\n", HEAD),
    "expectation": (GET + b"Expect: tea\r\nConnection: close\r\n\r\n", "expectation_failed"),
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
def test_what_is_no_http_is_refused_in_the_contracts_form(direct: Server, sent: bytes, code: str) -> None:
    check_refusal(everything(direct, sent), code)


@pytest.mark.parametrize(("sent", "code"), STRICTLY.values(), ids=STRICTLY)
def test_the_default_worker_refuses_more(uvloop: Server, sent: bytes, code: str) -> None:
    """gthread accepts it, answers otherwise, or times out."""
    check_refusal(everything(uvloop, sent), code)


def test_a_connection_goes_on_after_a_body_too_large(uvloop: Server, issued: IssuedKey) -> None:
    most = limits.requests.BODY_BYTES + limits.requests.DISCARDED_BYTES
    last = b"GET /healthz HTTP/1.1\r\nHost: sepu\r\nConnection: close\r\n\r\n"

    def sent(size: int) -> bytes:
        return metered(issued, b"Content-Length: %d" % size) + ONE.ljust(size) + last

    answer = everything(uvloop, sent(most))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert answer.endswith(b'{"status":"ok"}')
    check_refusal(everything(uvloop, sent(most + 1)), TOO_LARGE)


TARGETS = {
    (b"/v1/usage", b"SCRIPT_NAME: /x"): 200,
    (b"/x/v1/usage", b"SCRIPT_NAME: /x"): 404,  # a header does not change the path
    **{(b"http://sepu.example:80" + path, b"X: y"): 200 for path in (b"/v1/usage", b"/v1/library?x=1")},
    **{(b"http://sepu.example:80" + path, b"X: y"): 404 for path in (b"/v1/usag", b"", b"//v1/usage")},
    (b"/v1/usage", b"\r\n".join([b"X: y"] * (limits.requests.HEADERS - 3))): 200,  # as many as allowed
    (b"/v1/usage", b"X: ".ljust(limits.requests.LINE_BYTES, b"y")): 200,  # as long as allowed
    # A header with an underscore is none that it resembles.
    (b"/v1/search?q=red", b"Idempotency_Key: key-0001"): 400,
    **{(b"/v1/usage", lookalike): 200 for lookalike in (b"Content_Length: 5", b"Transfer_Encoding: chunked")},
    # Of two headers neither counts alone.
    (b"/v1/search?q=red", b"Idempotency-Key: key-0001\r\nIdempotency-Key: key-0002"): 400,
    (b"/v1/usage", b"Authorization: Bearer x"): 401,
}


def test_targets_and_headers_are_read_as_the_standard_says(direct: Server, issued: IssuedKey) -> None:
    head = b"GET %b HTTP/1.1\r\nHost: sepu \r\n%b\r\nAuthorization: Bearer %b\t \r\nConnection: TE,\tClose\r\n\r\n"
    for (target, header), status in TARGETS.items():
        assert parsed(everything(direct, head % (target, header, issued.api_key.encode())))[0] == status


def test_a_connect_is_refused_and_ends_the_connection(direct: Server, issued: IssuedKey) -> None:
    smuggled = GET + b"Authorization: Bearer %b\r\n\r\n" % issued.api_key.encode()
    head = b"CONNECT sepu:80 HTTP/1.1\r\nHost: sepu\r\nContent-Length: %d\r\n\r\n" % len(smuggled)
    check_refusal(everything(direct, head + smuggled), "not_found")


def test_a_slow_request_holds_no_other_up(direct: Server) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(direct.socket()) for _ in range(5)]  # more than there are workers
        for raw in slow:
            raw.sendall(GET)
        for raw in reversed(slow):
            raw.sendall(b"Connection: close\r\n\r\n")
            assert until_closed(raw).startswith(b"HTTP/1.1 401 ")


def test_a_client_that_leaves_early_is_charged_once(
    server: Server, issued: IssuedKey, connection: psycopg.Connection
) -> None:
    framing = b"Content-Length: %d" % len(ONE)
    for reset in (False, True):
        with server.socket() as raw:
            if reset:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.sendall(metered(issued, framing) + ONE)
    until(lambda: exchange(server, issued, framing, ONE).startswith(b"HTTP/1.1 200"))  # 409 while the first one runs
    assert committed(connection, issued.account_id) == 1


def test_a_connection_of_which_the_client_closed_its_half_ends_with_the_last_answer(
    uvloop: Server, issued: IssuedKey
) -> None:
    with uvloop.socket() as raw:
        raw.sendall(metered(issued, b"Content-Length: %d" % len(ONE)) + ONE)
        raw.shutdown(socket.SHUT_WR)
        assert parsed(until_closed(raw, 10))[0] == 200


def test_requests_in_a_row_are_answered_in_order(server: Server, issued: IssuedKey) -> None:
    check_requests_in_a_row(server, issued)
