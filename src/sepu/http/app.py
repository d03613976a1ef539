"""Makes the Falcon application: one set of resources and one route table for every worker.

A resource checks its request and passes the decision to the responder. Depending on the worker, the responder waits for
the ledger or gets a callback. Falcon does routing, methods and errors.
"""

import time
from functools import lru_cache
from typing import Any

import falcon
from falcon import Request, Response

from sepu import limits
from sepu.http import routes
from sepu.http.request_checks import Endpoint
from sepu.http.responder import Responder, new_request_id
from sepu.http.service import HEALTHY, READINESS, Decision, Service


@lru_cache(1000)
def environ_name(header: str) -> str:
    """Returns the name of a header in the environ (PEP 3333)."""
    name = header.upper().replace("-", "_")
    return name if name in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{name}"


class TimedRequest(Request):
    """Remembers when it arrived, by `time.perf_counter`, and has an id."""

    __slots__ = ("request_id", "started")

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
        self.started = time.perf_counter()
        self.request_id = new_request_id()
        super().__init__(*arguments, **options)
        if self.path.startswith("//"):  # Falcon's router would leave the first slash out
            self.path = "/"

    def header(self, name: str) -> str | None:
        """Returns a header. PERF: a tenth of the instructions of `get_header`, six times a request."""
        value: str | None = self.env.get(environ_name(name))
        return value


class _Resource:
    def __init__(self, responder: Responder) -> None:
        self._responder = responder

    def on_options(self, req: Request, resp: Response) -> None:  # noqa: ARG002
        # Like any other method, OPTIONS is not allowed. Falcon would answer it by itself.
        raise falcon.HTTPMethodNotAllowed(())


class _Get(_Resource):
    def __init__(self, responder: Responder, endpoint: Endpoint) -> None:
        super().__init__(responder)
        self._endpoint = endpoint

    def on_get(self, req: TimedRequest, resp: Response) -> None:
        self._responder.respond(self._endpoint.judge(req, b"", self._responder.callers), req, resp)


class _Match(_Resource):
    def __init__(self, responder: Responder, endpoint: Endpoint) -> None:
        super().__init__(responder)
        self._endpoint = endpoint

    def on_post(self, req: TimedRequest, resp: Response) -> None:
        # bounded_stream would read a chunked body as empty. The servers end their stream with the body.
        try:
            body = req.stream.read(limits.BODY_BYTES + 1)
        except Exception:  # each server raises another one for broken chunks or an incomplete body
            body = b""
        self._responder.respond(self._endpoint.judge(req, body, self._responder.callers), req, resp)


class _Probe(_Resource):
    def __init__(self, responder: Responder, decision: Decision) -> None:
        super().__init__(responder)
        self._decision = decision

    def on_get(self, req: TimedRequest, resp: Response) -> None:
        self._responder.respond(self._decision, req, resp)

    on_head = on_get  # the servers leave its content out


def create_app(service: Service, responder: Responder) -> "falcon.App[TimedRequest, Response]":
    """Connects the service to Falcon."""
    app = falcon.App(request_type=TimedRequest)

    def on_error(req: TimedRequest, resp: Response, raised: Exception, params: dict[str, Any]) -> None:  # noqa: ARG001
        responder.respond_to_error(raised, req, resp)

    app.add_error_handler(Exception, on_error)
    app.add_error_handler(falcon.HTTPError, on_error)
    app.add_route(routes.LIBRARY, _Get(responder, service.library))
    app.add_route(routes.USAGE, _Get(responder, service.usage))
    app.add_route(routes.SEARCH, _Get(responder, service.search))
    app.add_route(routes.MATCH, _Match(responder, service.match))
    app.add_route(routes.HEALTHZ, _Probe(responder, HEALTHY))
    app.add_route(routes.READYZ, _Probe(responder, READINESS))
    return app
