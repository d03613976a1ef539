"""The ASGI application: the default, for gunicorn's own `asgi` worker."""

from collections.abc import Mapping
from typing import Any

import falcon.asgi
from falcon.asgi import Request, Response

from sepu.http import routes
from sepu.http.endpoints import Endpoint, Verdict
from sepu.http.exchange import RequestIds, new_request_id, reply_to, send
from sepu.http.replies import Reply
from sepu.http.service import HEALTHY, NOT_READY, Service
from sepu.metering.async_ledger import AsyncLedger
from sepu.metering.outage import LedgerUnavailable
from sepu.operations.match import MAX_BODY_BYTES


class _Resource:
    """Carries verdicts and replies over Falcon."""

    def __init__(self, ledger: AsyncLedger, request_ids: RequestIds) -> None:
        self._ledger = ledger
        self._request_ids = request_ids

    def send(self, reply: Reply, resp: Response) -> None:
        send(reply, resp, self._request_ids())

    async def answer(self, verdict: Verdict, resp: Response) -> None:
        if isinstance(verdict, Reply):
            reply = verdict
        else:
            try:
                reply = verdict.conclude(await self._ledger.run(verdict.command))
            except LedgerUnavailable:
                reply = verdict.unavailable
        self.send(reply, resp)

    async def on_options(self, req: Request, resp: Response) -> None:  # noqa: ARG002
        # A method like any other, and not allowed; Falcon would answer it by itself.
        raise falcon.HTTPMethodNotAllowed(())


class _Get(_Resource):
    def __init__(self, endpoint: Endpoint, ledger: AsyncLedger, request_ids: RequestIds) -> None:
        super().__init__(ledger, request_ids)
        self._endpoint = endpoint

    async def on_get(self, req: Request, resp: Response) -> None:
        await self.answer(self._endpoint.judge(req), resp)


class _Match(_Resource):
    def __init__(self, endpoint: Endpoint, ledger: AsyncLedger, request_ids: RequestIds) -> None:
        super().__init__(ledger, request_ids)
        self._endpoint = endpoint

    async def on_post(self, req: Request, resp: Response) -> None:
        body = await req.stream.read(MAX_BODY_BYTES + 1)
        await self.answer(self._endpoint.judge(req, body), resp)


class _Health(_Resource):
    async def on_get(self, req: Request, resp: Response) -> None:  # noqa: ARG002
        self.send(HEALTHY, resp)


class _Ready(_Resource):
    async def on_get(self, req: Request, resp: Response) -> None:  # noqa: ARG002
        self.send(HEALTHY if await self._ledger.ready() else NOT_READY, resp)


class _Lifespan:
    """The ledger's connections live as long as the worker's event loop."""

    def __init__(self, ledger: AsyncLedger) -> None:
        self._ledger = ledger

    async def process_shutdown(self, scope: Mapping[str, Any], event: Mapping[str, Any]) -> None:  # noqa: ARG002
        await self._ledger.close()


def create_app(
    service: Service, ledger: AsyncLedger, request_ids: RequestIds = new_request_id
) -> falcon.asgi.App[Request, Response]:
    """Wires the service to Falcon. The application opens and closes the ledger with its lifespan."""
    app = falcon.asgi.App(middleware=[_Lifespan(ledger)])

    async def on_error(req: Request, resp: Response | None, raised: Exception, params: dict[str, Any]) -> None:  # noqa: ARG001
        if resp is not None:  # a WebSocket has none, and Falcon then refuses the handshake
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
