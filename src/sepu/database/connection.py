"""Connections to Postgres: one that gives up in time, and snapshots."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import waiting
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

from sepu import limits
from sepu.database import statements

T = TypeVar("T")


class StandbySilentError(psycopg.OperationalError):
    """Earlier statements wait for a synchronous standby that does not answer, so another would wait too.

    They are left alone. They have committed on this host only: if they were cancelled, a retry would replay an answer
    that a promoted standby does not have.
    """

    def __init__(self) -> None:
        """Takes nothing: the message quotes nothing."""
        super().__init__("commits wait for a synchronous standby that does not answer")


class UnsafeSettingsError(psycopg.OperationalError):
    """Settings that the session inherits break a promise of the ledger. The message is the database's."""

    def __init__(self, broken: str) -> None:
        """Takes what `sepu.broken_settings` returned."""
        super().__init__(f"{broken}; see: sepu db check")


class BoundedConnection(psycopg.Connection[Any]):
    """Closes itself when an answer is late, because the server may still be busy with the statement.

    The server's statement_timeout does not help: a server on a stalled disk does not keep it, a lost host sends
    nothing, and PgBouncer does not pass it on. The server is not busy for long, because the functions limit their waits
    for locks. So nothing is cancelled there; psycopg would cancel the statement if it were interrupted, and wait for
    that for many seconds.
    """

    statement_seconds: float | None = limits.database.STATEMENT_SECONDS

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Waits for a statement; psycopg calls it."""
        try:
            return waiting.wait(gen, self.pgconn.socket, interval, timeout or self.statement_seconds)
        except BaseException:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()
            raise


@dataclass(frozen=True, slots=True)
class ServerState:
    """The server's own report; `octets` is the size of the database."""

    version: str
    is_standby: bool
    octets: int


def read_server(connection: psycopg.Connection) -> ServerState:
    """Returns the state of the server."""
    [row] = statements.run(connection, "read_server").fetchall()
    return ServerState(*row)


@contextmanager
def snapshot(connection: psycopg.Connection, statement_seconds: float | None = None) -> Iterator[None]:
    """Shows the statements of the block the ledger at one moment, read-only.

    Each may take `statement_seconds`. Within the caller's transaction, it uses that one.
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
