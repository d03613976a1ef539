"""Connects by a blocking socket, for threads."""

import math
import os
import select
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Self

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

_PART = 16_384  # bytes that are read at a time: more than an answer has


class SocketConnection:
    """A connection to the service. `end` is always an instant of `time.monotonic`.

    The socket never blocks, so one system call waits, and another one sends or reads.
    """

    def __init__(self, connected: socket.socket, route: Route) -> None:
        self._socket = connected
        self._link = Link(route)
        self._has_input = _readiness(connected)

    @classmethod
    def open(cls, route: Route, end: float) -> Self:
        """Connects. Raises Lost, or TimeoutError at `end`."""
        made = cls(_connect(known_addresses(route) or _resolve(*destination(route), end), end), route)
        try:
            made._converse(made._link.open(), end)
        except BaseException:
            with suppress(OSError):
                made._socket.send(made._link.last_words())
            made.close()
            raise
        return made

    def exchange(self, request: Request, end: float) -> tuple[Answer, bool]:
        """Sends a request; returns the answer, and whether the connection may be kept. Raises Lost or TimeoutError."""
        return self._converse(self._link.exchange(request), end)

    def is_usable(self) -> bool:
        """Returns whether it is open, and has received nothing unexpected."""
        if not isinstance(self._socket, socket.socket):  # gevent has replaced the class since; this one blocks threads
            return False
        if not self._has_input(0):
            return True
        try:
            received = self._socket.recv(_PART)
        except OSError:
            return False
        return bool(received) and self._link.stays_open_after(received)

    def close(self) -> None:
        """Closes it without a handshake. After a fork, this leaves the parent's end alone."""
        self._socket.close()

    def _converse(self, conversation: Conversation[T], end: float) -> T:
        try:
            sending = next(conversation)
            while True:
                sending = conversation.send(self._receive(end) if self._send(sending, end) else None)
        except StopIteration as ended:
            result: T = ended.value
            return result

    def _send(self, data: bytes | memoryview, end: float) -> bool:
        """Sends all, or returns false if the connection is broken."""
        sent = 0
        while sent < len(data):
            try:
                sent += self._socket.send(data[sent:])
            except BlockingIOError:
                if not _readiness(self._socket, for_sending=True)(_left(end)):
                    raise TimeoutError from None
            except OSError:
                return False
        return True

    def _receive(self, end: float) -> bytes | None:
        if not self._has_input(_left(end)):
            raise TimeoutError
        try:
            return self._socket.recv(_PART)
        except OSError:
            return None


def _readiness(connected: socket.socket, *, for_sending: bool = False) -> Callable[[float], object]:
    """Returns a function that waits for some seconds, and returns whether the socket can be read or sent to."""
    if not hasattr(select, "poll"):  # Windows, where `select` takes any number of sockets
        reading, sending = ([], [connected]) if for_sending else ([connected], [])
        return lambda seconds: any(select.select(reading, sending, [], seconds))
    waiting = select.poll()
    waiting.register(connected, select.POLLOUT if for_sending else select.POLLIN)
    return lambda seconds: waiting.poll(math.ceil(1000 * seconds))


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _resolve(host: str, port: int, end: float) -> list[Address]:
    answers: list[list[Address] | Lost] = []
    asking = resolve(host, port, answers.append)
    if asking:
        asking.join(_left(end))  # and no queue: gevent may replace its class after this module is imported
    if not answers:
        raise TimeoutError
    if isinstance(answers[0], Lost):
        raise answers[0]
    return answers[0]


def _connect(addresses: list[Address], end: float) -> socket.socket:
    """Returns a connection to the address that answers first; each has a head start before the next (RFC 8305)."""
    waiting = deque(interleave(addresses))
    failure: OSError | None = None
    with selectors.DefaultSelector() as connecting:
        try:
            while waiting or connecting.get_map():
                if waiting:
                    try:
                        _begin(waiting.popleft(), connecting)
                    except OSError as error:  # such as an unreachable network
                        failure = error
                        continue
                left = _left(end)
                for key, _ in connecting.select(min(left, NEXT_ADDRESS_SECONDS) if waiting else left):
                    connected: socket.socket = key.fileobj  # type: ignore[assignment]
                    connecting.unregister(connected)
                    code = connected.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if not code:
                        return connected
                    connected.close()
                    failure = OSError(code, os.strerror(code))
        finally:
            for key in [*connecting.get_map().values()]:
                key.fileobj.close()  # type: ignore[union-attr]
    raise Lost(f"{type(failure).__name__}: {failure}")


def _begin(to: Address, connecting: selectors.BaseSelector) -> None:
    family, address = to
    begun = new_socket(family)
    try:
        begun.setblocking(False)
        try:
            begun.connect(address)
        except BlockingIOError:
            if is_unix(family):  # nothing begins where the service's queue is full
                raise
        connecting.register(begun, selectors.EVENT_WRITE)
    except BaseException:
        begun.close()
        raise
