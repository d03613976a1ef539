"""The meinheld worker for gunicorn: opt-in, behind a proxy, one request at a time.

meinheld parses HTTP in unmaintained C that a hostile client can crash, so this worker listens only on Unix
sockets, behind a strict proxy. The proxy should close idle connections at least two seconds before
`keepalive` is over. Then the worker never closes a connection on which a request is already under way, and
idle connections do not delay a draining worker.
"""

import importlib
import logging
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterable
from importlib.metadata import version
from types import ModuleType, SimpleNamespace, TracebackType
from typing import Any, ClassVar, NoReturn

from gunicorn.config import Config
from gunicorn.glogging import Logger
from gunicorn.workers.base import Worker

INSTALL = "`make meinheld` installs what it needs"
UNIX_ONLY = (
    "the meinheld worker binds to a unix socket only (--bind unix:PATH): its HTTP parser can be crashed by a "
    "client, so nothing but a proxy may reach it"
)
# meinheld itself answers 413, in HTML, to larger bodies; the application answers the others. Bodies stay in memory.
MAX_BODY = 1024 * 1024
# picoev allocates about 50 bytes for each descriptor, and containers often allow a billion.
MAX_DESCRIPTORS = 65536
# The loop beats once a second by the clock, so beats can be almost two seconds apart.
MIN_TIMEOUT = 3
# Signals whose handlers meinheld replaces when its loop starts.
TAKEN_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class MeinheldWorker(Worker):
    """Runs meinheld's loop as a gunicorn worker. Unlike meinheld's own worker, it follows gunicorn's rules."""

    server: ClassVar[ModuleType]

    @classmethod
    def setup(cls) -> None:
        """Finds meinheld; gunicorn calls this when it reads the worker class, before anything is bound."""
        try:
            cls.server = importlib.import_module("meinheld.server")
            greenlet = version("greenlet")
        except ImportError as error:
            raise RuntimeError(f"the meinheld worker is not installed ({error}): {INSTALL}") from error
        if int(greenlet.partition(".")[0]) < 3:
            raise RuntimeError(f"the meinheld worker leaks memory with greenlet {greenlet}: {INSTALL}")

    @staticmethod
    def check_config(cfg: Config, log: Logger) -> None:
        """Refuses settings that are not safe; gunicorn calls this before the first worker starts."""
        if any(isinstance(address, tuple) for address in cfg.address):
            raise RuntimeError(UNIX_ONLY)
        if 0 < cfg.timeout < MIN_TIMEOUT:
            raise RuntimeError(f"the meinheld worker needs a timeout of {MIN_TIMEOUT} seconds or more, or 0")
        if cfg.accesslog or cfg.logconfig or cfg.logconfig_dict or cfg.logconfig_json:
            log.warning("The meinheld worker writes no access log; the proxy in front of it can.")

    def init_process(self) -> None:
        """Checks the sockets themselves, because they may be inherited or changed by a reload."""
        if any(listener.family != socket.AF_UNIX for listener in self.sockets):
            raise RuntimeError(UNIX_ONLY)
        super().init_process()

    def run(self) -> None:
        """Serves until a signal, `max_requests` or the master's death, then finishes the requests in progress."""
        server = self.server
        server.set_access_logger(None)  # it leaks an environ for every connection that ends idle
        server.set_error_logger(SimpleNamespace(error=self._log_error))
        server.set_keepalive(self.cfg.keepalive)
        server.set_max_content_length(MAX_BODY)
        server.set_client_body_buffer_size(MAX_BODY)
        server.set_picoev_max_fd(_settle_descriptor_limit())
        server.set_listen_socket([listener.fileno() for listener in self.sockets])
        server.set_watchdog(self._beat)
        signal.pthread_sigmask(signal.SIG_BLOCK, TAKEN_SIGNALS)
        if self.alive:
            server.schedule_call(0, self._take_signals_back)
            server.run(self._serve)

    def handle_exit(self, *_: object) -> None:
        """Finishes gracefully."""
        self._drain()

    def handle_quit(self, *_: object) -> None:
        """Stops immediately."""
        self.cfg.worker_int(self)
        self._leave(0)

    def handle_abort(self, *_: object) -> None:
        """Exits immediately after `timeout` without a heartbeat."""
        self.cfg.worker_abort(self)
        self._leave(1)

    def _serve(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        self.notify()  # the loop may start a thousand requests between two heartbeats
        self.nr += 1
        if self.nr == self.max_requests:
            self.log.info("Autorestarting worker after current request.")
            self._drain()
        environ["REMOTE_ADDR"] = ""  # as gunicorn does for a Unix socket; meinheld invents one
        response: Iterable[bytes] = self.wsgi(environ, start_response)
        return response

    def _beat(self) -> None:
        self.notify()
        if self.alive and self.ppid != os.getppid():
            self.log.info("Parent changed, shutting down: %s", self)
            self._drain()

    def _drain(self) -> None:
        # Once only: meinheld miscounts its connections when it is stopped twice.
        if self.alive:
            self.alive = False
            self.server.set_keepalive(0)  # requests on open connections are still answered, then those close
            self.server.stop(max(1, int(self.cfg.graceful_timeout)))

    def _take_signals_back(self) -> None:
        self.init_signals()
        signal.set_wakeup_fd(-1)  # nothing reads the pipe; the loop wakes up once a second
        signal.pthread_sigmask(signal.SIG_UNBLOCK, TAKEN_SIGNALS)

    def _leave(self, status: int) -> NoReturn:
        # meinheld answers a SystemExit from within a request with 500 and carries on.
        self.cfg.worker_exit(self, self)
        os._exit(status)

    def _log_error(self, kind: type, error: BaseException, trace: TracebackType | None) -> None:
        level = logging.DEBUG if isinstance(error, BrokenPipeError | ConnectionResetError) else logging.ERROR
        self.log.log(level, "Error in the meinheld loop", exc_info=(kind, error, trace))


def _settle_descriptor_limit() -> int:
    """Sets the descriptor limit to the size of meinheld's table: a larger descriptor would end its accepting."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limit = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit
