"""Clients that keep a worker waiting, and clients too many: each wait ends, each number is bounded."""

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from tests.serving import Server, serving, until_closed

from sepu.admin.keys import IssuedKey

HURRIED = """\
import sys
from sepu.cli.main import main
from sepu import limits
limits.REQUEST_SECONDS = 1.5
limits.ANSWER_SECONDS = 1.5
limits.LINGER_SECONDS = 0.5
limits.IDLE_SECONDS = 2
limits.CONNECTIONS = 40
limits.ADDRESS_CONNECTIONS = 10
main()
"""
SOON = 8  # seconds that a machine may take for what is due in two
GET = b"GET /healthz HTTP/1.1\r\nHost: sepu\r\n"


@pytest.fixture(scope="module", params=["uvloop", "gthread"])
def server(request: pytest.FixtureRequest, database_url: str) -> Iterator[Server]:
    with serving(request.param, database_url, workers=1, program=[sys.executable, "-c", HURRIED]) as running:
        yield running


def drip(raw: socket.socket, data: bytes) -> bytes:
    """Sends a byte every tenth of a second until the server has had enough."""
    deadline = time.monotonic() + SOON
    raw.settimeout(0.1)
    for number in range(len(data)):
        try:
            raw.sendall(data[number : number + 1])
            if part := raw.recv(65536):
                return part + until_closed(raw, SOON)
        except TimeoutError:
            assert time.monotonic() < deadline, "it may drip for ever"
    pytest.fail("there was not enough to drip")


HEAD = b"POST /v1/match HTTP/1.1\r\nHost: sepu\r\nContent-Type: application/json\r\nIdempotency-Key: deadline-1\r\n"


def with_body(issued: IssuedKey, framing: bytes) -> bytes:
    return HEAD + b"Authorization: Bearer %b\r\n%b\r\n\r\n" % (issued.api_key.encode(), framing)


@pytest.mark.parametrize("dripping", [False, True])
def test_half_a_head_is_ended(server: Server, dripping: bool) -> None:
    with server.socket() as raw:
        if dripping:
            answer = drip(raw, GET + b"X: " + b"x" * 1000)
        else:
            raw.sendall(GET)
            answer = until_closed(raw, SOON)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'{"error":"request_timeout","requestId":' in answer


@pytest.mark.parametrize("framing", [b"Content-Length: 1000", b"Transfer-Encoding: chunked"])
@pytest.mark.parametrize("dripping", [False, True])
def test_half_a_body_is_ended(server: Server, issued: IssuedKey, framing: bytes, dripping: bool) -> None:
    body = b"1\r\n \r\n" * 200 if framing.endswith(b"chunked") else b" " * 999
    with server.socket() as raw:
        raw.sendall(with_body(issued, framing))
        if dripping:
            answer = drip(raw, body)
        else:
            raw.sendall(body[:60])
            answer = until_closed(raw, SOON)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert "Traceback" not in server.log.read_text()


def test_the_second_request_has_a_time_of_its_own(server: Server) -> None:
    with server.socket() as raw:
        for _ in range(3):
            time.sleep(0.8)
            raw.sendall(GET + b"\r\n")
            answer = b""
            while not answer.endswith(b'{"status":"ok"}'):  # gthread sends it in two
                answer += raw.recv(65536)
        raw.sendall(GET)
        assert until_closed(raw, SOON).startswith(b"HTTP/1.1 408 ")


def test_idle_connections_are_closed(server: Server) -> None:
    with server.socket() as silent, server.socket() as kept:
        kept.sendall(GET + b"\r\n")
        assert b'{"status":"ok"}' in until_closed(kept, SOON)
        if server.worker == "uvloop":  # gthread waits five seconds more, and holds no thread meanwhile
            assert until_closed(silent, SOON) == b""


def test_who_does_not_read_is_cut_off(server: Server) -> None:
    if server.worker == "gthread":
        pytest.skip("it reads one request at a time, so over TCP that takes long; see the next test")
    with server.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(0.5)
        deadline = time.monotonic() + 3 * SOON  # it takes megabytes of answers until the kernel holds no more
        try:
            while True:
                assert time.monotonic() < deadline, "it still takes requests"
                with suppress(TimeoutError):
                    raw.sendall((GET + b"\r\n") * 100)
                    time.sleep(0.02)  # so that they are not too many at a time, which would end it too
        except (ConnectionResetError, BrokenPipeError):
            pass
    assert server.request("GET", "/healthz").status == 200


def test_stuck_answers_hold_no_thread_for_ever(database_url: str) -> None:
    program = [sys.executable, "-c", HURRIED]
    with serving("gthread", database_url, workers=1, unix=True, program=program) as server, ExitStack() as stack:
        for _ in range(16):
            raw = stack.enter_context(server.socket())
            raw.settimeout(0.3)
            with suppress(TimeoutError, BrokenPipeError):
                raw.sendall((GET + b"\r\n") * 20_000)
        connection = server.connect(SOON)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
        connection.close()


def test_who_leaves_a_closed_connection_open_holds_nobody_up(server: Server) -> None:
    with ExitStack() as stack:
        for _ in range(30):
            raw = stack.enter_context(server.socket())
            raw.sendall(GET + b"Connection: close\r\n\r\n")
        connection = server.connect(SOON)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
        connection.close()


def test_connections_are_bounded(server: Server) -> None:
    (pid,) = server.workers()
    with ExitStack() as stack:
        held = [stack.enter_context(server.socket()) for _ in range(45)]
        for raw in held:
            raw.sendall(GET)
        answers = [until_closed(raw, SOON) for raw in held]
    late = [answer for answer in answers if answer.startswith(b"HTTP/1.1 408 ")]
    surplus = [answer for answer in answers if b'{"error":"overloaded","requestId":' in answer]
    if server.worker == "uvloop":
        assert len(late) == 40
        assert len(surplus) == 5
        assert all(b"\r\nRetry-After: 1\r\n" in answer for answer in surplus)
    else:  # its surplus waits in the kernel's queue
        assert len(late) == 45
    assert server.request("GET", "/healthz").status == 200
    assert server.workers() == [pid]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the loopback has one address")
def test_one_address_leaves_places_for_others(server: Server) -> None:
    if server.worker != "uvloop":
        pytest.skip("gthread counts no addresses")
    host, _, port = server.address.rpartition(":")
    with ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection((host, int(port)), SOON, ("127.0.0.2", 0))) for _ in range(40)
        ]
        for raw in silent[10:]:
            assert b'{"error":"overloaded","requestId":' in until_closed(raw, SOON)
        others = [stack.enter_context(server.socket()) for _ in range(29)]
        for raw in others:
            raw.sendall(GET + b"Connection: close\r\n\r\n")
        assert [until_closed(raw, SOON)[:13] for raw in others] == [b"HTTP/1.1 200 "] * 29
