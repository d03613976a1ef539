"""Answers to what never becomes a request: made by the servers, in the contract's form."""

from collections.abc import Callable, Iterable
from email.utils import formatdate

import falcon

from sepu.http.exchange import new_request_id
from sepu.http.observer import RequestObserver
from sepu.http.replies import JSON, Reply, error

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


def refuse(status: int, send: Callable[[bytes], object], observer: RequestObserver) -> None:
    """Sends a whole response, after which the connection closes; a status without a code of its own is a bad request.

    The observer hears of it unless sending raises.
    """
    reply = error(_CODES.get(status, "bad_request"))
    request_id = new_request_id()
    send(_response(reply, request_id))
    observer.replied(request_id, reply)


def _response(reply: Reply, request_id: str) -> bytes:
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
