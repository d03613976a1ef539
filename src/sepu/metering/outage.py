"""What both ledgers have in common for the time when the database is away."""

import logging
import select

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq.abc import PGconn

from sepu import limits
from sepu.metering.observer import LedgerObserver

log = logging.getLogger("sepu.ledger")


class LedgerUnavailable(Exception):  # noqa: N818  (named for the state, as the contract's codes are)
    """The database did not answer, or not in time."""


def bounded(database_url: str) -> str:
    """The connection string, with limits on waiting for the network where it sets none itself.

    And with the demand that the server takes writes: of several hosts the primary is found, and a standby is not asked
    for each request anew.
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
    """Whether the server has closed an idle connection, as after a restart. Asks the socket: no round trip."""
    readable = select.poll()
    readable.register(pgconn.socket, select.POLLIN)
    for _ in range(2):  # the server's farewell, then the end of the stream
        if not readable.poll(0):
            return False
        try:
            pgconn.consume_input()
        except psycopg.OperationalError:
            return True
    return False


def report_failure(error: Exception, observer: LedgerObserver) -> None:
    """Logs the kind of failure only: a server's message can quote a row."""
    sqlstate: str = getattr(error, "sqlstate", None) or ""
    log.error("ledger unavailable: %s %s", type(error).__name__, sqlstate)
    observer.call_failed(sqlstate)
