"""Answers to what never becomes a request: made by the servers, in the contract's form."""

from collections.abc import Iterable
from email.utils import formatdate

import falcon

from sepu.http.exchange import new_request_id
from sepu.http.replies import JSON, error

# What gunicorn's parsers and our limits refuse with.
_CODES = {
    400: "bad_request",
    408: "request_timeout",
    413: "payload_too_large",
    414: "uri_too_long",
    417: "expectation_failed",
    431: "headers_too_large",
    500: "internal_error",
    503: "overloaded",
}


def refusal(status: int) -> bytes:
    """A whole response, after which the connection closes. A status without a code of its own is a bad request."""
    reply = error(_CODES.get(status, "bad_request"))
    request_id = new_request_id()
    body = reply.render(request_id)
    headers: Iterable[tuple[str, str]] = (
        ("Date", formatdate(usegmt=True)),
        ("Content-Type", JSON),
        ("Content-Length", str(len(body))),
        ("Cache-Control", "no-store"),
        ("X-Request-Id", request_id),
        *reply.headers,
        ("Connection", "close"),
    )
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/1.1 {falcon.code_to_http_status(reply.status)}\r\n{lines}\r\n".encode() + body
