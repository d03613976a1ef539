"""Turns decisions into responses, either by waiting for the ledger or by a callback from it."""

import logging
import os
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol

import falcon
import numpy as np

from sepu.http.notifier import ReplyNotifier
from sepu.http.replies import COMMON_HEADERS, Reply, error
from sepu.http.routes import ALLOW
from sepu.http.service import HEALTHY, NOT_READY, READINESS, Decision
from sepu.metering.batcher import Batcher
from sepu.metering.batcher_thread import BatcherThread
from sepu.metering.callers import Callers
from sepu.metering.failure import LedgerUnavailable
from sepu.metering.key_format import Credential

log = logging.getLogger("sepu.http")

# The environ of a callback worker has, under this name, the function that takes the reply and the request id.
SEND = "sepu.send"

_IDEMPOTENCY_KEY = "HTTP_IDEMPOTENCY_KEY"  # in the environ


_request_ids: list[str] = []
os.register_at_fork(after_in_child=_request_ids.clear)  # or a child would repeat its parent's
_DIGITS = [place for place in range(36) if place not in {8, 13, 18, 23}]  # where no hyphen is


def new_request_id() -> str:
    """Returns a random UUID (RFC 9562, version 4)."""
    try:
        return _request_ids.pop()
    except IndexError:
        first, *others = _random_uuids(256)
        _request_ids.extend(others)
        return first


def _random_uuids(number: int) -> Iterator[str]:
    # PERF: one system call and one formatting for many save 2 to 3 % of a request.
    octets = np.frombuffer(os.urandom(16 * number), np.uint8).reshape(number, 16).copy()
    octets[:, 6] = octets[:, 6] & 0x0F | 0x40
    octets[:, 8] = octets[:, 8] & 0x3F | 0x80
    texts = np.full((number, 36), ord("-"), np.uint8)
    texts[:, _DIGITS] = np.frombuffer(octets.tobytes().hex().encode(), np.uint8).reshape(number, 32)
    text = texts.tobytes().decode()
    return (text[start : start + 36] for start in range(0, len(text), 36))


class TimedHead(Protocol):
    """Describes a request that knows its route, its id, and its arrival by `time.perf_counter`."""

    request_id: str
    started: float
    env: dict[str, Any]

    @property
    def uri_template(self) -> str | None:
        """Returns the route, or None."""


class Responder(ABC):
    """Answers requests, and passes each reply to the notifier."""

    def __init__(self, callers: Callers, notifier: ReplyNotifier | None) -> None:
        self.callers = callers
        self._notifier = notifier or ReplyNotifier()

    @abstractmethod
    def respond(self, decision: Decision, req: TimedHead, resp: falcon.Response) -> None:
        """Answers a request by its decision."""

    @abstractmethod
    def _deliver(self, reply: Reply, req: TimedHead, resp: falcon.Response | None) -> None:
        """Passes the reply to the server."""

    def respond_to_error(self, raised: BaseException, req: TimedHead, resp: falcon.Response | None) -> None:
        """Answers after an exception: Falcon's for a route or method, or an internal error."""
        self._send(_reply_to(raised, req.uri_template, req.request_id), req, resp)

    def _send(
        self, reply: Reply, req: TimedHead, resp: falcon.Response | None, holder: Credential | None = None
    ) -> None:
        self._deliver(reply, req, resp)
        idempotency_key = req.env.get(_IDEMPOTENCY_KEY)
        self._notifier.notify(req.request_id, reply, req.uri_template, holder, req.started, idempotency_key)


class WaitingResponder(Responder):
    """Waits for the ledger and fills Falcon's response; workers with threads use it."""

    def __init__(self, ledger: BatcherThread, notifier: ReplyNotifier | None = None) -> None:
        super().__init__(ledger.callers, notifier)
        self._ledger = ledger

    def respond(self, decision: Decision, req: TimedHead, resp: falcon.Response) -> None:
        """Answers a request by its decision."""
        if decision is READINESS:
            self._send(HEALTHY if self._ledger.ready() else NOT_READY, req, resp)
        elif isinstance(decision, Reply):
            self._send(decision, req, resp, decision.holder)
        else:
            try:
                reply = decision.conclude(self._ledger.run(decision.command))
            except LedgerUnavailable:
                reply = decision.unavailable
            self._send(reply, req, resp, decision.holder)

    def _deliver(self, reply: Reply, req: TimedHead, resp: falcon.Response | None) -> None:
        assert resp is not None  # noqa: S101
        resp.status = falcon.code_to_http_status(reply.status)
        for name, value in (*COMMON_HEADERS, ("X-Request-Id", req.request_id), *reply.headers):
            resp.set_header(name, value)
        resp.data = reply.render(req.request_id)


class CallbackResponder(Responder):
    """Answers when the ledger calls back. The reply goes to `environ[SEND]`, not through Falcon."""

    def __init__(self, ledger: Batcher, notifier: ReplyNotifier | None = None) -> None:
        super().__init__(ledger.callers, notifier)
        self._ledger = ledger

    def respond(self, decision: Decision, req: TimedHead, resp: falcon.Response) -> None:  # noqa: ARG002
        """Answers by a decision, now or later."""
        if decision is READINESS:
            self._ledger.probe(lambda ready: self._send(HEALTHY if ready else NOT_READY, req, None))
        elif isinstance(decision, Reply):
            self._send(decision, req, None, decision.holder)
        else:
            holder, conclude, unavailable = decision.holder, decision.conclude, decision.unavailable

            def done(answer: Any) -> None:  # noqa: ANN401
                if not isinstance(answer, Exception):
                    try:
                        reply = conclude(answer)
                    except Exception as raised:
                        self.respond_to_error(raised, req, None)
                        return
                elif isinstance(answer, LedgerUnavailable):
                    reply = unavailable
                else:
                    self.respond_to_error(answer, req, None)
                    return
                self._send(reply, req, None, holder)

            self._ledger.submit(decision.command, done)

    def _deliver(self, reply: Reply, req: TimedHead, resp: falcon.Response | None) -> None:  # noqa: ARG002
        req.env[SEND](reply, req.request_id)


def _reply_to(raised: BaseException, route: str | None, request_id: str) -> Reply:
    """Returns the reply to an exception on a route, or on an unknown path (None)."""
    if isinstance(raised, falcon.HTTPMethodNotAllowed | falcon.HTTPBadRequest) and route is not None:
        # Falcon answers 400 to an unknown method.
        return error("method_not_allowed", ("Allow", ALLOW[route]))
    if isinstance(raised, falcon.HTTPError) and raised.status_code < 500:
        return error("not_found")
    # The message could quote the input, so log only the frames.
    frames = "".join(traceback.format_tb(raised.__traceback__))
    log.error("%s: %s\n%s", request_id, type(raised).__name__, frames.rstrip())
    return error("internal_error")
