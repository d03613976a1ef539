"""The client for synchronous code and threads."""

import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Timer
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from sepu_client import core
from sepu_client.colors import ColorLike
from sepu_client.connections import Closed, Connections
from sepu_client.results import Library, MatchResponse, MatchResult, SearchResponse, UsageResponse

T = TypeVar("T")


class _Connection(httpx.Client):
    """An httpx client for one request at a time, which can be ended from outside.

    httpx limits each read, so a server that sends a byte at a time would hold it for ever.
    """

    _socket: socket.socket | None = None
    _over: Event

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Takes the socket of a new connection; httpx calls it by an extension of the request."""
        if event in {"connection.connect_tcp.complete", "connection.start_tls.complete"}:
            self._socket = info["return_value"].get_extra_info("socket")
            if self._over.is_set():  # the time was over before there was this socket to end
                self._end()

    def _end(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # closed already
                self._socket.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def ended_after(self, seconds: float, over: Event) -> Iterator[None]:
        """Ends what is under way when its time is over, and says so."""

        def end() -> None:
            over.set()
            self._end()

        self._over = over
        timer = Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


class Client:
    """Calls the service at `base_url`; threads may share it, and it keeps connections until it is closed.

    An attempt takes at most `timeout` seconds, a call with all its retries and waits `deadline` seconds. `transport`
    makes a transport of httpx's for each connection, for certificates or proxies of your own.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout: float = core.TIMEOUT,
        deadline: float = core.DEADLINE,
        transport: Callable[[], httpx.BaseTransport] | None = None,
    ) -> None:
        bearer, api_key = core.Bearer(api_key), ""  # tools print the variables of a traceback's frames
        self._timeout = core.checked_seconds("timeout", timeout)
        self._deadline = core.checked_seconds("deadline", deadline)
        options = core.options(base_url, bearer) | {"event_hooks": {"response": [core.forget_location]}}
        self._connections = Connections(lambda: _Connection(transport=transport and transport(), **options))

    def match(self, colors: Iterable[ColorLike], *, top: int = 1, idempotency_key: str | None = None) -> MatchResponse:
        """Returns the `top` nearest colours to each of one to five colours; costs one unit for each.

        A colour is '#C83C23', '#fff', (200, 60, 35) or a mapping with r, g and b. Without a key of yours it is a new
        intent under a new key.
        """
        return self._settle(core.match(colors, top, idempotency_key))

    def match_many(
        self, colors: Iterable[ColorLike], *, top: int = 1, idempotency_key: str | None = None
    ) -> tuple[MatchResult, ...]:
        """Returns the `top` nearest colours to each of any number of colours, in their order; costs one unit for each.

        Sends five colours a request, one request after the other, each with a key of its own: KEY.1, KEY.2 and so on.
        If it ends by an error, repeat it with the same `idempotency_key`, colours and `top`: what was charged is not
        charged again. Without a key of yours it is a new intent under a new key.
        """
        calls = core.match_many(colors, top, idempotency_key)
        return tuple([result for call in calls for result in (self._settle(call)).results])

    def search(self, q: str, *, limit: int = 10, idempotency_key: str | None = None) -> SearchResponse:
        """Returns the colours whose Chinese name, pinyin or English name matches; costs one unit.

        Without a key of yours it is a new intent under a new key.
        """
        return self._settle(core.search(q, limit, idempotency_key))

    def library(self) -> Library:
        """Returns the metadata of the colour library; is free."""
        return self._settle(core.library())

    def usage(self) -> UsageResponse:
        """Returns the usage of the account in this month; is free."""
        return self._settle(core.usage())

    def close(self) -> None:
        """Closes the connections. A call in progress returns its answer, or raises NoAnswerError."""
        for connection in self._connections.close():
            connection.close()

    def __enter__(self) -> Self:
        """Returns the client; the end of the block closes it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the connections."""
        self.close()

    def _settle(self, call: core.Call[T]) -> T:
        attempts = core.settle(call, self._timeout, self._deadline, time.monotonic)
        attempt = next(attempts)
        while True:
            time.sleep(attempt.wait)
            try:
                attempt = attempts.send(self._send(call, attempt.seconds))
            except StopIteration as settled:
                result: T = settled.value
                return result

    def _send(self, call: core.Call[T], seconds: float) -> core.Answer | core.Lost:
        over = Event()
        try:
            with (
                self._connection() as connection,
                connection.ended_after(seconds, over),
                connection.stream(**call.request, timeout=seconds, extensions={"trace": connection.trace}) as response,
            ):
                body = b""
                for part in response.iter_bytes():
                    body += part
                    if len(body) > core.LONGEST:
                        break
        except httpx.RequestError as error:
            return core.TOO_SLOW if over.is_set() else core.Lost.by(error)
        except Closed:
            return core.CLOSED
        except BaseException as ended:  # mostly Ctrl-C
            raise core.bare(ended) from None
        return core.TOO_SLOW if over.is_set() else core.Answer(response.status_code, response.headers, body)

    @contextmanager
    def _connection(self) -> Iterator[_Connection]:
        connection = self._connections.take()
        try:
            yield connection
        except Exception:  # closing would wait for a lock of an interrupted connection
            connection.close()
            raise
        for unused in self._connections.give_back(connection):
            unused.close()
