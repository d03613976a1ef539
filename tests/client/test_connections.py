"""Connections when calls are cancelled, the client is closed, or TLS fails."""

import asyncio
import gc
import gzip
import itertools
import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.client.blocking import AWAITED, Open, sending
from tests.client.hostile import (
    ANSWER,
    ANSWERED,
    HEAD,
    REQUEST_ID,
    WAYS,
    Peer,
    Step,
    answering_each,
    can_vanish,
    certificate,
    dropping,
    listening,
    pausing,
    saying,
)
from tests.harness.processes import completed, running, until

from sepu_client import (
    Answer,
    AsyncClient,
    Client,
    Error,
    InvalidAnswerError,
    NoAnswerError,
    Request,
    async_client,
    connections,
)
from sepu_client.base_client import BaseClient
from sepu_client.messages import MAX_BODY
from sepu_client.retries import checked_seconds, without_our_frames

SECRET = "sepu_account_thesecret"


linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the socket options")
vanishing = pytest.mark.skipif(not can_vanish(), reason="this system gives a socket filter to root alone, or to nobody")


@dataclass
class Service:
    """Answers on the test's own event loop, so that the order of steps is deterministic."""

    url: str
    open: set[asyncio.StreamWriter] = field(default_factory=set)
    connections: int = 0


@asynccontextmanager
async def service(keep: bool = True) -> AsyncIterator[Service]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.open.add(writer)
        found.connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(HEAD + ANSWER)
                await writer.drain()
                if not keep:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            found.open.discard(writer)
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    found = Service("http://{}:{}".format(*server.sockets[0].getsockname()))
    try:
        yield found
    finally:
        server.close()
        for writer in list(found.open):
            writer.close()
        while found.open:
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("times", "keep"), [(1, True), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((1, False), (2, True)))]
)
def test_no_connection_is_lost_wherever_a_call_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, times: int, keep: bool
) -> None:
    monkeypatch.setattr(async_client, "CONNECTIONS", 2)

    async def cancel() -> int:
        cancelled = 0
        async with service(keep) as at, AsyncClient(at.url, SECRET, timeout=10, deadline=10) as client:
            for step in range(70):
                calls = [asyncio.create_task(client.library()) for _ in range(3)]
                for _ in range(step):
                    await asyncio.sleep(0)
                for _ in range(times):
                    for call in calls:
                        call.cancel()
                    await asyncio.sleep(0)
                await asyncio.wait(calls)
                cancelled += sum(call.cancelled() for call in calls)
                for answer in await asyncio.gather(client.library(), client.library()):
                    assert answer.record_count == 161
                assert len(at.open) <= 2 + 3, "those cancelled are being closed"
        return cancelled

    assert asyncio.run(cancel()) > 15


def test_a_connection_that_is_long_idle_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def burst_and_calm() -> tuple[int, int, int]:
        async with service() as at, AsyncClient(at.url, SECRET) as client:
            await asyncio.gather(*(client.library() for _ in range(20)))
            after_burst = len(at.open)
            monkeypatch.setattr(connections, "IDLE_SECONDS", -1.0)
            await client.library()
            while len(at.open) > 1:
                await asyncio.sleep(0.01)
            monkeypatch.undo()
            await client.library()
            return after_burst, len(at.open), at.connections

    assert asyncio.run(burst_and_calm()) == (20, 1, 22)


async def cancelled(url: str) -> BaseException:
    async with AsyncClient(url, SECRET) as client:
        call = asyncio.create_task(client.library())
        await asyncio.sleep(0.2)
        call.cancel()
        try:
            await call
        except asyncio.CancelledError as ended:
            return ended
    raise AssertionError


INTERRUPTED = """
import signal, sys, traceback
from sepu_client import Client

def stop(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, stop)
with Client(sys.argv[1], sys.argv[2], timeout=30, deadline=30) as client:  # there is one attempt
    try:
        client.library()
    except KeyboardInterrupt as ended:
        assert ended.__context__ is None
        print(*traceback.TracebackException.from_exception(ended, capture_locals=True).format())
        client.library()
"""


