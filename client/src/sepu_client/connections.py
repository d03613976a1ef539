"""Keeps connections; each carries one call at a time."""

import math
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from sepu_client.address import Route
from sepu_client.messages import Lost

if TYPE_CHECKING:
    import asyncio

IDLE_SECONDS = 30.0  # the service closes after 75, and many firewalls and balancers forget after 60

# Seconds until the next address is tried, if the one before is silent (RFC 8305, 5).
NEXT_ADDRESS_SECONDS = 0.25

# Firewalls, balancers and VPNs forget connections without a word. Those that are idle are probed after 10 seconds, and
# again 5 seconds later (also by the system's own intervals, 75 seconds, where there are no others). One breaks if
# nothing that it sent was acknowledged for 5 seconds: a call then has time for a new one.
_TCP_OPTIONS = [
    (level, getattr(socket, name), value)
    for level, name, value in (
        (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 10),
        (socket.IPPROTO_TCP, "TCP_KEEPALIVE", 10),  # macOS's name of it
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 5),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", 1),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 5000),  # milliseconds; Linux
    )
    if hasattr(socket, name)
]

forks = 0  # forks that led to this process; PERF: os.getpid is a system call


def _count_fork() -> None:
    global forks
    forks += 1


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_count_fork)

# The name does not exist, or has no address. The second is not on each platform.
_UNKNOWN_NAME = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}

Address = tuple[socket.AddressFamily, Any]


class Connection(Protocol):
    """A connection that a client keeps between two calls."""

    def is_usable(self) -> bool:
        """Returns whether a call may use it."""

    def close(self) -> None:
        """Ends it."""


C = TypeVar("C", bound=Connection)


class Connections(Generic[C]):
    """The idle connections of a client and of those that its `with_options` made. Threads may share it."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None  # of an AsyncClient, like the next
        self.turns: asyncio.Semaphore
        self._idle = deque[tuple[float, C]]()  # since when
        self._forks = forks
        self._is_closed = False

    def check_open(self) -> None:
        """Raises Lost if the client is closed."""
        if self._is_closed:
            raise Lost("the client is closed", final=True, unsent=True)

    def take(self) -> C | None:
        """Returns an idle connection, for exclusive use until it is given back; None if there is none. Raises Lost."""
        self.check_open()
        if self._forks != forks:  # these connections belong to the parent
            self._forks = forks
            self.drop()
        try:
            while True:
                since, connection = self._idle.pop()
                if since >= time.monotonic() - IDLE_SECONDS and connection.is_usable():
                    return connection
                connection.close()
        except IndexError:
            return None

    def give_back(self, connection: C) -> None:
        """Takes a connection back after its answer, and closes those that have been idle for too long."""
        if self._forks != forks:
            connection.close()
            raise Lost("the process was forked during the call")
        now = time.monotonic()
        self._idle.append((now, connection))
        self.drop(math.inf if self._is_closed else now - IDLE_SECONDS)

    def close(self) -> None:
        """Closes the idle connections, and from now on those that are given back."""
        self._is_closed = True
        self.drop()

    def drop(self, before: float = math.inf) -> None:
        """Closes the connections that have been idle since an earlier instant of `time.monotonic`."""
        try:
            while self._idle[0][0] < before:
                self._idle.popleft()[1].close()
        except IndexError:  # none is left, or another thread took it
            pass


def known_addresses(route: Route) -> list[Address] | None:
    """Returns the address if it is known without a resolver."""
    if route.unix:
        return [(socket.AF_UNIX, route.unix)]
    host, port = destination(route)
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return [(family, (host, port))]
    return None


def destination(route: Route) -> tuple[str, int]:
    """Returns host and port of the service or its proxy."""
    return (route.proxy.host, route.proxy.port) if route.proxy else (route.host, route.port)


def resolve(host: str, port: int, tell: Callable[[list[Address] | Lost], object]) -> threading.Thread | None:
    """Asks the resolver in a thread, which can be abandoned: its call cannot be interrupted.

    Where no thread can be had, because there are too many or (in CPython 3.12) the main thread has ended, this asks it
    here: that takes as long as the resolver's own settings allow.
    """

    def look_up() -> None:
        answer: list[Address] | Lost
        try:
            resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answer = [(family, address) for family, _, _, _, address in resolved]
        except Exception as error:
            is_unknown = isinstance(error, socket.gaierror) and error.errno in _UNKNOWN_NAME
            answer = Lost(f"{host} cannot be resolved: {error}", unknown_name=is_unknown)
        tell(answer)

    asking = threading.Thread(target=look_up, daemon=True)
    try:
        asking.start()
    except RuntimeError:
        look_up()
        return None
    return asking


def interleave(addresses: list[Address]) -> list[Address]:
    """Returns the addresses with those of both families in turn: often one family is not reachable (RFC 8305, 4)."""
    first = [address for address in addresses if address[0] == addresses[0][0]]
    other = [address for address in addresses if address[0] != addresses[0][0]]
    return [address for pair in zip_longest(first, other) for address in pair if address]


def is_unix(family: socket.AddressFamily) -> bool:
    """Returns whether an address is the path of a socket, which not every platform has."""
    return family == getattr(socket, "AF_UNIX", None)


def new_socket(family: socket.AddressFamily) -> socket.socket:
    """Returns a socket that sends without delay, and that breaks when the other side is silent."""
    made = socket.socket(family, socket.SOCK_STREAM)
    if not is_unix(family):
        for level, option, value in _TCP_OPTIONS:
            made.setsockopt(level, option, value)
    return made
