"""The meinheld worker alone, under plain gunicorn."""

import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock, call

import psutil
import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger
from tests.harness.processes import running, until
from tests.harness.serving import UnixConnection, needs_meinheld

from sepu.server import meinheld

BIG = 4 * 1024 * 1024  # beyond any socket buffer
SECONDS = 20  # longest wait on a busy machine


@dataclass
class Server:
    """A gunicorn master with MeinheldWorker on a unix socket."""

    directory: Path
    master: subprocess.Popen[bytes]
    connections: ExitStack

    def connect(self) -> HTTPConnection:
        return self.connections.enter_context(closing(UnixConnection(f"{self.directory}/socket", SECONDS)))

    def worker(self) -> int:
        """The worker that answers a new connection; 0 while it is being replaced."""
        with suppress(OSError, HTTPException), closing(self.connect()) as connection:
            return int(ask(connection))
        return 0

    def sleep(self, seconds: float) -> None:
        """Starts a request that takes `seconds`."""
        marker = self.directory / "marker"
        self.connect().request("GET", "/sleep", headers={"Seconds": str(seconds), "Marker": str(marker)})
        until(marker.exists)

    def log(self) -> str:
        return (self.directory / "log").read_text()


def ask(connection: HTTPConnection, path: str = "/", body: bytes | None = None, **headers: str) -> bytes:
    connection.request("GET" if body is None else "POST", path, body, headers)
    return connection.getresponse().read()


@contextmanager
def serving(*options: str) -> Iterator[Server]:
    """Runs gunicorn with these options."""
    worker = f"{meinheld.__name__}.{meinheld.MeinheldWorker.__name__}"
    # pytest's own directories can be too long for a socket's path.
    with tempfile.TemporaryDirectory() as name, (Path(name) / "log").open("wb") as log, ExitStack() as connections:
        command = [
            *(sys.executable, "-m", "gunicorn", "--bind", f"unix:{name}/socket", "--worker-class", worker),
            *("--chdir", str(Path(__file__).parent), "--no-control-socket", "--graceful-timeout", str(SECONDS // 2)),
            *("--keep-alive", "100", *options, "meinheld_app:application"),
        ]
        with running(command, stdout=log, stderr=log) as master:
            server = Server(Path(name), master, connections)
            until(server.worker, why=server.log)
            yield server
            connections.close()


@needs_meinheld
def test_it_serves_requests_on_one_connection_and_a_slow_reader_holds_nobody_up() -> None:
    with serving() as server:
        connection = server.connect()
        first = ask(connection)
        sock = connection.sock
        assert int(first) == server.worker()
        for size in (0, 1, 16 * 1024 + 1, meinheld.MAX_BODY):
            assert ask(connection, "/echo", bytes(size)) == bytes(size)
        assert ask(connection) == first
        assert connection.sock is sock
        slow = server.connect()
        for _ in range(2):  # meinheld handles a kept connection's requests differently
            slow.request("GET", "/big", headers={"Size": str(BIG)})
            with slow.getresponse() as response:
                assert server.worker()
                assert len(response.read()) == BIG


@pytest.mark.parametrize(
    ("settings", "reason"), [({"bind": "127.0.0.1:0"}, "unix socket only"), ({"timeout": 2}, "needs a timeout of")]
)
def test_it_refuses_settings_that_are_not_safe(settings: dict[str, Any], reason: str) -> None:
    cfg = Config()
    for name, value in {"bind": "unix:socket", **settings}.items():
        cfg.set(name, value)
    with pytest.raises(RuntimeError, match=reason):
        meinheld.MeinheldWorker.check_config(cfg, Logger(cfg))


def test_it_refuses_an_inherited_tcp_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(RuntimeError, match="unix socket only"):
        meinheld.MeinheldWorker.init_process(cast("Any", SimpleNamespace(sockets=[listener])))


def test_it_cleans_up_before_it_exits(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = meinheld.MeinheldWorker.__new__(meinheld.MeinheldWorker)
    worker.cfg = cfg = Mock()
    monkeypatch.setattr(os, "_exit", cfg.exit)
    for status, leave in enumerate((worker.handle_quit, worker.handle_abort)):
        leave()
        assert cfg.method_calls[-2:] == [call.worker_exit(worker, worker), call.exit(status)]


@pytest.mark.parametrize(("hard", "size"), [(4096, 4096), (10**9, 65536), (resource.RLIM_INFINITY, 65536)])
def test_its_table_of_descriptors_stays_small(hard: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_to: list[object] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, to: set_to.append(to))
    assert (meinheld._settle_descriptor_limit(), set_to) == (size, [(size, hard)])


def test_it_says_how_to_install_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "meinheld.server", SimpleNamespace())
    monkeypatch.setattr(meinheld, "version", lambda _: "2.0.2")
    with pytest.raises(RuntimeError, match=r"greenlet 2\.0\.2"):
        meinheld.MeinheldWorker.setup()
    monkeypatch.setitem(sys.modules, "meinheld.server", None)
    with pytest.raises(RuntimeError, match="make meinheld"):
        meinheld.MeinheldWorker.setup()


@needs_meinheld
@pytest.mark.slow
def test_a_stuck_worker_is_replaced_and_an_idle_one_is_not() -> None:
    with serving("--timeout", str(meinheld.MIN_TIMEOUT)) as server:
        old = server.worker()
        time.sleep(meinheld.MIN_TIMEOUT + 2)
        assert server.worker() == old
        server.sleep(600)
        until(lambda: server.worker() not in {0, old})
        assert server.master.poll() is None


@needs_meinheld
@pytest.mark.slow
def test_int_stops_at_once() -> None:
    with serving() as server:
        server.sleep(600)
        server.master.send_signal(signal.SIGINT)
        assert server.master.wait(SECONDS) == 0
        assert "ERROR" not in server.log()


@needs_meinheld
@pytest.mark.slow
def test_a_worker_leaves_when_its_master_is_gone() -> None:
    with serving() as server:
        worker = psutil.Process(server.worker())
        server.master.kill()
        # Orphans stay as zombies where nobody reaps them.
        until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE)
        assert server.worker() == 0, "nobody accepts connections"


@needs_meinheld
@pytest.mark.slow
def test_max_requests_recycles_and_loses_nothing() -> None:
    with serving("--max-requests", "4", "--max-requests-jitter", "2") as server:
        found = {server.worker() for _ in range(40)}
        assert 0 not in found
        assert len(found) >= 3
        assert "ERROR" not in server.log()


@needs_meinheld
@pytest.mark.slow
def test_high_descriptors_do_not_make_it_deaf() -> None:
    count = 1500  # beyond gunicorn's worker_connections, and beyond the 1024 of an unraised limit
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * count:
        pytest.skip(f"the descriptor limit is {hard}")
    with serving() as server, ExitStack() as limits:
        limits.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (2 * count, hard))
        worker = server.worker()
        held = [server.connect() for _ in range(count)]
        for connection in held:
            connection.connect()
        assert {int(ask(connection)) for connection in reversed(held)} == {worker}
        assert server.worker() == worker
