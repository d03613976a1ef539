"""A customer who pays, on one connection, beside a flood: does another's load cost him more than its share?

Each flood is compared with one of as many connections that ask for `/healthz`, which asks nobody anything: so what the
flood takes from the two cores by itself is in both.
"""

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe

from bench.load.client import TIMEOUT_SECONDS, Client, Connection, Job, measure
from bench.load.figures import Sample
from bench.load.holders import LIMITED_NUMBER
from bench.load.scenarios import Ask, Scenario, asks

from sepu.server.gunicorn import allow_files

CUSTOMER = Scenario("customer", ("match-1",), only=1)
MANY = 100_000  # accounts


@dataclass(frozen=True, slots=True)
class Case:
    """A flood; of a path that needs no key, or of an account. None stands for `/healthz`."""

    name: str
    connections: int
    asks: str | Scenario | None
    slow_commits: bool = False
    customer: Scenario = CUSTOMER


CASES = (
    Case("readyz", 300, "/readyz"),
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
def flooded(case: Case, address: str, seed: str, run: str, key: str = "") -> Iterator[Counter[str]]:
    """A flood from a process of its own, if given with this key alone; it yields its answers in the end, by status."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    flooding = context.Process(target=flood, args=(case, address, seed, run, key, theirs), daemon=True)
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


def flood(case: Case, address: str, seed: str, run: str, key: str, control: Pipe) -> None:
    """Each connection asks again as soon as it is answered, until told to stop. Looks at nothing but the status."""
    allow_files(case.connections + 100)
    probe = Ask(f"GET {case.asks or '/healthz'} HTTP/1.1\r\nHost: sepu\r\n\r\n".encode(), b"", b"")
    ask = asks(case.asks, seed, run, key) if isinstance(case.asks, Scenario) else lambda: probe
    flooding = _Flood(address, case.connections, ask)
    control.send(None)
    while not control.poll():
        flooding.ask_again()
    control.recv()
    control.send(flooding.errors)


class _Flood(Client):
    """Takes no answer for right."""

    def _judge(self, connection: Connection, status: bytes, head: bytes, body: bytes, now: float) -> None:  # noqa: ARG002
        self.errors[status.decode()] += 1
