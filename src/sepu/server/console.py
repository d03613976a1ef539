"""Serves the console with one threaded worker, without metrics."""

from collections.abc import Callable
from typing import Any

from sepu import limits
from sepu.http.observers import ReplyObservers
from sepu.server.gunicorn import OTHER_FILES, Application, allow_files

# A slow client holds a thread until its deadline (limits.requests.REQUEST_SECONDS); pages wait if all are held.
# The other half of the connections may be idle. Reads of the ledger have their own limit.
_THREADS = limits.connections.OF_A_WORKER // 2


class ConsoleServer(Application):
    """Runs gunicorn with the console's application."""

    observers = ReplyObservers()

    def __init__(self, bind: str, app: Callable[..., Any], each_second: Callable[[], None] = lambda: None) -> None:
        self._bind = bind
        self._app = app
        self.each_second = each_second
        super().__init__()

    def run(self) -> None:
        """Serves until stopped; ends by SystemExit, as gunicorn does."""
        # A thread that waits for a client also needs a file descriptor.
        allow_files(limits.connections.OF_A_WORKER + _THREADS + OTHER_FILES)
        super().run()

    def load_config(self) -> None:
        """Loads the configuration; gunicorn calls it."""
        self.configure(self._bind, "gthread", workers=1, threads=_THREADS, proc_name="sepu-console")

    def load(self) -> Callable[..., Any]:
        """Returns the application; gunicorn calls it in each worker."""
        return self._app
