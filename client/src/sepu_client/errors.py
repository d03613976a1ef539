"""Defines the errors of calls. None of them has the API key."""

from collections.abc import Sequence

from sepu_client.results import RGB, MatchResult, UsageSnapshot


class Error(Exception):
    """Base class of all errors. To avoid a second charge, repeat the call with `idempotency_key`.

    `may_be_charged` is true if an attempt of this call may have been charged. `request_id` is for the service's
    support; it is None if no response had one. An error of `match_many` has the results of the first colours in
    `answered`, and the other colours in `unanswered`.
    """

    retryable = False  # such an error is raised only if the deadline leaves no time for another attempt
    idempotency_key: str | None
    request_id: str | None
    may_be_charged = False
    answered: tuple[MatchResult, ...] = ()
    unanswered: tuple[RGB, ...] = ()

    def __str__(self) -> str:
        """Returns the message for people and logs."""
        if not self.unanswered:
            return self._message()
        answered, every = len(self.answered), len(self.answered) + len(self.unanswered)
        return f"{self._message()}; {answered} of {every} colours were answered"

    def tell_progress(self, answered: Sequence[MatchResult], colors: Sequence[RGB]) -> None:
        """Takes the results of the first colours of a `match_many`, and all its colours."""
        self.answered, self.unanswered = tuple(answered), tuple(colors[len(answered) :])
        self.may_be_charged = self.may_be_charged or bool(answered)

    def _message(self) -> str:
        raise NotImplementedError

    def _named(self) -> str:
        """Returns the request id as the end of a message."""
        return f" (request id {self.request_id})" if self.request_id else ""


class NoAnswerError(Error):
    """Reports timeouts or lost connections until the deadline.

    Raised immediately where a retry cannot help: TLS refuses a certificate, the proxy refuses, or the client was
    closed. If it comes from a `send` function, its `__cause__` is what that raised.
    """

    retryable = True

    def __init__(self, reason: str, idempotency_key: str | None, retryable: bool) -> None:
        super().__init__(reason, idempotency_key, retryable)
        self.reason = reason
        self.idempotency_key = idempotency_key
        self.request_id = None
        self.retryable = retryable

    def _message(self) -> str:
        return f"no answer ({self.reason})"


class InvalidAnswerError(Error):
    """Reports a response that the service did not send: the address is wrong, or a server in between answered.

    Such a response has another status than the interface, or another body.
    """

    def __init__(self, status: int, reason: str, request_id: str | None, idempotency_key: str | None) -> None:
        super().__init__(status, reason, request_id, idempotency_key)
        self.status = status
        self.reason = reason
        self.request_id = request_id
        self.idempotency_key = idempotency_key

    def _message(self) -> str:
        return f"{self.status}: {self.reason}{self._named()}"


class ApiError(Error):
    """Reports a refusal. `code` is None if not the service but a server in between refused.

    `retry_after` is in seconds, and None if the response has none.

    `pointer` leads to the first fault of an invalid input, as a JSON pointer (RFC 6901): `/colors/2/g`, `/q`. It is
    None if the input as a whole is at fault, or if the input is not the reason.
    """

    def __init__(
        self,
        status: int,
        code: str | None,
        request_id: str | None,
        retry_after: int | None,
        usage: UsageSnapshot | None,
        idempotency_key: str | None,
        pointer: str | None,
    ) -> None:
        super().__init__(status, code, request_id, retry_after, usage, idempotency_key, pointer)  # pickle's arguments
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retry_after = retry_after
        self.usage = usage
        self.idempotency_key = idempotency_key
        self.pointer = pointer

    def _message(self) -> str:
        if self.code is None:
            return f"{self.status} from a server in between, not from the service{self._named()}"
        place = f" at {self.pointer}" if self.pointer else ""
        return f"{self.status} {self.code}{place}{self._named()}"


class InvalidRequestError(ApiError):
    """Reports an invalid request: 400, 404, 413, 422 and the like. A retry is useless."""


class UnauthorizedError(ApiError):
    """Reports 401: the API key is missing, malformed, revoked, expired or invalid."""


class AccountUnavailableError(ApiError):
    """Reports 403: the account is suspended or unavailable."""


class IdempotencyConflictError(ApiError):
    """Reports 409 `idempotency_conflict`: the key was used for another input."""


class RequestInProgressError(ApiError):
    """Reports 409 `request_in_progress`: an earlier attempt with the key is still running."""

    retryable = True


class RequestTimeoutError(ApiError):
    """Reports 408: the request arrived too slowly, and was not processed. 425 of a server in between is the same."""

    retryable = True


class RateLimitedError(ApiError):
    """Reports 429 `rate_limited`: too many requests of the account in a minute."""

    retryable = True


class QuotaExceededError(ApiError):
    """Reports 429 `quota_exceeded`: too few units remain this month, see `usage`."""


class ServiceError(ApiError):
    """Reports 5xx: the service, its database or a server in between failed."""

    retryable = True


_BY_CODE = {
    (409, "idempotency_conflict"): IdempotencyConflictError,
    (409, "request_in_progress"): RequestInProgressError,
    (429, "quota_exceeded"): QuotaExceededError,
}
_BY_STATUS = {
    401: UnauthorizedError,
    403: AccountUnavailableError,
    408: RequestTimeoutError,
    425: RequestTimeoutError,  # "too early" (RFC 8470): another server on the way has not processed it
    429: RateLimitedError,
}


def error_class(status: int, code: str | None) -> type[ApiError]:
    """Returns the class for a code, or for a status if the code is not known.

    A status outside 100 to 599 counts as 5xx (RFC 9110, 15).
    """
    by_status = _BY_STATUS.get(status, InvalidRequestError if 400 <= status < 500 else ServiceError)
    return _BY_CODE.get((status, code or ""), by_status)
