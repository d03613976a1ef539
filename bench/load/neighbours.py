"""A customer who pays, on one connection, beside a flood: does another's load cost him more than its share?

Each flood is compared with one of as many connections that ask for `/healthz`, which asks nobody anything: so what the
flood takes from the two cores by itself is in both.
"""

import multiprocessing
import resource
import selectors
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

from bench.load.client import TIMEOUT_SECONDS, Job, measure
from bench.load.figures import Sample
from bench.load.holders import LIMITED_NUMBER
from bench.load.scenarios import Scenario, asks

CUSTOMER = Scenario("customer", ("match-1",), only=1)
MANY = 100_000  # accounts
READINESS = "/readyz"
_HEALTH = "/healthz"


@dataclass(frozen=True, slots=True)
class Case:
    """A flood; of a path that needs no key, or of an account. None stands for `/healthz`."""

    name: str
    connections: int
    asks: str | Scenario | None
    slow_commits: bool = False
    customer: Scenario = CUSTOMER


CASES = (
    Case("readyz", 300, READINESS),
    Case("limited-account", 1000, Scenario("limited", ("match-1",), only=LIMITED_NUMBER)),
    Case("slow-commits", 48, Scenario("charging", ("match-1",), only=2), slow_commits=True),
    # They name the account that asks, or any of many, which the workers do not remember.
    Case("made-up-keys", 48, Scenario("made-up", ("match-1",), only=1, made_up=True)),
    Case(
        "made-up-keys-of-100k",
        48,
        Scenario("made-up", ("match-1",), accounts=MANY, made_up=True),
        customer=Scenario("customers", ("match-1",), accounts=MANY),
    ),
)


def beside(case: Case, address: str, seed: str, run: str, seconds: float) -> tuple[Sample, Counter[str]]:
    """What the customer sees, and what the flood is answered, by status."""
    with flooded(case, address, seed, f"{run}-flood") as answers:
        sample = measure(Job(address, case.customer, 1, seed, run, seconds))
    return sample, answers


@contextmanager
def flooded(case: Case, address: str, seed: str, run: str) -> Iterator[Counter[str]]:
    """A flood from a process of its own; what it yields has its answers in the end, by status."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    flooding = context.Process(target=flood, args=(case, address, seed, run, theirs), daemon=True)
    flooding.start()
    theirs.close()
    answers: Counter[str] = Counter()
    try:
        ours.recv()  # all are connected
        yield answers
        ours.send(None)
        answers.update(ours.recv())
    finally:
        ours.close()
        flooding.join(TIMEOUT_SECONDS)
        flooding.kill()


def flood(case: Case, address: str, seed: str, run: str, control: Connection) -> None:
    """Each connection asks again as soon as it is answered, until told to stop. Looks at nothing but the status."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2 * case.connections + 100, hard), hard))
    if isinstance(case.asks, Scenario):
        ask = asks(case.asks, seed, run)
        request: Callable[[], bytes] = lambda: ask().request  # noqa: E731
    else:
        probe = f"GET {case.asks or _HEALTH} HTTP/1.1\r\nHost: sepu\r\n\r\n".encode()
        request = lambda: probe  # noqa: E731
    host, _, port = address.rpartition(":")
    answers: Counter[str] = Counter()
    with selectors.DefaultSelector() as selector:

        def connect() -> None:
            opened = socket.create_connection((host, int(port)), TIMEOUT_SECONDS)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(opened, selectors.EVENT_READ)
            with suppress(OSError):  # a worker may have ended; what is read next says so
                opened.send(request())

        for _ in range(case.connections):
            connect()
        selector.register(control, selectors.EVENT_READ)
        control.send(None)
        while True:
            for key, _ in selector.select():
                if key.fileobj is control:
                    control.recv()
                    control.send(answers)
                    return
                assert isinstance(key.fileobj, socket.socket)
                try:
                    data = key.fileobj.recv(16384)
                    if data:
                        key.fileobj.send(request())
                except OSError:
                    data = b""
                answers[data[9:12].decode() or "closed"] += 1
                if not data:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    connect()
