"""Many callers at once, against what must be true afterwards."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, TypeVar

import psycopg
import pytest

from sepu.metering.commands import Command, Metered, admit, read_usage
from sepu.metering.failure import LedgerUnavailable
from sepu.metering.ledger import Ledger

if TYPE_CHECKING:
    from tests.metering.conftest import Customer, MakeCustomer

T = TypeVar("T")

# What the interface asks a client to repeat with the same key and input.
REPEATED = {"request_in_progress"}


@pytest.fixture
def ledger(database_url: str) -> Iterator[Ledger]:
    opened = Ledger(database_url, 12)
    opened.open()
    yield opened
    opened.close()


def together(calls: list[Callable[[], T]]) -> list[T]:
    """Runs all calls at the same time, each in a thread of its own."""
    barrier = Barrier(len(calls))

    def call(at: int) -> T:
        barrier.wait()
        return calls[at]()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(call, range(len(calls))))


def persist(ledger: Ledger, command: Command[Metered]) -> Metered:
    """A client that follows the interface: after a 503 or a request in progress, the same again."""
    while True:
        try:
            metered = ledger.run(command)
        except LedgerUnavailable:
            continue
        if metered.outcome not in REPEATED:
            return metered


def test_one_key_is_charged_once(ledger: Ledger, connection: psycopg.Connection, customer: "Customer") -> None:
    for number in range(10):
        commands = [customer.request(f"key-{number:04}", what=str(what)) for what in range(3) for _ in range(4)]
        answers = together([lambda command=command: persist(ledger, command) for command in commands])  # type: ignore[misc]
        (charged,) = [answer for answer in answers if answer.outcome == "charged"]
        for command, answer in zip(commands, answers, strict=True):
            if command.parameters[-1] == charged.body:
                assert (answer.outcome, answer.body) == ("charged" if answer is charged else "replayed", charged.body)
            else:
                assert answer == Metered("idempotency_conflict")
    assert customer.committed(connection) == customer.stored(connection)
    assert sum(customer.committed(connection).values()) == 10


@pytest.mark.parametrize(("units", "limit", "fit"), [(1, 17, 17), (5, 33, 6)])
def test_the_quota_stops_exactly(
    ledger: Ledger, connection: psycopg.Connection, make_customer: "MakeCustomer", units: int, limit: int, fit: int
) -> None:
    customer = make_customer(match_limit=limit)
    commands = [customer.request(f"key-{number:04}", units=units) for number in range(40)]
    answers = together([lambda command=command: persist(ledger, command) for command in commands])  # type: ignore[misc]
    assert Counter(answer.outcome for answer in answers) == Counter(charged=fit, quota_exceeded=40 - fit)
    assert customer.committed(connection) == customer.stored(connection)
    assert sum(customer.committed(connection).values()) == fit * units
    seen = sorted(answer.usage.committed for answer in answers if answer.outcome == "charged" and answer.usage)
    assert seen == [units * (at + 1) for at in range(fit)], "each sees the counter as its own charge left it"


def test_the_abuse_limit_stops_exactly(ledger: Ledger, make_customer: "MakeCustomer") -> None:
    for _ in range(4):
        customer = make_customer(requests_per_minute=120)

        def until_limited(customer: "Customer" = customer) -> Counter[str]:
            outcomes: Counter[str] = Counter()
            while not outcomes["rate_limited"] and outcomes.total() < 200:
                # The same few keys of everybody: charged, replayed, or in progress.
                outcomes[ledger.run(customer.request(f"key-{outcomes.total() // 2:04}")).outcome] += 1
                outcomes[ledger.run(read_usage(customer.credential)).outcome] += 1
            return outcomes

        outcomes = sum(together([until_limited] * 12), Counter[str]())
        # Refused may be who could not know that there was a place left: the places are there for those who come after.
        after = 0
        while ledger.run(admit(customer.credential)) == "ok":
            after += 1
        assert outcomes.total() - outcomes["rate_limited"] + after == 120
