"""Defines the errors of calls. None contains the API key."""

from collections.abc import Sequence

from sepu_client.results import RGB, MatchResult, UsageSnapshot


class Error(Exception):
    """The base class of all errors. To repeat a call without a second charge, pass the error's `idempotency_key`.

    `may_be_charged` is true if one of the call's attempts may have been charged. `retryable` is true if the same call
    may succeed later; the client raises such an error at the deadline, or earlier if the next wait would end after it.
    The client retries an unknown host name for up to 3 seconds. Give `request_id` to the service's support. It is None
    if the last attempt got no response, or the response had none. For `match_many`, `answered` has the results so far,
    and `unanswered` has the remaining colours.
    """

    retryable: bool = False
    idempotency_key: str | None
    request_id: str | None
    may_be_charged: bool = False
    answered: tuple[MatchResult, ...] = ()
    unanswered: tuple[RGB, ...] = ()

    def __str__(self) -> str:
        """Returns a message without secrets, in one line."""
        if not self.unanswered:
            return self._message()
        answered, every = len(self.answered), len(self.answered) + len(self.unanswered)
        return f"{self._message()}; {answered} of {every} colours were answered"

    def _message(self) -> str:
        raise NotImplementedError

    def _named(self) -> str:
        """Returns the request id as the end of a message."""
        return f" (request id {self.request_id})" if self.request_id else ""


class NoAnswerError(Error):
    """The error for a timeout or a lost connection.

    It is usually raised at the deadline. If either side rejects the TLS handshake, if the proxy refuses the connection
    with a status that is not retried, or if the client was closed, it is raised immediately and is not `retryable`. If
    your `send` function raised a `ConnectionError` or `TimeoutError` of its own, the error's `__cause__` is that
    exception.
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
    """The error for a response that does not follow the API.

    A server in between (a proxy, a gateway or a firewall) answered, or the address is wrong.
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
    """The base class of the errors for statuses 4xx and 5xx.

    `code` is None if a 408, 425, 429 or 5xx lacks the API's error body, because a proxy, gateway or firewall (not the
    nginx that comes with sepu) sent it. Any other 4xx without that body raises `InvalidAnswerError`.

    `retry_after` is in seconds, or None if the response has none. `usage` is the meter whose quota was exceeded, or
    None.

    `pointer` is a JSON pointer (RFC 6901) to the first fault in the input, such as `/colors/2/g` or `/q`. It is None if
    the whole input is at fault, or if the error is not about the input.
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
    """The error for an invalid request: 400, 404, 413, 422 or another 4xx."""


class UnauthorizedError(ApiError):
    """The error for 401: the API key is malformed, unknown, revoked or expired."""


class AccountUnavailableError(ApiError):
    """The error for 403: the account is suspended or expired."""


class IdempotencyConflictError(ApiError):
    """The error for 409 `idempotency_conflict`: the key was used with different input."""


class RequestInProgressError(ApiError):
    """The error for 409 `request_in_progress`: an earlier attempt with the key is still running."""

    retryable = True


class RequestTimeoutError(ApiError):
    """The error for 408 or 425: the request arrived too slowly or too early."""

    retryable = True


class RateLimitedError(ApiError):
    """The error for any 429 except `quota_exceeded`: too many requests in a short time."""

    retryable = True


class QuotaExceededError(ApiError):
    """The error for 429 `quota_exceeded`: too few units remain this month; `usage` has the figures."""


class ServiceError(ApiError):
    """The error for 5xx: the service, its database, or a proxy, gateway or firewall in between failed."""

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


def add_progress(error: Error, answered: Sequence[MatchResult], colors: Sequence[RGB]) -> None:
    """Sets the results of a `match_many` so far, given all its colours."""
    error.answered, error.unanswered = tuple(answered), tuple(colors[len(answered) :])
    error.may_be_charged = error.may_be_charged or bool(answered)


def error_class(status: int, code: str | None) -> type[ApiError]:
    """Returns the class for a code, or for the status if the code is unknown.

    A status outside 100 to 599 counts as 5xx (RFC 9110, 15).
    """
    by_status = _BY_STATUS.get(status, InvalidRequestError if 400 <= status < 500 else ServiceError)
    return _BY_CODE.get((status, code or ""), by_status)
