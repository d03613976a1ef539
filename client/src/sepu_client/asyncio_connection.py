"""Connects by an asyncio protocol, for tasks."""

import asyncio
import socket
import time
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Self, cast

from sepu_client import connections
from sepu_client.address import Route
from sepu_client.connections import (
    NEXT_ADDRESS_SECONDS,
    Address,
    destination,
    interleave,
    is_unix,
    known_addresses,
    new_socket,
    resolve,
)
from sepu_client.messages import Answer, Conversation, Lost, Request, T
from sepu_client.protocol import Link

MAX_UNREAD = 16  # parts that may arrive between exchanges, such as TLS tickets


class AsyncioConnection(asyncio.Protocol):
    """A connection to the service, on the event loop that made it.

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
        connected = await _connect(known_addresses(route) or await _resolve(*destination(route)))
        made = cls(connected, route)
        try:
            connect = loop.create_unix_connection if route.unix else loop.create_connection
            await connect(lambda: made, sock=connected)
            await made._converse(made._link.open(), end)
        except BaseException:
            with suppress(OSError):
                connected.send(made._link.last_words())
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


async def _connect(addresses: list[Address]) -> socket.socket:
    """Returns a connection to the address that answers first; each has a head start before the next (RFC 8305)."""
    waiting = deque(interleave(addresses))
    begun: list[asyncio.Task[socket.socket]] = []
    pending: set[asyncio.Task[socket.socket]] = set()
    failure: BaseException | None = None
    try:
        while waiting or pending:
            if waiting:
                begun.append(asyncio.create_task(_connect_to(*waiting.popleft())))
                pending.add(begun[-1])
            done, pending = await asyncio.wait(
                pending, timeout=NEXT_ADDRESS_SECONDS if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                failure = task.exception()
                if failure is None:
                    begun.remove(task)
                    return task.result()
    finally:
        for task in begun:
            if not task.cancel() and not task.cancelled() and not task.exception():
                task.result().close()
    raise Lost(f"{type(failure).__name__}: {failure}")


async def _connect_to(family: socket.AddressFamily, address: Any) -> socket.socket:  # noqa: ANN401
    connecting = new_socket(family)
    try:
        connecting.setblocking(False)
        if is_unix(family):  # this never waits, but may fail where the service's queue is full
            connecting.connect(address)
        else:
            await asyncio.get_running_loop().sock_connect(connecting, address)
    except BaseException:
        connecting.close()
        raise
    return connecting
