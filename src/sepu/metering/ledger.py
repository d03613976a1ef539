"""Runs commands against Postgres, for threads. One round trip, one transaction each.

It raises `LedgerUnavailable` when the database does not answer in time. The caller does not know then whether anything
was committed; a retry with the same idempotency key finds out.
"""

import time
from collections.abc import Sequence
from threading import Event, Lock, Semaphore, Thread
from typing import Any, TypeVar

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from sepu import limits
from sepu.database.connection import BoundedConnection, StandbySilentError, hung_up, standby_is_silent
from sepu.database.hosts import Hosts
from sepu.metering.codec import Row
from sepu.metering.commands import PROBE, UNAUTHORIZED, Command, find_key
from sepu.metering.failure import LedgerUnavailable, report_failure
from sepu.metering.key_format import Credential
from sepu.metering.observer import LedgerObserver
from sepu.metering.refused_keys import RefusedKeys

T = TypeVar("T")

# More cannot be served in time: on two busy cores a connection charges 100 to 300 times a second, so the last of them
# waits less than half a second. What exceeds that is refused at once.
WAITING_PER_CONNECTION = 50


def _pool(hosts: Hosts, connections: int) -> dict[str, Any]:
    """Returns the pool's settings."""
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
        self._refused_keys = RefusedKeys()
        self._look_ups = Semaphore(limits.LOOK_UP_THREADS)
        self._probing = Lock()
        self._probed = float("-inf")
        self._is_ready = False
        self._closing = Event()
        self._watcher: Thread | None = None
        self._hosts = Hosts(database_url)
        self._pool = ConnectionPool(
            connection_class=BoundedConnection,
            check=self._check,
            configure=self._configure,
            **_pool(self._hosts, connections),
        )

    def _configure(self, connection: BoundedConnection) -> None:
        self._hosts.answered(connection)
        ((is_silent,),) = connection.execute(*standby_is_silent()).fetchall()
        if is_silent:
            raise StandbySilentError
        self._observer.connected()

    def _check(self, connection: BoundedConnection) -> None:
        if hung_up(connection.pgconn):
            self._pool.drain()  # the other connections are most likely dead too
            raise psycopg.OperationalError

    def open(self) -> None:
        """Lets connections be made; after a fork, not before."""
        self._pool.open()

    def watch(self) -> None:
        """Probes now, and again every few seconds until it is closed, in a thread of its own."""
        self._watcher = Thread(target=self._watch, name="watch", daemon=True)
        self._watcher.start()

    def _watch(self) -> None:
        self.ready()
        while not self._closing.wait(limits.LOOK_SECONDS):
            self.ready()

    def close(self) -> None:
        """Closes the connections."""
        self._closing.set()
        if self._watcher is not None:
            self._watcher.join()
        self._pool.close()

    def run(self, command: Command[T]) -> T:
        """Runs one command.

        Raises:
            LedgerUnavailable: no answer, or not in time.
        """
        self._observer.command_began()
        try:
            suspects = command.sender is not None and self._refused_keys.are_many(time.monotonic())
            if suspects and not self._look_up(command):
                answer: T = command.refused(UNAUTHORIZED)
                return answer
            rows = self._execute(command)
        except (psycopg.Error, PoolTimeout) as error:
            if isinstance(error, psycopg.errors.UniqueViolation) and command.on_duplicate is not None:
                return command.on_duplicate
            report_failure(error, self._observer)
            raise LedgerUnavailable from None
        finally:
            self._observer.command_ended()
        if rows[0][0] == UNAUTHORIZED:
            self._refused_keys.count(time.monotonic())
        return command.read(rows)

    def _look_up(self, command: Command[Any]) -> bool:
        """Returns whether the key of a command is valid. A few threads may ask at a time."""
        if not self._look_ups.acquire(timeout=limits.QUEUE_SECONDS):
            raise PoolTimeout
        try:
            ((is_valid,),) = self._execute(find_key(Credential(*command.holder), command.sender))
        finally:
            self._look_ups.release()
        if not is_valid:
            self._refused_keys.count(time.monotonic())
        return bool(is_valid)

    def _execute(self, command: Command[Any]) -> Sequence[Row]:
        with self._pool.connection() as connection, connection.cursor(binary=True) as cursor:
            try:
                rows = cursor.execute(command.statement, command.parameters).fetchall()
            except psycopg.Error as error:
                # No longer the primary, or silent: each of the other connections would take a second to say so.
                if connection.closed or isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                    self._pool.drain()
                raise
        self._observer.call_answered(1)
        return rows

    def ready(self) -> bool:
        """Returns whether a charge could be committed now, by this release's migrations; known for a second."""
        with self._probing:
            if time.monotonic() - self._probed >= limits.PROBE_SECONDS:
                self._is_ready = self._probe()
                self._probed = time.monotonic()
                self._observer.probed(self._is_ready)
            return self._is_ready

    def _probe(self) -> bool:
        try:
            holds = self.run(PROBE)
        except LedgerUnavailable:
            return False
        if not holds:
            self._pool.drain()  # perhaps no longer the primary: look for it anew
        return holds
