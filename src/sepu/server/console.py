"""Serves the console: one worker with threads, which forks nothing and counts nothing."""

from collections.abc import Callable
from typing import Any

from sepu.http.notifier import ReplyNotifier
from sepu.server.gunicorn import Application

# A slow client keeps one until its deadline (limits.REQUEST_SECONDS). What reads the ledger has a bound of its own.
_THREADS = 128


class ConsoleServer(Application):
    """Runs gunicorn with the console's application."""

    notifier = ReplyNotifier()

    def __init__(self, bind: str, app: Callable[..., Any], each_second: Callable[[], None] = lambda: None) -> None:
        self._bind = bind
        self._app = app
        self.each_second = each_second
        super().__init__()

    def load_config(self) -> None:
        """Loads the configuration; gunicorn calls it."""
        self.configure(self._bind, "gthread", workers=1, threads=_THREADS, proc_name="sepu-console")

    def load(self) -> Callable[..., Any]:
        """Returns the application; gunicorn calls it in each worker."""
        return self._app
