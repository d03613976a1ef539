"""gunicorn's gthread worker, with the contract's error replies and a time limit on every wait for a client."""

import socket
import time
from contextlib import suppress

from gunicorn import util
from gunicorn.http import errors
from gunicorn.workers import gthread

from sepu import limits
from sepu.http.observers import ReplyObservers
from sepu.http.wire import refuse

# The first type that matches decides the status.
_STATUSES: dict[type[Exception], int] = {
    errors.LimitRequestLine: 414,
    errors.LimitRequestHeaders: 431,
    errors.ExpectationFailed: 417,
    errors.ParseException: 400,
}


class GthreadWorker(gthread.ThreadWorker):
    """Reads and answers one request at a time in each thread; disconnects a client that is too slow."""

    def init_process(self) -> None:
        """Initialises the forked worker; gunicorn calls it."""
        self._deadlines: dict[gthread.TConn, float] = {}
        super().init_process()

    def handle(self, conn: gthread.TConn) -> bool:
        """Serves one request; called in a thread."""
        self._deadlines[conn] = time.monotonic() + limits.requests.REQUEST_SECONDS
        try:
            keep_open: bool = super().handle(conn)
            if not keep_open:
                _linger(conn.sock)
            return keep_open
        finally:
            del self._deadlines[conn]

    def murder_pending(self) -> None:
        """Disconnects slow clients; the main thread calls it about once a second."""
        super().murder_pending()
        now = time.monotonic()
        for conn, deadline in list(self._deadlines.items()):
            if deadline < now:
                with suppress(OSError):  # the thread may have closed it
                    self._refuse(408, conn.sock)
                with suppress(OSError):
                    conn.sock.shutdown(socket.SHUT_RDWR)

    def handle_error(self, req: object, client: socket.socket, addr: object, exc: BaseException) -> None:  # noqa: ARG002
        """Answers a request that gunicorn refuses. gunicorn's own method would log its text, which may hold a key."""
        status = next((status for kind, status in _STATUSES.items() if isinstance(exc, kind)), 500)
        if status == 500:
            self.log.error("Error handling a request: %s", type(exc).__name__)
        with suppress(OSError):
            self._refuse(status, client)

    def _refuse(self, status: int, client: socket.socket) -> None:
        observers: ReplyObservers = self.app.observers  # type: ignore[attr-defined]  # it is a Server
        refuse(status, lambda response: client.send(response, socket.MSG_DONTWAIT), observers)


def _linger(sock: socket.socket) -> None:
    """Lets the client close first. gunicorn would do this in its main thread, and all requests would wait."""
    with suppress(OSError):
        util.close_graceful(sock.dup(), limits.requests.LINGER_SECONDS)
        sock.shutdown(socket.SHUT_RDWR)
