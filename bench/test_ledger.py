"""One call of the ledger on the embedded Postgres with fsync: for threads, for an event loop, and in a batch."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvloop
from bench.recorded import charge, holder
from pytest_benchmark.fixture import BenchmarkFixture
from tests.awaited_batcher import AwaitedBatcher

from sepu import limits
from sepu.metering.commands import Command, admit, read_usage
from sepu.metering.ledger import Ledger

MakeCommand = Callable[[], Command[Any]]
COMMANDS: dict[str, MakeCommand] = {
    "charge": lambda: charge(holder(1)),
    "replay": lambda: charge(holder(1), "bench-replayed"),
    "admit": lambda: admit(holder(1)),
    "usage": lambda: read_usage(holder(1)),
}


@pytest.fixture(params=COMMANDS)
def make(request: pytest.FixtureRequest) -> MakeCommand:
    return COMMANDS[request.param]


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner.get_loop()


@pytest.fixture
def joined(loop: asyncio.AbstractEventLoop, service_url: str) -> Iterator[AwaitedBatcher]:
    ledger = AwaitedBatcher(service_url, loop=loop)
    yield ledger
    loop.run_until_complete(ledger.close())


def test_threads(benchmark: BenchmarkFixture, service_url: str, make: MakeCommand) -> None:
    ledger = Ledger(service_url, 1)
    ledger.open()
    try:
        benchmark(lambda: ledger.run(make()))
    finally:
        ledger.close()


def test_event_loop(
    benchmark: BenchmarkFixture,
    loop: asyncio.AbstractEventLoop,
    joined: AwaitedBatcher,
    make: MakeCommand,
) -> None:
    """Calls through the batcher, in a batch of one command."""
    benchmark(lambda: loop.run_until_complete(joined.run(make())))


def test_one_alone_and_32_joined(
    benchmark: BenchmarkFixture, loop: asyncio.AbstractEventLoop, joined: AwaitedBatcher
) -> None:
    async def at_once() -> None:
        answers = await asyncio.gather(*(joined.run(charge(holder(1))) for _ in range(1 + limits.BATCH_CALLS)))
        assert {answer.outcome for answer in answers} == {"charged"}

    benchmark(lambda: loop.run_until_complete(at_once()))
