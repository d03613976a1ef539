"""The ASGI application: the default, for gunicorn's own `asgi` worker."""

import time
from collections.abc import Mapping
from typing import Any

import falcon.asgi
from falcon.asgi import Request, Response

from sepu.http import routes
from sepu.http.endpoints import Endpoint, Verdict
from sepu.http.exchange import Sender
from sepu.http.replies import Reply
from sepu.http.service import HEALTHY, NOT_READY, Service
from sepu.metering.async_ledger import AsyncLedger
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

    def __init__(self, ledger: AsyncLedger, sender: Sender) -> None:
        self._ledger = ledger
        self._sender = sender

    async def answer(self, verdict: Verdict, req: _Request, resp: Response) -> None:
        if isinstance(verdict, Reply):
            reply = verdict
        else:
            try:
                reply = verdict.conclude(await self._ledger.run(verdict.command))
            except LedgerUnavailable:
                reply = verdict.unavailable
        self._sender.send(reply, req, resp, verdict.account)

    async def on_options(self, req: _Request, resp: Response) -> None:  # noqa: ARG002
        # A method like any other, and not allowed; Falcon would answer it by itself.
        raise falcon.HTTPMethodNotAllowed(())


class _Get(_Resource):
    def __init__(self, endpoint: Endpoint, ledger: AsyncLedger, sender: Sender) -> None:
        super().__init__(ledger, sender)
        self._endpoint = endpoint

    async def on_get(self, req: _Request, resp: Response) -> None:
        await self.answer(self._endpoint.judge(req), req, resp)


class _Match(_Resource):
    def __init__(self, endpoint: Endpoint, ledger: AsyncLedger, sender: Sender) -> None:
        super().__init__(ledger, sender)
        self._endpoint = endpoint

    async def on_post(self, req: _Request, resp: Response) -> None:
        body = await req.stream.read(MAX_BODY_BYTES + 1)
        await self.answer(self._endpoint.judge(req, body), req, resp)


class _Health(_Resource):
    async def on_get(self, req: _Request, resp: Response) -> None:
        self._sender.send(HEALTHY, req, resp)


class _Ready(_Resource):
    async def on_get(self, req: _Request, resp: Response) -> None:
        self._sender.send(HEALTHY if await self._ledger.ready() else NOT_READY, req, resp)


class _Lifespan:
    """The ledger's connections live as long as the worker's event loop."""

    def __init__(self, ledger: AsyncLedger) -> None:
        self._ledger = ledger

    async def process_shutdown(self, scope: Mapping[str, Any], event: Mapping[str, Any]) -> None:  # noqa: ARG002
        await self._ledger.close()


def create_app(
    service: Service, ledger: AsyncLedger, sender: Sender | None = None
) -> "falcon.asgi.App[_Request, Response]":
    """Wires the service to Falcon. The application opens and closes the ledger with its lifespan."""
    sender = sender or Sender()
    app = falcon.asgi.App(middleware=[_Lifespan(ledger)], request_type=_Request)

    async def on_error(req: _Request, resp: Response | None, raised: Exception, params: dict[str, Any]) -> None:  # noqa: ARG001
        if resp is not None:  # a WebSocket has none, and Falcon then refuses the handshake
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
