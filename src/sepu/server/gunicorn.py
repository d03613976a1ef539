"""Configures gunicorn and runs it in this process."""

import asyncio
import gc
import logging
import mmap
import os
import resource
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite
from pathlib import Path
from typing import Any, Literal

import numpy as np
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.http.errors import InvalidHeader, InvalidHTTPVersion, LimitRequestHeaders
from gunicorn.http.message import Request
from gunicorn.workers.base import Worker as GunicornWorker

from sepu import limits
from sepu.errors import StartError
from sepu.http.app import create_app
from sepu.http.observers import ReplyObservers
from sepu.http.responder import CallbackResponder, WaitingResponder
from sepu.http.service import Service
from sepu.library.release import Release
from sepu.metering.batcher import Batcher
from sepu.metering.batcher_thread import BatcherThread
from sepu.metering.commands import needed_schema
from sepu.server.accept import OpenConnections
from sepu.server.client_address import Network
from sepu.server.host import is_host
from sepu.server.interpreter import is_profiled
from sepu.server.metrics import BLOCKS, Blocks, Counts, serve_metrics
from sepu.server.request_log import GunicornLogger, RequestLog

Worker = Literal["uvloop", "gthread", "meinheld"]

_WORKER_CLASSES: dict[Worker, str] = {
    "uvloop": "sepu.server.uvloop.UvloopWorker",
    "gthread": "sepu.server.gthread.GthreadWorker",
    "meinheld": "sepu.server.meinheld.MeinheldWorker",
}
_logger = logging.getLogger("sepu.server")

_BOOT_SECONDS, _BOOT_CHECK_SECONDS = 5.0, 0.02  # wait for a new worker to accept connections
OTHER_FILES = 100  # a worker's files that are not connections: the database's, gunicorn's, the log
_RAM_DISK = Path("/dev/shm")  # noqa: S108  (gunicorn's heartbeat: a real disk can stall it)


@dataclass(frozen=True, slots=True)
class Settings:
    """Holds the settings of the server; `bind` is `HOST:PORT` or `unix:PATH`."""

    bind: str
    workers: int
    worker: Worker
    database_url: str
    trusted_proxies: tuple[Network, ...] = ()
    batches: bool = True  # requests share database calls
    metrics_bind: str | None = None  # `HOST:PORT`
    idle_seconds: int = limits.connections.IDLE_SECONDS


class Application(BaseApplication):
    """Runs gunicorn in this process."""

    observers: ReplyObservers  # in each worker
    each_second: Callable[[], None] = staticmethod(lambda: None)
    accepts: Callable[[GunicornWorker], bool] = staticmethod(lambda _worker: True)  # whether a worker takes connections

    def run(self) -> None:
        """Serves until stopped; ends by SystemExit, as gunicorn does."""
        master = os.getpid()
        default_signals_in_children()
        try:
            _Arbiter(self).run()
        except SystemExit as ended:
            if os.getpid() != master:
                # A forked worker ends by unwinding the master's stack, but must not clean up for the master.
                os._exit(ended.code if isinstance(ended.code, int) else 0)
            raise
        except RuntimeError as error:  # raised by gunicorn if a worker class cannot be loaded
            raise StartError(str(error)) from error

    def configure(self, bind: str, worker: Worker, **options: object) -> None:
        """Sets gunicorn's settings: the given ones, and those that are always the same."""
        always: dict[str, object] = {
            "bind": bind,
            "worker_class": _WORKER_CLASSES[worker],
            "keepalive": limits.connections.IDLE_SECONDS,
            "worker_connections": limits.connections.OF_A_WORKER,
            "limit_request_line": limits.requests.LINE_BYTES,
            "limit_request_field_size": limits.requests.LINE_BYTES + len("\r\n"),  # it counts the end of the line
            "limit_request_fields": limits.requests.HEADERS,
            "forwarded_allow_ips": "",  # no header may set SCRIPT_NAME or the scheme
            "pre_request": _check_head,
            "timeout": limits.workers.HEARTBEAT_SECONDS,
            "graceful_timeout": limits.workers.GRACEFUL_SECONDS,
            "umask": 0o117,  # only the user and the proxy's group may use the Unix socket
            "control_socket_disable": True,
            "proc_name": "sepu",
            "logger_class": GunicornLogger,
        }
        if os.access(_RAM_DISK, os.W_OK):
            always["worker_tmp_dir"] = str(_RAM_DISK)
        if worker == "gthread":
            # Ctrl-C reaches the workers too, before the master's SIGQUIT. gthread's handler would interrupt itself and
            # block for graceful_timeout, so ignore Ctrl-C here: the master's signal is enough.
            always["post_worker_init"] = lambda _worker: signal.signal(signal.SIGINT, signal.SIG_IGN)
        for name, value in {**always, **options}.items():
            self.cfg.set(name, value)


