"""What the caller, the log and the metrics get when the database does not answer, and the log of a fault of ours."""

import logging
import traceback

from sepu.metering.observer import LedgerObserver
from sepu.metering.session import UnreadableValueError

log = logging.getLogger("sepu.ledger")


class LedgerUnavailable(Exception):  # noqa: N818  (named for the state, as the contract's codes are)
    """The database did not answer, or not in time."""


def report_failure(error: Exception, observer: LedgerObserver) -> None:
    """Logs the kind of a failure and reports it to the observer. A server's message can quote a row; ours do not."""
    sqlstate: str = getattr(error, "sqlstate", None) or ""
    detail = error if isinstance(error, UnreadableValueError) else sqlstate
    log.error("ledger unavailable: %s %s", type(error).__name__, detail)
    observer.call_failed(sqlstate)


def report_fault(raised: Exception) -> None:
    """Logs a fault of ours. The message could quote the input, so only the frames."""
    frames = "".join(traceback.format_tb(raised.__traceback__))
    log.error("a callback failed: %s\n%s", type(raised).__name__, frames.rstrip())
