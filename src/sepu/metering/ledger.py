"""Runs commands against Postgres, for threads. One round trip, one transaction each.

It raises `LedgerUnavailable` when the database does not answer in time. The caller does not know then whether anything
was committed; a retry with the same idempotency key finds out.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Lock, Semaphore
from typing import Any, TypeVar

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from sepu import limits
from sepu.metering.commands import PROBE, Command
from sepu.metering.connection import BoundedConnection, hung_up
from sepu.metering.failure import LedgerUnavailable, report_failure
from sepu.metering.hosts import Hosts
from sepu.metering.observer import LedgerObserver

T = TypeVar("T")

# More cannot be served in time: on two busy cores a connection charges 100 to 300 times a second, so the last of them
# waits less than half a second. What exceeds that is refused at once.
WAITING_PER_CONNECTION = 50


def _pool(hosts: Hosts, connections: int) -> dict[str, Any]:
    """Gives the pool's settings."""
    return {
        "conninfo": hosts.conninfo,
        # Connections are made on demand, so after an outage the next request reconnects at once.
        "min_size": 0,
        "max_size": connections,
        "max_waiting": WAITING_PER_CONNECTION * connections,
        "timeout": limits.QUEUE_SECONDS,
        "reconnect_timeout": limits.RECONNECT_SECONDS,
        # One autocommit statement a request, and no prepared ones: they are session state, and PgBouncer in transaction
        # mode may run another session's. PERF: a charge takes 0.35 ms instead of 0.31.
        "kwargs": {"autocommit": True, "prepare_threshold": None},
        "open": False,
    }


class Ledger:
    """Runs commands for threads."""

    def __init__(self, database_url: str, connections: int, observer: LedgerObserver | None = None) -> None:
        self._observer = observer or LedgerObserver()
        self._look_ups = Semaphore(limits.LOOK_UP_THREADS)
        self._probing = Lock()
        self._probed = float("-inf")
        self._is_ready = False
        self._hosts = Hosts(database_url)
        self._pool = ConnectionPool(
            connection_class=BoundedConnection,
            check=self._check,
            configure=self._configure,
            **_pool(self._hosts, connections),
        )

    def _configure(self, connection: BoundedConnection) -> None:
        self._hosts.answered(connection)
        self._observer.connected()

    def _check(self, connection: BoundedConnection) -> None:
        if hung_up(connection.pgconn):
            self._pool.drain()  # the other connections are most likely dead too
            raise psycopg.OperationalError

    def open(self) -> None:
        """Lets connections be made; after a fork, not before."""
        self._pool.open()

    def close(self) -> None:
        """Gives the connections back."""
        self._pool.close()

    def run(self, command: Command[T]) -> T:
        """Runs one command.

        Raises:
            LedgerUnavailable: no answer, or not in time.
        """
        self._observer.command_began()
        turn = nullcontext() if command.look_up_for is None else self._look_up_turn()
        used: BoundedConnection | None = None
        try:
            with turn, self._pool.connection() as used, used.cursor(binary=True) as cursor:
                rows = cursor.execute(command.statement, command.parameters).fetchall()
        except (psycopg.Error, PoolTimeout) as error:
            if isinstance(error, psycopg.errors.UniqueViolation) and command.on_duplicate is not None:
                return command.on_duplicate
            if isinstance(error, psycopg.errors.ReadOnlySqlTransaction) or (used is not None and used.closed):
                self._pool.drain()  # no longer the primary, or silent: each of the others would take a second to say so
            report_failure(error, self._observer)
            raise LedgerUnavailable from None
        finally:
            self._observer.command_ended()
        self._observer.call_answered(1)
        return command.read(rows)

    @contextmanager
    def _look_up_turn(self) -> Iterator[None]:
        if not self._look_ups.acquire(timeout=limits.QUEUE_SECONDS):
            raise PoolTimeout
        try:
            yield
        finally:
            self._look_ups.release()

    def ready(self) -> bool:
        """Tells whether the database answers and holds this release's migrations; known for a second."""
        with self._probing:
            if time.monotonic() - self._probed >= limits.PROBE_SECONDS:
                self._is_ready = self._probe()
                self._probed = time.monotonic()
            return self._is_ready

    def _probe(self) -> bool:
        try:
            holds = self.run(PROBE)
        except LedgerUnavailable:
            return False
        if not holds:
            self._pool.drain()  # perhaps no longer the primary: look for it anew
        return holds