def test_ctrl_c_ends_a_call_and_does_not_show_the_key() -> None:
    """Even with our frames' variables. The client stays usable."""
    process: list[subprocess.Popen[str]] = []
    closed = threading.Event()

    def interrupt(peer: Peer) -> None:
        process[0].send_signal(signal.SIGINT)
        peer.silence()
        closed.set()

    answers = iter([interrupt, ANSWERED])
    with listening("plain", [Peer.request, lambda peer: next(answers)(peer)]) as peer:
        own = [sys.executable, "-c", INTERRUPTED, peer.url, SECRET]
        with running(own, stdout=subprocess.PIPE, text=True) as started:
            process.append(started)
            told, _ = started.communicate(timeout=60)
            assert started.returncode == 0
        assert closed.wait(60)
    assert "in library" in told
    assert "in stop" in told
    assert "call = Call(" in told
    assert 'socket_connection.py", line' not in told
    assert SECRET.removeprefix("sepu_account_") not in told.replace(repr(own[3:]), "")


def no_trace() -> dict[str, str]:
    """The caller's function for headers, which fails."""
    raise LookupError("no trace")


def test_a_failing_function_for_headers_shows_no_key(open_client: Open) -> None:
    """With each frame's variables. The function's own frame is there."""
    with (
        open_client("http://127.0.0.1:9", SECRET, headers=no_trace) as client,
        pytest.raises(LookupError) as raised,
    ):
        client.search("hong")
    whole = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    assert "in no_trace" in "".join(whole.format())
    assert any("sepu_client" in frame.filename for frame in whole.stack)
    assert "thesecret" not in "".join(whole.format())


