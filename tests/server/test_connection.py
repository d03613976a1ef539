"""The default worker's connection by itself, where the order of two events of one moment matters."""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from sepu import limits
from sepu.http.client_address import Network
from sepu.http.observer import RequestObserver
from sepu.http.replies import Reply
from sepu.http.responder import SEND
from sepu.server.connection import Connection

REQUEST = b"GET / HTTP/1.1\r\nHost: sepu\r\n\r\n"
ANSWER = Reply(200, body=b"{}")


class Owner:
    """A worker whose application answers when it is told to, or at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, at_once: bool = True) -> None:
        self.loop = loop
        self.observer = RequestObserver()
        self.connections: set[Connection] = set()
        self.addresses: Counter[str] = Counter()
        self.trusted_proxies: tuple[Network, ...] = ()
        self.buffer = memoryview(bytearray(16 * 1024))
        self.alive = True
        self.asked: list[Callable[[Reply, str], None]] = []
        self._at_once = at_once

    def served(self) -> None: ...

    def wsgi(self, environ: dict[str, Any], start_response: object) -> Iterable[bytes]:  # noqa: ARG002
        if self._at_once:
            environ[SEND](ANSWER, "the-request-id")
        else:
            self.asked.append(environ[SEND])
        return ()


class Stopping(Connection):
    """Is looked at by a stopping worker right after it was read."""

    def buffer_updated(self, nbytes: int) -> None:
        super().buffer_updated(nbytes)
        self.close_if_idle()


class LongIdle(Connection):
    """Is found overdue right after it was read."""

    def buffer_updated(self, nbytes: int) -> None:
        idle = self.deadline
        super().buffer_updated(nbytes)
        assert self.deadline > idle - limits.IDLE_SECONDS
        self.check(idle - 1)


@asynccontextmanager
async def asking(kind: type[Connection]) -> AsyncIterator[tuple[Owner, asyncio.StreamReader, asyncio.StreamWriter]]:
    """An application that answers when it is told to, and a connection to it."""
    loop = asyncio.get_running_loop()
    owner = Owner(loop, at_once=False)
    async with await loop.create_server(lambda: kind(owner), "127.0.0.1", 0) as server:
        yield owner, *await asyncio.open_connection(*server.sockets[0].getsockname())


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("kind", [Stopping, LongIdle])
@pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_a_connection_is_not_idle_once_its_request_comes(
    kind: type[Connection], parts: int, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def scene() -> bytes:
        async with asking(kind) as (owner, reader, writer):
            if parts == 2:
                writer.write(REQUEST[:9])
                await asyncio.sleep(0.1)
            writer.write(REQUEST[9:] if parts == 2 else REQUEST)
            while not owner.asked:
                await asyncio.sleep(0.01)
            owner.asked.pop()(ANSWER, "the-request-id")
            answer = await asyncio.wait_for(reader.read(100), 10)
            writer.close()
        return answer

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(scene()).startswith(b"HTTP/1.1 200 ")


def test_pipelined_requests_are_answered_one_at_a_time_and_bounded_in_memory() -> None:
    async def scene() -> None:
        async with asking(Connection) as (owner, reader, writer):
            many = 20_000
            writer.write(REQUEST * many)
            answered = 0
            while answered < many:
                while not owner.asked:
                    await asyncio.sleep(0)
                (send,) = owner.asked  # the next is not asked before this one is answered
                owner.asked.clear()
                (connection,) = owner.connections
                assert len(connection._requests) < 200
                assert len(connection._unparsed) <= 2 * len(owner.buffer)
                send(ANSWER, "the-request-id")
                answered += 1
                if answered % 1000 == 0:
                    while len(await asyncio.wait_for(reader.read(1 << 20), 10)) == 1 << 20:
                        pass
            writer.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scene())


def test_a_late_answer_to_a_lost_connection_goes_nowhere() -> None:
    async def scene() -> None:
        async with asking(Connection) as (owner, _, writer):
            writer.write(REQUEST)
            while not owner.asked:
                await asyncio.sleep(0.01)
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            async with asyncio.timeout(10):
                while owner.connections:
                    await asyncio.sleep(0.01)
            owner.asked.pop()(ANSWER, "the-request-id")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scene())
