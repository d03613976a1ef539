"""Provides the client for asyncio."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

from sepu_client import calls
from sepu_client.asyncio_connection import AsyncioConnection
from sepu_client.base_client import BaseClient
from sepu_client.colors import ColorLike
from sepu_client.errors import Error
from sepu_client.messages import Answer, Call, Lost, Request, lost_by, lost_elsewhere, normal, unsent
from sepu_client.results import Library, MatchResponse, MatchResult, SearchResponse, UsageResponse
from sepu_client.retries import bare, settle

T = TypeVar("T")

CONNECTIONS = 100


class AsyncClient(BaseClient[Awaitable[Answer], AsyncioConnection]):
    """Calls the service at `base_url`; tasks may share it, and it keeps connections until it is closed.

    An attempt takes at most `timeout` seconds, a call with all its retries and waits `deadline` seconds. A call that
    was cancelled may have been charged: the same call with the same `idempotency_key` gets its answer without another
    charge.

    `ssl_context` replaces the system's certificates, and `proxy` the proxies of the environment ("" is none).
    `headers` adds headers to each request: a mapping, or a function that is asked for one before each attempt. `send`
    answers each request in place of the network; it raises a ConnectionError or TimeoutError if there is no answer.
    """

    _loop: asyncio.AbstractEventLoop | None = None
    _free: asyncio.Semaphore

    async def match(
        self,
        colors: Iterable[ColorLike],
        *,
        top: int = 1,
        scale: int | None = None,
        idempotency_key: str | None = None,
    ) -> MatchResponse:
        """Returns the `top` nearest colours to each of one to five colours; costs one unit for each.

        A colour is '#C83C23', 'tomato', (200, 60, 35) or a mapping with r, g and b. `scale`: the greatest value of a
        channel, 255 (also without `scale`) or 1. If you pass no key, the call is a new intent with a new key.

        Raises ValueError or TypeError for other colours, and for floats of which none exceeds 1 without `scale`, before
        anything is sent.
        """
        return await self._settle(calls.match(colors, top, idempotency_key, scale))

    async def match_many(
        self,
        colors: Iterable[ColorLike],
        *,
        top: int = 1,
        scale: int | None = None,
        idempotency_key: str | None = None,
    ) -> tuple[MatchResult, ...]:
        """Returns the `top` nearest colours to each of any number of colours, in their order; costs one unit for each.

        Sends five colours a request, one request after the other, each with a key of its own: KEY.1, KEY.2 and so on.
        The `answered` of an error has the results so far. After it, repeat the call with the error's
        `idempotency_key` and the same colours and `top`: only colours that were not charged are charged. If you pass
        no key, the call is a new intent with a new key. `scale` and errors: as for `match`.
        """
        rgb, parts = calls.match_many(colors, top, idempotency_key, scale)
        end = time.monotonic() + self._deadline
        answered: list[MatchResult] = []
        try:
            for call in parts:
                answered += (await self._settle(call, end)).results
        except Error as error:
            error.tell_progress(answered, rgb)
            raise
        return tuple(answered)

    async def search(self, q: str, *, limit: int = 10, idempotency_key: str | None = None) -> SearchResponse:
        """Returns the colours whose Chinese name, pinyin or English name matches; costs one unit.

        If you pass no key, the call is a new intent with a new key. Raises ValueError, before anything is sent, unless
        `q` has 2 to 64 characters.
        """
        return await self._settle(calls.search(q, limit, idempotency_key))

    async def library(self) -> Library:
        """Returns the metadata of the colour library; is free."""
        return await self._settle(calls.library())

    async def usage(self) -> UsageResponse:
        """Returns the usage of the account in this month; is free."""
        return await self._settle(calls.usage())

    async def aclose(self) -> None:
        """Closes the connections. A call in progress returns its answer, or raises NoAnswerError."""
        self._connections.close()
        await asyncio.sleep(0)  # lets the loop close them

    async def __aenter__(self) -> Self:
        """Returns the client; the end of the block closes it."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the connections."""
        await self.aclose()

    async def _settle(self, call: Call[T], end: float | None = None) -> T:
        end = end or time.monotonic() + self._deadline
        attempts = settle(call, end, time.monotonic)
        wait = next(attempts)
        while True:
            if wait:
                await asyncio.sleep(wait)
            outcome = await self._in_turn(call, end)
            try:
                wait = attempts.send(outcome)
            except StopIteration as settled:
                result: T = settled.value
                return result

    async def _in_turn(self, call: Call[Any], end: float) -> Answer | Lost | None:
        """Makes an attempt, as one of at most CONNECTIONS; waiting for that is not part of its time."""
        free = self._turns()
        try:
            if free.locked():
                async with asyncio.timeout(end - time.monotonic()):
                    await free.acquire()
            else:
                await free.acquire()
        except TimeoutError:
            return Lost(f"all {CONNECTIONS} connections of the client were busy until the deadline", unsent=True)
        try:
            request = self._request(call, end - time.monotonic())
            return None if request is None else await self._outcome(request)
        finally:
            free.release()

    async def _outcome(self, request: Request) -> Answer | Lost:
        end = time.monotonic() + request.timeout
        if self._send_elsewhere is not None:
            return await self._outcome_elsewhere(self._send_elsewhere, request, end)
        try:
            return await self._exchange(request, end)
        except Lost as lost:
            return lost.with_traceback(None)
        except OSError as failure:
            return lost_by(failure)
        except BaseException as ended:
            shown = bare(ended)
        raise shown

    def _turns(self) -> asyncio.Semaphore:
        """Returns the semaphore that limits the calls in progress on this event loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # a connection belongs to its loop
            self._loop = loop
            self._free = asyncio.Semaphore(CONNECTIONS)
            self._connections.drop()
        return self._free

    async def _outcome_elsewhere(
        self, send: Callable[[Request], Awaitable[Answer]], request: Request, end: float
    ) -> Answer | Lost:
        try:
            self._connections.check_open()
            async with asyncio.timeout(end - time.monotonic()):
                return normal(await send(request))
        except Lost as lost:
            return lost
        except (ConnectionError, TimeoutError) as failure:
            return lost_elsewhere(failure)

    async def _exchange(self, request: Request, end: float) -> Answer:
        kept = self._connections.take()
        if kept is not None:
            try:
                return await self._exchange_on(kept, request, end)
            except (Lost, TimeoutError) as failure:
                self._connections.drop(before=end - request.timeout)  # others may be dead for the same reason
                if not (isinstance(failure, Lost) and failure.unanswered):
                    raise
        try:
            async with asyncio.timeout(end - time.monotonic()):
                opened = await AsyncioConnection.open(self._route, end)
        except (Lost, OSError) as failure:
            raise (unsent(failure) if kept is None else failure) from None
        return await self._exchange_on(opened, request, end)

    async def _exchange_on(self, connection: AsyncioConnection, request: Request, end: float) -> Answer:
        try:
            answer, stays_open = await connection.exchange(request, end)
        except BaseException:  # also by a cancellation: any doubt ends a connection
            connection.close()
            raise
        if stays_open:
            self._connections.give_back(connection)
        else:
            connection.close()
        return answer
