"""Every call ends by its deadline, wherever and however the other side stalls, on each way to the service."""

import asyncio
import select
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.client.blocking import Open
from tests.client.hostile import WAYS, Peer, Step, dropping, listening
from tests.harness.processes import until

from sepu_client import AsyncClient, NoAnswerError, Request
from sepu_client.address import read_address
from sepu_client.asyncio_connection import AsyncioConnection

LATE = 10.0  # seconds; half of what an endless step takes


def dripping(first: bytes, drop: bytes) -> Step:
    def drip(peer: Peer) -> None:
        peer.send(first)
        peer.drip(drop)

    return drip


ANSWERS = {
    "headers": dripping(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
    "informational answers": dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "chunk extensions": dripping(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x"),
    "a body": dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b"x"),
    "a body without a length": dripping(b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
}
RECORD = dripping(b"\x16\x03\x03\x3f\xff", b"\x02")  # an endless handshake record
DRIPS: dict[Step, dict[str, Step]] = {
    Peer.connect: {"the answer to CONNECT": ANSWERS["headers"]},
    Peer.tls: {"a handshake": RECORD},
}


def cases() -> Iterator[tuple[str, str, list[Step]]]:
    for way, steps in WAYS.items():
        for number, step in enumerate(steps):
            yield way, f"silence in place of step {number}", [*steps[:number], Peer.silence]
            for name, drip in DRIPS.get(step, {}).items():
                yield way, name, [*steps[:number], drip]
        if way == "TLS proxy":
            yield way, "silence in the tunnel", [*steps, Peer.silence]
            yield way, "a handshake in the tunnel", [*steps, RECORD]
            continue
        yield way, "silence after the request", [*steps, Peer.silence]
        for name, drip in ANSWERS.items():
            yield way, name, [*steps, drip]


@pytest.mark.parametrize("has_poll", [True, False])
def test_a_call_ends_by_its_deadline_and_leaves_nothing_open(
    open_client: Open, monkeypatch: pytest.MonkeyPatch, has_poll: bool
) -> None:
    if not has_poll:  # as on Windows
        monkeypatch.delattr(select, "poll")

    def fault(case: tuple[str, str, list[Step]]) -> str | None:
        way, what, steps = case
        with listening(way, steps) as peer:
            with open_client(api_key="sepu_key", timeout=0.3, deadline=0.4, **peer.options) as client:
                started = time.monotonic()
                with pytest.raises(NoAnswerError):
                    client.search("hong")
                took = time.monotonic() - started
            try:
                until(lambda: not peer.open)
            except AssertionError:
                return f"{way}, {what}: left open"
        return f"{way}, {what}: {took:.1f} s" if took > LATE else None

    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(fault, cases()))
    assert [each for each in found if each] == []
    assert len(found) > 45


@pytest.mark.parametrize("resolver", ["silent", "many addresses"])
def test_a_name_takes_no_longer_than_the_deadline(
    open_client: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, resolver: str
) -> None:
    caplog.set_level("ERROR", "asyncio")  # other tests set another; of the client, only a retry is logged
    answered, asked = threading.Event(), list[threading.Thread]()
    found = socket.getaddrinfo

    def resolve(_: str, *given: Any, **options: Any) -> list[Any]:
        asked.append(threading.current_thread())
        if resolver == "silent":
            answered.wait(2 * LATE)
        return found("127.0.0.1", *given, **options) * 50

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with (
        dropping() as port,
        open_client(f"http://service.example:{port}", "sepu_key", timeout=0.4, deadline=0.6) as client,
    ):
        started = time.monotonic()
        with pytest.raises(NoAnswerError):
            client.search("hong")
        took = time.monotonic() - started
        answered.set()
        for thread in asked:
            thread.join()
    assert took < LATE
    assert all(thread.daemon for thread in asked), "the process may exit before they end"
    assert caplog.messages == [], "the late answer is of no use to the event loop"


def test_a_function_that_hangs_takes_no_longer_than_the_deadline() -> None:
    """Of an AsyncClient: nothing can end a synchronous one."""
    hang: Any = lambda *_: asyncio.Event().wait()  # noqa: E731

    async def call() -> None:
        async with asyncio.timeout(LATE), AsyncClient("http://a", "sepu_key", deadline=0.2, send=hang) as client:
            await client.library()

    with pytest.raises(NoAnswerError):
        asyncio.run(call())


@pytest.mark.parametrize(("first", "second"), [(1, 1.4), (2 * LATE, 0.2)])
def test_the_exchanges_of_a_connection_end_by_their_own_time(first: float, second: float) -> None:
    """On an event loop they share a timer, which is set for the first of them."""
    answer = b"HTTP/1.1 204 No Content\r\n\r\n"

    async def exchange(url: str) -> float:
        route = read_address(url)
        request = Request("GET", url, {}, b"", 1)
        connection = await AsyncioConnection.open(route, time.monotonic() + first)
        assert (await connection.exchange(request, time.monotonic() + first))[1]
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            await connection.exchange(request, started + second)
        connection.close()
        return time.monotonic() - started

    with listening("plain", [Peer.request, lambda peer: peer.send(answer), Peer.request, Peer.silence]) as peer:
        took = asyncio.run(exchange(peer.url))
    assert second <= took < LATE
