"""Provides the client for synchronous code and threads."""

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

from sepu_client import calls
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
from sepu_client.socket_connection import SocketConnection

T = TypeVar("T")


class Client(BaseClient[Answer, SocketConnection]):
    """A client for synchronous code. Threads may share it. It reuses connections. Close it at the end.

    `base_url` is the service's address: `https://…`, `http://…` or `unix:/path`. `api_key` is an account's key.

    `timeout` is the maximum number of seconds for an attempt. `deadline` is the maximum for a call, including its
    retries and the waits between them.

    `ssl_context` is used in place of the system's certificates. `proxy` overrides the environment's proxies; "" means
    no proxy. `headers` adds headers to each request: a mapping, or a function that returns one for each attempt.
    `app_name`, such as "shop" or "shop/1.2", names your application in the User-Agent.

    `observe` is called with each [Attempt][sepu_client.Attempt] and returns a context manager. The attempt is made
    inside it. `send` is called with each [Request][sepu_client.Request] and a function that sends it over the network.
    `send` returns an [Answer][sepu_client.Answer], or raises ConnectionError or TimeoutError if none comes.

    Raises ValueError for an invalid address, API key or option.
    """

    def match(
        self,
        colors: Iterable[ColorLike],
        *,
        top: int = 1,
        scale: int | None = None,
        idempotency_key: str | None = None,
    ) -> MatchResponse:
        """Returns the colours nearest to each of one to five input colours. Costs one unit per input colour.

        A colour is written as '#C83C23', 'tomato' or (200, 60, 35), or as a mapping with r, g and b. `top` is the
        number of matches for each, from 1 to 3. `scale` is the maximum value of a channel, 1 or 255. It is required for
        floats if no channel of a colour exceeds 1, unless all are 0 or the colour is an `RGB`, whose channels go to
        255. `idempotency_key` is a new random key by default.

        Raises ValueError or TypeError for invalid input, and sends nothing. Raises an [Error][sepu_client.Error] if the
        call fails.
        """
        return self._settle(calls.match(colors, top, idempotency_key, scale))

    def match_many(
        self,
        colors: Iterable[ColorLike],
        *,
        top: int = 1,
        scale: int | None = None,
        idempotency_key: str | None = None,
    ) -> tuple[MatchResult, ...]:
        """Returns the results for any number of colours, in the same order. Costs one unit per colour.

        Sends five colours per request, one request after the other. Each request's key is `idempotency_key` followed by
        `.1`, `.2` and so on. If a request fails, the error's `answered` has the results so far. Repeat the call with
        the error's `idempotency_key` and the same colours and `top`: no colour is charged twice. Parameters and errors
        are those of `match`.
        """
        rgb, parts = calls.match_many(colors, top, idempotency_key, scale)
        end = time.monotonic() + self._deadline
        answered: list[MatchResult] = []
        try:
            for call in parts:
                answered += self._settle(call, end).results
        except Error as error:
            add_progress(error, answered, rgb)
            raise
        return tuple(answered)

    def search(self, q: str, *, limit: int = 10, idempotency_key: str | None = None) -> SearchResponse:
        """Returns the colours whose Chinese or English name, pinyin or slug matches `q`. Costs one unit.

        `q` has 2 to 64 characters. `limit` is the maximum number of colours, from 1 to 10. `idempotency_key` is a new
        random key by default.

        Raises ValueError or TypeError for invalid input, and sends nothing. Raises an [Error][sepu_client.Error] if the
        call fails.
        """
        return self._settle(calls.search(q, limit, idempotency_key))

    def library(self) -> Library:
        """Returns the colour library's metadata. Free of charge."""
        return self._settle(calls.library())

    def usage(self) -> UsageResponse:
        """Returns the account's usage this month. Free of charge."""
        return self._settle(calls.usage())

    def close(self) -> None:
        """Closes the connections. Attempts in progress finish; a call that needs another one raises NoAnswerError."""
        self._connections.close()

    def __enter__(self) -> Self:
        """Returns the client; the end of the block closes it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the connections."""
        self.close()

    def _settle(self, call: Call[T], end: float | None = None) -> T:
        end = end or time.monotonic() + self._deadline
        attempts = settle(call, end, time.monotonic)
        wait, number = next(attempts), 0
        while True:
            number += 1
            if wait:
                time.sleep(wait)
            if self._observe is None:
                outcome = self._attempt(call, end)
            else:
                outcome = self._observed_attempt(self._observe, call, end, number)
            try:
                wait = attempts.send(outcome)
            except StopIteration as settled:
                result: T = settled.value
                return result

    def _observed_attempt(self, observe: Observe, call: Call[Any], end: float, number: int) -> Answer | Lost | None:
        attempt, began = Attempt(call.method, call.target.partition("?")[0], number), time.monotonic()
        with observe(attempt):
            outcome = self._attempt(call, end)
            complete(attempt, outcome, time.monotonic() - began)
        return outcome

    def _attempt(self, call: Call[Any], end: float) -> Answer | Lost | None:
        request = self._request(call, end - time.monotonic())
        if request is None:
            return None
        return self._outcome(request) if self._send is None else self._outcome_elsewhere(self._send, request)

    def _outcome(self, request: Request) -> Answer | Lost:
        try:
            return self._exchange(request, time.monotonic() + request.timeout)
        except Lost as lost:
            return lost.with_traceback(None)
        except OSError as failure:
            return lost_by(failure)
        except BaseException as ended:
            shown = without_our_frames(ended)
        raise shown

    def _outcome_elsewhere(
        self, send: Callable[[Request, Callable[[Request], Answer]], Answer], request: Request
    ) -> Answer | Lost:
        try:
            self._connections.check_open()
            return with_lower_case_names(send(request, self._by_network))
        except Lost as lost:
            return lost
        except (ConnectionError, TimeoutError) as failure:
            return lost_elsewhere(failure)

    def _by_network(self, request: Request) -> Answer:
        """Sends a request for a `send` function. Raises Lost, a ConnectionError."""
        outcome = self._outcome(request)
        if isinstance(outcome, Lost):
            raise outcome
        return outcome

    def _exchange(self, request: Request, end: float) -> Answer:
        kept = self._connections.take()
        if kept is not None:
            try:
                return self._exchange_on(kept, request, end)
            except (Lost, TimeoutError) as failure:
                self._connections.drop(before=end - request.timeout)  # others may be dead for the same reason
                if not (isinstance(failure, Lost) and failure.unanswered):
                    raise
        try:
            opened = SocketConnection.open(self._route, end)
        except (Lost, OSError) as failure:
            raise (unsent(failure) if kept is None else failure) from None
        return self._exchange_on(opened, request, end)

    def _exchange_on(self, connection: SocketConnection, request: Request, end: float) -> Answer:
        try:
            answer, stays_open = connection.exchange(request, end)
        except BaseException:  # also by Ctrl-C: any doubt ends a connection
            connection.close()
            raise
        if stays_open:
            self._connections.give_back(connection)
        else:
            connection.close()
        return answer
