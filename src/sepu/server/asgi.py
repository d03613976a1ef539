"""gunicorn's asgi worker, with the contract's refusals and an end to every wait.

gunicorn's protocol parses and serves; this one bounds what a client may take, and keeps a connection open until its
answer is read. It leans on gunicorn's internals, hence the pinned version.
"""

import asyncio
import signal
from asyncio import TimerHandle
from collections.abc import Callable, Iterable
from typing import Any

from gunicorn.asgi.parser import CallbackRequest, InvalidHeader, LimitRequestHeaders
from gunicorn.asgi.protocol import ASGIProtocol, BodyReceiver
from gunicorn.workers import gasgi

from sepu.http.refusals import refuse
from sepu.server import patience

# A body waits in memory while the application does not read it; beyond this its client waits too.
_BUFFERED_BODY = 32 * 1024


class AsgiWorker(gasgi.ASGIWorker):
    """gunicorn's, with our protocol; it hears every signal, and its end does not wait for idle connections."""

    def init_process(self) -> None:
        """Called by gunicorn in the forked worker."""
        self.protocols: set[Protocol] = set()
        ASGIProtocol._check_h1c_protocol_available()  # it caches on the class it is called on, and reads from this one
        gasgi.ASGIProtocol = Protocol  # type: ignore[attr-defined]
        super().init_process()

    def init_signals(self) -> None:
        """Until the event loop runs it hears no signal: so long each has its default effect, and nothing is lost."""
        for number in self.SIGNALS:
            signal.signal(number, signal.SIG_DFL)

    async def _serve(self) -> None:
        super().init_signals()
        await super()._serve()  # type: ignore[misc]

    async def _shutdown(self) -> None:
        # gunicorn closes connections after their next answer; who sends nothing for a while has no answer to lose.
        asyncio.get_running_loop().call_later(patience.FAREWELL_SECONDS, self._close_idle)
        await super()._shutdown()  # type: ignore[misc]

    def _close_idle(self) -> None:
        for protocol in list(self.protocols):
            protocol.close_if_idle()


class _Body(BodyReceiver):
    async def receive(self) -> dict[str, object]:
        message: dict[str, object] = await super().receive()
        if message["type"] == "http.disconnect" and not self._complete:
            # Falcon would take the part that came for the whole. Nobody is there for an answer.
            raise asyncio.CancelledError
        return message


