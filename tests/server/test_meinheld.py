import importlib.util
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TypeVar

import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger
from tests.processes import completed, running, until

from sepu.server import meinheld

T = TypeVar("T")

BIG = 4 * 1024 * 1024  # beyond any socket buffer
TIMEOUT_SECONDS = 20  # seconds that a thing which must happen may take on a busy machine

needs_meinheld = pytest.mark.skipif(
    importlib.util.find_spec("meinheld") is None,
    reason="meinheld is not installed: `make meinheld` installs it on Linux with CPython 3.11 or 3.12",
)


class Connection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT_SECONDS)
        self.sock.connect(str(self.path))

    def ask(self, path: str = "/", body: bytes | None = None) -> bytes:
        self.request("GET" if body is None else "POST", path, body)
        return self.answer()

    def answer(self) -> bytes:
        response = self.getresponse()
        assert response.status == 200
        return response.read()


@dataclass
class Server:
    """A gunicorn master with MeinheldWorker on a unix socket."""

    directory: Path
    path: Path
    log: Path
    master: subprocess.Popen[bytes]
    connections: ExitStack

    def connect(self) -> Connection:
        return self.connections.enter_context(closing(Connection(self.path)))

    def ask(self) -> int:
        """The process that answers a connection of its own."""
        with closing(Connection(self.path)) as connection:
            return int(connection.ask())

    def worker(self) -> int:
        """The process that answers, which may first have to be started."""
        return eventually(self.ask)

    def other_worker(self, old: int) -> int:
        return eventually(lambda: pid if (pid := self.worker()) != old else 0)

    def sleep(self, connection: Connection, seconds: float) -> None:
        """Have a request of so many seconds under way."""
        marker = self.directory / "marker"
        connection.request("GET", "/sleep", headers={"Seconds": str(seconds), "Marker": str(marker)})
        eventually(marker.exists)


def command(bind: str, *options: str) -> list[str]:
    worker = f"{meinheld.__name__}.{meinheld.MeinheldWorker.__name__}"
    here = str(Path(__file__).parent)
    return [
        *(sys.executable, "-m", "gunicorn", "--bind", bind, "--worker-class", worker, "--chdir", here),
        *("--no-control-socket", "--keep-alive", str(TIMEOUT_SECONDS), "--graceful-timeout", str(TIMEOUT_SECONDS // 2)),
        *(*options, "meinheld_app:application"),
    ]


def eventually(attempt: Callable[[], T]) -> T:
    """The first true result; an attempt may fail while a worker is being replaced."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            if result := attempt():
                return result
        except (OSError, HTTPException):
            if time.monotonic() > deadline:
                raise
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # Where nobody reaps orphans, they stay as zombies.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


@contextmanager
def serving(*options: str) -> Iterator[Server]:
    """Options are gunicorn's."""
    # pytest's own directories can be longer than a socket's path may be.
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        path, log = directory / "socket", directory / "log"
        with (
            log.open("wb") as output,
            running(command(f"unix:{path}", *options), stdout=output, stderr=output) as master,
            ExitStack() as connections,
        ):
            server = Server(directory, path, log, master, connections)
            server.worker()
            yield server
            print(server.log.read_text())  # noqa: T201


@needs_meinheld
def test_serves_get_and_post_on_one_connection() -> None:
    with serving() as server:
        connection = server.connect()
        first = connection.ask()
        sock = connection.sock
        assert int(first) == server.worker()
        for size in (0, 1, 16 * 1024 + 1, meinheld.MAX_BODY):
            assert connection.ask("/echo", bytes(size)) == bytes(size)
        assert connection.ask() == first
        assert connection.sock is sock


@needs_meinheld
def test_slow_reader_of_a_large_response_holds_nobody_up() -> None:
    with serving() as server:
        slow = server.connect()
        for _ in range(2):  # meinheld's way to a request differs once a connection is kept alive
            slow.request("GET", "/big", headers={"Size": str(BIG)})
            with slow.getresponse() as response:
                server.ask()
                assert len(response.read()) == BIG


@needs_meinheld
def test_refuses_tcp() -> None:
    ran = completed(command("127.0.0.1:0"), timeout=TIMEOUT_SECONDS)
    assert ran.returncode == 1
    assert meinheld.UNIX_ONLY in ran.stderr


@needs_meinheld
def test_refuses_inherited_tcp() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        bind = f"fd://{listener.fileno()}"
        ran = completed(command(bind), timeout=TIMEOUT_SECONDS, pass_fds=[listener.fileno()])
    assert ran.returncode != 0
    assert meinheld.UNIX_ONLY in ran.stderr


def test_refuses_a_timeout_shorter_than_its_heartbeat() -> None:
    cfg = Config()
    cfg.set("bind", "unix:socket")
    cfg.set("timeout", meinheld.MIN_TIMEOUT - 1)
    with pytest.raises(RuntimeError, match="needs a timeout of"):
        meinheld.MeinheldWorker.check_config(cfg, Logger(cfg))


def test_says_how_to_install_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "meinheld.server", None)
    with pytest.raises(RuntimeError, match="make meinheld"):
        meinheld.MeinheldWorker.setup()


@needs_meinheld
def test_refuses_old_greenlet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meinheld, "version", lambda _: "2.0.2")
    with pytest.raises(RuntimeError, match=r"greenlet 2\.0\.2"):
        meinheld.MeinheldWorker.setup()


