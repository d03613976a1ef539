"""Provides the client for synchronous code and threads."""

import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress
from contextvars import copy_context
from threading import Thread
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from sepu_client import core
from sepu_client.colors import ColorLike
from sepu_client.connections import Closed, Connections
from sepu_client.results import Library, MatchResponse, MatchResult, SearchResponse, UsageResponse

T = TypeVar("T")


class _Connection(httpx.Client):
    """Serves as httpx client for one request at a time, in a thread of its own that its caller can leave at any time.

    httpx limits each step, and not their sum: a name may have many addresses, and a server may send a byte at a time.
    """

    _socket: socket.socket | None = None
    _left = False

    def exchange(self, call: core.Call[Any], seconds: float, done: "Future[core.Answer]") -> None:
        """Sends a request and settles `done`, unless the caller has cancelled that meanwhile."""
        try:
            with self.stream(**call.request, timeout=seconds, extensions={"trace": self._trace}) as response:
                body = bytearray()
                for part in response.iter_bytes() if core.is_plain(response.headers) else ():
                    body += part
                    if len(body) > core.LONGEST:
                        break
            answer = core.Answer(response.status_code, response.headers, bytes(body))
            with suppress(InvalidStateError):
                done.set_result(answer)
        except BaseException as error:
            with suppress(InvalidStateError):
                done.set_exception(error)
        if done.cancelled():
            self.close()

    def leave(self) -> None:
        """Makes the next step of the exchange fail; its thread then closes the connection."""
        self._left = True
        self._end()

    def close(self) -> None:
        """Closes everything, also what httpx forgets where a SOCKS proxy fails."""
        super().close()
        if self._socket is not None:
            self._socket.close()

    def _trace(self, _: str, info: dict[str, Any]) -> None:
        """Takes the socket of whatever httpx opens; it calls this at each step."""
        find = getattr(info.get("return_value"), "get_extra_info", None)
        if find is not None:
            self._socket = find("socket")
            if self._left:  # before there was this socket to end
                self._end()

    def _end(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # closed already
                self._socket.shutdown(socket.SHUT_RDWR)


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
        self._connections = Connections(
            lambda: _Connection(transport=transport and transport(), cookies=core.no_cookies(), **options)
        )

    def match(
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
        return self._settle(core.match(colors, top, idempotency_key, scale))

    def match_many(
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
        return tuple([result for call in calls for result in (self._settle(call)).results])

    def search(self, q: str, *, limit: int = 10, idempotency_key: str | None = None) -> SearchResponse:
        """Returns the colours whose Chinese name, pinyin or English name matches; costs one unit.

        Without a key of yours it is a new intent under a new key. Raises ValueError, before anything is sent, unless
        `q` has 2 to 64 characters.
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
        try:
            connection = self._connections.take()
        except Closed:
            return core.CLOSED
        done: Future[core.Answer] = Future()
        within = copy_context().run  # what follows a request from outside, such as tracing, finds its parent by it
        Thread(target=within, args=(connection.exchange, call, seconds, done), daemon=True).start()
        try:
            wait([done], seconds)
        finally:  # also by Ctrl-C
            if done.cancel():
                connection.leave()
        if done.cancelled():
            return core.TOO_SLOW
        ended = done.exception()
        if ended is not None:
            connection.close()
            return core.lost(ended)
        for unused in self._connections.give_back(connection):
            unused.close()
        return done.result()
