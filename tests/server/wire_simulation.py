"""The default worker's connection without a socket: the test supplies time, transport and application.

`Simulation` plays events, and after each compares the connection with `Reference`, which knows where each request
begins and ends, and so needs no parser.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable
from itertools import pairwise
from random import Random
from typing import Any, Literal, cast

from tests.fuzz.seeds import mutate
from tests.server.wire_grammar import Message, message

from sepu import limits
from sepu.http.observers import ReplyObservers
from sepu.http.replies import Reply
from sepu.http.responder import SEND
from sepu.server.client_address import Network
from sepu.server.connection import Connection

ANSWER = Reply(200, body=b"{}")
State = Literal["new", "idle", "head", "body", "next", "serving", "stuck", "closing", "over"]
Asked = tuple[str, str, bytes | None]


class Loop:
    """A clock, and a queue of callbacks."""

    now = 1000.0

    def __init__(self) -> None:
        self.soon: deque[Callable[[], None]] = deque()

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)


class Wire(asyncio.Transport):
    """The client's side: its bytes that are not yet read, and what it received."""

    def __init__(self, connection: Connection, buffer: memoryview, peer: object = ("127.0.0.1", 50_000)) -> None:
        super().__init__({"peername": peer})
        self.connection, self.buffer = connection, buffer
        self.sent = b""
        self.ended = False
        self.came: list[bytes] = []
        self.eof = self.closed = False
        self.full = False  # the client reads nothing
        self._told_full = False
        self._reading = True
        connection.connection_made(self)

    def pump(self) -> None:
        """Lets the connection read as much as it wants."""
        while self._reading and not self.closed and self.sent:
            part, self.sent = self.sent[: len(self.buffer)], self.sent[len(self.buffer) :]
            self.buffer[: len(part)] = part
            self.connection.buffer_updated(len(part))
        if self._reading and not self.closed and self.ended:
            self.ended = False
            if not self.connection.eof_received():
                self.close()

    def drain(self) -> None:
        self.full = False
        if self._told_full:
            self._told_full = False
            self.connection.resume_writing()

    def lose(self) -> None:
        if not self.closed:
            self.closed = True
            self.connection.connection_lost(None)

    # --- called by the connection

    def write(self, data: "bytes | bytearray | memoryview") -> None:
        assert not self.eof, "written after the end"
        assert not self.closed, "written to a closed connection"
        self.came.append(bytes(data))
        if self.full and not self._told_full:
            self._told_full = True
            self.connection.pause_writing()

    def write_eof(self) -> None:
        assert not self.eof, "ended twice"
        self.eof = True

    close = abort = lose

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        assert self._reading
        self._reading = False

    def resume_reading(self) -> None:
        assert not self._reading
        self._reading = True


class Owner:
    """A worker whose application answers immediately, or when told to."""

    def __init__(self, *, at_once: bool = True) -> None:
        self.clock = Loop()
        self.loop = cast("asyncio.AbstractEventLoop", self.clock)
        self.observers = ReplyObservers()
        self.connections: set[Connection] = set()
        self.addresses: Counter[str] = Counter()
        self.trusted_proxies: tuple[Network, ...] = ()
        self.buffer = memoryview(bytearray(16 * 1024))
        self.alive = True
        self.published = 0
        self.asked: list[Asked] = []
        self._at_once = at_once
        self._waiting: deque[Callable[[Reply, str], None]] = deque()

    def connections_changed(self) -> None:
        self.published = len(self.connections)

    def served(self) -> None: ...

    def wsgi(self, environ: dict[str, Any], start_response: object) -> Iterable[bytes]:  # noqa: ARG002
        body = environ["wsgi.input"].read()
        kept = None if len(body) > limits.requests.BODY_BYTES else body
        self.asked.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], kept))
        self._waiting.append(environ[SEND])
        if self._at_once:
            self.answer()
        return ()

    def answer(self) -> None:
        """Answers the oldest request that has no answer; its request id is its number."""
        if self._waiting:
            self._waiting.popleft()(ANSWER, str(len(self.asked) - len(self._waiting) - 1))

    def run(self, wire: Wire) -> None:
        """Runs the queued callbacks."""
        wire.pump()
        while self.clock.soon:
            self.clock.soon.popleft()()
            wire.pump()


def short(data: bytes) -> str:
    """Returns a summary of the written data: `100`, the number of an answer, or the status of a refusal."""
    status = data[9:12].decode()
    if b'"error"' in data:
        return f"refused {status}"
    if status == "100":
        return status
    fields = dict(line.split(": ", 1) for line in data.decode().split("\r\n\r\n")[0].split("\r\n")[1:])
    return f"answer {fields['X-Request-Id']}{' close' if fields.get('Connection') == 'close' else ''}"


