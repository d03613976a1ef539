"""Workers with threads, whose ledger runs in a separate thread."""

import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import psycopg
import pytest
from tests.harness.processes import until
from tests.harness.serving import needs_meinheld, serving

from sepu.admin.keys import IssuedKey
from sepu.server import gunicorn

STOP_SECONDS = 15  # on a busy machine
THREADED = ["gthread", pytest.param("meinheld", marks=[pytest.mark.slow, needs_meinheld])]

# Makes a worker's event loop fail once a file exists.
FAILING = """
import pathlib
from sepu.cli.main import main
from sepu.metering.batcher import Batcher

def look(self, look=Batcher.probe_if_due):
    path = pathlib.Path({path!r})
    if path.exists():
        path.unlink()
        raise {error}("tell" + "tale")  # a frame may show its line, and the log no message
    look(self)

Batcher.probe_if_due = look
main()
"""


@pytest.mark.parametrize("error", ["OSError", "SystemExit"])
@pytest.mark.parametrize("worker", THREADED)
def test_a_worker_ends_with_its_event_loop(
    worker: str, error: str, database_url: str, issued: IssuedKey, tmp_path: Path
) -> None:
    path = tmp_path / "fail"
    program = [sys.executable, "-c", FAILING.format(path=str(path), error=error)]
    with serving(worker, database_url, workers=1, program=program) as server:
        (old,) = server.workers()
        path.touch()
        until(lambda: server.workers() not in ([], [old]))
        until(lambda: server.match(issued, "after-death").status == 200)
        log = server.log.read_text()
    assert f"the ledger's event loop failed: {error}" in log
    assert "telltale" not in log


@pytest.mark.parametrize("worker", ["uvloop", "gthread"])
def test_a_worker_can_do_without_batches(worker: gunicorn.Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    server = gunicorn.Server.__new__(gunicorn.Server)  # a running one does not show its setting
    settings = gunicorn.Settings("", 1, worker, "", batches=False)
    vars(server).update(_settings=settings, _counts=None, _service=None, observers=None)
    made = Mock()
    for name in ("Batcher", "BatcherThread", "asyncio", "create_app"):
        monkeypatch.setattr(gunicorn, name, made)
    server.load()
    assert made.call_args_list[0].kwargs["batches"] is False


@needs_meinheld
@pytest.mark.slow
def test_int_ends_a_worker_whose_call_is_under_way(
    database_url: str, connection: psycopg.Connection, issued: IssuedKey
) -> None:
    """The signal handler closes the ledger for which its own thread may be waiting."""
    with (
        serving("meinheld", database_url, workers=1) as server,
        psycopg.connect(database_url) as session,
        ThreadPoolExecutor() as threads,
    ):
        session.execute("lock table sepu.usage in exclusive mode")
        asked = threads.submit(server.match, issued, "interrupted")
        until(lambda: connection.execute("select from pg_locks where not granted").fetchone() is not None)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(STOP_SECONDS) == 0
        session.rollback()
        asked.exception(STOP_SECONDS)
