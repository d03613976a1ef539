"""Connections for one request at a time each."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Generic, TypeVar

IDLE_SECONDS = 5.0  # as httpx has it

L = TypeVar("L")


class Closed(Exception):  # noqa: N818  (it never leaves this package)
    """No request is sent any more."""


class Connections(Generic[L]):
    """Connections that wait for a request: httpx clients, each with one connection that goes with it.

    One httpx client with many connections can lose one for ever where a request is cancelled or waits too long for its
    turn; and what it does for each request takes the longer, the more of them wait. Threads may share it.
    """

    def __init__(self, make: Callable[[], L]) -> None:
        self._make = make
        self._idle = deque([(time.monotonic(), make())])  # since when; the first shows whether one can be made
        self._process = os.getpid()
        self._closed = False

    def take(self) -> L:
        """A connection that nobody else has until it is given back. Raises Closed."""
        if self._closed:
            raise Closed
        if self._process != os.getpid():  # forked: these connections are the parent's, whose answers we would read
            self._idle.clear()
            self._process = os.getpid()
        try:
            return self._idle.pop()[1]
        except IndexError:
            return self._make()

    def give_back(self, connection: L) -> Iterator[L]:
        """Takes a connection whose request was answered; returns those to be closed."""
        self._idle.append((time.monotonic(), connection))
        return self._unused()

    def close(self) -> Iterator[L]:
        """Lets nobody take a connection any more; returns those to be closed."""
        self._closed = True
        return self._unused()

    def _unused(self) -> Iterator[L]:
        long_ago = time.monotonic() - IDLE_SECONDS
        with suppress(IndexError):  # another thread was quicker
            while self._idle and (self._closed or self._idle[0][0] < long_ago):
                yield self._idle.popleft()[1]
