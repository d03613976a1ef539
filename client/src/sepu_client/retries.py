"""Decides what an answer means: the result, an error, or another attempt. Both clients share it."""

import math
import re
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from itertools import count
from random import uniform as drawn
from typing import Any, NamedTuple, TypeVar

from sepu_client import results
from sepu_client.errors import ApiError, Error, InvalidAnswerError, NoAnswerError, error_class
from sepu_client.messages import MAX_BODY, Answer, Call, Lost
from sepu_client.results import Unreadable

T = TypeVar("T")

TIMEOUT = 10.0
DEADLINE = 60.0
_DAY_SECONDS = 86_400

FIRST_BACK_OFF = 0.25
DOUBLINGS = 5  # of the back-off: up to 8 seconds

_SECONDS = re.compile(r"[0-9]{1,9}")
# Read only these forms from an error, because the other side might echo the request.
_CODE = re.compile(r"[a-z_]{1,64}")
_POINTER = re.compile(r"(/[a-z]{1,32}|/[0-9]{1,4}){1,8}")
_REQUEST_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def checked_seconds(name: str, seconds: float) -> float:
    """Returns a time-out or deadline, if it is valid."""
    if not isinstance(seconds, int | float) or not 0 < seconds <= _DAY_SECONDS:
        raise ValueError(f"{name} is more than 0 seconds, and at most a day")
    return seconds


class Attempt(NamedTuple):
    """Says how long to wait before sending, and when to give up, in seconds."""

    wait: float
    seconds: float


def settle(
    call: Call[T],
    timeout: float,
    deadline: float,
    clock: Callable[[], float],
    uniform: Callable[[float, float], float] = drawn,
) -> Generator[Attempt, Answer | Lost, T]:
    """Yields one attempt after the other, takes the outcome of each, and returns the result or raises the error.

    An attempt that failed is repeated if its error is of a kind that is `retried`, after Retry-After and a back-off
    with full jitter, unless the deadline would come first. The headers of answers have names in lower case.
    """
    end = clock() + deadline
    wait, left = 0.0, deadline
    for number in count():
        outcome = yield Attempt(wait, min(timeout, left))
        if isinstance(outcome, Answer) and outcome.status == 200:
            return _result(call, outcome)
        error = _error(call, outcome)
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        wait = (retry_after or 0) + uniform(0, FIRST_BACK_OFF * 2 ** min(number, DOUBLINGS))
        left = end - clock() - wait
        if not error.retried or left <= 0:
            raise error
        import logging  # slow to import, and seldom needed

        log = logging.getLogger("sepu_client")
        log.info("%s: %s; it is sent again in %.2f seconds", call.target.partition("?")[0], error, wait)
    raise AssertionError  # count() has no end


def bare(ended: BaseException) -> BaseException:
    """Returns an exception to raise without the frames below: their variables have the API key.

    Keeps the cancellations that it followed: anyio recognises its own by them.
    """
    before = ended.__context__
    ended.__context__ = bare(before) if type(before).__name__ == "CancelledError" and before else None
    return ended.with_traceback(None)


def _result(call: Call[T], answer: Answer) -> T:
    try:
        return results.read(call.form, _content(answer), _known(call, answer))
    except Unreadable as unreadable:
        reason = str(unreadable)
    raise InvalidAnswerError(answer.status, reason, _request_id(answer), call.intent_key or call.idempotency_key)


def _request_id(answer: Answer) -> str | None:
    found = answer.headers.get("x-request-id", "")
    return found if _REQUEST_ID.fullmatch(found) else None


def _known(call: Call[Any], answer: Answer) -> dict[str, Any]:
    """Returns the fields of the result that are not in the body."""
    request_id = _request_id(answer)
    if request_id is None:
        raise Unreadable("the header X-Request-Id is missing or not a UUID")
    if call.idempotency_key is None:
        return {"request_id": request_id}
    return {
        "request_id": request_id,
        "usage": results.read_usage_headers(answer.headers),
        "replayed": answer.headers.get("idempotency-replayed") == "true",
        "idempotency_key": call.idempotency_key,
    }


def is_plain(headers: Mapping[str, str]) -> bool:
    """Returns whether a body is uncompressed: a compressed one, which may expand to any length, is not read."""
    return headers.get("content-encoding", "identity").lower() == "identity"


def _content(answer: Answer) -> bytes:
    if not is_plain(answer.headers):
        raise Unreadable("the body has a content coding, and none was accepted")
    if len(answer.body) > MAX_BODY:
        raise Unreadable(f"the body has more than {MAX_BODY} bytes")
    return answer.body


def _error(call: Call[T], outcome: Answer | Lost) -> Error:
    key = call.intent_key or call.idempotency_key
    if isinstance(outcome, Lost):
        return NoAnswerError(outcome.reason, key, retried=not outcome.final)
    request_id = _request_id(outcome)
    if outcome.status < 400:
        return InvalidAnswerError(outcome.status, "the interface has no such status", request_id, key)
    code = snapshot = None
    with suppress(Unreadable):
        found = results.read_error_code(_content(outcome))
        code = found if _CODE.fullmatch(found) else None
    with suppress(Unreadable):
        snapshot = results.read_usage_headers(outcome.headers)
    pointer = outcome.headers.get("x-error-pointer", "")
    place = pointer if _POINTER.fullmatch(pointer) else None
    kind = error_class(outcome.status, code)
    return kind(outcome.status, code, request_id, _retry_after(outcome.headers), snapshot, key, place)


def _retry_after(headers: Mapping[str, str]) -> int | None:
    """Returns the seconds of a Retry-After, a number or a date; None for anything else."""
    after = headers.get("retry-after", "")
    if _SECONDS.fullmatch(after):
        return int(after)
    instant = _instant(after)
    if instant is None:
        return None
    now = _instant(headers.get("date", ""))  # by the same clock, if it says so
    return max(0, math.ceil(instant - (time.time() if now is None else now)))


def _instant(date: str) -> float | None:
    if not 16 <= len(date) <= 40:
        return None
    from email.utils import parsedate_to_datetime  # slow to import, and seldom needed

    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
