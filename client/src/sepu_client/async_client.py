"""Provides the client for asyncio."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from sepu_client import core
from sepu_client.colors import ColorLike
from sepu_client.connections import Closed, Connections
from sepu_client.results import Library, MatchResponse, MatchResult, SearchResponse, UsageResponse

T = TypeVar("T")

CONNECTIONS = 100


class _Connection(httpx.AsyncClient):
    """Serves as httpx client for one request at a time, which closes everything that it opened."""

    _stream: Any = None

    async def trace(self, _: str, info: dict[str, Any]) -> None:
        """Takes the stream of whatever httpx opens; it calls this at each step."""
        made = info.get("return_value")
        if hasattr(made, "get_extra_info"):
            self._stream = made

    async def aclose(self) -> None:
        """Closes the stream too, which httpx forgets where a handshake is cancelled or a SOCKS proxy fails."""
        if self._stream is not None:
            await self._stream.aclose()
        await super().aclose()


class AsyncClient:
    """Calls the service at `base_url`; tasks may share it, and it keeps connections until it is closed.

    An attempt takes at most `timeout` seconds, a call with all its retries and waits `deadline` seconds. `transport`
    makes a transport of httpx's for each connection, for certificates or proxies of your own. A call that was cancelled
    may have been charged: the same call with the same `idempotency_key` gets its answer without another charge.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout: float = core.TIMEOUT,
        deadline: float = core.DEADLINE,
        transport: Callable[[], httpx.AsyncBaseTransport] | None = None,
    ) -> None:
        bearer, api_key = core.Bearer(api_key), ""  # tools print the variables of a traceback's frames
        self._timeout = core.checked_seconds("timeout", timeout)
        self._deadline = core.checked_seconds("deadline", deadline)
        options = core.options(base_url, bearer) | {"event_hooks": {"response": [_forget_location]}}
        self._connections = Connections(
            lambda: _Connection(transport=transport and transport(), cookies=core.no_cookies(), **options)
        )
        self._free = asyncio.Semaphore(CONNECTIONS)

    async def match(
        self,
        colors: Iterable[ColorLike],
        *,
        top: int = 1,
        scale: int | None = None,
        idempotency_key: str | None = None,
    ) -> MatchResponse:
        """Returns the `top` nearest colours to each of one to five colours; costs one unit for each.

        A colour is '#C83C23', '#fff', (200, 60, 35) or a mapping with r, g and b. `scale`: the greatest value of a
        channel, 255 (also without `scale`) or 1. Without a key of yours it is a new intent under a new key.

        Raises ValueError or TypeError for other colours, and for floats of which none exceeds 1 without `scale`, before
        anything is sent.
        """
        return await self._settle(core.match(colors, top, idempotency_key, scale))

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
        If it raises an error, repeat it with the same `idempotency_key`, colours and `top`: what was charged is not
        charged again. Without a key of yours it is a new intent under a new key. `scale` and errors: as for `match`.
        """
        calls = core.match_many(colors, top, idempotency_key, scale)
        return tuple([result for call in calls for result in (await self._settle(call)).results])

    async def search(self, q: str, *, limit: int = 10, idempotency_key: str | None = None) -> SearchResponse:
        """Returns the colours whose Chinese name, pinyin or English name matches; costs one unit.

        Without a key of yours it is a new intent under a new key. Raises ValueError, before anything is sent, unless
        `q` has 2 to 64 characters.
        """
        return await self._settle(core.search(q, limit, idempotency_key))

    async def library(self) -> Library:
        """Returns the metadata of the colour library; is free."""
        return await self._settle(core.library())

    async def usage(self) -> UsageResponse:
        """Returns the usage of the account in this month; is free."""
        return await self._settle(core.usage())

    async def aclose(self) -> None:
        """Closes the connections. A call in progress returns its answer, or raises NoAnswerError."""
        for connection in self._connections.close():
            await connection.aclose()

    async def __aenter__(self) -> Self:
        """Returns the client; the end of the block closes it."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the connections."""
        await self.aclose()

    async def _settle(self, call: core.Call[T]) -> T:
        attempts = core.settle(call, self._timeout, self._deadline, time.monotonic)
        attempt = next(attempts)
        while True:
            await asyncio.sleep(attempt.wait)
            outcome = await self._send(call, attempt.seconds)
            try:
                attempt = attempts.send(outcome)
            except StopIteration as settled:
                result: T = settled.value
                return result

    async def _send(self, call: core.Call[T], seconds: float) -> core.Answer | core.Lost:
        try:
            async with (
                asyncio.timeout(seconds),
                self._connection() as connection,
                connection.stream(**call.request, timeout=seconds, extensions={"trace": connection.trace}) as response,
            ):
                body = bytearray()
                if core.is_plain(response.headers):
                    async for part in response.aiter_bytes():
                        body += part
                        if len(body) > core.LONGEST:
                            break
        except TimeoutError:
            return core.TOO_SLOW
        except Closed:
            return core.CLOSED
        except BaseException as ended:
            return core.lost(ended)
        return core.Answer(response.status_code, response.headers, bytes(body))

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[_Connection]:
        async with self._free:
            connection = self._connections.take()
            try:
                yield connection
            except BaseException:
                await connection.aclose()
                raise
            for unused in self._connections.give_back(connection):
                await unused.aclose()


async def _forget_location(response: httpx.Response) -> None:
    core.forget_location(response)
