"""The one table of the contract's errors. docs/errors.md is written from it."""

from enum import StrEnum
from typing import NamedTuple

from sepu import limits

_KIB = 1024
# Retry-After in seconds: after a short failure, after abuse, after the quota is used up.
_SOON, _MINUTE, _DAY = "1", "60", "86400"


class Again(StrEnum):
    """Says whether a client may send the request again, and with which idempotency key."""

    SAME = "yes: the same request with the same key"
    CORRECTED = "no: correct the request. Nothing was charged, and its key can be used for the corrected one"
    NEW_KEY = "no: this request needs a new key"
    LATER = "no: not before the cause is gone. Nothing was charged, and the key is unused"


class Error(NamedTuple):
    """Describes a code for the service and for the reader. `retry_after` is in seconds."""

    status: int
    retry_after: str | None
    again: Again
    cause: str
    remedy: str


ERRORS: dict[str, Error] = {
    "bad_request": Error(
        400,
        None,
        Again.CORRECTED,
        "The request is not valid HTTP/1.x: no `Host`, two, or one that is not a host, contradictory headers, a "
        "transfer coding other than `chunked`, broken chunks, or a body that is cut off.",
        "Use an HTTP library, and look at what stands between it and the service.",
    ),
    "idempotency_key_required": Error(
        400,
        None,
        Again.CORRECTED,
        "A match or a search has no `Idempotency-Key`.",
        "Create a key for each intent, such as a random UUID, before its first attempt.",
    ),
    "idempotency_key_invalid": Error(
        400,
        None,
        Again.CORRECTED,
        "The `Idempotency-Key` does not have 8 to 128 of the characters `A-Z a-z 0-9 . _ : -`.",
        "Use a random UUID, or hash the name that you have.",
    ),
    "body_required": Error(400, None, Again.CORRECTED, "A match has no body.", "Send the colours as JSON."),
    "invalid_json": Error(
        400,
        None,
        Again.CORRECTED,
        "The body is not JSON in UTF-8. `NaN` and `Infinity` are not JSON.",
        "Let a JSON library write the body.",
    ),
    "unauthorized": Error(
        401,
        None,
        Again.LATER,
        "The API key is missing, malformed, unknown, revoked or expired.",
        "Send `Authorization: Bearer KEY`. If the header is right, ask support for a new key, and never send support "
        "the key itself.",
    ),
    "account_unavailable": Error(
        403, None, Again.LATER, "The account is suspended or unavailable.", "Stop sending, and ask support."
    ),
    "not_found": Error(
        404, None, Again.CORRECTED, "There is no such path.", "Use one of the paths that begin with /v1."
    ),
    "method_not_allowed": Error(
        405,
        None,
        Again.CORRECTED,
        "The path does not take this method.",
        "Use the method in the header `Allow`: `POST` for a match, `GET` for everything else.",
    ),
    "request_timeout": Error(
        408,
        None,
        Again.SAME,
        "The request was begun, but did not arrive as a whole in time. It was not processed.",
        "Send it in one piece; if this repeats, look at your network.",
    ),
    "idempotency_conflict": Error(
        409,
        None,
        Again.NEW_KEY,
        "The key was used for a request with another input. That request is still replayed with it.",
        "Create a key for each intent. A counter that starts again, or a key for each user, is none.",
    ),
    "request_in_progress": Error(
        409,
        _SOON,
        Again.SAME,
        "An earlier attempt with this key is still running.",
        "Wait as long as `Retry-After` says. Never send two attempts at a time.",
    ),
    "payload_too_large": Error(
        413,
        None,
        Again.CORRECTED,
        f"The body has more than {limits.BODY_BYTES // _KIB} KiB, or its chunks have more than "
        f"{limits.FRAMING_BYTES // _KIB} KiB around it.",
        "Send at most five colours in each request.",
    ),
    "uri_too_long": Error(
        414,
        None,
        Again.CORRECTED,
        f"The request line has more than {limits.LINE_BYTES} bytes.",
        "Look for a mistake in the address: `q` has at most 64 characters.",
    ),
    "unsupported_media_type": Error(
        415,
        None,
        Again.CORRECTED,
        "The `Content-Type` of a match is not `application/json`, or there is a `Content-Encoding`.",
        "Send `Content-Type: application/json`, and do not compress.",
    ),
    "expectation_failed": Error(
        417, None, Again.CORRECTED, "There is an `Expect` other than `100-continue`.", "Leave the header out."
    ),
    "invalid_body": Error(
        422,
        None,
        Again.CORRECTED,
        "The body of a match is not an object, or its `colors` is missing or not an array.",
        'Send `{"colors": [...]}`, also for one colour.',
    ),
    "invalid_colors": Error(
        422, None, Again.CORRECTED, "`colors` does not have one to five items.", "Split a longer list into requests."
    ),
    "invalid_rgb": Error(
        422,
        None,
        Again.CORRECTED,
        "An item of `colors` is not an object with exactly the numbers `r`, `g` and `b`, each from 0 to 255.",
        "Send each colour as three numbers. Fractions are allowed.",
    ),
    "invalid_top": Error(
        422,
        None,
        Again.CORRECTED,
        "`top` is not a whole number from 1 to 3.",
        "Leave it out to get the nearest colour.",
    ),
    "invalid_q": Error(
        422,
        None,
        Again.CORRECTED,
        "`q` is missing or repeated, or does not have 2 to 64 characters after trimming.",
        "Send one `q` with two characters or more, percent-encoded as UTF-8.",
    ),
    "invalid_limit": Error(
        422, None, Again.CORRECTED, "`limit` is not a whole number from 1 to 10.", "Leave it out to get up to 10."
    ),
    "unknown_parameter": Error(
        422,
        None,
        Again.CORRECTED,
        "The body has a member, or the address a parameter, that the interface does not have.",
        "Look for a misspelling. A match takes `colors` and `top`, a search takes `q` and `limit`.",
    ),
    "rate_limited": Error(
        429,
        _MINUTE,
        Again.SAME,
        "The account sent more requests in a minute than its plan allows. Nothing was charged.",
        "Wait as long as `Retry-After` says, and send less at a time.",
    ),
    "quota_exceeded": Error(
        429,
        _DAY,
        Again.LATER,
        "The request needs more units than remain in this UTC month. The `X-Usage` headers have the figures.",
        "Wait for the next month, or ask support for a higher limit. `Retry-After` is only a hint. A request for "
        "fewer colours may still fit.",
    ),
    "headers_too_large": Error(
        431,
        None,
        Again.CORRECTED,
        f"There are over {limits.HEADERS} headers, one of over {limits.LINE_BYTES} bytes, or over "
        f"{limits.HEAD_BYTES // _KIB} KiB in all.",
        "Send only the headers of the interface, and no cookies.",
    ),
    "internal_error": Error(
        500,
        None,
        Again.SAME,
        "An error in the service; for library and usage also an outage of its database.",
        "Send again with growing pauses. If it stays, give support the request id.",
    ),
    "overloaded": Error(
        503,
        _SOON,
        Again.SAME,
        "The service has too many connections and closes this one.",
        "Keep connections open and use few.",
    ),
    "usage_commit_failed": Error(
        503,
        _SOON,
        Again.SAME,
        "The charge could not be confirmed: it was made or not, and the next attempt with the key finds out.",
        "Send again with growing pauses, always with the same key: another one may be charged a second time.",
    ),
    "not_ready": Error(
        503, _SOON, Again.SAME, "`/readyz`: this server cannot serve yet.", "Only for operators: let it start."
    ),
}
