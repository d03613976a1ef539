"""Connects by an asyncio protocol, for tasks."""

import asyncio
import socket
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Self, cast

from sepu_client import connections
from sepu_client.address import Route
from sepu_client.connections import Address, destination, literal, new_socket, resolve, shares
from sepu_client.messages import Answer, Conversation, Lost, Request, T
from sepu_client.protocol import Link

MAX_UNREAD = 16  # parts that may arrive between exchanges, such as TLS tickets


class AsyncioConnection(asyncio.Protocol):
    """Holds one connection to the service, on the event loop that made it.

    `end` is always an instant of `time.monotonic`. One timer serves many exchanges: it is set for the end of the first,
    and when it fires, for the end of the one in progress.
    """

    _transport: asyncio.Transport
    _timer: asyncio.TimerHandle | None = None
    _due = 0.0  # when the timer fires
    _end = 0.0  # of what is in progress

    def __init__(self, connected: socket.socket, route: Route) -> None:
        self._socket = connected
        self._link = Link(route)
        self._loop = asyncio.get_running_loop()
        self._forks = connections.forks
        self._received: list[bytes | None] = []
        self._waiting: asyncio.Future[None] | None = None

    @classmethod
    async def open(cls, route: Route, end: float) -> Self:
        """Connects. Raises Lost, or TimeoutError at `end`."""
        loop = asyncio.get_running_loop()
        connected = await _connect(literal(route) or await _resolve(*destination(route)), end)
        made = cls(connected, route)
        try:
            connect = loop.create_unix_connection if route.unix else loop.create_connection
            await connect(lambda: made, sock=connected)
            await made._converse(made._link.open(), end)
        except BaseException:
            made.close()
            raise
        return made

    def exchange(self, request: Request, end: float) -> Coroutine[None, None, tuple[Answer, bool]]:
        """Sends a request; returns the answer, and whether the connection may be kept. Raises Lost or TimeoutError."""
        return self._converse(self._link.exchange(request), end)

    def is_usable(self) -> bool:
        """Returns whether it is open, on this loop, and has received nothing unexpected."""
        received, self._received = self._received, []
        return self._loop is asyncio.get_running_loop() and all(
            part and self._link.stays_open_after(part) for part in received
        )

    def close(self) -> None:
        """Closes it without a handshake, whatever the state of its event loop."""
        transport: asyncio.Transport | None = getattr(self, "_transport", None)
        if transport is None or self._forks != connections.forks or self._loop.is_closed():
            self._socket.close()  # after a fork, this leaves the parent's end and loop alone
            return
        try:
            self._loop.call_soon_threadsafe(transport.abort)
        except RuntimeError:  # closed this moment
            self._socket.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Takes received data."""
        self._came(data)

    def eof_received(self) -> None:
        """Takes the end."""
        self._came(b"")

    def connection_lost(self, error: Exception | None) -> None:
        """Takes the end, or that the connection broke."""
        if self._timer:
            self._timer.cancel()
        self._came(None if error else b"")

    def _came(self, data: bytes | None) -> None:
        self._received.append(data)
        if self._waiting is None:
            if len(self._received) > MAX_UNREAD:
                self._transport.abort()
        elif not self._waiting.done():
            self._waiting.set_result(None)

    async def _converse(self, conversation: Conversation[T], end: float) -> T:
        self._end = end
        try:
            sending = next(conversation)
            while True:
                if sending:
                    self._transport.write(sending)
                if not self._received:
                    self._limit()
                    self._waiting = self._loop.create_future()
                    await self._waiting
                    self._waiting = None
                sending = conversation.send(self._received.pop(0))
        except StopIteration as ended:
            result: T = ended.value
            return result

    def _limit(self) -> None:
        """Sets the timer to fire by the end. Raises TimeoutError."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if self._timer is None or self._due > self._end:
            if self._timer:
                self._timer.cancel()
            self._timer, self._due = self._loop.call_later(left, self._fired), self._end

    def _fired(self) -> None:
        self._timer = None
        if self._waiting and not self._waiting.done():
            try:
                self._limit()
            except TimeoutError as error:
                self._waiting.set_exception(error)


async def _resolve(host: str, port: int) -> list[Address]:
    """Asks in a thread of ours: the loop's executor takes no work at the exit, and a loop that closes waits for it."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[list[Address] | Lost] = loop.create_future()

    def take(answer: list[Address] | Lost) -> None:
        if not answered.done():  # not cancelled
            answered.set_result(answer)

    def tell(answer: list[Address] | Lost) -> None:
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(take, answer)

    resolve(host, port, tell)
    answer = await answered
    if isinstance(answer, Lost):
        raise answer
    return answer


async def _connect(addresses: list[Address], end: float) -> socket.socket:
    failure: OSError = TimeoutError()
    for (family, address), seconds in shares(addresses, end):
        connecting = new_socket(family)
        connecting.setblocking(False)
        try:
            async with asyncio.timeout(seconds):
                await asyncio.get_running_loop().sock_connect(connecting, address)
        except OSError as error:
            connecting.close()
            failure = error
        except BaseException:
            connecting.close()
            raise
        else:
            return connecting
    if isinstance(failure, TimeoutError):
        raise failure
    raise Lost(f"{type(failure).__name__}: {failure}")