class Protocol(ASGIProtocol):
    """One connection."""

    def __init__(self, worker: gasgi.ASGIWorker) -> None:
        super().__init__(worker)
        self._closed: bool
        self._max_buffer_size = _BUFFERED_BODY
        self._held = 0  # bytes of an unfinished request, less what the application can have of its body
        self._answered = False
        self._at_end = False  # the client sends nothing more
        self._request_timer: TimerHandle | None = None
        self._answer_timer: TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuses a connection too many; lingering for it would take what there is too little of."""
        super().connection_made(transport)
        self.worker.protocols.add(self)
        if self.worker.nr_conns > self.worker.worker_connections:
            self._send_error_response(503)
            self._at_end = True
            self._close_transport()
        else:
            self._request_timer = self._later(patience.REQUEST_SECONDS, self._request_overdue)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leaves no timer behind."""
        self.worker.protocols.discard(self)
        self._stop_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Of a closing connection what still comes is dropped."""
        if not self._closed:
            super().data_received(data)

    def eof_received(self) -> bool:
        """A client that has sent its whole request may close its side and wait for the answer."""
        self._at_end = True
        if self._held and not self._closed:
            self._refuse(400)
        parser = self._callback_parser
        return not self._closed and parser is not None and bool(parser.is_complete)

    def pause_writing(self) -> None:
        """Gives the client a while to take its answer."""
        super().pause_writing()
        self._answer_timer = self._later(patience.ANSWER_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It did."""
        if self._answer_timer is not None:
            self._answer_timer.cancel()
        super().resume_writing()

    def close_if_idle(self) -> None:
        """Closes the connection unless a request is on its way in or at hand."""
        if self._awaiting_request and not self._request_ready.is_set() and not self._held:
            self._close_transport()

    def _later(self, seconds: float, what: Callable[[], None]) -> TimerHandle:
        handle: TimerHandle = self.worker.loop.call_later(seconds, what)
        return handle

    def _stop_timers(self) -> None:
        for timer in (self._request_timer, self._answer_timer):
            if timer is not None:
                timer.cancel()

    def _feed_callback_parser(self, data: bytes) -> bool:
        if self._closed:  # gunicorn's loop has more of them from a client that is gone
            return False
        if self._callback_parser.is_complete:  # what follows the request at hand; the parser bounds it
            return bool(super()._feed_callback_parser(data))
        if not self._held:
            self._answered = False
        self._held += len(data)
        if not super()._feed_callback_parser(data):
            return False
        if self._held:
            if self._at_end:
                self._refuse(400)
            elif self._current_request is None and self._held > patience.HEAD_BYTES:
                self._refuse(431)
            elif self._held > patience.FRAMING_BYTES:
                self._refuse(413)
            elif self._request_timer is None:
                self._request_timer = self._later(patience.REQUEST_SECONDS, self._request_overdue)
        return not self._closed

    def _on_headers_complete(self) -> bool:
        super()._on_headers_complete()
        request = self._current_request
        if (
            len(request.uri) + sum(len(name) + len(value) for name, value in request.headers_bytes)
            > patience.HEAD_BYTES
        ):
            raise LimitRequestHeaders
        if not all(name for name, _ in request.headers_bytes):  # a folded line: gunicorn_h1c takes it for a header
            raise InvalidHeader
        self._body_receiver = _Body(request, self)
        return False

    def _on_body(self, chunk: bytes) -> None:
        self._held -= len(chunk)
        super()._on_body(chunk)

    def _on_message_complete(self) -> None:
        self._held = 0
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None
        super()._on_message_complete()

    def _request_overdue(self) -> None:
        if self._held:
            self._refuse(408)
        else:
            self._close_transport()

    def _arm_keepalive_timer(self) -> None:
        if self._at_end:
            self._close_transport()
        else:
            super()._arm_keepalive_timer()

    def _keepalive_timeout(self) -> None:
        self.close_if_idle()

    def _is_websocket_upgrade(self, request: CallbackRequest) -> bool:  # noqa: ARG002
        return False  # a server may ignore an upgrade, and then answers as to any request

    def _build_http_scope(self, request: CallbackRequest, sockname: object, peername: object) -> dict[str, Any]:
        scope: dict[str, Any] = super()._build_http_scope(request, sockname, peername)
        scheme, colon, rest = scope["path"].partition("://")
        if colon and scheme.lower() in {"http", "https"}:  # absolute-form, which RFC 9112 has every server take
            scope["path"] = "/" + rest.partition("/")[2]
            scope["raw_path"] = b"/" + scope["raw_path"].partition(b"://")[2].partition(b"/")[2]
        return scope

    def _will_close(self, request: CallbackRequest, response_requires_close: bool) -> bool:
        # gunicorn closes after these too, but does not say so.
        unfinished = self._held or getattr(self._callback_parser, "remaining_truncated", False)
        return bool(unfinished or super()._will_close(request, response_requires_close))

    def _send_response_start(self, *arguments: object, **options: object) -> None:
        self._answered = True
        super()._send_response_start(*arguments, **options)

    def _send_error_response(
        self,
        status: int,
        message: str = "",  # noqa: ARG002  (it can quote the request)
        extra_headers: Iterable[tuple[str, str]] = (),  # noqa: ARG002
    ) -> None:
        if not self._answered:  # a body can break while the answer to its request is under way
            self._answered = True
            refuse(status, self._safe_write, self.worker.app.observer)

    def _refuse(self, status: int) -> None:
        self._send_error_response(status)
        self._close_transport()

    def _close_transport(self) -> None:
        """Closes our side, and the connection when the client has closed its own: to close at once tears the answer."""
        if self._closed:
            return
        self._closed = True
        self._stop_timers()
        self._resume_reading()
        if self._body_receiver is not None:
            self._body_receiver.signal_disconnect()
        self._request_ready.set()  # wakes gunicorn's loop, to end
        self._answer_timer = self._later(patience.LINGER_SECONDS, self.transport.abort)
        if self._at_end:
            self.transport.close()
        elif not self.transport.is_closing():
            self.transport.write_eof()
