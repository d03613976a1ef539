"""The HTTP client: in its own process, one request at a time per connection, nothing between it and the socket.

A library would take longer for a request than the service does. This one makes requests before it sends them, and
checks each answer after all have come: its status, its body, whether it is a replay.
"""

import gc
import math
import multiprocessing
import os
import select
import signal
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from typing import NamedTuple

import psutil
from bench.load.figures import Sample
from bench.load.scenarios import REPLAYED, Ask, Scenario, asks

from sepu.server.gunicorn import allow_files

TIMEOUT_SECONDS = 30.0
WARM_UP_SECONDS = 0.3
PREPARED = 50_000  # requests that are made before the first is sent; the others as they are sent
_CHECKED_LATER = 100_000_000  # bytes of bodies
_OF_AN_ADDRESS = 100  # idle connections: well within the worker's limit for one address; the loopback has many


@dataclass(frozen=True, slots=True)
class Job:
    """A client's task: for `seconds`, or `requests`; with a `rate`, in an open loop."""

    address: str  # HOST:PORT, or several, separated by commas, which take turns
    scenario: Scenario
    connections: int
    seed: str
    run: str
    seconds: float = 3.0
    requests: int | None = None
    warm_up: float = WARM_UP_SECONDS
    rate: float | None = None
    key: str = ""
    watched: Mapping[str, int] = field(default_factory=dict)  # process ids by name; their children count too
    reloads: int = 0  # the master whose workers are replaced from the start


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its children, also of ended ones."""
    process = psutil.Process(pid)
    spent = sum(process.cpu_times()[:4])
    for child in process.children():
        with suppress(psutil.NoSuchProcess):
            spent += sum(child.cpu_times()[:2])
    return spent


def measure(job: Job) -> Sample:
    """Runs a client in a new process, and waits for it."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(run, job).result()


def run(job: Job) -> Sample:
    """Warms up, then measures."""
    gc.disable()
    ask = _prepared(asks(job.scenario, job.seed, job.run, job.key))
    if job.scenario.replays:
        first = Client(job.address, 32, ask)
        first.closed(0, requests=REPLAYED)
        first.hang_up()
    client = Client(job.address, job.connections, ask)
    try:
        client.closed(job.warm_up)
        client.forget()
        if job.reloads:
            os.kill(job.reloads, signal.SIGHUP)
        before = {who: cpu_seconds(pid) for who, pid in job.watched.items()}
        sample = client.closed(job.seconds, job.requests) if job.rate is None else client.open(job.seconds, job.rate)
        sample.cpu = {who: cpu_seconds(pid) - before[who] for who, pid in job.watched.items()}
        return sample
    finally:
        client.hang_up()


def _prepared(ask: Callable[[], Ask]) -> Callable[[], Ask]:
    ready = iter([ask() for _ in range(PREPARED)])
    return lambda: next(ready, None) or ask()


class Answer(NamedTuple):
    """What came for a request, and when."""

    ask: Ask
    status: bytes
    head: bytes  # in lower case
    body: bytes
    since: float
    until: float


@dataclass(slots=True)
class Connection:
    opened: socket.socket
    since: float = 0.0
    ask: Ask | None = None
    got: bytes = b""


