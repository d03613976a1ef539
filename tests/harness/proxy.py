"""A proxy between the service and Postgres that cuts connections at chosen points of the protocol.

It understands only the framing of the server's messages: a type byte, then a length that includes itself. It holds an
answer back until ReadyForQuery, which the server sends after the COMMIT. Dropping it loses the answer to a statement
that has committed.
"""

import asyncio
import random
import shutil
import struct
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import quote

import uvloop

SOCKET = ".s.PGSQL.5432"
READY_FOR_QUERY = ord("Z")
DATA_ROW = ord("D")
NO_TLS = b"N"  # the server's answer to a client's request for TLS, over TCP

Cut = Literal["before", "during", "after", "anywhere"]


@dataclass(frozen=True)
class Odds:
    """The probability of a cut at each statement."""

    before: float = 0  # before the statement is delivered
    during: float = 0  # immediately after the statement is delivered
    after: float = 0  # after it charged and committed: the answer is dropped


class Proxy:
    """Listens in `directory` as Postgres would, and forwards to the server in the directory `upstream`."""

    def __init__(self, directory: Path, upstream: Path, seed: int = 0) -> None:
        self.directory = directory
        self._socket = str(directory / SOCKET)
        self._upstream = str(upstream / SOCKET)
        self._random = random.Random(seed)
        self._links: list[_Link] = []
        self.url = f"postgresql://sepu@/postgres?host={quote(str(directory), safe='')}"
        self.odds = Odds()
        self.swallows = False  # drops the server's answers, and does not answer new connections
        self.cuts: Counter[Cut] = Counter(dict.fromkeys(get_args(Cut), 0))
        self.accepted: list[float] = []  # when connections were made

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_unix_server(self._accept, self._socket, backlog=512)
        Path(self._socket).chmod(0o777)  # PgBouncer connects as another user
        try:
            yield
        finally:
            server.close()
            self._abort_all()

    def cut_one(self) -> None:
        """Cuts a random connection at any point; from any thread."""
        self._loop.call_soon_threadsafe(self._cut_any)

    def cut_all(self) -> None:
        """Cuts every connection; from any thread."""
        self._loop.call_soon_threadsafe(self._abort_all)

    def _cut_any(self) -> None:
        if self._links:
            self._cut(self._random.choice(self._links), "anywhere")

    def _abort_all(self) -> None:
        for link in self._links:
            link.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted.append(time.monotonic())
        link = _Link(writer)
        self._links.append(link)
        try:
            if self.swallows:
                await reader.read()
                return
            from_server, link.server = await asyncio.open_unix_connection(self._upstream)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._statements(link, reader, link.server))
                both.create_task(self._answers(link, from_server, writer))
        except* OSError:
            pass  # a side has gone, or there is no server: the other side's stream ends
        finally:
            link.abort()
            self._links.remove(link)

    async def _statements(self, link: "_Link", reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            if link.started and self._strikes(self.odds.before):
                self._cut(link, "before")
            if server.is_closing():
                break
            server.write(data)
            if link.started and self._strikes(self.odds.during):
                await server.drain()
                self._cut(link, "during")
        link.abort()

    async def _answers(self, link: "_Link", reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        answer = Answer()
        while data := await reader.read(1 << 16):
            answer.feed(data)
            if not answer.is_whole() or self.swallows:
                continue
            if answer.charged and self._strikes(self.odds.after):
                self._cut(link, "after")
            if client.is_closing():
                break
            link.started = True
            client.write(answer.data)
            answer = Answer()
        if answer.data and not self.swallows and not client.is_closing():
            client.write(answer.data)  # a fatal error has no ReadyForQuery
        link.abort()

    def _strikes(self, probability: float) -> bool:
        return probability > 0 and self._random.random() < probability

    def _cut(self, link: "_Link", cut: Cut) -> None:
        self.cuts[cut] += 1
        link.abort()
        if cut != "anywhere":
            raise ConnectionAbortedError


class _Link:
    """A connection from the service, and the matching one to the server."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.client = client
        self.server: asyncio.StreamWriter | None = None
        self.started = False  # the first answer ends the handshake

    def abort(self) -> None:
        for side in (self.client, self.server):
            if side is not None:
                side.close()


class Answer:
    """The server's messages up to ReadyForQuery."""

    def __init__(self) -> None:
        self.data = b""
        self.charged = False
        self._parsed = 0
        self._last = 0

    def feed(self, data: bytes) -> None:
        self.data += data
        while len(self.data) - self._parsed >= 5:
            kind, length = struct.unpack_from("!BI", self.data, self._parsed)
            if len(self.data) - self._parsed < 1 + length:
                return
            if kind == DATA_ROW:
                # The length of the first column, the outcome, follows the number of columns.
                (width,) = struct.unpack_from("!i", self.data, self._parsed + 7)
                column = self._parsed + 11
                self.charged = self.data[column : column + max(width, 0)] == b"charged"
            self._last = kind
            self._parsed += 1 + length

    def is_whole(self) -> bool:
        return self.data == NO_TLS or (self._last == READY_FOR_QUERY and self._parsed == len(self.data))


@contextmanager
def socket_directory() -> Iterator[Path]:
    """A directory with a path short enough for a socket, open to the Postgres user."""
    directory = Path(tempfile.mkdtemp(prefix="sepu-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@contextmanager
def proxied(upstream: Path, seed: int = 0) -> Iterator[Proxy]:
    """A proxy in its own thread, until the block ends."""
    listening, ended = threading.Event(), asyncio.Event()
    loop = uvloop.new_event_loop()

    async def listen() -> None:
        async with proxy.listening():
            listening.set()
            await ended.wait()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(listen())
        finally:
            listening.set()  # also if it cannot listen

    with socket_directory() as directory:
        proxy = Proxy(directory, upstream, seed)
        thread = threading.Thread(target=run)
        thread.start()
        listening.wait()
        try:
            yield proxy
        finally:
            loop.call_soon_threadsafe(ended.set)
            thread.join()
