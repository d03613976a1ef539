"""Clients that keep a worker waiting, and too many clients: each wait ends, each number is bounded."""

import logging
import re
import socket
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from math import inf
from unittest.mock import Mock

import pytest
from gunicorn.workers.gthread import ThreadWorker
from tests.harness.processes import until
from tests.harness.serving import Server, serving, until_closed, with_limits

from sepu import limits
from sepu.admin.keys import IssuedKey
from sepu.server.gthread import GthreadWorker

HURRIED = with_limits(
    requests={"REQUEST_SECONDS": 1.5, "ANSWER_SECONDS": 1.5, "LINGER_SECONDS": 0.5},
    connections={"OF_A_WORKER": 40, "OF_AN_ADDRESS": 10},
)
SOON = 15  # seconds; a busy machine may take this long for what is due in two
GET = b"GET /healthz HTTP/1.1\r\nHost: sepu\r\n"
POST = b"POST /v1/match HTTP/1.1\r\nHost: sepu\r\nContent-Type: application/json\r\nIdempotency-Key: deadline-1\r\n"


@pytest.fixture(scope="module", params=["uvloop", pytest.param("gthread", marks=pytest.mark.slow)])
def server(request: pytest.FixtureRequest, database_url: str) -> Iterator[Server]:
    options = "--idle-seconds", "2"
    with serving(request.param, database_url, workers=1, program=HURRIED, options=options) as running:
        yield running


def stall(server: Server, start: bytes) -> bytes:
    """Sends the start, and nothing more."""
    with server.socket() as raw:
        raw.sendall(start)
        return until_closed(raw, SOON)


def drip(server: Server, start: bytes, rest: bytes) -> bytes:
    """Sends the start, then a byte every tenth of a second until the server closes."""
    with server.socket() as raw:
        raw.sendall(start)
        deadline = time.monotonic() + SOON
        raw.settimeout(0.1)
        for number in range(len(rest)):
            try:
                raw.sendall(rest[number : number + 1])
                if part := raw.recv(65536):
                    return part + until_closed(raw, SOON)
            except TimeoutError:
                assert time.monotonic() < deadline, "it may drip for ever"
        pytest.fail("there was not enough to drip")


def test_a_request_that_does_not_end_is_refused(server: Server, issued: IssuedKey) -> None:
    bearer = b"Authorization: Bearer %b\r\n" % issued.api_key.encode()
    with ThreadPoolExecutor() as threads:
        asked = [threads.submit(stall, server, GET), threads.submit(drip, server, GET + b"X: ", b"x" * 1000)]
        for framing, body in (
            (b"Content-Length: 1000", b" " * 999),
            (b"Transfer-Encoding: chunked", b"1\r\n \r\n" * 200),
        ):
            head = POST + bearer + framing + b"\r\n\r\n"
            asked += [threads.submit(stall, server, head + body[:60]), threads.submit(drip, server, head, body)]
    for answer in (each.result() for each in asked):
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'{"error":"request_timeout","requestId":' in answer
    assert "Traceback" not in server.log.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("server", ["gthread"], indirect=True)
def test_the_second_request_has_a_time_of_its_own(server: Server) -> None:
    with server.socket() as raw:
        for _ in range(3):
            time.sleep(0.8)
            raw.sendall(GET + b"\r\n")
            answer = b""
            while not answer.endswith(b'{"status":"ok"}'):  # gthread sends it in two parts
                answer += raw.recv(65536)
        raw.sendall(GET)
        assert until_closed(raw, SOON).startswith(b"HTTP/1.1 408 ")


def test_a_late_client_of_gthread_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ThreadWorker, "handle", lambda worker, _: [worker.murder_pending()])  # true: it stays open
    monkeypatch.setattr(limits.requests, "REQUEST_SECONDS", -1.0)
    worker = GthreadWorker.__new__(GthreadWorker)  # a real one would need a server of its own
    app = Mock(**{"observers.replied": lambda *_: worker._deadlines.update({Mock(): inf})})  # a thread begins to serve
    for unread in (b"", bytes(1 << 20)):  # the second client reads nothing, and waiting for it would stop the worker
        silent, (ours, theirs) = Mock(timeout=0.0), socket.socketpair()
        vars(worker).update(app=app, pending_conns=deque([silent]), poller=Mock(), nr_conns=1, _deadlines={})
        with ours, theirs:
            if unread:
                ours.send(unread, socket.MSG_DONTWAIT)
            assert worker.handle(Mock(sock=ours))
            silent.close.assert_called_once()
            assert unread or until_closed(theirs, SOON).startswith(b"HTTP/1.1 408 ")
            with pytest.raises(BrokenPipeError):
                ours.send(b"x", socket.MSG_DONTWAIT)


def test_an_error_in_gthread_is_logged_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    worker = GthreadWorker.__new__(GthreadWorker)
    vars(worker).update(app=Mock(), log=logging.getLogger())
    ours, theirs = socket.socketpair()
    with ours, theirs:
        worker.handle_error(None, ours, None, ValueError("telltale"))
        assert theirs.recv(4096).startswith(b"HTTP/1.1 500 ")
    assert caplog.text.endswith("Error handling a request: ValueError\n")


def test_idle_connections_are_closed(server: Server) -> None:
    with server.socket() as silent, server.socket() as kept:
        kept.sendall(GET + b"\r\n")
        assert b'{"status":"ok"}' in until_closed(kept, SOON)
        if server.worker == "uvloop":  # gthread waits five seconds longer, without holding a thread
            assert until_closed(silent, SOON) == b""


@pytest.mark.slow
def test_stuck_answers_hold_no_thread_for_ever(database_url: str) -> None:
    with serving("gthread", database_url, workers=1, unix=True, program=HURRIED) as server, ExitStack() as stack:
        for _ in range(16):
            raw = stack.enter_context(server.socket())
            raw.settimeout(0.3)
            with suppress(TimeoutError, BrokenPipeError):
                raw.sendall((GET + b"\r\n") * 20_000)
        assert stall(server, GET + b"Connection: close\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_a_client_that_ignores_a_close_delays_nobody(server: Server) -> None:
    with ExitStack() as stack:
        for _ in range(30):
            raw = stack.enter_context(server.socket())
            raw.sendall(GET + b"Connection: close\r\n\r\n")
        assert stall(server, GET + b"Connection: close\r\n\r\n").startswith(b"HTTP/1.1 200 ")


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


def test_no_connection_is_refused_while_a_worker_has_a_place(database_url: str) -> None:
    with serving("uvloop", database_url, workers=2, program=HURRIED) as server:

        def answers(number: int) -> list[bytes]:
            with ExitStack() as stack:
                found = []
                for _ in range(number):
                    raw = stack.enter_context(server.socket())
                    raw.sendall(GET + b"\r\n")
                    found.append(raw.recv(65536)[:13])
                return found

        def both_accept() -> bool:  # neither is more than two connections ahead of the other
            answers(8)
            return len(set(re.findall(r'"event":"request","pid":(\d+)', server.log.read_text()))) == 2

        until(both_accept)
        assert answers(76) == [b"HTTP/1.1 200 "] * 76