class Client:
    """Its connections, and what came over them."""

    def __init__(self, address: str, connections: int, ask: Callable[[], Ask]) -> None:
        parts = [one.rpartition(":") for one in address.split(",")]
        self._addresses = cycle([(host, int(port)) for host, _, port in parts])
        self._ask = ask
        self._free: deque[Connection] = deque()
        self._busy: dict[int, Connection] = {}
        self._poll = select.poll()
        self._right = 0  # answers, the warm-up's too
        self.forget()
        for _ in range(connections):
            self._connect()

    def forget(self) -> None:
        self._answers: list[Answer] = []  # not checked yet
        self._held = 0  # bytes of their bodies
        self._latencies: list[float] = []
        self._instants: list[float] = []
        self.errors: Counter[str] = Counter()

    def hang_up(self) -> None:
        for connection in (*self._free, *self._busy.values()):
            connection.opened.close()

    def closed(self, seconds: float, requests: int | None = None) -> Sample:
        """Each connection asks again as soon as it is answered."""
        started, cpu = time.perf_counter(), time.process_time()
        end, left = (started + seconds, math.inf) if requests is None else (math.inf, requests)
        while left > 0 and time.perf_counter() < end:
            left -= self.ask_again(left)
        elapsed = time.perf_counter() - started
        self._settle()
        return self._sample(started, seconds if requests is None else elapsed, cpu)

    def ask_again(self, most: float = math.inf) -> int:
        """Asks over free connections, at most `most`, and waits for answers; returns how many it asked."""
        asked = 0
        while self._free and asked < most:
            self._send()
            asked += 1
        self._receive(1.0)
        return asked

    def open(self, seconds: float, rate: float) -> Sample:
        """Asks at fixed instants, whatever has been answered; if no connection is free, waits for one.

        Latency counts from that instant, so a stall is in the latency of every request that it delayed.
        """
        started, cpu = time.perf_counter(), time.process_time()
        number, asked = round(seconds * rate), 0
        while asked < number:
            due = started + asked / rate
            now = time.perf_counter()
            if self._free and due <= now:
                self._send(due)
                asked += 1
                self._receive(0)
            else:
                self._receive(TIMEOUT_SECONDS if not self._free else due - now)
                if not self._free and time.perf_counter() - due > TIMEOUT_SECONDS:
                    self.errors["never sent"] += number - asked
                    break
        self._settle()
        return self._sample(started, seconds, cpu)

    def _connect(self) -> None:
        opened = socket.create_connection(next(self._addresses))
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._free.append(Connection(opened))

    def _send(self, due: float | None = None) -> None:
        connection = self._free.popleft()
        connection.ask = ask = self._ask()
        self._busy[connection.opened.fileno()] = connection
        self._poll.register(connection.opened, select.POLLIN)
        connection.since = time.perf_counter() if due is None else due
        try:
            connection.opened.sendall(ask.request)
        except OSError:
            self._lose(connection)

    def _receive(self, timeout: float) -> None:
        if not self._busy:
            time.sleep(timeout if timeout < TIMEOUT_SECONDS else 0)
            return
        for file, _ in self._poll.poll(1e3 * timeout):
            connection = self._busy[file]
            try:
                data = connection.opened.recv(65536)
            except OSError:
                data = b""
            now = time.perf_counter()
            if not data:
                self._lose(connection)
                continue
            connection.got = got = connection.got + data if connection.got else data
            head, blank, body = got.partition(b"\r\n\r\n")
            if not blank:
                continue
            lower = head.lower()
            at = lower.find(b"\r\ncontent-length:") + 17
            if len(body) < int(lower[at : at + 10].split(b"\r", 1)[0]):
                continue
            assert connection.ask is not None
            self._answers.append(Answer(connection.ask, head[9:12], lower, body, connection.since, now))
            self._held += len(body)
            if self._held > _CHECKED_LATER:
                self._check()
            connection.got = b""
            self._end(connection)
            if b"\r\nconnection: close" in lower:
                connection.opened.close()
                self._connect()
            else:
                self._free.append(connection)

    def _check(self) -> None:
        answers, self._answers, self._held = self._answers, [], 0
        for ask, status, head, body, since, until in answers:
            if status != ask.status:
                code = body.partition(b'"error":"')[2].partition(b'"')[0]
                self.errors[f"{status.decode()} {code.decode()}".strip()] += 1
            elif ask.part not in body or (b"\r\nidempotency-replayed: true" in head) is not ask.replayed:
                self.errors["wrong answer"] += 1
            else:
                self._right += 1
                self._latencies.append(until - since)
                self._instants.append(until)

    def _lose(self, connection: Connection) -> None:
        self.errors["broken connection"] += 1
        self._end(connection)
        connection.opened.close()
        self._connect()

    def _end(self, connection: Connection) -> None:
        self._poll.unregister(connection.opened)
        del self._busy[connection.opened.fileno()]

    def _settle(self) -> None:
        """Waits for requests in flight."""
        end = time.perf_counter() + TIMEOUT_SECONDS
        while self._busy and (left := end - time.perf_counter()) > 0:
            self._receive(left)
        for connection in list(self._busy.values()):
            self._lose(connection)
            self.errors["never answered"] += 1

    def _sample(self, started: float, seconds: float, cpu: float) -> Sample:
        busy = (time.process_time() - cpu) / (time.perf_counter() - started)
        self._check()
        within = sum(instant <= started + seconds for instant in self._instants)
        return Sample(seconds, within, sorted(self._latencies), self.errors, busy, right=self._right)


@contextmanager
def held(address: str, number: int) -> Iterator[int]:
    """Opens `number` connections that ask once and no more; yields how many of them the server keeps."""
    needed = number + 200
    if allow_files(needed) < needed:
        raise SystemExit(f"{needed} open files are needed: raise `ulimit -Hn`")
    host, _, port = address.rpartition(":")
    kept = 0
    with ExitStack() as stack:
        for place in range(number):
            source = (f"127.0.0.{2 + place // _OF_AN_ADDRESS}", 0)
            opened = stack.enter_context(socket.create_connection((host, int(port)), TIMEOUT_SECONDS, source))
            opened.sendall(b"GET /healthz HTTP/1.1\r\nHost: sepu\r\n\r\n")
            kept += opened.recv(65536).startswith(b"HTTP/1.1 200 ")
        yield kept
