"""Reports failures of the database to the caller, the log and the metrics, and our own faults to the log."""

import logging
import re
import traceback
from queue import Empty

import psycopg

from sepu.database.connection import StandbySilentError, UnsafeSettingsError
from sepu.database.hosts import SettingsError
from sepu.database.nodes import failed_on
from sepu.metering.observer import LedgerObserver
from sepu.metering.session import SessionLost, UnreadableValueError

log = logging.getLogger("sepu.ledger")


class LedgerUnavailable(Exception):  # noqa: N818  (named for the state, as the contract's codes are)
    """The database failed, or did not answer in time."""


class Overdue(Exception):  # noqa: N818
    """Commands waited too long for a session."""


# The only psycopg and libpq messages that we log. Others may quote part of a connection string. `_HOST` excludes @:
# if a password has an unescaped @, libpq treats what follows as the host.
_HOST = r"[\w./:%-]+"
_KNOWN_CAUSE = re.compile(
    rf'connection to server (?:at|on socket) "{_HOST}"(?: \({_HOST}\))?(?:, port \d+)? failed: [^\n]{{1,300}}'
    rf"|failed to resolve host '{_HOST}': [^\n]{{1,300}}"
    rf"|host: '{_HOST}', port: '\d*', hostaddr: '[\w.:%]*': connection timeout expired"
    r"|connection timeout expired|wait timeout expired|server closed the connection unexpectedly"
    r"|the first statement was not answered"
    rf'|definition of service "{_HOST}" not found'
)
# What sepu.check_node raises.
_UNSAFE = re.compile(r"\w+ is [\w ]{1,40} instead of [\w ,]{1,900}")
_OURS = {
    SessionLost: "the server closed the connection, or did not answer in time",
    TimeoutError: "could not connect in time",
    Overdue: "requests waited too long for a free connection",
    Empty: "the event loop did not answer in time",
}


def report_failure(error: Exception, observer: LedgerObserver) -> None:
    """Logs the kind and cause of a failure, but never a row or a password, and reports it to the observer."""
    sqlstate: str = getattr(error, "sqlstate", None) or ""
    cause = f" {sqlstate}{_node(error)}" if isinstance(error, psycopg.Error) and sqlstate else _cause(error)
    log.error("ledger unavailable: %s%s", type(error).__name__, cause)
    observer.call_failed(sqlstate)


def report_fault(raised: BaseException, what: str = "a callback failed") -> None:
    """Logs our own fault with its stack frames, but without its message, which could quote the input."""
    frames = "".join(traceback.format_tb(raised.__traceback__))
    log.error("%s: %s\n%s", what, type(raised).__name__, frames.rstrip())


def _node(error: psycopg.Error) -> str:
    """Returns the node of a Citus cluster on which the statement failed, and why it could not run there, if known."""
    if (found := failed_on(error)) is None:
        return ""
    node, cause = found
    message = error.diag.message_primary or ""
    cause = cause or (message if _UNSAFE.fullmatch(message) else "")
    return f" on {node}" + (f": {cause}" if cause else "")


def _cause(error: Exception) -> str:
    """Returns the cause of an error that has no SQLSTATE, without anything that could quote a row."""
    if isinstance(error, UnreadableValueError | SettingsError | StandbySilentError | UnsafeSettingsError):
        cause = " ".join(str(error).split())
    elif isinstance(error, psycopg.OperationalError):
        cause = "; ".join(dict.fromkeys(_KNOWN_CAUSE.findall(str(error))))
    else:
        cause = _OURS.get(type(error), "")
    return f": {cause}" if cause else ""
