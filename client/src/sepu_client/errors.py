"""Defines the errors of calls. None of them has the API key."""

from sepu_client.results import UsageSnapshot


class Error(Exception):
    """Stands for every error of this client.

    `idempotency_key` is the call's: the same call with this key continues this one, so nothing is charged twice.
    `request_id`, where there is one, is for the service's support.
    """

    retried = False  # such an error is raised only if the deadline leaves no time for another attempt
    idempotency_key: str | None
    request_id: str | None


class NoAnswerError(Error):
    """Reports time-outs or lost connections until the deadline. The request may have been charged.

    Raised immediately where a retry cannot help: TLS refuses the service's certificate, or the client was closed.
    """

    retried = True

    def __init__(self, reason: str, idempotency_key: str | None, retried: bool) -> None:
        super().__init__(reason, idempotency_key, retried)
        self.reason = reason
        self.idempotency_key = idempotency_key
        self.request_id = None
        self.retried = retried

    def __str__(self) -> str:
        """Returns the message for people and logs."""
        return f"no answer ({self.reason})"


class InvalidAnswerError(Error):
    """Reports that the answer does not follow the interface: the address may be wrong, or a proxy answered."""

    def __init__(self, status: int, reason: str, request_id: str | None, idempotency_key: str | None) -> None:
        super().__init__(status, reason, request_id, idempotency_key)
        self.status = status
        self.reason = reason
        self.request_id = request_id
        self.idempotency_key = idempotency_key

    def __str__(self) -> str:
        """Returns the message for people and logs."""
        return f"{self.status}: {self.reason} (request id {self.request_id})"


class ApiError(Error):
    """Reports that the service refused. `code` is None if a proxy did, and `retry_after` is in seconds.

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

    def __str__(self) -> str:
        """Returns the message for people and logs."""
        place = f" at {self.pointer}" if self.pointer else ""
        return f"{self.status} {self.code}{place} (request id {self.request_id})"


class InvalidRequestError(ApiError):
    """Reports an invalid request: 400, 404, 413, 422 and the like. A retry is useless, and nothing was charged."""


class UnauthorizedError(ApiError):
    """Reports 401: the API key is missing, malformed, revoked, expired or invalid."""


class AccountUnavailableError(ApiError):
    """Reports 403: the account is suspended or unavailable."""


class IdempotencyConflictError(ApiError):
    """Reports 409 `idempotency_conflict`: the key was used for another input."""


class RequestInProgressError(ApiError):
    """Reports 409 `request_in_progress`: an earlier attempt with the key is still running."""

    retried = True


class RequestTimeoutError(ApiError):
    """Reports 408: the request arrived too slowly, and was not processed."""

    retried = True


class RateLimitedError(ApiError):
    """Reports 429 `rate_limited`: too many requests of the account in a minute."""

    retried = True


class QuotaExceededError(ApiError):
    """Reports 429 `quota_exceeded`: too few units remain this month, see `usage`. Nothing was charged."""


class ServiceError(ApiError):
    """Reports 5xx: the service, its database or a proxy in front of it failed."""

    retried = True


_BY_CODE = {
    (409, "idempotency_conflict"): IdempotencyConflictError,
    (409, "request_in_progress"): RequestInProgressError,
    (429, "quota_exceeded"): QuotaExceededError,
}
_BY_STATUS = {
    401: UnauthorizedError,
    403: AccountUnavailableError,
    408: RequestTimeoutError,
    429: RateLimitedError,
}


def error_class(status: int, code: str | None) -> type[ApiError]:
    """Returns the class for a code, or for a status of 400 or more if the code is not known."""
    by_status = _BY_STATUS.get(status, ServiceError if status >= 500 else InvalidRequestError)
    return _BY_CODE.get((status, code or ""), by_status)