@pytest.mark.parametrize(
    "wrong",
    [
        {"api_key": f"{SECRET}\n"},
        {"api_key": None},
        {"base_url": "ftp://a"},
        {"timeout": 0},
        {"timeout": None},
        {"deadline": "60"},
        {"headers": {"Host": "a"}},
        {"proxy": "http://user:thesecret@a b"},
        {"proxy": "socks5://user:thesecret@a"},
        {"proxy": "http://user:thesecret@[a"},
        {"https_proxy": "user:thesecret@a/b"},
    ],
)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_refused_setting_shows_no_secret(kind: Any, wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variables of each of our frames."""
    for name in wrong.keys() & {"https_proxy"}:
        monkeypatch.setenv(name, wrong[name])
    with pytest.raises(ValueError, match=" ") as raised:
        kind(**{"base_url": "https://a", "api_key": SECRET, **{k: wrong[k] for k in wrong if k != "https_proxy"}})
    assert raised.value.__context__ is None
    own = raised.value.__traceback__
    assert own
    whole = traceback.TracebackException(type(raised.value), raised.value, own.tb_next, capture_locals=True)
    assert "sepu_client" in whole.stack[0].filename
    assert "thesecret" not in "".join(whole.format())


@pytest.mark.parametrize("way", ["plain", "proxy", "CONNECT"])
def test_no_variable_of_our_frames_shows_the_key(open_client: Open, way: str) -> None:
    """Nor the proxy's password, in no line of a call, whatever code a signal runs there."""
    shown, lines = list[str](), 0

    def look(frame: FrameType, _: str, __: Any) -> Any:
        nonlocal lines
        if "/sepu_client/" not in frame.f_code.co_filename:
            return None
        lines += 1
        if frame.f_code is BaseClient.__init__.__code__ and "authorization" not in frame.f_locals:
            return look  # these are still the caller's arguments
        shown.extend(
            f"{frame.f_code.co_name}, line {frame.f_lineno}: {name}"
            for name, value in list(frame.f_locals.items())
            if any(secret in repr(value) for secret in ("thesecret", "dXNlcjp0aGVwYXNz"))
        )
        return look

    with listening(way, [*WAYS[way], ANSWERED, Peer.request, ANSWERED]) as peer:
        if "proxy" in peer.options:
            peer.options["proxy"] = peer.options["proxy"].replace("//", "//user:thepassword@")
        before = sys.gettrace()
        sys.settrace(look)
        try:
            with open_client(api_key=SECRET, **peer.options) as client:
                for _ in range(2):
                    assert client.library().record_count == 161
        finally:
            sys.settrace(before)
    assert lines > 200
    assert shown == []


def test_a_cancellation_does_not_show_the_key() -> None:
    """Even with each frame's variables, as crash reporters record them; our connection's frame is left out."""
    with listening("plain", [Peer.silence]) as peer:
        ended = asyncio.run(cancelled(peer.url))
    assert ended.__context__ is None
    whole = traceback.TracebackException.from_exception(ended, capture_locals=True)
    assert any("sepu_client" in frame.filename for frame in whole.stack)
    assert not any("asyncio_connection" in frame.filename for frame in whole.stack)
    assert SECRET not in "".join(whole.format())


def test_a_call_whose_client_is_closed_tells_its_idempotency_key(kind: str) -> None:
    async def close(url: str) -> Sequence[Any]:
        client = AWAITED[kind](url, SECRET, timeout=0.5, deadline=60)
        call = asyncio.create_task(client.search("hong", idempotency_key="the-one-key"))
        await asyncio.sleep(0.2)
        await client.aclose()
        ends = asyncio.gather(call, client.search("hong", idempotency_key="another-key"), return_exceptions=True)
        return await asyncio.wait_for(ends, 30)

    with listening("plain", [Peer.silence]) as peer:
        ends = asyncio.run(close(peer.url))
    assert [str(end) for end in ends] == ["no answer (the client is closed)"] * 2
    told = [(end.idempotency_key, end.may_be_charged, end.retryable) for end in ends]
    assert told == [("the-one-key", True, False), ("another-key", False, False)]


def test_waiting_for_a_turn_is_not_part_of_an_attempt(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An AsyncClient sends a limited number of calls at a time. The others wait, in their order, until the deadline."""
    monkeypatch.setattr(async_client, "CONNECTIONS", 1)
    sent: list[tuple[str, float]] = []

    async def send(request: Request, _: object) -> Answer:
        sent.append((request.headers["Idempotency-Key"], request.timeout))
        return Answer(200, {}, b'{"datasetVersion":"1","count":0,"results":[]}')

    async def wait() -> None:
        keys = [f"the-key-{number}" for number in range(9)]
        async with AsyncClient("http://localhost", SECRET, send=send, timeout=0.01) as client:
            await client._turns().acquire()
            calls = [asyncio.create_task(client.search("hong", idempotency_key=key)) for key in keys]
            await asyncio.sleep(0.3)
            client._turns().release()
            for call in calls:
                assert (await call).count == 0
        assert sent == [(key, 0.01) for key in keys]
        async with AsyncClient("http://localhost", SECRET, send=send, timeout=3600, deadline=0.2) as client:
            await client._turns().acquire()
            with pytest.raises(
                NoAnswerError, match="1 connections of the client were busy until the deadline"
            ) as raised:
                await asyncio.wait_for(client.search("hong"), 60)
        assert not raised.value.may_be_charged
        assert len(sent) == len(keys)

    with caplog.at_level("INFO", "sepu_client"):
        asyncio.run(wait())
    assert caplog.messages == [], "no call gave up its turn"


def test_an_attempt_that_is_under_way_goes_on_when_the_client_is_closed() -> None:
    async def close() -> int:
        async with service() as at:
            client = AsyncClient(at.url, SECRET)
            call = asyncio.create_task(client.library())
            while not at.open:
                await asyncio.sleep(0)
            await client.aclose()
            assert (await call).record_count == 161
            while at.open:
                await asyncio.sleep(0)
        return True

    assert asyncio.run(asyncio.wait_for(close(), 60))


@pytest.mark.parametrize(
    ("way", "steps", "reason"),
    [
        ("TLS", [Peer.tls, Peer.request, ANSWERED], "CERTIFICATE_VERIFY"),
        ("plain", [Peer.some, saying(b"HTTP/1.1 400 Bad Request\r\n\r\n")], "WRONG_VERSION"),
    ],
)
def test_impossible_tls_ends_a_call_immediately(open_client: Open, way: str, steps: list[Step], reason: str) -> None:
    with (
        listening(way, steps) as peer,
        open_client(peer.url.replace("http:", "https:"), SECRET, deadline=10) as client,
        pytest.raises(NoAnswerError, match=reason) as raised,
    ):
        client.search("hong", idempotency_key="the-one-key")
    assert (raised.value.idempotency_key, raised.value.retryable) == ("the-one-key", False)


def test_tls_that_is_broken_off_is_tried_again(open_client: Open) -> None:
    """As when a service restarts."""
    with (
        listening("TLS", []) as peer,
        open_client(api_key=SECRET, deadline=1, **peer.options) as client,
        pytest.raises(NoAnswerError) as raised,
    ):
        client.library()
    assert raised.value.retryable
    assert peer.connections > 1


def test_a_certificate_of_ones_own(open_client: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening("TLS", [Peer.tls, Peer.request, ANSWERED]) as peer:
        with open_client(api_key=SECRET, **peer.options) as client:
            assert client.library().record_count == 161
        (tmp_path / "own.pem").write_text(certificate().pem)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
        with open_client(peer.url, SECRET) as client:
            assert client.library().record_count == 161


def tell_the_connection(peer: Peer) -> None:
    """Answers each request with the port of its connection as the mode."""
    port = peer.socket.getpeername()[1]
    while True:
        peer.request()
        peer.send(HEAD + ANSWER.replace(b"commercial", b"%010d" % port))


@pytest.mark.parametrize("when", ["between", "during"])
def test_a_forked_process_takes_no_connection_of_its_parent(when: str) -> None:
    """It would read its parent's answers. A signal handler can fork in the middle of a call."""
    reader, writer = os.pipe()
    children: list[int] = []
    first: list[bytes] = []

    def fork(*_: object) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # it warns of threads
            children.append(os.fork())
        if children[0] and when == "during":
            select.select([reader], [], [], 60)  # otherwise the parent could read the answer first

    def fork_and_answer(peer: Peer) -> None:
        if when == "during" and not first:
            first.append(b"%010d" % peer.socket.getpeername()[1])
            peer.request()
            signal.raise_signal(signal.SIGUSR1)
            time.sleep(0.2)
            peer.send(HEAD + ANSWER.replace(b"commercial", first[0]))
        tell_the_connection(peer)

    def asked(client: Client) -> str:
        try:
            return client.library().mode
        except NoAnswerError:  # which the forked process must raise
            return "lost"

    before = signal.signal(signal.SIGUSR1, fork)
    try:
        with listening("plain", [fork_and_answer]) as peer, Client(peer.url, SECRET, timeout=1, deadline=10) as client:
            mode = asked(client)
            if when == "between":
                first.append(mode.encode())
                fork()
                mode = asked(client)
            if children == [0]:
                os.write(writer, mode.encode())
                os._exit(0)
            os.close(writer)
            forked = os.read(reader, 100)
            assert forked.isdigit()
            assert forked != first[0]
            assert forked.decode() != mode
    finally:
        if children == [0]:
            os._exit(1)  # otherwise it would run the other tests too
        signal.signal(signal.SIGUSR1, before)
        os.waitpid(children[0], 0)
        os.close(reader)


def test_threads_do_not_wait_for_one_another() -> None:
    threads = 120
    all_here = threading.Barrier(threads)
    with (
        listening("plain", [Peer.request, lambda _: all_here.wait(60), ANSWERED]) as peer,
        Client(peer.url, SECRET, timeout=60) as client,
        ThreadPoolExecutor(threads) as pool,
    ):
        answers = list(pool.map(lambda _: client.library(), range(threads)))
    assert [answer.record_count for answer in answers] == [161] * threads


def test_a_cancellation_stays_known_to_its_maker() -> None:
    """anyio finds its scope's cancellation by the message, along the context chain."""
    with pytest.raises(ValueError, match="timeout") as earlier:
        checked_seconds("timeout", 0)
    later = asyncio.CancelledError()
    later.__context__ = earlier.value
    assert without_our_frames(later).__context__ is earlier.value
    assert earlier.value.__traceback__ is None, "its frames may have the key too"


@pytest.mark.parametrize("status", [200, 302, 400, 500])
def test_an_echo_of_the_request_shows_no_key(open_client: Open, kind: str, status: int) -> None:
    def echo(request: Request, _: object) -> Answer:
        secret = request.headers["Authorization"]
        headers = {"X-Echo": secret, "X-Request-Id": secret, "X-Error-Pointer": f"/{secret}"}
        return Answer(status, headers, f'{{"error":"{secret}"}}'.encode())

    options: Any = {"send": sending(kind, echo), "deadline": 0.1}
    with open_client("http://localhost", SECRET, **options) as client, pytest.raises(Error) as raised:
        client.search("hong")
    own = raised.value.__traceback__
    assert own is not None
    whole = traceback.TracebackException(type(raised.value), raised.value, own.tb_next, capture_locals=True)
    assert "outcome" in "".join(whole.format())
    assert "thesecret" not in "".join(whole.format())


@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip", "br", "identity, deflate"])
def test_a_compressed_answer_is_not_even_read(open_client: Open, coding: str) -> None:
    """It may expand to any length. An error with such a body is retried by its status alone."""
    named = f"X-Request-Id: {REQUEST_ID}\r\nContent-Encoding: {coding}\r\n\r\n"
    answers = iter([f"HTTP/1.1 {status} Any\r\n{named}".encode() for status in (503, 200)])
    with (
        listening("plain", [Peer.request, lambda peer: peer.send(next(answers) + gzip.compress(ANSWER))]) as peer,
        open_client(api_key=SECRET, **peer.options) as client,
        pytest.raises(InvalidAnswerError, match="^200: the body has a content coding"),
    ):
        client.library()
    assert peer.connections == 2


def test_a_call_on_a_kept_connection_that_breaks_may_be_charged_though_the_server_is_gone(open_client: Open) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        opened, _ = listener.accept()
        with opened:
            peer = Peer(opened, threading.Event())
            peer.request()
            ANSWERED(peer)
            listener.close()
            peer.request()

    serving = threading.Thread(target=serve)
    serving.start()
    with open_client(f"http://127.0.0.1:{listener.getsockname()[1]}", SECRET, deadline=0.3) as client:
        client.library()
        with pytest.raises(NoAnswerError) as raised:
            client.search("red")
    serving.join()
    assert raised.value.may_be_charged


def test_a_body_without_an_end_is_not_read_to_its_end(open_client: Open) -> None:
    all_was_read = threading.Event()

    def flood(peer: Peer) -> None:
        peer.flood(b" " * 65536)
        all_was_read.set()

    with (
        listening("plain", [Peer.request, saying(b"HTTP/1.1 200 OK\r\n\r\n"), flood]) as peer,
        open_client(peer.url, SECRET) as client,
        pytest.raises(InvalidAnswerError, match=f"more than {MAX_BODY} bytes"),
    ):
        client.library()
    assert not all_was_read.is_set()


def test_a_request_that_is_sent_in_parts_arrives(open_client: Open) -> None:
    options: Any = {"headers": {"long": 2**22 * "a"}, "deadline": 9}
    with listening("plain", [Peer.whole, ANSWERED]) as peer, open_client(peer.url, SECRET, **options) as client:
        assert client.library().record_count == 161


def test_a_flood_between_two_calls_is_not_kept() -> None:
    is_idle, flooded = threading.Event(), threading.Event()

    async def call(url: str) -> None:
        async with AsyncClient(url, SECRET) as client:
            await client.library()
            is_idle.set()
            await asyncio.to_thread(until, lambda: not peer.open)

    steps: list[Step] = [lambda _: is_idle.wait(60), lambda peer: peer.flood(bytes(2**20)), lambda _: flooded.set()]
    with listening("plain", [Peer.request, ANSWERED, *steps]) as peer:
        asyncio.run(call(peer.url))
    assert not flooded.is_set()


# asyncio warns about transports of closed loops; their sockets are closed.
@pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning")
def test_a_connection_stays_with_its_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call() -> int:
        return (await client.library()).record_count

    async def close() -> None:
        await client.aclose()

    with listening("plain", [Peer.request, ANSWERED, Peer.request, ANSWERED]) as peer:
        client = AsyncClient(peer.url, SECRET)
        with asyncio.Runner() as paused:
            assert paused.run(call()) == 161
            assert asyncio.run(call()) == 161  # the other loop still has a connection
            assert paused.run(call()) == 161
            monkeypatch.setattr(connections, "forks", connections.forks + 1)
            kept = client._connections._idle[-1][1]._socket
            client._connections.drop()
            assert kept.fileno() == -1, "without the loop, which is the parent's after a fork"
        assert asyncio.run(call()) == 161
        asyncio.run(close())
        assert peer.connections == 4
        until(lambda: not peer.open)
        gc.collect()


AT_EXIT = """
import asyncio, atexit, sys, threading
from concurrent.futures import ThreadPoolExecutor
from sepu_client import AsyncClient, Client

def opened(kind):
    return kind(sys.argv[1].replace("127.0.0.1", "localhost"), "sepu_key", deadline=5)

async def call_async():
    async with opened(AsyncClient) as client:
        print((await client.library()).record_count)

def calls(*kept):
    for client in (*kept, opened(Client)):
        print(client.library().record_count)
    asyncio.run(call_async())

def outlive():
    ended.wait(20)
    calls()

ended = threading.Event()
threading._register_atexit(ended.set)  # at the end of the main thread
kept = opened(Client)
print(kept.library().record_count)
atexit.register(calls, kept)
ThreadPoolExecutor(1).submit(outlive).add_done_callback(lambda job: job.result())
"""


def test_calls_at_the_exit_of_the_interpreter_are_answered() -> None:
    """Also in threads that outlive the main thread. From CPython 3.12 no thread can be started to resolve a name."""
    with listening("plain", [answering_each]) as peer:
        done = completed([sys.executable, "-c", AT_EXIT, peer.url], timeout=30)
    assert (done.returncode, done.stderr, done.stdout.split()) == (0, "", ["161"] * 6)


KEPT = 4


def call_with_dead_connections(kind: str, timeout: float) -> None:
    """Calls once while all kept connections are dead without a sign of it."""
    numbers, all_here = itertools.count(), threading.Barrier(KEPT)

    def answer(peer: Peer) -> None:
        if next(numbers) >= KEPT:
            answering_each(peer)
        peer.request()
        all_here.wait(20)
        peer.vanish()
        peer.send(HEAD + ANSWER)
        peer.silence()

    async def call(url: str) -> None:
        async with aclosing(AWAITED[kind](url, SECRET, timeout=20)) as client:
            await asyncio.gather(*(client.library() for _ in range(KEPT)))
            getattr(client, "client", client)._timeout = timeout
            await client.library()

    with listening("plain", [answer]) as peer:
        asyncio.run(call(peer.url))


@vanishing
def test_after_one_silent_connection_those_of_its_age_are_not_tried(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "sepu_client"):
        call_with_dead_connections(kind, 0.5)
    assert 1 <= len(caplog.records) < KEPT


def with_tcp(monkeypatch: pytest.MonkeyPatch, **values: int) -> None:
    """Shortens times of TCP."""
    numbers = {getattr(socket, name): value for name, value in values.items()}
    options = [(level, name, numbers.get(name, value)) for level, name, value in connections._TCP_OPTIONS]
    monkeypatch.setattr(connections, "_TCP_OPTIONS", options)


@vanishing
def test_a_silent_connection_is_replaced_before_the_timeout(
    kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with_tcp(monkeypatch, TCP_USER_TIMEOUT=200)
    with caplog.at_level("INFO", "sepu_client"):
        call_with_dead_connections(kind, 20)
    assert len(caplog.records) == 0


@vanishing
def test_an_idle_connection_that_dies_silently_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with_tcp(monkeypatch, TCP_KEEPIDLE=1, TCP_KEEPINTVL=1, TCP_USER_TIMEOUT=200)
    with (
        listening("plain", [Peer.request, ANSWERED, pausing(0.2), Peer.vanish, Peer.silence]) as peer,
        Client(peer.url, SECRET) as client,
    ):
        client.library()
        ((_, idle),) = client._connections._idle
        assert idle.is_usable()
        until(lambda: not idle.is_usable())


V4, V6 = socket.AF_INET, socket.AF_INET6


@linux
def test_an_attempt_outlives_a_silent_connection() -> None:
    with connections.new_socket(V4) as made, Client("http://a", SECRET) as client:
        options = (socket.TCP_USER_TIMEOUT, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL)
        milliseconds, idle, again = (made.getsockopt(socket.IPPROTO_TCP, option) for option in options)
    assert milliseconds / 1000 <= client._timeout / 2
    assert idle + again < connections.IDLE_SECONDS


def test_the_families_of_addresses_take_turns() -> None:
    addresses: list[connections.Address] = [(V6, 1), (V6, 2), (V6, 3), (V4, 4)]
    assert [address for _, address in connections.interleave(addresses)] == [1, 4, 2, 3]


@linux
@pytest.mark.parametrize(("before", "after"), [(1, 0), (3, 2), (0, 0)])
def test_a_silent_address_does_not_delay_a_connection(
    open_client: Open, monkeypatch: pytest.MonkeyPatch, before: int, after: int
) -> None:
    """Each address has a head start of a quarter of a second (RFC 8305). What was begun in vain is closed."""
    with dropping() as silent, listening("plain", [answering_each]) as peer, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # refuses
        ports = [silent] * before + [closed.getsockname()[1], int(peer.url.rpartition(":")[2])] + [silent] * after
        resolved = [(V4, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved)
        open_before = {*Path("/proc/self/fd").iterdir()}
        with open_client(
            "http://service.example", SECRET, timeout=10 * before + 10, deadline=10 * before + 10
        ) as client:
            started = time.monotonic()
            assert client.library().record_count == 161
            took = time.monotonic() - started
        assert 0.25 * before <= took < 0.25 * before + 5
        until(lambda: len({*Path("/proc/self/fd").iterdir()} - open_before) <= 12)


def test_the_last_failure_of_several_addresses_is_told(
    open_client: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "sepu_client")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        resolved = [(V4, socket.SOCK_STREAM, 6, "", closed.getsockname())] * 5
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved)
        with open_client("http://service.example", SECRET, deadline=1) as client, pytest.raises(NoAnswerError):
            client.library()
    assert "ConnectionRefusedError" in caplog.messages[0]  # the deadline may cut the last attempt


@linux
def test_a_unix_socket_with_a_full_queue_is_tried_again(open_client: Open, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(path)
        listener.listen(0)
        first.connect(path)
        with open_client(f"unix:{path}", SECRET, deadline=1) as client, pytest.raises(NoAnswerError) as raised:
            client.search("hong")
    assert str(raised.value) == "no answer (BlockingIOError: [Errno 11] Resource temporarily unavailable)"
    assert not raised.value.may_be_charged


@pytest.mark.parametrize("way", ["TLS", "CONNECT", "TLS proxy"])
def test_the_other_side_is_told_why_tls_is_refused(open_client: Open, way: str) -> None:
    """By an alert (RFC 8446, 6.2). Otherwise the service's operator sees only that the connection ended."""
    told: list[str] = []

    def note(peer: Peer) -> None:
        try:
            peer.tls()
        except ssl.SSLError as error:
            told.append(str(error))

    steps = [note if step is Peer.tls else step for step in WAYS[way]]
    with listening(way, steps[: steps.index(note) + 1]) as peer:
        options = peer.options | {"ssl_context": ssl.create_default_context()}
        with open_client(api_key=SECRET, deadline=5, **options) as client, pytest.raises(NoAnswerError):
            client.library()
        until(lambda: told)
    assert "ALERT_UNKNOWN_CA" in told[0]
