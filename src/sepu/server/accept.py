"""Accepts a worker's connections, and leaves some to other workers: the kernel would give a whole burst to one."""

import asyncio
import logging
import socket
from collections.abc import Callable
from math import inf

import numpy as np

from sepu import limits

# How many connections more than another a worker may have before it leaves the next ones to others.
AHEAD = 2
AHEAD_SECONDS = 0.001
# Connections accepted in one turn; requests under way are served before the next.
_AT_ONCE = 8
# A full worker leaves connections to one that has room; if none has, it accepts and refuses them.
_FULL_SECONDS = 0.05
_REFUSED_AT_ONCE = 64

_logger = logging.getLogger(__name__)


class OpenConnections:
    """Publishes how many connections a worker has, and reads how many the others have.

    The workers share the memory `of_workers`. A worker's number is infinite while it accepts no connections.
    """

    def __init__(self, of_workers: "np.ndarray[tuple[int], np.dtype[np.float64]]", worker: int) -> None:
        self._own = of_workers[worker : worker + 1]
        self._others = of_workers[:worker], of_workers[worker + 1 :]

    @property
    def number(self) -> float:
        """Returns this worker's number of connections."""
        return float(self._own[0])

    @number.setter
    def number(self, number: float) -> None:
        self._own[0] = number

    def fewest_of_others(self) -> float:
        """Returns the lowest number of any other worker; infinite if none accepts."""
        return min(float(part.min(initial=inf)) for part in self._others)


class Acceptor:
    """Accepts connections of one listening socket on an event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        protocol: Callable[[], asyncio.BaseProtocol],
        connections: OpenConnections,
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._protocol = protocol
        self._connections = connections
        self._connecting: set[asyncio.Task[object]] = set()
        listener.setblocking(False)
        self._timer = loop.call_soon(self._resume)

    def close(self) -> None:
        """Stops accepting. Other workers accept waiting connections."""
        self._timer.cancel()
        self._loop.remove_reader(self._listener)

    def _resume(self) -> None:
        self._loop.add_reader(self._listener, self._accept)
        if self._connections.number < limits.connections.OF_A_WORKER:
            self._accept(1)
        elif self._connections.fewest_of_others() >= limits.connections.OF_A_WORKER:
            self._accept(_REFUSED_AT_ONCE)

    def _accept(self, at_least: int = 0) -> None:
        connections = self._connections
        most = min(connections.fewest_of_others() + AHEAD, limits.connections.OF_A_WORKER)
        room = min(most - connections.number, _AT_ONCE)
        for _ in range(max(int(room), at_least)):
            try:
                accepted, _address = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:  # no file descriptor or memory is left
                _logger.warning("a connection could not be accepted: %s", error)
                self._pause(_FULL_SECONDS)
                return
            connecting = self._loop.create_task(self._loop.connect_accepted_socket(self._protocol, accepted))
            self._connecting.add(connecting)
            connecting.add_done_callback(self._connecting.discard)
            connections.number += 1  # so that others see it immediately; the worker corrects it later
        if connections.number >= most:
            self._pause(AHEAD_SECONDS if connections.number < limits.connections.OF_A_WORKER else _FULL_SECONDS)

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener)
        self._timer = self._loop.call_later(seconds, self._resume)
