"""Hosts of a database that a test can take away: addresses in front of Postgres servers."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.proxy import SOCKET, Proxy, in_a_thread

_BACKLOG_SECONDS = 0.2  # for a connection over loopback, unless the backlog is full


class Front(Proxy):
    """A port of a loopback address that leads to a Postgres; to be called from any thread."""

    def __init__(self, address: str, state_dir: Path) -> None:
        super().__init__(state_dir, state_dir / "socket")
        self.address = address
        self._waiting: list[socket.socket] = []

    async def _listen(self) -> asyncio.Server:
        server = await asyncio.start_server(self._accept, self.address, 0)
        self.port = int(server.sockets[0].getsockname()[1])
        return server

    def refuse(self) -> None:
        """Refuses connections, and tears those that there are."""

        async def close() -> None:
            self._close()

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(10)

    def fall_silent(self) -> None:
        """Takes connections, and answers nothing any more: not on those that there are, either."""
        self.swallows = True

    def drop(self) -> None:
        """Drops the first packet of a connection, as a firewall may: the backlog of an idle listener is full."""
        self.refuse()
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
        self._upstream = str(state_dir / "socket" / SOCKET)
        self.cut_all()

    def end(self) -> None:
        """Lets go of who waits in vain."""
        for waiting in self._waiting:
            waiting.close()


@contextmanager
def fronts(state_dir: Path) -> Iterator[tuple[Front, Front]]:
    """Two hosts that lead to one Postgres, as if each had become the primary in time."""
    both = Front("127.0.0.1", state_dir), Front("127.0.0.2", state_dir)
    with in_a_thread(*both):
        try:
            yield both
        finally:
            for one in both:
                one.end()