class Server(Application):
    """Runs gunicorn with one release, loaded before the workers are forked so that they share its memory."""

    batcher: Batcher | None = None  # in each uvloop worker
    open_connections: OpenConnections  # in each worker

    def __init__(
        self,
        settings: Settings,
        release: Release,
        request_log: RequestLog,
        each_second: Callable[[], None] = lambda: None,
    ) -> None:
        self.each_second = each_second
        self.trusted_proxies = settings.trusted_proxies
        self._settings = settings
        self._threads = limits.workers.THREADS if settings.worker == "gthread" else 1
        self._request_log = request_log
        self._blocks = Blocks()
        self._open_connections = np.frombuffer(mmap.mmap(-1, BLOCKS * 8))
        self._open_connections.fill(inf)
        self._block_of: dict[int, int] = {}  # by the age of the worker
        self._library = release.manifest.version
        self._service = Service.of(release)
        self._counts: Counts
        self._batcher_thread: BatcherThread | None = None
        super().__init__()

    def run(self) -> None:
        """Serves until stopped; ends by SystemExit, as gunicorn does."""
        _allow_files_of_a_worker()
        if not is_profiled():
            _logger.warning(
                "this Python was built without --enable-optimizations: workers take about a sixth more time"
            )
        gc.freeze()  # the collector would write to the memory that the workers share
        with ExitStack() as stack:
            if (bind := self._settings.metrics_bind) is not None:
                worker = self._settings.worker
                stack.enter_context(serve_metrics(bind, self._blocks, worker, self._library, needed_schema()))
            super().run()

    def load_config(self) -> None:
        """Loads the configuration; gunicorn calls it."""
        self.configure(
            self._settings.bind,
            self._settings.worker,
            workers=self._settings.workers,
            keepalive=self._settings.idle_seconds,
            threads=self._threads,
            pre_fork=self._before_fork,
            post_fork=self._after_fork,
            worker_exit=self._worker_exit,
            child_exit=self._after_exit,
        )

    def load(self) -> Callable[..., Any]:
        """Returns the application; gunicorn calls it in each worker."""
        url, batches = self._settings.database_url, self._settings.batches
        if self._settings.worker == "uvloop":
            loop = asyncio.get_event_loop()
            self.batcher = Batcher(url, batches=batches, observer=self._counts, loop=loop)
            return create_app(self._service, CallbackResponder(self.batcher, self.observers))
        self._batcher_thread = BatcherThread(url, batches=batches, observer=self._counts, died=self._die)
        self._batcher_thread.start()
        return create_app(self._service, WaitingResponder(self._batcher_thread, self.observers))

    def accepts(self, worker: GunicornWorker) -> bool:
        """Returns whether a worker accepts connections; only uvloop workers report this."""
        return self._settings.worker != "uvloop" or isfinite(self._open_connections[self._block_of[worker.age]])

    async def connect(self) -> None:
        """Opens the database session for a uvloop worker's first request."""
        if self.batcher is not None:
            await self.batcher.open()

    def _before_fork(self, _arbiter: object, worker: GunicornWorker) -> None:
        self._block_of[worker.age] = self._blocks.take()

    def _after_fork(self, _arbiter: object, worker: GunicornWorker) -> None:
        block = self._block_of[worker.age]
        self._counts = self._blocks.counts(block)
        self.open_connections = OpenConnections(self._open_connections, block)
        self.observers = ReplyObservers(self._counts.replied, self._request_log.request)
        self._request_log.start(self._counts.line_dropped)

    def _worker_exit(self, _arbiter: object, _worker: object) -> None:
        if self._batcher_thread is not None:
            self._batcher_thread.close()
        self._request_log.stop()

    def _die(self) -> None:
        """Ends a worker that can no longer ask the ledger; gunicorn starts another."""
        self._request_log.stop()
        os._exit(1)

    def _after_exit(self, _arbiter: object, worker: GunicornWorker) -> None:
        block = self._block_of.pop(worker.age)
        self._blocks.give_back(block)
        self._open_connections[block] = inf


