"""Decides what follows from an answer: a result, an error, or another attempt. Both clients use this."""

import math
import re
import time
from collections.abc import Callable, Generator, Mapping
from itertools import count
from random import uniform as drawn
from typing import Any, TypeVar

from sepu_client import results
from sepu_client.errors import (
    ApiError,
    Error,
    InvalidAnswerError,
    NoAnswerError,
    RequestInProgressError,
    error_class,
)
from sepu_client.messages import MAX_BODY, Answer, Attempt, Call, Lost
from sepu_client.results import Unreadable

T = TypeVar("T")

# Containers and VPNs may come up late, but a misspelt name never exists.
UNKNOWN_NAME_SECONDS = 3.0
TOO_LATE = "the deadline came before it was sent"
_DAY_SECONDS = 86_400

FIRST_BACK_OFF = 0.25
DOUBLINGS = 5  # of the back-off: up to 8 seconds

# Read only these forms from an error, because the other side might echo the request.
_CODE = r"[a-z_]{1,64}"
_POINTER = r"(/[a-z]{1,32}|/[0-9]{1,4}){1,8}"
_REQUEST_ID = re.compile("-".join([f"[0-9a-fA-F]{{{digits}}}" for digits in (8, 4, 4, 4, 12)]))


def checked_seconds(name: str, seconds: float) -> float:
    """Returns a timeout or deadline if it is valid. Raises ValueError."""
    if not isinstance(seconds, int | float) or not 0 < seconds <= _DAY_SECONDS:
        raise ValueError(f"{name} is more than 0 seconds, and at most a day")
    return seconds


def settle(
    call: Call[T], end: float, clock: Callable[[], float], uniform: Callable[[float, float], float] = drawn
) -> Generator[float, Answer | Lost | None, T]:
    """Yields the seconds to wait before each attempt, takes its outcome, and returns the result or raises the error.

    An outcome of None means that `end` came before the attempt: the last error is raised then.

    Repeats a failed attempt if its error is `retryable`, after Retry-After and a back-off with full jitter, unless
    `end` would come first. The headers of answers have names in lower case.
    """
    wait, last = 0.0, end
    error: Error | None = None
    may_be_charged = False
    for number in count():
        outcome = yield wait
        if outcome is None:
            raise error or _error(call, Lost(TOO_LATE))
        if isinstance(outcome, Answer) and outcome.status == 200:
            return _result(call, outcome)
        error = _error(call, outcome)
        may_be_charged = may_be_charged or _may_be_charged(call, outcome, error)
        error.may_be_charged = may_be_charged
        error.__cause__ = outcome.__cause__ if isinstance(outcome, Lost) else None
        after = outcome.retry_after if isinstance(outcome, Lost) else retry_after(outcome.headers)
        wait = (after or 0) + uniform(0, FIRST_BACK_OFF * 2 ** min(number, DOUBLINGS))
        now = clock()
        if not (isinstance(outcome, Lost) and outcome.unknown_name):
            last = end
        elif last == end:  # the first of these in a row
            last = min(end, now + UNKNOWN_NAME_SECONDS)
        if not error.retryable or now + wait >= last:
            raise error
        import logging  # slow to import, and seldom needed

        log = logging.getLogger("sepu_client")
        log.info("%s: %s; it is sent again in %.2f seconds", call.target.partition("?")[0], error, wait)
    raise AssertionError  # count() has no end


def without_our_frames(ended: BaseException) -> BaseException:
    """Removes our frames from an exception that passed through them, because their variables have the API key.

    Keeps the frames of the caller's code that they called, such as a signal handler. Treats the exceptions that it
    followed in the same way: anyio recognises its cancellations by them.
    """
    kept = trace = ended.__traceback__
    while trace:
        if trace.tb_frame.f_globals.get("__name__", "").startswith("sepu_client."):
            kept = trace.tb_next
        trace = trace.tb_next
    if ended.__context__:
        without_our_frames(ended.__context__)
    return ended.with_traceback(kept)


def complete(attempt: Attempt, outcome: Answer | Lost | None, seconds: float) -> None:
    """Sets the fields of an attempt that has ended."""
    attempt.seconds = seconds
    if isinstance(outcome, Answer):
        attempt.status, attempt.request_id = outcome.status, _request_id(outcome.headers)
    else:
        attempt.reason = outcome.reason if outcome else TOO_LATE


