"""Keeps connections; each serves one request at a time."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Generic, TypeVar

IDLE_SECONDS = 5.0  # httpx's default

L = TypeVar("L")


class Closed(Exception):  # noqa: N818  (it never leaves this package)
    """Says that the client is closed."""


class Connections(Generic[L]):
    """Keeps idle connections: httpx clients with one connection each.

    One httpx client with many connections can lose one for ever where a request is cancelled or waits too long for its
    turn; and what it does for each request takes the longer, the more of them wait. Threads may share it.
    """

    def __init__(self, make: Callable[[], L]) -> None:
        self._make = make
        try:
            first = make()  # checks the settings
        except ImportError as missing:  # a SOCKS proxy of the environment, without httpx's extra
            raise ValueError(str(missing)) from None
        self._idle = deque([(time.monotonic(), first)])  # since when
        self._process = os.getpid()
        self._closed = False

    def take(self) -> L:
        """Returns a connection for exclusive use until it is given back. Raises Closed."""
        if self._closed:
            raise Closed
        if self._process != os.getpid():  # after a fork these connections belong to the parent
            self._idle.clear()
            self._process = os.getpid()
        try:
            return self._idle.pop()[1]
        except IndexError:
            return self._make()

    def give_back(self, connection: L) -> Iterator[L]:
        """Takes a connection back after its answer; returns those to be closed."""
        self._idle.append((time.monotonic(), connection))
        return self._unused()

    def close(self) -> Iterator[L]:
        """Hands out no further connections; returns those to be closed."""
        self._closed = True
        return self._unused()

    def _unused(self) -> Iterator[L]:
        long_ago = time.monotonic() - IDLE_SECONDS
        with suppress(IndexError):  # another thread took it
            while self._idle and (self._closed or self._idle[0][0] < long_ago):
                yield self._idle.popleft()[1]
