"""The WSGI application: for gunicorn's `gthread` worker, and for meinheld."""

import time
from typing import Any

import falcon
from falcon import Request, Response

from sepu.http import routes
from sepu.http.endpoints import Endpoint, Verdict
from sepu.http.exchange import Sender
from sepu.http.replies import Reply
from sepu.http.service import HEALTHY, NOT_READY, Service
from sepu.metering.ledger import Ledger
from sepu.metering.outage import LedgerUnavailable
from sepu.operations.match import MAX_BODY_BYTES


class _Request(Request):
    """Knows when it came."""

    __slots__ = ("started",)

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
        self.started = time.perf_counter()
        super().__init__(*arguments, **options)


class _Resource:
    """Carries verdicts and replies over Falcon."""

    def __init__(self, ledger: Ledger, sender: Sender) -> None:
        self._ledger = ledger
        self._sender = sender

    def answer(self, verdict: Verdict, req: _Request, resp: Response) -> None:
        if isinstance(verdict, Reply):
            reply = verdict
        else:
            try:
                reply = verdict.conclude(self._ledger.run(verdict.command))
            except LedgerUnavailable:
                reply = verdict.unavailable
        self._sender.send(reply, req, resp, verdict.account)

    def on_options(self, req: _Request, resp: Response) -> None:  # noqa: ARG002
        # A method like any other, and not allowed; Falcon would answer it by itself.
        raise falcon.HTTPMethodNotAllowed(())


class _Get(_Resource):
    def __init__(self, endpoint: Endpoint, ledger: Ledger, sender: Sender) -> None:
        super().__init__(ledger, sender)
        self._endpoint = endpoint

    def on_get(self, req: _Request, resp: Response) -> None:
        self.answer(self._endpoint.judge(req), req, resp)


class _Match(_Resource):
    def __init__(self, endpoint: Endpoint, ledger: Ledger, sender: Sender) -> None:
        super().__init__(ledger, sender)
        self._endpoint = endpoint

    def on_post(self, req: _Request, resp: Response) -> None:
        # Not bounded_stream: it takes a chunked body for an empty one. The servers end their stream with the body.
        try:
            body = req.stream.read(MAX_BODY_BYTES + 1)
        except Exception:  # each server has its own for broken chunks and early ends: the body did not come
            body = b""
        self.answer(self._endpoint.judge(req, body), req, resp)


class _Health(_Resource):
    def on_get(self, req: _Request, resp: Response) -> None:
        self._sender.send(HEALTHY, req, resp)


class _Ready(_Resource):
    def on_get(self, req: _Request, resp: Response) -> None:
        self._sender.send(HEALTHY if self._ledger.ready() else NOT_READY, req, resp)


def create_app(service: Service, ledger: Ledger, sender: Sender | None = None) -> "falcon.App[_Request, Response]":
    """Wires the service to Falcon, over an opened ledger."""
    sender = sender or Sender()
    app = falcon.App(request_type=_Request)

    def on_error(req: _Request, resp: Response, raised: Exception, params: dict[str, Any]) -> None:  # noqa: ARG001
        sender.send_raised(raised, req, resp)

    app.add_error_handler(Exception, on_error)
    app.add_error_handler(falcon.HTTPError, on_error)
    app.add_route(routes.LIBRARY, _Get(service.library, ledger, sender))
    app.add_route(routes.USAGE, _Get(service.usage, ledger, sender))
    app.add_route(routes.SEARCH, _Get(service.search, ledger, sender))
    app.add_route(routes.MATCH, _Match(service.match, ledger, sender))
    app.add_route(routes.HEALTHZ, _Health(ledger, sender))
    app.add_route(routes.READYZ, _Ready(ledger, sender))
    return app
