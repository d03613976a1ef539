"""Writes responses as bytes, for replies that do not pass through Falcon."""

import time
from collections.abc import Callable
from email.utils import formatdate

import falcon

from sepu.http.errors import ERRORS
from sepu.http.observers import ReplyObservers
from sepu.http.replies import COMMON_HEADERS, Reply, error, header_lines
from sepu.http.request import new_request_id

# The codes for input that never becomes a request.
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
_STATUSES = {200, *(error.status for error in ERRORS.values())}
_COMMON = f"{header_lines(*COMMON_HEADERS)}Date: "
_HEADS = {status: f"HTTP/1.1 {falcon.code_to_http_status(status)}\r\n{_COMMON}" for status in _STATUSES}
_date = (0, "")


def response(reply: Reply, request_id: str, *, close: bool, with_body: bool = True) -> bytes:
    """Returns the bytes of a response."""
    body = reply.render(request_id)
    connection = "Connection: close\r\n" if close else ""
    head = (
        f"{_HEADS[reply.status]}{_http_date()}\r\nX-Request-Id: {request_id}\r\nContent-Length: {len(body)}\r\n"
        f"{reply.headers}{connection}\r\n"
    ).encode()
    return head + body if with_body else head


def refuse(status: int, send: Callable[[bytes], object], observers: ReplyObservers) -> None:
    """Sends a complete response, after which the connection closes. A status that has no code becomes `bad_request`.

    Passes the reply to the observers, unless `send` raises an exception.
    """
    reply = error(_CODES.get(status, "bad_request"))
    request_id = new_request_id()
    send(response(reply, request_id, close=True))
    observers.replied(request_id, reply)


def _http_date() -> str:
    """Returns the time in the form of RFC 9110, formatted once a second."""
    global _date
    now = int(time.time())
    if _date[0] != now:
        _date = (now, formatdate(now, usegmt=True))
    return _date[1]
