"""Many callers at once, against what must be true afterwards."""

import random
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
    for number in range(20):
        command = customer.request(f"key-{number:04}", units=5)
        answers = together([lambda command=command: persist(ledger, command)] * 12)  # type: ignore[misc]
        assert Counter(answer.outcome for answer in answers) == {"charged": 1, "replayed": 11}
        assert {answer.body for answer in answers} == {command.parameters[-1]}
    assert customer.committed(connection) == customer.stored(connection)
    assert sum(customer.committed(connection).values()) == 100


def test_one_key_with_many_inputs(ledger: Ledger, connection: psycopg.Connection, customer: "Customer") -> None:
    for number in range(10):
        commands = [customer.request(f"key-{number:04}", what=str(what)) for what in range(4) for _ in range(3)]
        answers = together([lambda command=command: persist(ledger, command) for command in commands])  # type: ignore[misc]
        charged = [answer for answer in answers if answer.outcome == "charged"]
        assert len(charged) == 1
        for command, answer in zip(commands, answers, strict=True):
            if command.parameters[-1] == charged[0].body:
                assert answer.body == charged[0].body
            else:
                assert answer == Metered("idempotency_conflict")
    assert sum(customer.committed(connection).values()) == 10


@pytest.mark.parametrize(("units", "limit", "fit"), [(1, 17, 17), (5, 33, 6), (3, 0, 0)])
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


def test_the_abuse_limit_stops_exactly(
    ledger: Ledger, connection: psycopg.Connection, make_customer: "MakeCustomer"
) -> None:
    customer = make_customer(requests_per_minute=17)

    def metered(number: int) -> str:
        return ledger.run(customer.request(f"key-{number:04}")).outcome

    calls: list[Callable[[], str]] = []
    for number in range(10):
        calls += [
            lambda: ledger.run(admit(customer.credential)),
            lambda: ledger.run(read_usage(customer.credential)).outcome,
            lambda number=number: metered(number),  # type: ignore[misc]
            lambda number=number: metered(number + 100),  # type: ignore[misc]
        ]
    outcomes = Counter(together(calls))
    assert outcomes["rate_limited"] == 40 - 17
    assert outcomes["ok"] + outcomes["charged"] == 17
    assert sum(customer.stored(connection).values()) == outcomes["charged"]


def test_the_abuse_limit_stops_exactly_whoever_holds_which_counter(
    ledger: Ledger, make_customer: "MakeCustomer"
) -> None:
    for _ in range(4):
        customer = make_customer(requests_per_minute=120)

        def until_limited(customer: "Customer" = customer) -> Counter[str]:
            outcomes: Counter[str] = Counter()
            while not outcomes["rate_limited"] and outcomes.total() < 200:
                # The same few keys of everybody: charged, replayed, or in progress.
                outcomes[ledger.run(customer.request(f"key-{outcomes.total() // 2:04}")).outcome] += 1
            return outcomes

        outcomes = sum(together([until_limited] * 12), Counter[str]())
        # Refused may be who could not know that there was a place left: the places are there for those who come after.
        after = 0
        while ledger.run(admit(customer.credential)) == "ok":
            after += 1
        assert outcomes.total() - outcomes["rate_limited"] + after == 120


def test_the_ledger_adds_up(ledger: Ledger, connection: psycopg.Connection, make_customer: "MakeCustomer") -> None:
    customers = [make_customer(match_limit=60, search_limit=25), make_customer(match_limit=10**6), make_customer()]

    def client(seed: int) -> Counter[str]:
        chance = random.Random(seed)
        outcomes: Counter[str] = Counter()
        for _ in range(60):
            customer = chance.choice(customers)
            number, what = chance.randrange(40), chance.choice(["red", "red", "red", "blue"])
            if chance.random() < 0.3:
                command = customer.request(f"search-{number:04}", what=what, meter="color_search")
            else:
                command = customer.request(f"match-{number:04}", what=what, units=1 + number % 5)
            outcomes[persist(ledger, command).outcome] += 1
        return outcomes

    outcomes = sum(together([lambda seed=seed: client(seed) for seed in range(12)]), Counter[str]())  # type: ignore[misc]
    assert set(outcomes) == {"charged", "replayed", "idempotency_conflict", "quota_exceeded"}
    for customer in customers:
        assert customer.committed(connection) == customer.stored(connection)
    committed = customers[0].committed(connection)
    assert sum(units for (_, meter), units in committed.items() if meter == "color_match") <= 60
    assert sum(units for (_, meter), units in committed.items() if meter == "color_search") <= 25