def _result(call: Call[T], answer: Answer) -> T:
    try:
        return results.read(call.form, _content(answer), _known(call, answer))
    except Unreadable as unreadable:
        reason = str(unreadable)
    error = InvalidAnswerError(
        answer.status, reason, _request_id(answer.headers), call.intent_key or call.idempotency_key
    )
    error.may_be_charged = call.idempotency_key is not None
    raise error


def _request_id(headers: Mapping[str, str]) -> str | None:
    """Returns the only UUID in the header, because a server in between may add an identifier of its own."""
    named = headers.get("x-request-id", "")
    if _REQUEST_ID.fullmatch(named):
        return named
    request_ids = {part for part in named.split(", ") if _REQUEST_ID.fullmatch(part)}
    return request_ids.pop() if len(request_ids) == 1 else None


def _known(call: Call[Any], answer: Answer) -> dict[str, Any]:
    """Returns the fields of the result that are not in the body."""
    request_id = _request_id(answer.headers)
    if call.idempotency_key is None:
        return {"request_id": request_id}
    return {
        "request_id": request_id,
        "usage": results.read_usage_headers(answer.headers),
        "replayed": answer.headers.get("idempotency-replayed") == "true",
        "idempotency_key": call.idempotency_key,
    }


def is_plain(headers: Mapping[str, str]) -> bool:
    """Returns whether a body is uncompressed. A compressed one may expand to any length, and is not read."""
    return headers.get("content-encoding", "identity").lower() in {"identity", ""}


def _content(answer: Answer) -> bytes:
    if not is_plain(answer.headers):
        raise Unreadable("the body has a content coding, and none was accepted")
    if len(answer.body) > MAX_BODY:
        raise Unreadable(f"the body has more than {MAX_BODY} bytes")
    return answer.body


def _error(call: Call[T], outcome: Answer | Lost) -> Error:
    key = call.intent_key or call.idempotency_key
    if isinstance(outcome, Lost):
        return NoAnswerError(outcome.reason, key, retryable=not outcome.final)
    status = outcome.status
    if 100 <= status < 400:
        return InvalidAnswerError(status, "the interface has no such status", _request_id(outcome.headers), key)
    code, request_id = _refusal(outcome)
    kind = error_class(status, code)
    if code is None and not kind.retryable:
        reason = "not the service but a server in between answered, or the address is wrong"
        return InvalidAnswerError(status, reason, request_id, key)
    snapshot = results.read_usage_headers(outcome.headers)
    pointer = outcome.headers.get("x-error-pointer", "")
    place = pointer if re.fullmatch(_POINTER, pointer) else None
    return kind(status, code, request_id, retry_after(outcome.headers), snapshot, key, place)


def _refusal(answer: Answer) -> tuple[str | None, str | None]:
    """Returns the code, or None if the body does not follow the interface, and the request id."""
    try:
        code, request_id = results.read_refusal(_content(answer))
    except Unreadable:
        code = request_id = ""
    if re.fullmatch(_CODE, code) and _REQUEST_ID.fullmatch(request_id):
        return code, request_id
    return None, _request_id(answer.headers)


def _may_be_charged(call: Call[Any], outcome: Answer | Lost, error: Error) -> bool:
    """Returns whether this attempt may have been charged: unless it was not sent, or the service refused it."""
    if isinstance(outcome, Lost):
        is_refused = outcome.unsent
    else:
        is_refused = isinstance(error, ApiError) and error.code is not None and outcome.status < 500
    return call.idempotency_key is not None and (not is_refused or isinstance(error, RequestInProgressError))


def retry_after(headers: Mapping[str, str]) -> int | None:
    """Returns the seconds of a Retry-After, which is a number or a date. Returns None for anything else."""
    after = headers.get("retry-after", "")
    if re.fullmatch("[0-9]{1,9}", after):
        return int(after)
    instant = _instant(after)
    if instant is None:
        return None
    now = _instant(headers.get("date", ""))  # by the same clock, if it says so
    return max(0, math.ceil(instant - (time.time() if now is None else now)))


def _instant(date: str) -> float | None:
    if not 16 <= len(date) <= 40:
        return None
    from datetime import UTC
    from email.utils import parsedate_to_datetime  # slow to import, and seldom needed

    try:
        instant = parsedate_to_datetime(date)
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
