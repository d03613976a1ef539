"""The client for asyncio."""

import asyncio
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from sepu_client import core
from sepu_client.lanes import Closed, Lanes
from sepu_client.results import Library, MatchResponse, SearchResponse, UsageResponse

T = TypeVar("T")


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
        options: dict[str, Any] = {
            "base_url": core.checked_url(base_url),
            "auth": bearer.checked(),
            "headers": {"User-Agent": core.USER_AGENT},
            "verify": httpx.create_ssl_context(),  # one for all: it takes milliseconds
            "limits": httpx.Limits(max_connections=1),
        }
        self._lanes = Lanes(lambda: httpx.AsyncClient(transport=transport and transport(), **options))

    async def match(
        self, colors: Iterable[tuple[float, float, float]], *, top: int = 1, idempotency_key: str | None = None
    ) -> MatchResponse:
        """The `top` nearest colours to each of one to five colours; costs one unit a colour.

        Without a key of yours it is a new intent under a new key.
        """
        return await self._settle(core.match(colors, top, idempotency_key))

    async def search(self, q: str, *, limit: int = 10, idempotency_key: str | None = None) -> SearchResponse:
        """Colours whose Chinese name, pinyin or English name fits; costs one unit.

        Without a key of yours it is a new intent under a new key.
        """
        return await self._settle(core.search(q, limit, idempotency_key))

    async def library(self) -> Library:
        """The metadata of the colour library; costs nothing."""
        return await self._settle(core.library())

    async def usage(self) -> UsageResponse:
        """What the account used this month; costs nothing."""
        return await self._settle(core.usage())

    async def aclose(self) -> None:
        """Closes the connections. A call that is under way ends with its answer, or with NoAnswerError."""
        await self._lanes.aclose()

    async def __aenter__(self) -> Self:
        """The client, which is closed when the block ends."""
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
            async with asyncio.timeout(seconds), self._lanes.lane() as http:
                response = await http.request(
                    call.method, call.target, headers=call.headers, content=call.content, timeout=seconds
                )
        except TimeoutError:
            return core.Lost("the answer came too slowly")
        except httpx.RequestError as error:
            return core.Lost.by(error)
        except Closed:
            return core.CLOSED
        except BaseException as ended:  # cancelled, above all
            raise core.bare(ended) from None
        return core.Answer(response.status_code, response.headers, response.content)
