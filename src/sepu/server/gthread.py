"""gunicorn's gthread worker, with the contract's refusals and an end to every wait for a client."""

import socket
import time
from contextlib import suppress

from gunicorn import util
from gunicorn.http import errors
from gunicorn.workers import gthread

from sepu import limits
from sepu.http.observer import RequestObserver
from sepu.http.wire import refuse

# The first that an exception is an instance of; any other ParseException is 400.
_STATUSES: dict[type[Exception], int] = {
    errors.LimitRequestLine: 414,
    errors.LimitRequestHeaders: 431,
    errors.ExpectationFailed: 417,
    errors.ParseException: 400,
}


class GthreadWorker(gthread.ThreadWorker):
    """A thread reads, answers and drains one request at a time; a client that makes it wait too long is cut off."""

    def init_process(self) -> None:
        """Called by gunicorn in the forked worker."""
        self._deadlines: dict[gthread.TConn, float] = {}
        super().init_process()

    def handle(self, conn: gthread.TConn) -> bool:
        """Called in a thread, for one request."""
        self._deadlines[conn] = time.monotonic() + limits.REQUEST_SECONDS
        try:
            keeps: bool = super().handle(conn)
            if not keeps:
                _linger(conn.sock)
            return keeps
        finally:
            del self._deadlines[conn]

    def murder_pending(self) -> None:
        """Called by the main thread about once a second."""
        super().murder_pending()
        now = time.monotonic()
        for conn, deadline in list(self._deadlines.items()):
            if deadline < now:
                with suppress(OSError):  # the thread may be through with it, or its answer stuck
                    self._refuse(408, conn.sock)
                with suppress(OSError):
                    conn.sock.shutdown(socket.SHUT_RDWR)

    def handle_error(self, req: object, client: socket.socket, addr: object, exc: BaseException) -> None:  # noqa: ARG002
        """Answers what gunicorn refuses. Its own would log what the client sent, a key perhaps."""
        status = next((status for kind, status in _STATUSES.items() if isinstance(exc, kind)), 500)
        if status == 500:
            self.log.error("Error handling a request: %s", type(exc).__name__)
        with suppress(OSError):
            self._refuse(status, client)

    def _refuse(self, status: int, client: socket.socket) -> None:
        observer: RequestObserver = self.app.observer  # type: ignore[attr-defined]  # our Server's
        refuse(status, lambda response: client.send(response, socket.MSG_DONTWAIT), observer)


def _linger(sock: socket.socket) -> None:
    """Lets the client close first. gunicorn's main thread would, and everybody would wait for that one."""
    with suppress(OSError):
        util.close_graceful(sock.dup(), limits.LINGER_SECONDS)
        sock.shutdown(socket.SHUT_RDWR)
