"""Stopping or reloading the server loses nothing that a retry would not find."""

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from tests.faults.verdict import until_stored
from tests.harness.processes import until
from tests.harness.serving import EACH_WORKER, Server, serving, until_closed
from tests.nodes.traffic import crowded

from sepu.admin.keys import IssuedKey
from sepu.database.opening import connect

ROUNDS = 2
STOP_SECONDS = 15  # on a busy machine


@pytest.mark.parametrize("worker", EACH_WORKER)
def test_term_finishes_what_is_in_flight(
    worker: str, database_url: str, connection: psycopg.Connection, issued: IssuedKey
) -> None:
    with (
        serving(worker, database_url, workers=1) as server,
        psycopg.connect(database_url) as session,
        ThreadPoolExecutor() as threads,
    ):
        session.execute("lock table sepu.usage in exclusive mode")
        asked = threads.submit(server.match, issued, "in-flight")
        until(lambda: connection.execute("select from pg_locks where not granted").fetchone() is not None)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)  # time for it to end
        session.rollback()
        assert (answer := asked.result()).status == 200
        assert server.process.wait(STOP_SECONDS) == 0
        assert answer.headers["x-request-id"] in server.log.read_text()


@pytest.mark.parametrize("patient", EACH_WORKER[:2])  # meinheld waits until its proxy hangs up
def test_idle_connections_do_not_delay_the_end(patient: str, database_url: str) -> None:
    with serving(patient, database_url, workers=1) as server, server.socket() as silent:
        assert server.request("GET", "/healthz", keep=True).status == 200
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert silent.recv(1) == b""
        assert patient != "uvloop" or time.monotonic() - began > 0.9, "a proxy may be sending a request on it"
        assert server.process.wait(STOP_SECONDS) == 0


@pytest.mark.slow
def test_term_is_heard_while_a_worker_starts(database_url: str) -> None:
    for delay in range(0, 300, 60):
        with serving("uvloop", database_url, workers=2) as server:
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.05 + delay / 1000)
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(STOP_SECONDS) == 0


# Sends a new worker a signal before it has its own handlers.
SIGNALLED = """
import os, signal
from sepu.server.gunicorn import default_signals_in_children

signal.signal(signal.{name}, lambda *_: None)  # the master's handler
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.{name}))
default_signals_in_children()
if not (child := os.fork()):
    os._exit(0)
assert os.waitpid(child, 0)[1] == signal.{name}
os.kill(os.getpid(), signal.{name})  # the master still has its own
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGQUIT", "SIGTERM"])
def test_a_new_worker_loses_no_signal(name: str) -> None:
    subprocess.run([sys.executable, "-c", SIGNALLED.format(name=name)], check=True, timeout=60)


def reload(server: Server) -> None:
    """Sends HUP, and waits until new workers have replaced the old ones."""
    old = set(server.workers())
    server.process.send_signal(signal.SIGHUP)

    def all_are_new() -> bool:
        found = set(server.workers())
        return len(found) == 2 and not found & old

    until(all_are_new, seconds=60, why=server.log.read_text)


# A new worker that accepts only once a file exists.
HELD_BACK = """
import asyncio, pathlib
from sepu.cli.main import main
from sepu.server import gunicorn

async def connect(self):
    while not pathlib.Path({path!r}).exists():
        await asyncio.sleep(0.01)

gunicorn.Server.connect = connect
gunicorn._BOOT_SECONDS = 60
main()
"""


def test_old_workers_serve_until_new_ones_accept_and_int_waits_for_nobody(database_url: str, tmp_path: Path) -> None:
    path = tmp_path / "go"
    path.touch()
    program = [sys.executable, "-c", HELD_BACK.format(path=str(path))]
    with serving("uvloop", database_url, workers=1, program=program) as server:
        old = server.workers()
        server.process.send_signal(signal.SIGUSR1)  # as log rotation does; it ends no worker
        until(lambda: "Handling signal: usr1" in server.log.read_text())
        path.unlink()
        server.process.send_signal(signal.SIGHUP)
        until(lambda: len(server.workers()) == 2)
        for _ in range(20):
            with closing(server.connect(timeout=4)) as connection:
                connection.request("GET", "/healthz")
                assert connection.getresponse().status == 200
            time.sleep(0.02)
        assert set(old) < set(server.workers())
        path.touch()
        until(lambda: not set(old) & set(server.workers()))
        with server.socket() as raw:
            raw.sendall(b"GET ")
            assert server.request("GET", "/healthz").status == 200
            server.process.send_signal(signal.SIGINT)
            assert until_closed(raw) == b""  # not even the refusal of an unfinished request
        assert server.process.wait(STOP_SECONDS) == 0


@pytest.mark.parametrize("worker", EACH_WORKER)
def test_reloads_under_load_lose_nothing(worker: str, own_url: str) -> None:
    with serving(worker, own_url) as server, connect(own_url) as connection:

        def reloads() -> None:
            for number in range(ROUNDS):
                until_stored(own_url, (number + 1) * 50)
                reload(server)

        verdict, memory = crowded(connection, [server.address], 0, reloads, again=True)
        assert verdict.explain() == ""
        assert memory.tally["replays"] > len(memory.settled) / 2, "all were sent again"
