"""Connections to Postgres: how to make one that gives up in time, whether one is still there, and snapshots."""

import select
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn

from sepu import limits
from sepu.metering import scripts


def with_timeouts(database_url: str) -> str:
    """Adds limits on waiting for the network to a connection string, where it sets none itself.

    It also demands a server that takes writes, so that libpq finds the primary among several hosts.
    """
    defaults = {
        "application_name": "sepu",
        "connect_timeout": str(limits.CONNECT_SECONDS),
        "tcp_user_timeout": str(limits.CONNECT_SECONDS * 1000),
        "keepalives_idle": "30",  # or a firewall forgets a connection that is idle for long
        "target_session_attrs": "read-write",
    }
    given = conninfo_to_dict(database_url)
    return make_conninfo(database_url, **{name: value for name, value in defaults.items() if name not in given})


def hung_up(pgconn: PGconn) -> bool:
    """Tells whether the server has closed an idle connection, as after a restart. Asks the socket: no round trip."""
    readable = select.poll()
    readable.register(pgconn.socket, select.POLLIN)
    for _ in range(2):  # the server's last message, then the end of the stream
        if not readable.poll(0):
            return False
        try:
            pgconn.consume_input()
        except psycopg.OperationalError:
            return True
    return False


@contextmanager
def snapshot(connection: psycopg.Connection, statement_seconds: float | None = None) -> Iterator[None]:
    """Lets the statements of the block see the ledger at one moment, and change nothing.

    Each may take so many seconds. Within a transaction of the caller's, it is that one.
    """
    if connection.info.transaction_status != TransactionStatus.IDLE:
        yield
        return
    before = connection.isolation_level, connection.read_only
    connection.isolation_level, connection.read_only = psycopg.IsolationLevel.REPEATABLE_READ, True
    try:
        with connection.transaction():
            if statement_seconds is not None:
                scripts.run(connection, "limit_statements", milliseconds=str(round(statement_seconds * 1000)))
            yield
    finally:
        if not connection.closed:
            connection.isolation_level, connection.read_only = before
