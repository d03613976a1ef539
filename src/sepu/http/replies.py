"""Replies, and the one table of the contract's errors."""

import msgspec

from sepu.metering.meters import Usage

JSON = "application/json"
# Every response has these; the server adds X-Request-Id, Content-Length and Date.
COMMON_HEADERS = (("Content-Type", JSON), ("Cache-Control", "no-store"))

# Retry-After in seconds: after a short failure, after abuse, after the quota is used up.
_SOON, _MINUTE, _DAY = "1", "60", "86400"

# code: status, Retry-After
ERRORS: dict[str, tuple[int, str | None]] = {
    "bad_request": (400, None),
    "idempotency_key_required": (400, None),
    "idempotency_key_invalid": (400, None),
    "body_required": (400, None),
    "invalid_json": (400, None),
    "unauthorized": (401, None),
    "account_unavailable": (403, None),
    "not_found": (404, None),
    "method_not_allowed": (405, None),
    "idempotency_conflict": (409, None),
    "request_in_progress": (409, _SOON),
    "request_timeout": (408, None),
    "payload_too_large": (413, None),
    "uri_too_long": (414, None),
    "unsupported_media_type": (415, None),
    "expectation_failed": (417, None),
    "invalid_body": (422, None),
    "invalid_colors": (422, None),
    "invalid_rgb": (422, None),
    "invalid_top": (422, None),
    "invalid_q": (422, None),
    "invalid_limit": (422, None),
    "unknown_parameter": (422, None),
    "rate_limited": (429, _MINUTE),
    "quota_exceeded": (429, _DAY),
    "headers_too_large": (431, None),
    "internal_error": (500, None),
    "overloaded": (503, _SOON),
    "usage_commit_failed": (503, _SOON),
    "not_ready": (503, _SOON),
}


class Reply(msgspec.Struct, frozen=True):
    """Holds a response without its request id: a body, or the code of an error.

    For the log and the metrics: the meter that it was charged on and the units, whether it is a replay, and the account
    that a refused key names.
    """

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    error: str | None = None
    meter: str | None = None
    units: int = 0
    replayed: bool = False
    account: str | None = None

    def render(self, request_id: str) -> bytes:
        """Returns the body; that of an error has the request id."""
        if self.error is None:
            return self.body
        return f'{{"error":"{self.error}","requestId":"{request_id}"}}'.encode()


def error(code: str, *headers: tuple[str, str]) -> Reply:
    """Returns the reply for a code of the contract."""
    status, retry_after = ERRORS[code]
    if retry_after is not None:
        headers = (*headers, ("Retry-After", retry_after))
    if status == 401:
        headers = (*headers, ("WWW-Authenticate", "Bearer"))
    return Reply(status, headers, error=code)


def usage_headers(usage: Usage) -> tuple[tuple[str, str], ...]:
    """Returns an X-Usage header for each field of usage."""
    return tuple([(f"X-Usage-{name.capitalize()}", str(value)) for name, value in usage.as_dict().items()])
