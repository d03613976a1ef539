"""A thread's call of the ledger, in the embedded Postgres with fsync. An event loop's call is a hot path."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from bench.gate.database import CALLS
from pytest_benchmark.fixture import BenchmarkFixture

from sepu.metering.batcher_thread import BatcherThread

COMMANDS = {"charge": "charge", "replay": "replay", "admit": "admission", "usage": "usage"}


@pytest.fixture(scope="module")
def ledger(service_url: str) -> Iterator[BatcherThread]:
    with closing(BatcherThread(service_url)) as made:
        made.start()
        yield made


@pytest.mark.parametrize("name", COMMANDS)
def test_threads(benchmark: BenchmarkFixture, ledger: BatcherThread, name: str) -> None:
    benchmark(lambda: ledger.run(*CALLS[COMMANDS[name]]()))
