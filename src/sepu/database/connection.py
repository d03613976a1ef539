"""Limits the time of each statement on connections to Postgres, and opens snapshots."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import waiting
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

from sepu import limits
from sepu.database import statements

# A command whose statement takes longer looks whether all nodes of the cluster answer, and again each time. If one does
# not, twice in a row, the command ends.
_SLOW_SECONDS = 5.0

T = TypeVar("T")


class StandbySilentError(psycopg.OperationalError):
    """Earlier statements wait for a synchronous standby that does not answer, so another would wait too.

    They are not cancelled, because they have committed on this host only: a retry would then replay an answer that a
    promoted standby does not have.
    """

    def __init__(self) -> None:
        """Takes no argument, because the message quotes nothing."""
        super().__init__("commits wait for a synchronous standby that does not answer")


class UnsafeSettingsError(psycopg.OperationalError):
    """Settings that the session inherits break a promise of the ledger. The message comes from the database."""

    def __init__(self, broken: str) -> None:
        """Takes what `sepu.broken_settings` returned."""
        super().__init__(f"{broken}; see: sepu db check")


class NodeSilentError(psycopg.OperationalError):
    """A node of a Citus cluster does not answer, so a statement that needs it would wait for it."""

    def __init__(self, node: str) -> None:
        """Takes the node as `host:port`."""
        super().__init__(f"the node {node} does not answer")


class BoundedConnection(psycopg.Connection[Any]):
    """Closes itself when an answer is late, because the server may still be executing the statement.

    The server's statement_timeout does not help: a server on a stalled disk does not obey it, a lost host sends
    nothing, and PgBouncer does not pass it on. This does not cancel the late statement, which soon ends, because the
    functions limit their waits for locks. An interrupted psycopg would cancel it, and wait many seconds for that.
    """

    statement_seconds: float | None = limits.database.STATEMENT_SECONDS
    another: Callable[[], "BoundedConnection"]
    """Connects to the same database; its statements may take no longer than the service's."""

    while_slow: Callable[[], bool] | None = None
    """Called during a statement every `SLOW_SECONDS`, until it returns False. If it raises, the connection closes."""

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Waits for a statement; psycopg calls it."""
        try:
            return waiting.wait(self._watched(gen), self.pgconn.socket, interval, timeout or self.statement_seconds)
        except BaseException:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()
            raise

    def _watched(self, gen: PQGen[T]) -> PQGen[T]:
        """Passes on what the statement waits for, and calls `while_slow` if it waits for long."""
        due = time.monotonic() + _SLOW_SECONDS
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and self.while_slow is not None and time.monotonic() >= due:
                    if not self.while_slow():
                        self.while_slow = None
                    due = time.monotonic() + _SLOW_SECONDS
                wanted = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result


@dataclass(frozen=True, slots=True)
class ServerState:
    """What the server reports about itself. `octets` is the size of the database."""

    version: str
    is_standby: bool
    octets: int


def read_server(connection: psycopg.Connection) -> ServerState:
    """Returns the state of the server."""
    [row] = statements.run(connection, "read_server").fetchall()
    return ServerState(*row)


@contextmanager
def snapshot(connection: psycopg.Connection, statement_seconds: float | None = None) -> Iterator[None]:
    """Makes all statements of the block see one snapshot of the ledger, read-only.

    Each statement may take `statement_seconds`. If the caller has begun a transaction, uses that one as it is.
    """
    if connection.info.transaction_status != TransactionStatus.IDLE:
        yield
        return
    before = connection.isolation_level, connection.read_only
    connection.isolation_level, connection.read_only = psycopg.IsolationLevel.REPEATABLE_READ, True
    try:
        with connection.transaction():
            if statement_seconds is not None:
                statements.run(connection, "limit_statements", milliseconds=str(round(statement_seconds * 1000)))
            yield
    finally:
        if not connection.closed:
            connection.isolation_level, connection.read_only = before
