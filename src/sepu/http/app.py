"""Makes the Falcon application: one set of resources and one route table for every worker.

A resource's endpoint decides on its request, and the responder answers it. Depending on the worker, the responder waits
for the ledger or gets a callback. Falcon handles routing, methods and errors.
"""

from typing import Any

import falcon
from falcon import Response

from sepu import limits
from sepu.http import routes
from sepu.http.request import TimedRequest
from sepu.http.request_checks import Endpoint
from sepu.http.responder import HEALTHY, Responder
from sepu.http.service import Service


class _Resource:
    def __init__(self, responder: Responder) -> None:
        self._responder = responder

    def on_options(self, req: TimedRequest, resp: Response) -> None:  # noqa: ARG002
        # Without this, Falcon would answer OPTIONS itself. It is not allowed, like any other method.
        raise falcon.HTTPMethodNotAllowed(())


class _Decided(_Resource):
    def __init__(self, responder: Responder, endpoint: Endpoint) -> None:
        super().__init__(responder)
        self._endpoint = endpoint


class _Get(_Decided):
    def on_get(self, req: TimedRequest, resp: Response) -> None:
        self._responder.respond(self._endpoint.decide(req, b"", self._responder.callers), req, resp)


class _Match(_Decided):
    def on_post(self, req: TimedRequest, resp: Response) -> None:
        # bounded_stream would read a chunked body as empty. The servers end their stream with the body.
        try:
            body = req.stream.read(limits.requests.BODY_BYTES + 1)
        except Exception:  # servers raise different ones for broken chunks or an incomplete body
            body = b""
        self._responder.respond(self._endpoint.decide(req, body, self._responder.callers), req, resp)


class _Health(_Resource):
    def on_get(self, req: TimedRequest, resp: Response) -> None:
        self._responder.respond(HEALTHY, req, resp)

    on_head = on_get  # the servers leave out the content


class _Readiness(_Resource):
    def on_get(self, req: TimedRequest, resp: Response) -> None:
        self._responder.respond_readiness(req, resp)

    on_head = on_get


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
    app.add_route(routes.HEALTHZ, _Health(responder))
    app.add_route(routes.READYZ, _Readiness(responder))
    return app
