"""Tests that end badly, for tests/test_processes.py, while a server and its Postgres run."""

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
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


def test_that_is_killed() -> None:
    with recorded():
        os.kill(os.getpid(), signal.SIGKILL)


def test_that_forgets() -> None:
    FORGOTTEN.enter_context(recorded())
