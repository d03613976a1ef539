"""A call of the threaded ledger, in the embedded Postgres with fsync. That of the event loop is a hot path."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from bench.recorded import charge, holder
from pytest_benchmark.fixture import BenchmarkFixture

from sepu.metering.commands import Command, admit, read_usage
from sepu.metering.ledger import Ledger

COMMANDS: dict[str, Callable[[], Command[Any]]] = {
    "charge": lambda: charge(holder(1)),
    "replay": lambda: charge(holder(1), "bench-replayed"),
    "admit": lambda: admit(holder(1)),
    "usage": lambda: read_usage(holder(1)),
}


@pytest.fixture(scope="module")
def ledger(service_url: str) -> Iterator[Ledger]:
    made = Ledger(service_url, 1)
    made.open()
    yield made
    made.close()


@pytest.mark.parametrize("name", COMMANDS)
def test_threads(benchmark: BenchmarkFixture, ledger: Ledger, name: str) -> None:
    benchmark(lambda: ledger.run(COMMANDS[name]()))
