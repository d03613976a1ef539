"""Hosts of a database that a test can take away: addresses in front of Postgres servers."""

import asyncio
import socket
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.faults.proxy import SOCKET

T = TypeVar("T")

_BACKLOG_SECONDS = 0.2  # for a connection over loopback, unless the backlog is full


class Front:
    """A port of a loopback address that leads to a Postgres; to be called from any thread."""

    def __init__(self, address: str, state_dir: Path, loop: asyncio.AbstractEventLoop) -> None:
        self.address = address
        self._upstream = state_dir / "socket" / SOCKET
        self._loop = loop
        self._writers: set[asyncio.StreamWriter] = set()
        self._passes = asyncio.Event()
        self._passes.set()
        self._waiting: list[socket.socket] = []
        self._server = self._do(asyncio.start_server(self._accept, address, 0))
        self.port = int(self._server.sockets[0].getsockname()[1])

    def refuse(self) -> None:
        """Refuses connections, and tears those that there are."""
        self._do(self._close())

    def fall_silent(self) -> None:
        """Takes connections, and passes nothing on any more: not on those that there are, either."""
        self._loop.call_soon_threadsafe(self._passes.clear)

    def drop(self) -> None:
        """Drops the first packet of a connection, as a firewall may: the backlog of an idle listener is full."""
        self._do(self._close())
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self.address, self.port))
        listener.listen(0)
        self._waiting.append(listener)
        try:
            while True:
                self._waiting.append(socket.create_connection((self.address, self.port), _BACKLOG_SECONDS))
        except TimeoutError:
            pass

    def lead_to(self, state_dir: Path) -> None:
        """Tears all connections, as at a restart; another server answers from now on."""
        self._upstream = state_dir / "socket" / SOCKET
        self._do(self._tear())

    def close(self) -> None:
        """Ends all."""
        self._do(self._close())
        for waiting in self._waiting:
            waiting.close()

    def _do(self, act: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(act, self._loop).result(10)

    async def _close(self) -> None:
        self._server.close()
        await self._tear()

    async def _tear(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self._passes.wait()
            from_server, server = await asyncio.open_unix_connection(str(self._upstream))
            self._writers.add(server)
            await asyncio.wait(
                [asyncio.ensure_future(self._pass(*way)) for way in ((reader, server), (from_server, writer))],
                return_when=asyncio.FIRST_COMPLETED,
            )
            server.transport.abort()
        except (OSError, asyncio.CancelledError):  # nobody awaits it
            pass
        finally:
            writer.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                await self._passes.wait()
                target.write(data)
        except OSError:
            pass


@contextmanager
def fronts(state_dir: Path) -> Iterator[tuple[Front, Front]]:
    """Two hosts that lead to one Postgres, as if each had become the primary in time."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        both = Front("127.0.0.1", state_dir, loop), Front("127.0.0.2", state_dir, loop)
        try:
            yield both
        finally:
            for one in both:
                one.close()
    finally:
        asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