def allow_files(needed: int) -> int:
    """Raises the soft limit of open files to `needed`, or as far as allowed; returns the limit, at most `needed`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return needed
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed


def _allow_files_of_a_worker() -> None:
    needed = limits.connections.OF_A_WORKER + OTHER_FILES
    allowed = allow_files(needed)
    if allowed < needed:
        _logger.warning(
            "a worker needs %d open files for %d connections, and the system allows %d: raise the hard limit"
            " (LimitNOFILE= of systemd, ulimits of a container, ulimit -Hn of a shell)",
            needed,
            limits.connections.OF_A_WORKER,
            allowed,
        )


def _check_head(_worker: object, request: Request) -> None:
    """Refuses heads that gunicorn accepts but we do not, and obeys `Connection: close` (RFC 9112, 3.2 and 9.6)."""
    if sum(len(name) + len(value) for name, value in request.headers) > limits.requests.HEAD_BYTES:
        raise LimitRequestHeaders("the head is too large")
    if request.version not in {(1, 0), (1, 1)}:  # gunicorn would answer any HTTP/1.x
        raise InvalidHTTPVersion("neither 1.0 nor 1.1")
    is_old = request.version == (1, 0)
    host = dict(request.headers).get("HOST")
    if not (is_old if host is None else is_host(host)):
        raise InvalidHeader("HOST")
    options = ",".join(value for name, value in request.headers if name == "CONNECTION")
    if is_old or "close" in {option.strip(" \t").lower() for option in options.split(",")}:
        request.force_close()


class _Arbiter(Arbiter):
    """gunicorn's master, which also runs given functions each second."""

    app: Application

    def manage_workers(self) -> None:
        """Starts and ends workers; the master calls this each second, and in a reload after forking the new ones."""
        end = time.monotonic() + _BOOT_SECONDS
        # gunicorn would end old workers immediately, and connections would wait until a new worker accepts.
        while len(self.WORKERS) > self.num_workers and time.monotonic() < end:
            newest = sorted(self.WORKERS.values(), key=lambda worker: worker.age)[-self.num_workers :]
            if all(self.app.accepts(worker) for worker in newest):
                break
            time.sleep(_BOOT_CHECK_SECONDS)
            self.reap_workers()
        super().manage_workers()
        self.app.each_second()


def default_signals_in_children() -> None:
    """Lets signals end a new worker until it handles them itself.

    A new worker inherits the master's handlers, and Python drops a signal that arrives during the fork. So this blocks
    signals until the handlers are gone.
    """
    ending = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
    block = partial(signal.pthread_sigmask, signal.SIG_BLOCK, ending)
    unblock = partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, ending)

    def in_child() -> None:
        for number in ending:
            signal.signal(number, signal.SIG_DFL)
        unblock()

    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=in_child)
