"""The default worker: a subclass of gunicorn's `Worker`, with uvloop and the protocol in connection.py."""

import asyncio
import os
import signal
from collections import Counter
from functools import partial
from math import inf
from typing import TYPE_CHECKING

import uvloop
from gunicorn.workers.base import Worker

from sepu.http.observers import ReplyObservers
from sepu.server.accept import Acceptor
from sepu.server.connection import App, Connection, State

if TYPE_CHECKING:
    from sepu.server.gunicorn import Server

_CHECK_SECONDS = 0.25
# Requests between polls of the database. Otherwise the event loop would serve a whole burst before it reads answers.
_POLLED_REQUESTS = 16
_BUFFER_BYTES = 16 * 1024
# For a last request on an idle connection, when a worker stops.
_FAREWELL_SECONDS = 1.0


class UvloopWorker(Worker):
    """Serves connections on one event loop until a signal, the master's death or `max_requests`."""

    app: "Server"
    wsgi: App

    def init_process(self) -> None:
        """Creates the event loop; gunicorn calls it in the forked worker."""
        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.connections: set[Connection] = set()
        self.addresses: Counter[str] = Counter()
        self.trusted_proxies = self.app.trusted_proxies
        self.buffer = memoryview(bytearray(_BUFFER_BYTES))
        self.observers: ReplyObservers = self.app.observers
        self._quick = False
        super().init_process()

    def init_signals(self) -> None:
        """Gives each signal its default effect until the event loop runs and can handle it."""
        for number in self.SIGNALS:
            signal.signal(number, signal.SIG_DFL)

    def run(self) -> None:
        """Serves until the worker must stop."""
        self.loop.run_until_complete(self._serve())
        self.loop.close()

    def connections_changed(self) -> None:
        """Publishes the number of open connections to the other workers."""
        if self.alive:
            self.app.open_connections.number = len(self.connections)

    def served(self) -> None:
        """Counts a request."""
        self.nr += 1
        if self.nr % _POLLED_REQUESTS == 0 and self.app.batcher is not None:
            self.app.batcher.poll()
        if self.nr >= self.max_requests:
            self.alive = False

    async def _serve(self) -> None:
        loop = self.loop
        # PERF: set once for all connections of this process, so that none reads the settings.
        State.IDLE.seconds = self.cfg.keepalive
        for number, handler in (
            (signal.SIGTERM, self._stop),
            (signal.SIGINT, self._quit),
            (signal.SIGQUIT, self._quit),
            (signal.SIGABRT, self._abort),
            (signal.SIGUSR1, self.log.reopen_files),
            (signal.SIGWINCH, lambda: None),
        ):
            loop.add_signal_handler(number, handler)
        await self.app.connect()
        self.connections_changed()
        protocol = partial(Connection, self)
        acceptors = [Acceptor(loop, listener, protocol, self.app.open_connections) for listener in self.sockets]
        while self.alive and self.ppid == os.getppid():
            self.notify()
            self._check()
            if self.app.batcher is not None:
                self.app.batcher.probe_if_due()
            await asyncio.sleep(_CHECK_SECONDS)
        self.alive = False
        for acceptor in acceptors:
            acceptor.close()
        self.app.open_connections.number = inf  # so that others do not wait for this worker
        await self._drain()
        if self.app.batcher is not None:
            await self.app.batcher.close()

    def _check(self) -> None:
        now = self.loop.time()
        for connection in list(self.connections):
            connection.check(now)

    async def _drain(self) -> None:
        """Waits for requests to finish. Closes connections that stay idle for a while: they have no answer to lose."""
        started = self.loop.time()
        while self.connections and not self._quick:
            seconds = self.loop.time() - started
            if seconds >= self.cfg.graceful_timeout:
                break
            if seconds >= _FAREWELL_SECONDS:
                for connection in list(self.connections):
                    connection.close_if_idle()
            self.notify()
            self._check()
            await asyncio.sleep(_CHECK_SECONDS / 5)

    def _stop(self) -> None:
        self.alive = False

    def _quit(self) -> None:
        if self.alive:
            self.cfg.worker_int(self)
        self.alive = False
        self._quick = True

    def _abort(self) -> None:
        self.cfg.worker_abort(self)
        os._exit(1)
