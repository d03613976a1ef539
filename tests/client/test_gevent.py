"""The client under gevent, which replaces Python's blocking functions after the client was imported."""

import itertools
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from threading import Barrier

import pytest
from tests.client.hostile import ANSWER, HEAD, Peer, listening
from tests.harness.processes import completed, running, until
from tests.harness.serving import free_port
from tests.programs import missing

TOGETHER = 2


@pytest.fixture(scope="module", autouse=True)
def gevent() -> None:
    if not find_spec("gevent"):
        missing("gevent is not installed: `make build` does so")


@contextmanager
def service(alone: int = 0) -> Iterator[str]:
    """A service with a name, which after some calls `alone` answers only calls that are in progress together."""
    number, all_here = itertools.count(1), Barrier(TOGETHER)

    def answer(peer: Peer) -> None:
        while True:
            peer.request()
            if next(number) > alone:
                all_here.wait(20)
            peer.send(HEAD + ANSWER)

    with listening("plain", [answer]) as peer:
        yield peer.url.replace("127.0.0.1", "localhost")


APPLICATION = """
from sepu_client import Client
client = Client({url!r}, "sepu_key")

def application(environ, start_response):
    start_response("200 OK", [])
    return [str(client.library().record_count).encode()]
"""


def test_a_worker_of_gunicorn_serves_while_its_calls_wait(tmp_path: Path) -> None:
    """With --preload, the client is imported and made before gunicorn calls gevent."""
    port = free_port()
    options = ["-k", "gevent", "--preload", "--timeout", "30", "--bind", f"127.0.0.1:{port}", "--chdir", str(tmp_path)]

    def get(_: object) -> bytes:
        with closing(HTTPConnection("127.0.0.1", port, timeout=40)) as asking:
            asking.request("GET", "/")
            return asking.getresponse().read()

    with service() as url, (tmp_path / "log").open("w") as log, ThreadPoolExecutor(TOGETHER) as pool:
        (tmp_path / "views.py").write_text(APPLICATION.format(url=url))
        with running([sys.executable, "-m", "gunicorn", *options, "views:application"], stderr=log):
            until(lambda: "Booting worker" in (tmp_path / "log").read_text())
            assert list(pool.map(get, range(TOGETHER))) == [b"161"] * TOGETHER


PATCHED_LATER = """
import sys
from sepu_client import Client
client = Client(sys.argv[1], "sepu_key")
client.library()

from gevent import joinall, monkey, spawn
monkey.patch_all()
for call in joinall([spawn(client.library) for _ in range(2)]):
    print(call.get().record_count)
"""


def test_a_connection_from_before_gevent_is_not_used() -> None:
    with service(alone=1) as url:
        done = completed([sys.executable, "-c", PATCHED_LATER, url])
    assert (done.returncode, done.stderr, done.stdout.split()) == (0, "", ["161"] * TOGETHER)
