"""Counts what a service asks of Postgres, on the wire between them."""

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.proxy import SOCKET, socket_directory

_STATEMENTS = {ord("Q"), ord("E")}  # a simple query; the execution of a parsed one


@dataclass
class Wire:
    """What has passed so far; sockets in `directory` lead to Postgres."""

    directory: Path
    statements: int = 0
    round_trips: int = 0  # how often the service spoke and then had to wait
    connections: int = 0
    _links: list[tuple[socket.socket, socket.socket]] = field(default_factory=list)

    @property
    def done(self) -> tuple[int, int]:
        return self.statements, self.round_trips


class _Link:
    """One connection, in the messages of its client: a type byte, then a length that counts itself."""

    def __init__(self, wire: Wire, client: socket.socket, server: socket.socket) -> None:
        self.wire = wire
        self.other = {client: server, server: client}
        self._client = client
        self._unread = b""
        self._begun = False  # the first message has no type
        self._waits = False  # for an answer

    def passed(self, source: socket.socket, data: bytes) -> None:
        if source is not self._client:
            self._waits = False
            return
        if self._begun and not self._waits:
            self.wire.round_trips += 1
        self._waits = True
        self._unread += data
        if not self._begun and len(self._unread) >= 4:
            self._begun = True
            self._unread = self._unread[int.from_bytes(self._unread[:4]) :]
        while len(self._unread) >= 5:
            self.wire.statements += self._unread[0] in _STATEMENTS
            self._unread = self._unread[1 + int.from_bytes(self._unread[1:5]) :]


@contextmanager
def counted(upstream: Path) -> Iterator[Wire]:
    """Passes on between a socket of its own and the Postgres whose socket is in `upstream`, and counts."""
    with (
        socket_directory() as directory,
        socket.socket(socket.AF_UNIX) as listener,
        selectors.DefaultSelector() as ready,
    ):
        wire = Wire(directory)
        listener.bind(str(directory / SOCKET))
        listener.listen()
        ready.register(listener, selectors.EVENT_READ)
        ended = threading.Event()

        def pass_on() -> None:
            while not ended.is_set():
                for key, _ in ready.select(0.1):
                    link: _Link | None = key.data
                    source = key.fileobj
                    assert isinstance(source, socket.socket)
                    if link is None:
                        accept()
                        continue
                    try:
                        data = source.recv(1 << 16)
                    except OSError:
                        data = b""
                    if data:
                        link.passed(source, data)
                        link.other[source].sendall(data)
                    else:
                        for side in link.other:
                            ready.unregister(side)
                            side.close()
                        break  # what else was ready may have been the other side

        def accept() -> None:
            client, _ = listener.accept()
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(upstream / SOCKET))
            wire.connections += 1
            link = _Link(wire, client, server)
            for side in (client, server):
                ready.register(side, selectors.EVENT_READ, link)

        thread = threading.Thread(target=pass_on)
        thread.start()
        try:
            yield wire
        finally:
            ended.set()
            thread.join()
            for key in list(ready.get_map().values()):
                if isinstance(key.fileobj, socket.socket) and key.fileobj is not listener:
                    key.fileobj.close()
