"""The batcher in a thread: bounded waits, and the start and end of a process."""

import logging
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event
from time import monotonic
from typing import Any

import pytest
from tests.metering.conftest import Customer

from sepu import limits
from sepu.metering.batcher_thread import BatcherThread
from sepu.metering.commands import Command, admit
from sepu.metering.failure import LedgerUnavailable

WAIT_SECONDS = limits.database.QUEUE_SECONDS + limits.database.STATEMENT_SECONDS + limits.database.THREAD_SECONDS
BUSY_SECONDS = 2.0  # allowance for a busy machine


def test_nobody_waits_longer_than_a_call_may_take(
    service_url: str, customer: Customer, caplog: pytest.LogCaptureFixture
) -> None:
    """Even if the event loop is stuck; once it continues, all is well again."""
    goes_on = Event()

    def stuck(_rows: Sequence[Any]) -> bool:
        return goes_on.wait(60)

    with closing(BatcherThread(service_url)) as ledger, ThreadPoolExecutor(3) as threads:
        ledger.start()
        began = monotonic()
        try:
            commands: list[Command[Any]] = [Command("select 1", (), stuck)]
            commands += [admit(customer.credential) for _ in range(2)]
            waiting = [threads.submit(ledger.run, command) for command in commands]
            failures = [each.exception(WAIT_SECONDS + BUSY_SECONDS) for each in waiting]
            assert {type(each) for each in failures} == {LedgerUnavailable}
            assert monotonic() - began >= WAIT_SECONDS, "the batcher may still answer"
            assert caplog.text.count("the event loop did not answer in time") == len(waiting)
            assert not ledger.ready()
        finally:
            goes_on.set()
        assert ledger.run(admit(customer.credential)) == "ok"


def test_an_unforeseen_failure_reaches_its_caller_and_no_log(
    service_url: str, customer: Customer, caplog: pytest.LogCaptureFixture
) -> None:
    """asyncio logs what a callback raises, with its arguments."""
    nonsense: Command[Any] = Command("telltale", 5, len)  # type: ignore[arg-type]
    with closing(BatcherThread(service_url)) as ledger, caplog.at_level(logging.DEBUG):
        ledger.start()
        with pytest.raises(TypeError):
            ledger.run(nonsense)
        assert ledger.run(admit(customer.credential)) == "ok"
    assert "telltale" not in caplog.text


# Each child starts its own thread, which the parent never had, and then exits normally without closing it.
FORKS = """
import os, sys, threading
from sepu.metering.batcher_thread import BatcherThread

ledger = BatcherThread(sys.argv[1])
assert threading.active_count() == 1
for _ in range(2):
    if not (child := os.fork()):
        ledger.start()
        assert ledger.ready()
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
"""


def test_it_starts_after_a_fork_and_holds_no_interpreter_up(service_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS, service_url], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
