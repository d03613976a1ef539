"""Workers share connections, and have database sessions ready for them."""

import asyncio
import socket
from contextlib import ExitStack
from unittest.mock import Mock

import numpy as np
import psycopg
import pytest
from gunicorn.arbiter import Arbiter
from tests.harness.processes import until
from tests.harness.serving import serving

from sepu import limits
from sepu.server import accept, gunicorn
from sepu.server.console import ConsoleServer
from sepu.server.gunicorn import Server
from sepu.server.uvloop import UvloopWorker


class Closing(asyncio.Protocol):
    """Closes its connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


@pytest.mark.parametrize(
    ("others", "places", "accepted"),
    [
        *(([], 99, 20), ([9, 5], 99, 7), ([9], 99, 11), ([5, float("inf")], 99, 7), ([], 99, 0)),
        *(([9, 8], 9, 9), ([9, 9], 9, 20)),  # a full worker accepts (and refuses) the surplus if all are full
        ([0], 99, 20),  # the other one hangs: this one goes on, one by one
    ],
)
def test_a_worker_accepts_until_it_is_ahead_of_another_or_has_no_descriptor_left(
    others: list[float], places: int, accepted: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits.connections, "OF_A_WORKER", places)
    monkeypatch.setattr(accept, "AHEAD_SECONDS", 0 if 0 in others else 3600)
    monkeypatch.setattr(accept, "_FULL_SECONDS", 0.05 if places == 9 else 3600)
    if not accepted:
        monkeypatch.setattr(socket.socket, "accept", Mock(side_effect=OSError("no descriptor is left")))
    of_workers = np.array([float("inf"), *others])
    own = accept.OpenConnections(of_workers, 0)
    own.number = 0

    async def run(listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        acceptor = accept.Acceptor(loop, listener, Closing, own)
        while own.number < accepted:
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert own.number == accepted
        acceptor.close()
        own.number = 0
        await asyncio.sleep(0.1)  # longer than it pauses when it is full
        assert own.number == 0, "it accepts no more"
        for _ in range(100):  # whatever the connections still do
            await asyncio.sleep(0)
        assert not acceptor._connecting

    with socket.create_server(("127.0.0.1", 0), backlog=20) as listener, ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(socket.create_connection(listener.getsockname()))
        asyncio.run(asyncio.wait_for(run(listener), 20))
    assert len(caplog.records) == int(not accepted)


def test_connections_that_end_leave_no_room_in_a_worker_that_stops() -> None:
    worker, connections = UvloopWorker.__new__(UvloopWorker), Mock(number=float("inf"))
    vars(worker).update(alive=False, app=Mock(open_connections=connections), connections={1})
    worker.connections_changed()
    assert connections.number == float("inf")


def test_a_dead_worker_has_no_connections_that_others_would_count() -> None:
    service, published = Server.__new__(Server), np.array([3.0, 5.0])
    vars(service).update(_block_of={7: 1}, _blocks=Mock(), _open_connections=published)
    service._after_exit(None, Mock(age=7))
    assert published.tolist() == [3, float("inf")]


@pytest.mark.parametrize("of", ["console", "service"])
def test_a_reload_does_not_wait_for_ever_and_the_master_keeps_postgres(
    of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gunicorn, "_BOOT_SECONDS", 0.05)
    monkeypatch.setattr(gunicorn, "Service", Mock())
    monkeypatch.setattr(Arbiter, "manage_workers", Mock())
    bind, keeper, arbiter = "127.0.0.1:0", Mock(), gunicorn._Arbiter.__new__(gunicorn._Arbiter)
    settings = gunicorn.Settings(bind, 1, "uvloop", "")
    app = ConsoleServer(bind, Mock(), keeper) if of == "console" else Server(settings, Mock(), Mock(), keeper)
    monkeypatch.setattr(app, "accepts", Mock(side_effect=[False] * 9))  # more looks than fit into the time
    vars(arbiter).update(app=app, WORKERS={pid: Mock(age=pid) for pid in (1, 2)}, _num_workers=1, reap_workers=Mock())
    arbiter.manage_workers()
    keeper.assert_called_once()


def test_a_worker_has_a_session_before_its_first_charge(own_url: str) -> None:
    sessions = "select count(*) from pg_stat_activity where application_name = 'sepu' and datname = current_database()"
    with serving("uvloop", own_url, workers=1), psycopg.connect(own_url, autocommit=True) as connection:
        until(lambda: connection.execute(sessions).fetchone() == (2,))
        assert connection.execute(sessions).fetchone() == (2,), "the other one is the probe's"
