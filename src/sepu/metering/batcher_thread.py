"""Runs a batcher in a thread with its own event loop. Other threads send it commands and wait for the answers."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from sepu import limits
from sepu.metering.batcher import Batcher
from sepu.metering.callers import Callers
from sepu.metering.commands import Command
from sepu.metering.failure import report_failure, report_fault
from sepu.metering.observer import LedgerObserver

T = TypeVar("T")

# For the sessions and the thread to end, when a worker stops.
_END_SECONDS = 1.0


class BatcherThread:
    """Runs commands for other threads. Start it after forking, because a fork does not copy threads."""

    def __init__(
        self,
        database_url: str,
        *,
        batches: bool = True,
        observer: LedgerObserver | None = None,
        died: Callable[[], None] = lambda: None,
    ) -> None:
        """Takes the batcher's settings. The thread calls `died` if its event loop fails."""
        self._url = database_url
        self._batches = batches
        self._observer = observer or LedgerObserver()
        self._died = died
        self._started: SimpleQueue[bool] = SimpleQueue()
        # A daemon thread, so that the interpreter does not wait for it at exit.
        self._thread = Thread(target=self._run, name="batcher", daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._batcher: Batcher
        self._closing: asyncio.Event

    def start(self) -> None:
        """Starts the thread, and returns when it accepts commands."""
        self._thread.start()
        if not self._started.get():
            raise RuntimeError("the batcher's thread did not start")

    def close(self) -> None:
        """Ends the sessions and the thread. Waits only a limited time for them."""
        try:
            self._loop.call_soon_threadsafe(self._closing.set)
        except RuntimeError:  # the loop is closed
            return
        self._thread.join(_END_SECONDS)

    def run(self, command: Command[T]) -> T:
        """Runs one command.

        Raises:
            LedgerUnavailable: the database failed, or did not answer in time, and the command has no answer for this.
            Exception: the answer could not be made.
        """
        answer: Any = self._ask(lambda done: self._batcher.submit(command, done), command.unanswered)
        if isinstance(answer, Exception):
            raise answer
        result: T = answer
        return result

    def ready(self) -> bool:
        """Returns whether a charge could be committed now. Caches the result for a second."""
        return self._ask(lambda done: self._batcher.probe(done), lambda: False) is True

    @property
    def callers(self) -> Callers:
        """Returns what this worker knows about callers. The thread must have started."""
        return self._batcher.callers

    def _ask(self, ask: Callable[[Callable[[object], None]], None], unanswered: Callable[[], object]) -> object:
        """Calls `ask` in the batcher's thread, and waits slightly longer than the batcher may take to answer."""
        answers: SimpleQueue[object] = SimpleQueue()

        def called() -> None:
            try:
                ask(answers.put)
            except Exception as error:  # otherwise asyncio would log it, possibly with the command
                answers.put(error)

        try:
            self._loop.call_soon_threadsafe(called)
            return answers.get(
                timeout=limits.database.QUEUE_SECONDS
                + limits.database.STATEMENT_SECONDS
                + limits.database.THREAD_SECONDS
            )
        except RuntimeError:  # the loop is closed
            return unanswered()
        except Empty as error:
            report_failure(error, self._observer)
            return unanswered()

    def _run(self) -> None:
        # Only the main thread handles signals.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._loop = asyncio.new_event_loop()
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as raised:
            report_fault(raised, "the ledger's event loop failed")
            self._died()
        finally:
            self._loop.close()
            self._started.put(False)

    async def _serve(self) -> None:
        self._closing = asyncio.Event()
        self._batcher = Batcher(self._url, batches=self._batches, observer=self._observer)
        await self._batcher.open()
        self._started.put(True)
        while not self._closing.is_set():
            self._batcher.probe_if_due()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), limits.probes.PROBE_SECONDS)
        await self._batcher.close()
