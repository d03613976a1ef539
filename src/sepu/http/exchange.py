"""What both Falcon adapters share: sending a reply, and turning what was raised into one."""

import logging
import traceback
import uuid
from collections.abc import Callable

import falcon

from sepu.http.replies import JSON, Reply, error
from sepu.http.routes import ALLOW

log = logging.getLogger("sepu.http")

RequestIds = Callable[[], str]


def new_request_id() -> str:
    """A random UUID (RFC 9562, version 4)."""
    return str(uuid.uuid4())


def send(reply: Reply, resp: falcon.Response, request_id: str) -> None:
    """Writes a reply into Falcon's response."""
    resp.status = falcon.code_to_http_status(reply.status)
    resp.content_type = JSON
    resp.set_header("Cache-Control", "no-store")
    resp.set_header("X-Request-Id", request_id)
    for name, value in reply.headers:
        resp.set_header(name, value)
    resp.data = reply.render(request_id)


def reply_to(raised: BaseException, route: str | None, request_id: str) -> Reply:
    """The reply to whatever was raised on a route; None stands for a path that has none."""
    if isinstance(raised, falcon.HTTPMethodNotAllowed | falcon.HTTPBadRequest) and route is not None:
        # Falcon answers 400 to a method that it has never heard of.
        return error("method_not_allowed", ("Allow", ALLOW[route]))
    if isinstance(raised, falcon.HTTPError) and raised.status_code < 500:
        return error("not_found")
    # No message: it could quote the input.
    frames = "".join(traceback.format_tb(raised.__traceback__))
    log.error("%s: %s\n%s", request_id, type(raised).__name__, frames.rstrip())
    return error("internal_error")
