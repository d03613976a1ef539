"""The WSGI application: for gunicorn's `gthread` worker, and for meinheld."""

from typing import Any

import falcon
from falcon import Request, Response

from sepu.http import routes
from sepu.http.endpoints import Endpoint, Verdict
from sepu.http.exchange import RequestIds, new_request_id, reply_to, send
from sepu.http.replies import Reply
from sepu.http.service import HEALTHY, NOT_READY, Service
from sepu.metering.ledger import Ledger
from sepu.metering.outage import LedgerUnavailable
from sepu.operations.match import MAX_BODY_BYTES


class _Resource:
    """Carries verdicts and replies over Falcon."""

    def __init__(self, ledger: Ledger, request_ids: RequestIds) -> None:
        self._ledger = ledger
        self._request_ids = request_ids

    def send(self, reply: Reply, resp: Response) -> None:
        send(reply, resp, self._request_ids())

    def answer(self, verdict: Verdict, resp: Response) -> None:
        if isinstance(verdict, Reply):
            reply = verdict
        else:
            try:
                reply = verdict.conclude(self._ledger.run(verdict.command))
            except LedgerUnavailable:
                reply = verdict.unavailable
        self.send(reply, resp)

    def on_options(self, req: Request, resp: Response) -> None:  # noqa: ARG002
        # A method like any other, and not allowed; Falcon would answer it by itself.
        raise falcon.HTTPMethodNotAllowed(())


class _Get(_Resource):
    def __init__(self, endpoint: Endpoint, ledger: Ledger, request_ids: RequestIds) -> None:
        super().__init__(ledger, request_ids)
        self._endpoint = endpoint

    def on_get(self, req: Request, resp: Response) -> None:
        self.answer(self._endpoint.judge(req), resp)


class _Match(_Resource):
    def __init__(self, endpoint: Endpoint, ledger: Ledger, request_ids: RequestIds) -> None:
        super().__init__(ledger, request_ids)
        self._endpoint = endpoint

    def on_post(self, req: Request, resp: Response) -> None:
        # Not bounded_stream: it takes a chunked body for an empty one. The servers end their stream with the body.
        try:
            body = req.stream.read(MAX_BODY_BYTES + 1)
        except Exception:  # each server has its own for broken chunks and early ends: the body did not come
            body = b""
        self.answer(self._endpoint.judge(req, body), resp)


class _Health(_Resource):
    def on_get(self, req: Request, resp: Response) -> None:  # noqa: ARG002
        self.send(HEALTHY, resp)


class _Ready(_Resource):
    def on_get(self, req: Request, resp: Response) -> None:  # noqa: ARG002
        self.send(HEALTHY if self._ledger.ready() else NOT_READY, resp)


def create_app(
    service: Service, ledger: Ledger, request_ids: RequestIds = new_request_id
) -> falcon.App[Request, Response]:
    """Wires the service to Falcon, over an opened ledger."""
    app = falcon.App()

    def on_error(req: Request, resp: Response, raised: Exception, params: dict[str, Any]) -> None:  # noqa: ARG001
        send(reply_to(raised, req.uri_template, request_id := request_ids()), resp, request_id)

    app.add_error_handler(Exception, on_error)
    app.add_error_handler(falcon.HTTPError, on_error)
    app.add_route(routes.LIBRARY, _Get(service.library, ledger, request_ids))
    app.add_route(routes.USAGE, _Get(service.usage, ledger, request_ids))
    app.add_route(routes.SEARCH, _Get(service.search, ledger, request_ids))
    app.add_route(routes.MATCH, _Match(service.match, ledger, request_ids))
    app.add_route(routes.HEALTHZ, _Health(ledger, request_ids))
    app.add_route(routes.READYZ, _Ready(ledger, request_ids))
    return app
