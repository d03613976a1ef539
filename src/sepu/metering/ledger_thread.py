"""The ledger for threads: a batcher on an event loop in a thread of its own, to which they hand their calls."""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Lock, Thread
from typing import Any, TypeVar

import uvloop

from sepu import limits
from sepu.metering.batcher import Batcher
from sepu.metering.commands import Command
from sepu.metering.failure import LedgerUnavailable
from sepu.metering.observer import LedgerObserver

log = logging.getLogger("sepu.ledger")

T = TypeVar("T")

_LOOK_SECONDS = 0.25
# The batcher answers each call in time. Only a loop that hangs takes longer, and then no thread waits for it.
_ANSWER_SECONDS = limits.QUEUE_SECONDS + limits.STATEMENT_SECONDS + 1.0


class LedgerThread:
    """Runs commands for threads. If the event loop fails, it ends the process, which gunicorn replaces."""

    def __init__(self, database_url: str, observer: LedgerObserver | None = None) -> None:
        self._loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._batcher = Batcher(database_url, observer=observer, loop=self._loop)
        self.callers = self._batcher.callers
        self._closing = asyncio.Event()
        self._opened = Lock()
        self._thread = Thread(target=self._run, name="ledger", daemon=True)

    def open(self) -> None:
        """Starts the thread, and waits a while for its first connection. After a fork, not before."""
        self._opened.acquire()
        self._thread.start()
        self._opened.acquire(timeout=_ANSWER_SECONDS)

    def close(self) -> None:
        """Ends the sessions and the thread. No call may wait any more."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join(_ANSWER_SECONDS)

    def run(self, command: Command[T]) -> T:
        """Runs one command; a thread waits here.

        Raises:
            LedgerUnavailable: no answer, or not in time. It is not known whether anything was committed; a retry with
                the same idempotency key finds out.
        """
        answer: T = self._wait(self._batcher.submit, command)
        return answer

    def ready(self) -> bool:
        """Returns whether a charge could be committed now; known for a second."""
        try:
            return bool(self._wait(self._batcher.probe))
        except LedgerUnavailable:
            return False

    def _wait(self, ask: Callable[..., None], *arguments: Any) -> Any:  # noqa: ANN401
        answer = _Answer()
        try:
            self._loop.call_soon_threadsafe(partial(ask, *arguments, answer.put))
        except RuntimeError:  # the loop is closed
            raise LedgerUnavailable from None
        return answer.get()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
            self._loop.close()
        except BaseException as error:  # no message: it could quote the input
            log.critical("the ledger's event loop has failed: %s", type(error).__name__)
            os._exit(1)

    async def _serve(self) -> None:
        await self._batcher.batches.open()
        self._opened.release()
        while not self._closing.is_set():
            self._batcher.look()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), _LOOK_SECONDS)
        await self._batcher.close()


class _Answer:
    """Hands one answer from the event loop to the thread that waits for it. PERF: the cheapest that can wait."""

    __slots__ = ("_answer", "_given")

    def __init__(self) -> None:
        self._answer: object = None
        self._given = Lock()
        self._given.acquire()

    def put(self, answer: object) -> None:
        """Takes the answer; the event loop calls it once."""
        self._answer = answer
        self._given.release()

    def get(self) -> object:
        """Waits for the answer; raises it if it is an exception."""
        if not self._given.acquire(timeout=_ANSWER_SECONDS):
            raise LedgerUnavailable
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer
