"""A proxy between client and service that cuts each connection at a random byte, or falls silent there.

And a service that never says a word.
"""

import asyncio
import random
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

FARTHEST = {"request": 4000, "response": 8000}  # bytes until the cut: some messages, and some of the next


class CuttingProxy:
    """Listens on a port of its own, and passes on to the server at `HOST:PORT` until it cuts."""

    def __init__(self, upstream: str, seed: int) -> None:
        self._host, _, self._port = upstream.rpartition(":")
        self._random = random.Random(seed)
        self._links: set[asyncio.Task[None]] = set()
        self.cuts: Counter[str] = Counter()
        self.url = ""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = "http://{}:{}".format(*server.sockets[0].getsockname())
        try:
            yield
        finally:
            server.close()
            for link in self._links:
                link.cancel()
            await asyncio.gather(*self._links, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        server = None
        try:
            from_server, server = await asyncio.open_connection(self._host, int(self._port))
            both = [
                asyncio.create_task(self._pass_on("request", reader, server)),
                asyncio.create_task(self._pass_on("response", from_server, writer)),
            ]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in both:
                    each.cancel()
                await asyncio.gather(*both, return_exceptions=True)
        except OSError:
            pass  # the server is away
        except asyncio.CancelledError:
            pass  # the end; asyncio's streams would report it
        finally:
            self._links.discard(link)
            for side in (writer, server):
                if side is not None:
                    side.transport.abort()

    async def _pass_on(self, what: str, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        left = self._random.randint(0, FARTHEST[what])
        while left and (data := await source.read(left)):
            left -= len(data)
            sink.write(data)
            await sink.drain()
        if left:
            return  # a side went away by itself
        if self._random.random() < 0.2:
            self.cuts[f"{what} stalled"] += 1
            await source.read()  # until the client has had enough
        else:
            self.cuts[f"{what} cut"] += 1


@contextmanager
def deaf() -> Iterator[str]:
    """The address of a service that takes connections, and nothing else."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield "http://{}:{}".format(*listener.getsockname())
