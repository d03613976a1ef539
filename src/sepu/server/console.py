"""Serves the console: one worker with a few threads, which forks nothing and counts nothing."""

import os
from collections.abc import Callable
from typing import Any

from sepu.http.observer import RequestObserver
from sepu.server.gunicorn import Application, default_signals

_THREADS = 4


class ConsoleServer(Application):
    """Runs gunicorn with the console's application."""

    observer = RequestObserver()

    def __init__(self, bind: str, app: Callable[..., Any], each_second: Callable[[], None] = lambda: None) -> None:
        self._bind = bind
        self._app = app
        self.each_second = each_second
        super().__init__()

    def run(self) -> None:
        """Serves until stopped; ends by SystemExit, as gunicorn does."""
        os.register_at_fork(after_in_child=default_signals)
        self.arbitrate()

    def load_config(self) -> None:
        """Loads the configuration; gunicorn calls it."""
        self.configure(self._bind, "gthread", workers=1, threads=_THREADS, proc_name="sepu-console")

    def load(self) -> Callable[..., Any]:
        """Returns the application; gunicorn calls it in each worker."""
        return self._app
