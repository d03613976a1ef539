"""Answers requests, either by waiting for the ledger or in a callback from it."""

import logging
import traceback
from abc import ABC, abstractmethod
from functools import partial

import falcon

from sepu.http.observers import ReplyObservers
from sepu.http.replies import COMMON_HEADERS, Reply, error, header_lines, header_pairs
from sepu.http.request import IDEMPOTENCY_KEY, TRACEPARENT, TimedRequest, trace_id
from sepu.http.routes import ALLOW
from sepu.metering.batcher import Batcher
from sepu.metering.batcher_thread import BatcherThread
from sepu.metering.callers import Callers
from sepu.metering.commands import Command
from sepu.metering.key_format import Credential

log = logging.getLogger("sepu.http")

# The name, in a callback worker's environ, of the function that takes the reply and the request id.
SEND = "sepu.send"

HEALTHY = Reply(200, body=b'{"status":"ok"}')
_NOT_READY = error("not_ready")


class Responder(ABC):
    """Answers requests, and passes each reply to the observers."""

    def __init__(self, callers: Callers, observers: ReplyObservers | None) -> None:
        self.callers = callers
        self._observers = observers or ReplyObservers()

    @abstractmethod
    def respond(self, decided: Reply | Command[Reply], req: TimedRequest, resp: falcon.Response) -> None:
        """Answers a request with a reply, or with the ledger's answer to a command."""

    @abstractmethod
    def respond_readiness(self, req: TimedRequest, resp: falcon.Response) -> None:
        """Answers whether a charge can be committed now."""

    @abstractmethod
    def _deliver(self, reply: Reply, req: TimedRequest, resp: falcon.Response | None) -> None:
        """Passes the reply to the server."""

    def respond_to_error(self, raised: Exception, req: TimedRequest, resp: falcon.Response | None) -> None:
        """Answers after an exception: one that Falcon raised for a route or method, or an internal error."""
        self._send(_reply_to(raised, req), req, resp)

    def _answer(
        self, credential: Credential, req: TimedRequest, resp: falcon.Response | None, answer: Reply | Exception
    ) -> None:
        """Answers with a command's answer."""
        self._send(_reply_to(answer, req) if isinstance(answer, Exception) else answer, req, resp, credential)

    def _send(
        self, reply: Reply, req: TimedRequest, resp: falcon.Response | None, credential: Credential | None = None
    ) -> None:
        self._deliver(reply, req, resp)
        idempotency_key, traceparent = req.env.get(IDEMPOTENCY_KEY), req.env.get(TRACEPARENT)
        trace = traceparent and trace_id(traceparent)
        self._observers.replied(
            req.request_id, reply, req.uri_template, credential, req.started, idempotency_key, trace
        )


class WaitingResponder(Responder):
    """Waits for the ledger and fills Falcon's response. Workers with threads use it."""

    def __init__(self, ledger: BatcherThread, observers: ReplyObservers | None = None) -> None:
        super().__init__(ledger.callers, observers)
        self._ledger = ledger

    def respond(self, decided: Reply | Command[Reply], req: TimedRequest, resp: falcon.Response) -> None:
        """Answers a request with a reply, or with the ledger's answer to a command."""
        if isinstance(decided, Reply):
            self._send(decided, req, resp, decided.credential)
            return
        answer: Reply | Exception
        try:
            answer = self._ledger.run(decided)
        except Exception as raised:
            answer = raised
        self._answer(decided.credential, req, resp, answer)

    def respond_readiness(self, req: TimedRequest, resp: falcon.Response) -> None:
        """Answers whether a charge can be committed now."""
        self._send(HEALTHY if self._ledger.ready() else _NOT_READY, req, resp)

    def _deliver(self, reply: Reply, req: TimedRequest, resp: falcon.Response | None) -> None:
        assert resp is not None  # noqa: S101
        resp.status = falcon.code_to_http_status(reply.status)
        for name, value in (*COMMON_HEADERS, ("X-Request-Id", req.request_id), *header_pairs(reply.headers)):
            resp.set_header(name, value)
        resp.data = reply.render(req.request_id)


class CallbackResponder(Responder):
    """Answers when the ledger calls back. The reply goes to `environ[SEND]`, not through Falcon."""

    def __init__(self, ledger: Batcher, observers: ReplyObservers | None = None) -> None:
        super().__init__(ledger.callers, observers)
        self._ledger = ledger

    def respond(self, decided: Reply | Command[Reply], req: TimedRequest, resp: falcon.Response) -> None:  # noqa: ARG002
        """Answers a request with a reply, or with the ledger's answer to a command, now or later."""
        if isinstance(decided, Reply):
            self._send(decided, req, None, decided.credential)
        else:
            self._ledger.submit(decided, partial(self._answer, decided.credential, req, None))

    def respond_readiness(self, req: TimedRequest, resp: falcon.Response) -> None:  # noqa: ARG002
        """Answers whether a charge can be committed now."""
        self._ledger.probe(lambda ready: self._send(HEALTHY if ready else _NOT_READY, req, None))

    def _deliver(self, reply: Reply, req: TimedRequest, resp: falcon.Response | None) -> None:  # noqa: ARG002
        req.env[SEND](reply, req.request_id)


def _reply_to(raised: Exception, req: TimedRequest) -> Reply:
    """Returns the reply to an exception."""
    route = req.uri_template
    if isinstance(raised, falcon.HTTPMethodNotAllowed | falcon.HTTPBadRequest) and route is not None:
        # Falcon answers 400 to an unknown method.
        return error("method_not_allowed", header_lines(("Allow", ALLOW[route])))
    if isinstance(raised, falcon.HTTPError) and raised.status_code < 500:
        return error("not_found")
    # The message could quote the input, so log only the frames.
    frames = "".join(traceback.format_tb(raised.__traceback__))
    log.error("%s: %s\n%s", req.request_id, type(raised).__name__, frames.rstrip())
    return error("internal_error")
