"""A call of the threaded ledger, in the embedded Postgres with fsync. That of the event loop is a hot path."""

from collections.abc import Iterator

import pytest
from bench.gate.database import CALLS
from pytest_benchmark.fixture import BenchmarkFixture

from sepu.metering.ledger_thread import LedgerThread

COMMANDS = {"charge": "charge", "replay": "replay", "admit": "admission", "usage": "usage"}


@pytest.fixture(scope="module")
def ledger(service_url: str) -> Iterator[LedgerThread]:
    made = LedgerThread(service_url)
    made.open()
    yield made
    made.close()


@pytest.mark.parametrize("name", COMMANDS)
def test_threads(benchmark: BenchmarkFixture, ledger: LedgerThread, name: str) -> None:
    benchmark(lambda: ledger.run(*CALLS[COMMANDS[name]]()))
