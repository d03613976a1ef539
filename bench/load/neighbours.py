"""A paying customer, on one connection, during a flood: does another's load cost them more than its share?

Each flood is compared with one of as many connections that ask for `/healthz`, which needs no database: so both include
what a flood itself takes from the two cores.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench.load.client import Job, measure
from bench.load.figures import Sample
from bench.load.scenarios import Scenario, asks
from tests.harness.accounts import LIMITED_NUMBER
from tests.harness.flood import flooded

from sepu import limits

CUSTOMER = Scenario("customer", ("match-1",), only=1)
MANY = 100_000  # accounts
CONNECTIONS = limits.connections.OF_A_WORKER - 100  # of a flood; one worker accepts the customer too


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
    Case("limited-account", CONNECTIONS, Scenario("limited", ("match-1",), only=LIMITED_NUMBER)),
    Case("slow-commits", 48, Scenario("charging", ("match-1",), only=2), slow_commits=True),
    # They name the customer's account, or one of many, which workers do not remember.
    Case("made-up-keys", 48, Scenario("made-up", ("match-1",), only=1, made_up=True)),
    Case(
        "made-up-keys-of-100k",
        48,
        Scenario("made-up", ("match-1",), accounts=MANY, made_up=True),
        customer=Scenario("customers", ("match-1",), accounts=MANY),
    ),
)


def beside(case: Case, address: str, seed: str, run: str, seconds: float) -> tuple[Sample, Counter[str]]:
    """Returns the customer's sample, and the number of the flood's answers by status."""
    with flooded(address, case.connections, partial(_requests, case.asks, seed, f"{run}-flood")) as answers:
        sample = measure(Job(address, case.customer, 1, seed, run, seconds))
    return sample, answers


def _requests(asked: str | Scenario | None, seed: str, run: str) -> Callable[[], bytes]:
    if isinstance(asked, Scenario):
        ask = asks(asked, seed, run)
        return lambda: ask().request
    probe = f"GET {asked or '/healthz'} HTTP/1.1\r\nHost: sepu\r\n\r\n".encode()
    return lambda: probe
