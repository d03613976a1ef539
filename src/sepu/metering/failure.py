"""What a caller gets, and the log and the metrics, when the database does not answer."""

import logging

from sepu.metering.observer import LedgerObserver

log = logging.getLogger("sepu.ledger")


class LedgerUnavailable(Exception):  # noqa: N818  (named for the state, as the contract's codes are)
    """The database did not answer, or not in time."""


def report_failure(error: Exception, observer: LedgerObserver) -> None:
    """Logs the kind of failure only: a server's message can quote a row."""
    sqlstate: str = getattr(error, "sqlstate", None) or ""
    log.error("ledger unavailable: %s %s", type(error).__name__, sqlstate)
    observer.call_failed(sqlstate)
