"""Counts what a service asks of Postgres, on the wire between them."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.faults.proxy import SOCKET, socket_directory

_STATEMENTS = {ord("Q"), ord("E")}  # a simple query; the execution of a parsed one


@dataclass
class Wire:
    """What has passed so far; a socket in `directory` leads to Postgres."""

    directory: Path
    statements: int = 0
    round_trips: int = 0  # how often the service spoke and then had to wait

    @property
    def done(self) -> tuple[int, int]:
        return self.statements, self.round_trips


class _Link:
    """One connection, in the messages of its client: a type byte, then a length that counts itself."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._unread = b""
        self._begun = False  # the first message has no type
        self._waits = False  # for an answer

    def asked(self, data: bytes) -> None:
        self._wire.round_trips += self._begun and not self._waits
        self._waits = True
        self._unread += data
        if not self._begun and len(self._unread) >= 4:
            self._begun = True
            self._unread = self._unread[int.from_bytes(self._unread[:4]) :]
        while len(self._unread) >= 5:
            self._wire.statements += self._unread[0] in _STATEMENTS
            self._unread = self._unread[1 + int.from_bytes(self._unread[1:5]) :]

    def answered(self, _: bytes) -> None:
        self._waits = False


@contextmanager
def counted(upstream: Path) -> Iterator[Wire]:
    """Passes on between a socket of its own and the Postgres whose socket is in `upstream`, and counts."""
    listening, ended, loop = threading.Event(), asyncio.Event(), asyncio.new_event_loop()

    async def accept(from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        link = _Link(wire)
        from_server, to_server = await asyncio.open_unix_connection(upstream / SOCKET)

        async def ask() -> None:
            while data := await from_client.read(1 << 16):
                link.asked(data)
                to_server.write(data)
            to_server.close()

        async def answer() -> None:
            while data := await from_server.read(1 << 16):
                link.answered(data)
                to_client.write(data)

        try:
            await asyncio.gather(ask(), answer(), return_exceptions=True)
        finally:
            to_client.close()
            to_server.close()

    async def listen() -> None:
        async with await asyncio.start_unix_server(accept, wire.directory / SOCKET):
            listening.set()
            await ended.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(listen())

    with socket_directory() as directory:
        wire = Wire(directory)
        thread = threading.Thread(target=run)
        thread.start()
        listening.wait()
        try:
            yield wire
        finally:
            loop.call_soon_threadsafe(ended.set)
            thread.join()