class Played:
    """A connection that a test drives step by step."""

    def __init__(
        self, *, at_once: bool = True, peer: object = ("127.0.0.1", 50_000), owner: Owner | None = None
    ) -> None:
        self.owner = owner or Owner(at_once=at_once)
        self.connection = Connection(self.owner)
        self.wire = Wire(self.connection, self.owner.buffer, peer)

    def send(self, *segments: bytes) -> list[str]:
        """Sends the segments; returns all that has come back."""
        for segment in segments:
            self.wire.sent += segment
            self.owner.run(self.wire)
        return self.came

    def after(self, seconds: float) -> list[str]:
        self.owner.clock.now += seconds
        self.connection.check(self.owner.clock.now)
        return self.came

    @property
    def came(self) -> list[str]:
        return [short(data) for data in self.wire.came]


def _without_100(came: list[str]) -> tuple[list[str], list[int]]:
    """Returns the answers, and the numbers of the requests that got a 100 Continue."""
    numbers = [at - came[:at].count("100") for at, each in enumerate(came) if each == "100"]
    return [each for each in came if each != "100"], numbers


class Reference:
    """A connection's behaviour, as slow and plain as possible."""

    def __init__(self, now: float, *, at_once: bool) -> None:
        self.at_once = at_once
        self.messages: list[Message] = []
        self.sent = 0  # bytes of the first unserved message and all after it
        self.served = 0
        self.answered = 0
        self.told = False  # whether that first message got a 100 Continue
        self.full = self.at_end = self.stopping = False
        self.state: State = "new"
        self.deadline = now + limits.requests.REQUEST_SECONDS
        self.asked: list[Asked] = []
        self.came: list[str] = []

    def settle(self, now: float) -> None:
        while self.state in {"new", "idle", "head", "body", "next"}:
            first = self.messages[self.served] if self.served < len(self.messages) else None
            if first is not None and self.sent >= first.over:
                if first.refusal is None:
                    self._serve(first, now)
                else:
                    self._refuse(first.refusal, now)
                continue
            waiting: State = "new" if not self.served else "idle"
            if first is not None and self.sent > first.begin:
                waiting = "head" if self.sent < first.head else "body"
            if self.at_end:
                if waiting in {"new", "idle"}:
                    self._close(now)
                else:
                    self._refuse(400, now)
                return
            if (self.state, waiting) != ("head", "body") and self.state != waiting:
                seconds = limits.connections.IDLE_SECONDS if waiting == "idle" else limits.requests.REQUEST_SECONDS
                self.deadline = now + seconds
            self.state = waiting
            if first is not None and waiting == "body" and first.expects and not self.told:
                self.told = True
                self._write("100", now)
            return

    def check(self, now: float) -> None:
        if now < self.deadline:
            return
        if self.state in {"new", "idle"}:
            self._close(now)
        elif self.state in {"head", "body"}:
            self._refuse(408, now)
        elif self.state == "serving":
            self._refuse(500, now)
        else:
            self.state = "over"

    def answer(self, now: float) -> None:
        if self.state != "serving":
            return
        closes = self.stopping or not self.messages[self.served - 1].keeps
        self.state = "next"
        self._write(f"answer {self.served - 1}{' close' if closes else ''}", now)
        if closes:
            self._close(now)
        self.settle(now)

    def drain(self, now: float) -> None:
        self.full = False
        if self.state == "stuck":
            self.state = "next"
            self.settle(now)

    def stop(self, now: float) -> None:
        self.stopping = True
        if self.state in {"new", "idle"}:
            self._close(now)

    def end(self, now: float) -> None:
        self.at_end = True
        if self.state == "closing":
            self.state = "over"
        self.settle(now)

    def _serve(self, first: Message, now: float) -> None:
        self.served += 1
        self.sent -= len(first.data) if first.keeps else first.over
        self.told = False
        self.state, self.deadline = "serving", now + limits.requests.APPLICATION_SECONDS
        self.asked.append((first.method, first.path, first.body))
        if self.at_once:
            self.answer(now)

    def _refuse(self, status: int, now: float) -> None:
        self.came.append(f"refused {status}")
        self._close(now)

    def _write(self, what: str, now: float) -> None:
        self.came.append(what)
        if self.full:
            self.state, self.deadline = "stuck", now + limits.requests.ANSWER_SECONDS

    def _close(self, now: float) -> None:
        self.state, self.deadline = ("over" if self.at_end else "closing"), now + limits.requests.LINGER_SECONDS


