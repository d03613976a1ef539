"""Lanes for an event loop: a queue of calls, the accounts of those under way, and the sessions that send them.

While an account's calls are under way, its others wait. What an answer means is the batcher's part.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import psycopg

from sepu import limits
from sepu.metering.calls import FairQueue, PendingCall
from sepu.metering.codec import Rows
from sepu.metering.failure import report_failure
from sepu.metering.observer import LedgerObserver
from sepu.metering.session import Session


class Shared(NamedTuple):
    """What all lanes share. `settle` gets calls, their outcome, and whether they were sent as a batch."""

    loop: asyncio.AbstractEventLoop
    open_session: Callable[[], Awaitable[Session]]
    settle: Callable[[Sequence[PendingCall], Rows | Exception, bool], None]
    connected: Callable[[Session], None]
    observer: LedgerObserver


class Lane:
    """Sends up to `most` calls at a time over each of its sessions, which it keeps if `keeps` says so."""

    def __init__(self, shared: Shared, sessions: int, *, most: int = 1, keeps: bool = True) -> None:
        self.queue = FairQueue()
        self.busy: set[str] = set()
        self.dispatchers = [Dispatcher(shared, self, keeps=keeps) for _ in range(sessions)]
        self._loop = shared.loop
        self._most = most

    def add(self, call: PendingCall) -> None:
        """Sends a call as soon as may be."""
        self.queue.add(call)
        self.go()

    def go(self) -> None:
        """Sends what waits over the first session that is free."""
        any(dispatcher.go() for dispatcher in self.dispatchers)

    def waits(self) -> bool:
        """Returns whether there is anything to send, now or later."""
        return self.queue.has_other_than(self.busy)

    def take(self) -> list[PendingCall]:
        """Takes what is sent next."""
        calls = self.queue.take(self._most, self.busy)
        for call in calls:
            self.busy.add(call.account)
        return calls

    def release(self, calls: Sequence[PendingCall]) -> None:
        """Lets go what waited for the end of these calls."""
        for call in calls:
            self.busy.discard(call.account)

    async def open(self) -> None:
        """Connects before the first call, which then need not wait; not for long, if the database does not answer."""
        await self.dispatchers[0].open()

    def hang_up(self) -> None:
        """Ends the sessions; the next call has another."""
        for dispatcher in self.dispatchers:
            dispatcher.hang_up()

    async def close(self) -> None:
        """Ends the sessions for good."""
        for dispatcher in self.dispatchers:
            await dispatcher.close()


class BatchLane(Lane):
    """Sends batches over one session; while one takes long, the calls of other accounts go over another.

    After a batch that waited for a lock or a slow commit, the next one waits a little for the same clients. Otherwise
    the first of them goes alone, and the others wait for it as long again.
    """

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, 0, most=limits.BATCH_CALLS)
        self._timer: asyncio.TimerHandle | None = None
        self.first = Dispatcher(shared, self, keeps=True, gathers=True)
        self.relief = Dispatcher(shared, self, keeps=True, beside=self.first)
        self.dispatchers += [self.first, self.relief]

    def add(self, call: PendingCall) -> None:
        """Sends a call as soon as may be."""
        self.queue.add(call)
        if self.first.expected:
            self.first.expect_one_less()
        else:
            self.first.go()
        self._relieve_later()

    async def close(self) -> None:
        """Ends the sessions for good."""
        if self._timer is not None:
            self._timer.cancel()
        await super().close()

    def _relieve_later(self) -> None:
        if self._timer is None and self.queue.accounts:
            self._timer = self._loop.call_later(limits.RELIEF_SECONDS, self._relieve)

    def _relieve(self) -> None:
        self._timer = None
        self.relief.go()
        self._relieve_later()


class Dispatcher:
    """Sends what its lane gives it over a session of its own, one statement at a time. It connects when a call waits.

    With another `beside` it, it sends only while that takes long; and even one call as a batch, which waits less long
    for a lock. If it `gathers`, it stays busy a little after a slow statement, until as many calls have come again.
    """

    def __init__(
        self, shared: Shared, lane: Lane, *, keeps: bool, beside: "Dispatcher | None" = None, gathers: bool = False
    ) -> None:
        self.session: Session | None = None
        self.expected = 0  # calls, while it gathers
        self._loop, self._open_session, self._settle, self._connected, self._observer = shared
        self._lane = lane
        self._keeps = keeps
        self._beside = beside
        self._gathers = gathers
        self._timer: asyncio.TimerHandle | None = None
        self._busy = False
        self._sent = 0.0  # when, by the loop's time
        self._closed = False
        self._connecting: asyncio.Task[None] | None = None

    def go(self) -> bool:
        """Sends what waits, or connects for it; tells whether it does."""
        if self._closed or self._busy or self._connecting is not None:
            return False
        if not self._waits():
            if not self._keeps:
                self.hang_up()
            return False
        # PERF: a session is asked whether it is over only before a statement: that is a system call.
        if self.session is None or self.session.is_over():
            self._connecting = self._loop.create_task(self._connect())
        elif calls := self._lane.take():
            self._busy = True
            self._sent = self._loop.time()
            joined = len(calls) > 1 or (self._beside is not None and calls[0].command.joined_statement is not None)
            self.session.send(*_statement(calls, joined), partial(self._arrived, calls, joined))
        return True

    def _waits(self) -> bool:
        beside = self._beside
        return (beside is None or beside.busy_for() > limits.RELIEF_SECONDS) and self._lane.waits()

    async def open(self) -> None:
        """Connects, and waits a while for it."""
        self._connecting = self._connecting or self._loop.create_task(self._connect())
        await asyncio.wait([self._connecting], timeout=limits.CONNECT_SECONDS)

    def poll(self) -> None:
        """Reads the answer, if it has come."""
        if self._busy and not self.expected and self.session is not None:
            self.session.poll()

    def busy_for(self) -> float:
        """Returns for how many seconds a statement has been under way."""
        return self._loop.time() - self._sent if self._busy else 0.0

    def is_connected(self) -> bool:
        """Returns whether it has a session that is not known to be over. No system call."""
        return self.session is not None and not self.session.is_closed

    def hang_up(self) -> None:
        """Ends the session; the next call has another."""
        if self.session is not None:
            self.session.close()

    async def close(self) -> None:
        """Ends the session for good."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        self.hang_up()

    def _arrived(self, calls: Sequence[PendingCall], joined: bool, outcome: Rows | Exception) -> None:
        if isinstance(outcome, Exception):
            if isinstance(outcome, psycopg.errors.ReadOnlySqlTransaction):
                self.hang_up()  # no longer the primary
            self._settle(calls, outcome, joined)  # first: what is repeated goes before what came later
            self._ended(calls)
        else:
            self._ended(calls)  # first, so that the database works while we answer
            self._settle(calls, outcome, joined)

    def _ended(self, calls: Sequence[PendingCall]) -> None:
        self._lane.release(calls)
        if (
            self._gathers
            and (seconds := self._loop.time() - self._sent) > limits.SLOW_CALL_SECONDS * len(calls)
            and (len(calls) > 1 or self._lane.queue.accounts)
        ):
            self.expected = len(calls)
            self._sent += seconds
            pause = min(seconds * limits.GATHER_SHARE, limits.GATHER_SECONDS)
            self._timer = self._loop.call_later(pause, self._gathered)
            return
        self._busy = False
        if not self.go() and self._beside is not None:
            self._beside.go()

    def expect_one_less(self) -> None:
        """Takes note that a call has come; the last that is expected ends the wait."""
        self.expected -= 1
        if not self.expected:
            self._gathered()

    def _gathered(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.expected = 0
        self._busy = False
        self.go()

    async def _connect(self) -> None:
        """Tries until there is a session, or no call waits any more."""
        try:
            while True:
                try:
                    self.session = await self._open_session()
                    self._connected(self.session)
                    break
                except TimeoutError as error:  # which was wait enough
                    report_failure(error, self._observer)
                except psycopg.Error as error:
                    report_failure(error, self._observer)
                    await asyncio.sleep(limits.RECONNECT_SECONDS)
                if not self._waits():
                    break
        finally:
            self._connecting = None
        self.go()


def _statement(calls: Sequence[PendingCall], joined: bool) -> tuple[Any, Sequence[Any]]:
    """Returns the statement for these calls. For a batch, each parameter becomes an array."""
    first = calls[0].command
    if not joined:
        return first.statement, first.parameters
    columns = zip(*(call.command.parameters for call in calls), strict=True)
    return first.joined_statement, [list(column) for column in columns]
