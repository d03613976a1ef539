"""The connections of an AsyncClient."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx

MOST = 100  # as httpx has it
IDLE_SECONDS = 5.0  # as httpx has it


class Closed(Exception):  # noqa: N818  (it never leaves this package)
    """No request is sent any more."""


class Lanes:
    """Connections for one request at a time each, with an httpx client of its own each.

    One httpx client with many connections can lose one for ever where a request is cancelled, and what it does for each
    request takes the longer, the more of them wait.
    """

    def __init__(self, make: Callable[[], httpx.AsyncClient]) -> None:
        self._make = make
        self._free = asyncio.Semaphore(MOST)
        self._idle: deque[tuple[float, httpx.AsyncClient]] = deque()  # since when; the last one is taken first
        self._closed = False

    @asynccontextmanager
    async def lane(self) -> AsyncIterator[httpx.AsyncClient]:
        """Waits for a lane. Unless what is done with it succeeds, nobody else gets it. Raises Closed."""
        async with self._free:
            if self._closed:
                raise Closed
            lane = self._idle.pop()[1] if self._idle else self._make()
            try:
                yield lane
            except BaseException:
                await lane.aclose()
                raise
            self._idle.append((time.monotonic(), lane))
            await self._close_idle()

    async def aclose(self) -> None:
        """Lets no request begin any more; one that is under way goes on to its end."""
        self._closed = True
        await self._close_idle()

    async def _close_idle(self) -> None:
        long_ago = time.monotonic() - IDLE_SECONDS
        while self._idle and (self._closed or self._idle[0][0] < long_ago):
            await self._idle.popleft()[1].aclose()