class Simulation:
    """A connection and its reference, played together. An assertion fails where they differ."""

    def __init__(self, *, at_once: bool) -> None:
        self.owner = Owner(at_once=at_once)
        self.connection = Connection(self.owner)
        self.wire = Wire(self.connection, self.owner.buffer)
        self.reference = Reference(self._now, at_once=at_once)
        self._unsent = b""
        self._ends = False
        self._compare()

    @property
    def _now(self) -> float:
        return self.owner.clock.now

    # --- events

    def request(self, rng: Random) -> None:
        """The client prepares another request."""
        made = message(rng, len(self.reference.messages))
        self.reference.messages.append(made)
        self._unsent += made.data

    def send(self, size: int) -> None:
        """`size` bytes arrive, in segments as large as the connection's buffer."""
        if self._ends:
            return
        segment = len(self.owner.buffer)
        for at in range(0, size, segment):
            part = self._unsent[at : min(size, at + segment)]
            self.wire.sent += part
            self.owner.run(self.wire)
            self.reference.sent += len(part)
            self.reference.settle(self._now)
            self._compare()
        self._unsent = self._unsent[size:]

    def send_part(self, rng: Random) -> None:
        """One segment arrives, which often ends near a boundary of a request."""
        ends = [0]
        for each in self.reference.messages[self.reference.served :]:
            start = ends[-1]
            ends += [start + each.begin, start + each.head, start + each.over, start + len(each.data)]
        near = [end - self.reference.sent + more for end in ends for more in (-1, 0, 1, 2)]
        near = [size for size in near if 0 < size <= len(self._unsent)]
        self.send(rng.choice([1, 5, rng.randint(1, 5000), len(self._unsent), *near, *near]))

    def end(self) -> None:
        """The client closes its side."""
        if not self._ends:
            self._ends = self.wire.ended = True
            self.owner.run(self.wire)
            self.reference.end(self._now)
            self._compare()

    def answer(self) -> None:
        """The application answers."""
        self.owner.answer()
        self.owner.run(self.wire)
        self.reference.answer(self._now)
        self._compare()

    def wait(self, seconds: float) -> None:
        """Time passes, and the worker checks the connection."""
        self.owner.clock.now += seconds
        if not self.wire.closed:
            self.connection.check(self._now)
            self.owner.run(self.wire)
        self.reference.check(self._now)
        if self.reference.state == "closing" and self.reference.at_end:
            self.reference.state = "over"
        self._compare()

    def fill(self) -> None:
        """The client stops reading."""
        self.wire.full = self.reference.full = True

    def drain(self) -> None:
        """The client reads everything."""
        self.wire.drain()
        self.owner.run(self.wire)
        self.reference.drain(self._now)
        self._compare()

    def stop(self) -> None:
        """The worker begins to stop."""
        self.owner.alive = False
        if not self.wire.closed:
            self.connection.close_if_idle()
            self.owner.run(self.wire)
        self.reference.stop(self._now)
        self._compare()

    def cut(self) -> None:
        """The connection breaks."""
        self.wire.lose()
        self.owner.run(self.wire)
        self.reference.state = "over"
        self._compare()

    def finish(self) -> None:
        """Once all deadlines have passed, everything must be over."""
        for _ in range(2 * len(self.reference.messages) + 5):
            self.answer()
            self.drain()
            self.wait(100)
        assert self.wire.closed
        assert not self.owner.connections

    # ---

    def _compare(self) -> None:
        reference, wire = self.reference, self.wire
        came, continued = _without_100([short(data) for data in wire.came])
        expected, due = _without_100(reference.came)
        over = reference.state == "over"
        found = (self.owner.asked, came, wire.closed, wire.eof or wire.closed)
        assert found == (reference.asked, expected, over, over or reference.state == "closing"), reference.state
        assert self.owner.published == len(self.owner.connections)
        # It may be superfluous: the connection does not see what the kernel holds.
        assert len(set(continued)) == len(continued)
        assert set(due) <= set(continued) <= {n for n, each in enumerate(reference.messages) if each.expects}
        if not over:
            assert self.connection.deadline == reference.deadline, reference.state


def play(seed: int) -> Counter[str]:
    """Plays one case, determined by its seed. Returns the events."""
    rng = Random(seed)
    simulation = Simulation(at_once=rng.random() < 0.4)
    tame: list[Callable[[], None]] = [
        *[lambda: simulation.send_part(rng)] * 12,
        *[lambda: simulation.request(rng)] * 4,
        *[simulation.answer] * 6,
        lambda: simulation.wait(rng.choice([0.25, 3, 9.75])),
        simulation.fill,
        simulation.drain,
        simulation.drain,
    ]
    harsh: list[Callable[[], None]] = [
        lambda: simulation.wait(rng.choice([10, 75, 29])),
        simulation.end,
        simulation.stop,
        simulation.cut,
    ]
    for _ in range(rng.choice([10, 30, 100])):
        rng.choice(tame if rng.random() < 0.98 else harsh)()
    simulation.finish()
    counts = Counter(came.split()[0] for came in simulation.reference.came)
    return counts + Counter({"cases": 1, "requests": len(simulation.reference.messages)})


def play_mutated(seed: int) -> Counter[str]:
    """Plays damaged requests in three ways: whole, in some segments, byte by byte. The outcome must be the same."""
    rng = Random(seed)
    data = mutate(rng, b"".join(message(rng, number).data for number in range(rng.choice([1, 1, 2, 3]))))
    data = data[:1000]  # fast, and below limits that depend on segments
    ends = sorted({rng.randrange(len(data) + 1) for _ in range(5)} | {0, len(data)})
    manners = [[data], [data[start:end] for start, end in pairwise(ends)], [bytes([byte]) for byte in data]]
    outcomes = []
    for segments in manners:
        played = Played()
        played.send(*segments)
        played.wire.ended = True
        played.owner.run(played.wire)
        came, _ = _without_100(played.came)
        outcomes.append((played.owner.asked, came, played.wire.closed))
    assert outcomes[0] == outcomes[1] == outcomes[2], (outcomes, data)
    assert outcomes[0][2], "it stays open"
    return Counter({"mutated": 1})