@needs_meinheld
def test_master_survives_a_killed_worker() -> None:
    with serving() as server:
        old = server.worker()
        os.kill(old, signal.SIGKILL)
        server.other_worker(old)
        assert server.master.poll() is None


@needs_meinheld
def test_stuck_worker_is_replaced() -> None:
    with serving("--timeout", str(meinheld.MIN_TIMEOUT)) as server:
        old = server.worker()
        server.sleep(server.connect(), 600)
        server.other_worker(old)
        assert server.master.poll() is None


@needs_meinheld
def test_idle_worker_keeps_its_heart_beating() -> None:
    with serving("--timeout", str(meinheld.MIN_TIMEOUT)) as server:
        old = server.worker()
        time.sleep(meinheld.MIN_TIMEOUT + 2)
        assert server.worker() == old


@needs_meinheld
def test_term_finishes_the_request_under_way() -> None:
    with serving("--workers", "2") as server:
        connection = server.connect()
        server.sleep(connection, 2)
        server.master.send_signal(signal.SIGTERM)
        assert connection.answer() == b"slept"
        assert server.master.wait(TIMEOUT_SECONDS) == 0
        assert "ERROR" not in server.log.read_text()


@needs_meinheld
def test_int_stops_at_once() -> None:
    with serving() as server:
        server.sleep(server.connect(), 600)
        server.master.send_signal(signal.SIGINT)
        assert server.master.wait(TIMEOUT_SECONDS) == 0
        assert "ERROR" not in server.log.read_text()


@needs_meinheld
def test_worker_leaves_when_its_master_is_gone() -> None:
    with serving() as server:
        worker = server.worker()
        server.master.kill()
        eventually(lambda: is_gone(worker))


@needs_meinheld
def test_max_requests_recycles_and_loses_nothing() -> None:
    with serving("--max-requests", "4", "--max-requests-jitter", "2") as server:
        assert len({server.ask() for _ in range(40)}) >= 3
        assert "ERROR" not in server.log.read_text()


@needs_meinheld
def test_hup_reloads_and_loses_nothing() -> None:
    with serving() as server:
        old = server.worker()
        server.master.send_signal(signal.SIGHUP)
        until(lambda: server.ask() != old and is_gone(old))
        assert "ERROR" not in server.log.read_text()


@needs_meinheld
def test_high_descriptors_do_not_make_it_deaf() -> None:
    count = 1500  # beyond gunicorn's worker_connections, and beyond the 1024 of an unraised limit
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * count:
        pytest.skip(f"the descriptor limit is {hard}")
    with serving("--keep-alive", "100") as server, ExitStack() as limits:
        limits.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (2 * count, hard))
        worker = server.worker()
        held = [server.connect() for _ in range(count)]
        for connection in held:
            connection.connect()
        assert {int(connection.ask()) for connection in reversed(held)} == {worker}
        assert server.worker() == worker
