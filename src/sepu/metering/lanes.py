"""Lanes: a lane is a queue of calls and the dispatchers that send them, each over its own session.

A lane sends calls and hands their outcome to `settle`. The batcher decides what an outcome means.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import psycopg

from sepu import limits
from sepu.metering.codec import Rows
from sepu.metering.failure import report_failure
from sepu.metering.fair_queue import FairQueue, PendingCall
from sepu.metering.observer import LedgerObserver
from sepu.metering.session import Session


class Hooks(NamedTuple):
    """What the batcher gives to lanes. `settle` gets calls, their outcome, and whether they were a batch."""

    loop: asyncio.AbstractEventLoop
    open_session: Callable[[], Awaitable[Session]]
    settle: Callable[[Sequence[PendingCall], Rows | Exception, bool], None]
    connected: Callable[[Session], None]
    observer: LedgerObserver


class Lane:
    """Sends each call by itself, over the first session that is free."""

    def __init__(self, hooks: Hooks, sessions: int, *, closes_idle: bool = False) -> None:
        self.queue = FairQueue()
        self.dispatchers: Sequence[Dispatcher] = [
            Dispatcher(hooks, self.queue, closes_idle=closes_idle) for _ in range(sessions)
        ]

    def add(self, call: PendingCall) -> None:
        """Sends a call as soon as a session is free."""
        self.queue.add(call)
        any(dispatcher.send_next() for dispatcher in self.dispatchers)

    async def open(self) -> None:
        """Connects before the first call, but waits only a limited time."""
        await self.dispatchers[0].open()

    def disconnect(self) -> None:
        """Ends the sessions; the next call opens a new one."""
        for dispatcher in self.dispatchers:
            dispatcher.disconnect()

    async def close(self) -> None:
        """Ends the sessions for good."""
        for dispatcher in self.dispatchers:
            await dispatcher.close()


class BatchLane(Lane):
    """Sends batches over one session. While a batch is slow, the calls of other accounts use a second session."""

    def __init__(self, hooks: Hooks) -> None:
        super().__init__(hooks, 0)
        self.first = BatchDispatcher(hooks, self.queue)
        self.relief = ReliefDispatcher(hooks, self.queue, self.first)
        self.dispatchers = self.first, self.relief
        self._loop = hooks.loop
        self._relief_timer: asyncio.TimerHandle | None = None

    def add(self, call: PendingCall) -> None:
        """Sends a call as soon as a session is free."""
        if self.first.send_alone(call):
            return
        self.queue.add(call)
        if self.first.awaited:
            self.first.count_awaited()
        else:
            self.first.send_next()
        self._relieve_later()

    async def close(self) -> None:
        """Ends the sessions for good."""
        if self._relief_timer is not None:
            self._relief_timer.cancel()
        await super().close()

    def _relieve_later(self) -> None:
        if self._relief_timer is None and self.queue.accounts:
            self._relief_timer = self._loop.call_later(limits.batches.RELIEF_SECONDS, self._relieve)

    def _relieve(self) -> None:
        self._relief_timer = None
        self.relief.send_next()
        self._relieve_later()


class Dispatcher:
    """Sends a queue's calls over its own session, one statement at a time; connects when a call is waiting."""

    def __init__(
        self,
        hooks: Hooks,
        queue: FairQueue,
        *,
        most: int = 1,
        single_as_batch: bool = False,
        closes_idle: bool = False,
    ) -> None:
        """Up to `most` of the queue's calls share a statement. `closes_idle` ends an idle session.

        `single_as_batch` sends even a single call as a batch, for its shorter lock timeout.
        """
        self.session: Session | None = None
        self._loop, self._open_session, self._settle, self._connected, self._observer = hooks
        self._queue = queue
        self._most = most
        self._single_as_batch = single_as_batch
        self._closes_idle = closes_idle
        self._is_busy = False
        self._sent_at = 0.0  # on the loop's clock
        self._is_closed = False
        self._connecting: asyncio.Task[None] | None = None

    def send_alone(self, call: PendingCall) -> bool:
        """Sends a call now, by itself, if the session is free and no call is waiting; returns whether it did."""
        if self._is_busy or self._is_closed or self.session is None or self.session.is_over():
            return False
        if not self._queue.pass_by(call):
            return False
        self._send([call], joined=False)
        return True

    def send_next(self) -> bool:
        """Sends the next calls, or connects to send them later; returns whether it did either."""
        if self._is_closed or self._is_busy or self._connecting is not None:
            return False
        if not self._has_next():
            if self._closes_idle:
                self.disconnect()
            return False
        # PERF: checks whether a session is over only before sending, because the check is a system call.
        if self.session is None or self.session.is_over():
            self._connecting = self._loop.create_task(self._connect())
            return True
        calls = self._queue.take(self._most)
        joined = len(calls) > 1 or (self._single_as_batch and calls[0].command.joined_statement is not None)
        self._send(calls, joined)
        return True

    def _send(self, calls: Sequence[PendingCall], joined: bool) -> None:
        assert self.session is not None  # noqa: S101
        self._is_busy = True
        self._sent_at = self._loop.time()
        self.session.send(*_statement(calls, joined), partial(self._arrived, calls, joined))

    def _has_next(self) -> bool:
        return self._queue.has_next()

    def _arrived(self, calls: Sequence[PendingCall], joined: bool, outcome: Rows | Exception) -> None:
        if isinstance(outcome, Exception):
            if isinstance(outcome, psycopg.errors.ReadOnlySqlTransaction):
                self.disconnect()  # no longer the primary
            self._settle(calls, outcome, joined)  # first, so that retried calls stay ahead of newer ones
            self._free(calls)
        else:
            self._free(calls)  # first, so that the database works on the next calls while we answer
            self._settle(calls, outcome, joined)

    def _free(self, calls: Sequence[PendingCall]) -> None:
        self._queue.finish(calls)
        if not self._waits_after(calls):
            self._is_busy = False
            if self._queue.accounts or self._closes_idle:
                self.send_next()

    def _waits_after(self, _: Sequence[PendingCall]) -> bool:
        """Returns whether to stay busy after these calls. If so, the subclass must end that state."""
        return False

    def poll(self) -> None:
        """Reads the answer if it has arrived."""
        if self._is_busy and self.session is not None:
            self.session.poll()

    def is_connected(self) -> bool:
        """Returns whether there is a session that is not known to be over. Makes no system call."""
        return self.session is not None and not self.session.is_closed

    def disconnect(self) -> None:
        """Ends the session; the next call gets a new one."""
        if self.session is not None:
            self.session.close()

    async def open(self) -> None:
        """Connects, but waits only a limited time."""
        self._connecting = self._connecting or self._loop.create_task(self._connect())
        await asyncio.wait([self._connecting], timeout=limits.database.CONNECT_SECONDS)

    async def close(self) -> None:
        """Ends the session for good."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        self.disconnect()

    async def _connect(self) -> None:
        """Retries until there is a session or no call is waiting."""
        try:
            while True:
                try:
                    self.session = await self._open_session()
                    self._connected(self.session)
                    break
                except TimeoutError as error:  # no pause: the attempt itself was slow
                    report_failure(error, self._observer)
                except psycopg.Error as error:
                    report_failure(error, self._observer)
                    await asyncio.sleep(limits.database.RECONNECT_SECONDS)
                if not self._has_next():
                    break
        finally:
            self._connecting = None
        self.send_next()


class BatchDispatcher(Dispatcher):
    """Sends batches. After a slow batch, it waits briefly for the same number of calls to arrive.

    Otherwise the first client to call again would be served alone, and the others would wait for another slow call.
    """

    def __init__(self, hooks: Hooks, queue: FairQueue) -> None:
        super().__init__(hooks, queue, most=limits.batches.CALLS)
        self.awaited = 0  # number of calls
        self._timer: asyncio.TimerHandle | None = None

    def count_awaited(self) -> None:
        """Counts an arrival; the last awaited one ends the wait."""
        self.awaited -= 1
        if not self.awaited:
            self._end_wait()

    def seconds_under_way(self) -> float:
        """Returns how many seconds the current batch has been under way; 0 if there is none."""
        return self._loop.time() - self._sent_at if self._is_busy and not self.awaited else 0.0

    def poll(self) -> None:
        """Reads the answer if it has arrived."""
        if not self.awaited:
            super().poll()

    async def close(self) -> None:
        """Ends the session for good."""
        if self._timer is not None:
            self._timer.cancel()
        await super().close()

    def _waits_after(self, calls: Sequence[PendingCall]) -> bool:
        if len(calls) == 1 and not self._queue.accounts:
            return False
        seconds = self._loop.time() - self._sent_at
        if seconds <= limits.batches.SLOW_CALL_SECONDS * len(calls):
            return False
        self.awaited = len(calls)
        pause = min(seconds * limits.batches.GATHER_SHARE, limits.batches.GATHER_SECONDS)
        self._timer = self._loop.call_later(pause, self._end_wait)
        return True

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.awaited = 0
        self._is_busy = False
        self.send_next()


class ReliefDispatcher(Dispatcher):
    """Sends other accounts' batches while the first dispatcher's batch is slow."""

    def __init__(self, hooks: Hooks, queue: FairQueue, first: BatchDispatcher) -> None:
        super().__init__(hooks, queue, most=limits.batches.CALLS, single_as_batch=True)
        self._first = first

    def _has_next(self) -> bool:
        return self._first.seconds_under_way() > limits.batches.RELIEF_SECONDS and super()._has_next()

    def _free(self, calls: Sequence[PendingCall]) -> None:
        super()._free(calls)
        if not self._is_busy:
            self._first.send_next()  # the accounts of these calls are free again


def _statement(calls: Sequence[PendingCall], joined: bool) -> tuple[Any, Sequence[Any]]:
    """Returns the statement for these calls. For a batch, each parameter becomes an array."""
    first = calls[0].command
    if not joined:
        return first.statement, first.parameters
    columns = zip(*(call.command.parameters for call in calls), strict=True)
    return first.joined_statement, [list(column) for column in columns]
