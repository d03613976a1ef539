"""Lists the contract's errors: for each code the status, whether to send again, and Retry-After.

tools/site/errors.py has the text of the errors page.
"""

from enum import StrEnum
from typing import NamedTuple

# Seconds for Retry-After: after a short failure, over the abuse limit, over the quota.
_SOON, _MINUTE, _DAY = "1", "60", "86400"


class Again(StrEnum):
    """Says whether a client may send the request again, and with which idempotency key."""

    SAME = "yes, with the same key"
    CORRECTED = "no: correct the request"
    NEW_KEY = "no: use a new key"
    LATER = "no: not until the cause is fixed"


class Error(NamedTuple):
    """Describes the answer for a code. `retry_after` is in seconds."""

    status: int
    again: Again
    retry_after: str | None = None


ERRORS: dict[str, Error] = {
    "bad_request": Error(400, Again.CORRECTED),
    "idempotency_key_required": Error(400, Again.CORRECTED),
    "idempotency_key_invalid": Error(400, Again.CORRECTED),
    "body_required": Error(400, Again.CORRECTED),
    "invalid_json": Error(400, Again.CORRECTED),
    "unauthorized": Error(401, Again.LATER),
    "account_unavailable": Error(403, Again.LATER),
    "not_found": Error(404, Again.CORRECTED),
    "method_not_allowed": Error(405, Again.CORRECTED),
    "request_timeout": Error(408, Again.SAME),
    "idempotency_conflict": Error(409, Again.NEW_KEY),
    "request_in_progress": Error(409, Again.SAME, _SOON),
    "payload_too_large": Error(413, Again.CORRECTED),
    "uri_too_long": Error(414, Again.CORRECTED),
    "unsupported_media_type": Error(415, Again.CORRECTED),
    "expectation_failed": Error(417, Again.CORRECTED),
    "invalid_body": Error(422, Again.CORRECTED),
    "invalid_colors": Error(422, Again.CORRECTED),
    "invalid_rgb": Error(422, Again.CORRECTED),
    "invalid_top": Error(422, Again.CORRECTED),
    "invalid_q": Error(422, Again.CORRECTED),
    "invalid_limit": Error(422, Again.CORRECTED),
    "unknown_parameter": Error(422, Again.CORRECTED),
    "rate_limited": Error(429, Again.SAME, _MINUTE),
    "quota_exceeded": Error(429, Again.LATER, _DAY),
    "headers_too_large": Error(431, Again.CORRECTED),
    "internal_error": Error(500, Again.SAME),
    "overloaded": Error(503, Again.SAME, _SOON),
    "usage_commit_failed": Error(503, Again.SAME, _SOON),
    "not_ready": Error(503, Again.SAME, _SOON),
}
