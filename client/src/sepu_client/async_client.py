"""Provides the client for asyncio."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

from sepu_client import calls
from sepu_client.asyncio_connection import AsyncioConnection
from sepu_client.base_client import BaseClient, Observe
from sepu_client.colors import ColorLike
from sepu_client.errors import Error, add_progress
from sepu_client.messages import (
    Answer,
    Attempt,
    Call,
    Lost,
    Request,
    lost_by,
    lost_elsewhere,
    unsent,
    with_lower_case_names,
)
from sepu_client.results import Library, MatchResponse, MatchResult, SearchResponse, UsageResponse
from sepu_client.retries import complete, settle, without_our_frames

T = TypeVar("T")

CONNECTIONS = 100


class AsyncClient(BaseClient[Awaitable[Answer], AsyncioConnection]):
    """A client for asyncio. Tasks in one event loop may share it.

    Options and methods are those of [Client][sepu_client.Client], but `send` is a coroutine function, and `aclose`
    takes the place of `close`. At most 100 attempts are made at a time, and further ones wait. A cancelled call may
    have been charged. With an `idempotency_key` of your own, you can repeat it without a second charge.
    """

    async def match(
        self,
        colors: Iterable[ColorLike],
        *,
        top: int = 1,
        scale: int | None = None,
        idempotency_key: str | None = None,
    ) -> MatchResponse:
        """Works like `Client.match`."""
        return await self._settle(calls.match(colors, top, idempotency_key, scale))

    async def match_many(
        self,
        colors: Iterable[ColorLike],
        *,
        top: int = 1,
        scale: int | None = None,
        idempotency_key: str | None = None,
    ) -> tuple[MatchResult, ...]:
        """Works like `Client.match_many`."""
        rgb, parts = calls.match_many(colors, top, idempotency_key, scale)
        end = time.monotonic() + self._deadline
        answered: list[MatchResult] = []
        try:
            for call in parts:
                answered += (await self._settle(call, end)).results
        except Error as error:
            add_progress(error, answered, rgb)
            raise
        return tuple(answered)

    async def search(self, q: str, *, limit: int = 10, idempotency_key: str | None = None) -> SearchResponse:
        """Works like `Client.search`."""
        return await self._settle(calls.search(q, limit, idempotency_key))

    async def library(self) -> Library:
        """Works like `Client.library`."""
        return await self._settle(calls.library())

    async def usage(self) -> UsageResponse:
        """Works like `Client.usage`."""
        return await self._settle(calls.usage())

    async def aclose(self) -> None:
        """Works like `Client.close`."""
        self._connections.close()
        await asyncio.sleep(0)  # lets the loop close them

    async def __aenter__(self) -> Self:
        """Works like `Client.__enter__`."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Works like `Client.__exit__`."""
        await self.aclose()

    async def _settle(self, call: Call[T], end: float | None = None) -> T:
        end = end or time.monotonic() + self._deadline
        attempts = settle(call, end, time.monotonic)
        wait, number = next(attempts), 0
        while True:
            number += 1
            if wait:
                await asyncio.sleep(wait)
            outcome = await self._in_turn(call, end, number)
            try:
                wait = attempts.send(outcome)
            except StopIteration as settled:
                result: T = settled.value
                return result

    async def _in_turn(self, call: Call[Any], end: float, number: int) -> Answer | Lost | None:
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
            if self._observe is not None:
                return await self._observed_attempt(self._observe, call, end, number)
            attempt = self._attempt(call, end)
            return None if attempt is None else await attempt
        finally:
            free.release()

    async def _observed_attempt(
        self, observe: Observe, call: Call[Any], end: float, number: int
    ) -> Answer | Lost | None:
        attempt, began = Attempt(call.method, call.target.partition("?")[0], number), time.monotonic()
        with observe(attempt):
            coming = self._attempt(call, end)
            outcome = None if coming is None else await coming
            complete(attempt, outcome, time.monotonic() - began)
        return outcome

    def _attempt(self, call: Call[Any], end: float) -> Awaitable[Answer | Lost] | None:
        request = self._request(call, end - time.monotonic())
        if request is None:
            return None
        return self._outcome(request) if self._send is None else self._outcome_elsewhere(self._send, request)

    async def _outcome(self, request: Request) -> Answer | Lost:
        try:
            return await self._exchange(request, time.monotonic() + request.timeout)
        except Lost as lost:
            return lost.with_traceback(None)
        except OSError as failure:
            return lost_by(failure)
        except BaseException as ended:
            shown = without_our_frames(ended)
        raise shown

    def _turns(self) -> asyncio.Semaphore:
        """Returns the semaphore that limits the attempts in progress on this event loop."""
        loop, kept = asyncio.get_running_loop(), self._connections
        if kept.loop is not loop:  # a connection belongs to its loop
            kept.loop = loop
            kept.turns = asyncio.Semaphore(CONNECTIONS)
            kept.drop()
        return kept.turns

    async def _outcome_elsewhere(
        self, send: Callable[[Request, Callable[[Request], Awaitable[Answer]]], Awaitable[Answer]], request: Request
    ) -> Answer | Lost:
        try:
            self._connections.check_open()
            async with asyncio.timeout(request.timeout):
                return with_lower_case_names(await send(request, self._by_network))
        except Lost as lost:
            return lost
        except (ConnectionError, TimeoutError) as failure:
            return lost_elsewhere(failure)

    async def _by_network(self, request: Request) -> Answer:
        """Sends a request for a `send` function. Raises Lost, a ConnectionError."""
        outcome = await self._outcome(request)
        if isinstance(outcome, Lost):
            raise outcome
        return outcome

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
