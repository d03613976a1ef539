"""Tests that end badly, for tests/test_processes.py, while a server and its Postgres run."""

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
from tests.faults.injection import postmaster
from tests.serving import Server, serving

FORGOTTEN = ExitStack()


@contextmanager
def recorded() -> Iterator[Server]:
    """A server whose processes are written down by id and name."""
    with tempfile.TemporaryDirectory(prefix="sepu-") as name:
        state_dir = Path(name) / "state"
        with serving("uvloop", None, options=["--state-dir", str(state_dir)]) as server:
            main = postmaster(state_dir)
            assert main is not None
            own = [server.process.pid, *server.workers(), main]
            Path(os.environ["STARTED"]).write_text("".join(f"{pid} {psutil.Process(pid).name()}\n" for pid in own))
            yield server


@pytest.fixture
def failing() -> Iterator[None]:
    with recorded():
        raise AssertionError
        yield


def test_that_fails_to_start(failing: None) -> None: ...


@pytest.mark.timeout(100, method="signal")
def test_that_takes_too_long() -> None:
    with recorded():
        signal.setitimer(signal.ITIMER_REAL, 0.1)  # the timer of pytest-timeout, which then need not be waited for
        time.sleep(100)


def test_that_is_killed() -> None:
    with recorded():
        os.kill(os.getpid(), signal.SIGKILL)


def test_that_forgets() -> None:
    FORGOTTEN.enter_context(recorded())
