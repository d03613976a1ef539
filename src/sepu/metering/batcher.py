"""The ledger for an event loop. Calls that come while one is under way share the next: a batch.

A batch is one statement, one round trip and one commit for many charges, over one session. A call that finds no batch
under way is sent at once. A batch does for each of its calls what the call alone would do. If the database refuses a
batch because of one account, the other calls are sent again at once, and that account's calls are sent one by one.
While a batch takes long, perhaps because of one account, a second batch takes the calls of other accounts. After a
batch that took long, the next one waits a little for the same clients.
"""

import asyncio
from asyncio import TimerHandle
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import psycopg

from sepu import limits
from sepu.database.connection import UnsafeSettingsError
from sepu.database.hosts import Hosts
from sepu.metering.callers import REMEMBERED, Callers
from sepu.metering.calls import Done, PendingCall
from sepu.metering.codec import Rows
from sepu.metering.commands import PROBE, Command, Probed
from sepu.metering.failure import LedgerUnavailable, report_failure, report_fault
from sepu.metering.lanes import BatchLane, Lane, Shared
from sepu.metering.observer import LedgerObserver
from sepu.metering.session import Session

# Sessions for batches (the second for while the first takes long), for single calls, and for probes.
BATCH_SESSIONS = 2
SINGLE_SESSIONS = 3
PROBE_SESSIONS = 1

# Classes of errors that one call of a batch causes: its data, a constraint, a deadlock, a lock that it does not get.
_ONE_IS_TO_BLAME = ("22", "23", "40", "55")
_SWEEP_SECONDS = 0.1

# Makes a session, whose statements may take so many seconds each.
Connect = Callable[[Hosts, float], Awaitable[Session]]


class Batcher:
    """Sends commands, in batches or each by itself; calls back with the answer or `LedgerUnavailable`."""

    def __init__(
        self,
        database_url: str,
        *,
        join: bool = True,
        observer: LedgerObserver | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        connect: Connect = Session.connect,
    ) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self._join = join
        self._observer = observer or LedgerObserver()
        self._connect = partial(connect, Hosts(database_url), limits.STATEMENT_SECONDS)
        shared = Shared(self._loop, self._open_session, self._settle, self._connected, self._observer)
        self.callers = Callers(self._loop.time, self._is_connected)
        self.batches = BatchLane(shared)
        self.singles = Lane(shared, SINGLE_SESSIONS if join else SINGLE_SESSIONS + BATCH_SESSIONS, keeps=not join)
        self.probes = Lane(shared, PROBE_SESSIONS)
        self._lanes: tuple[Lane, ...] = (self.batches, self.singles, self.probes)
        self.isolated: dict[str, float] = {}  # accounts whose calls are sent one by one, and until when
        self._sweep_timer: TimerHandle | None = None
        self._is_settling = False
        self._probed = float("-inf")
        self._ready = False
        self._asking: list[Callable[[bool], None]] = []

    def submit(self, command: Command[Any], done: Done) -> None:
        """Sends a command as soon as may be; `done` gets its answer, or an exception."""
        self._observer.command_began()
        self._add(PendingCall(command, done, self._loop.time() + limits.QUEUE_SECONDS))

    def _add(self, call: PendingCall) -> None:
        if not self._join or call.account in self.isolated:
            self.singles.add(call)
        else:
            self.batches.add(call)
        self._sweep_later()

    async def _open_session(self) -> Session:
        try:
            return await self._connect()
        except UnsafeSettingsError:
            self.probes.hang_up()  # its session may be older than the setting, and would call the database ready
            raise

    def _connected(self, session: Session) -> None:
        self._observer.connected()
        self._learn(session.key_secret, session)

    def _learn(self, key_secret: bytes, session: Session | None = None) -> None:
        """Takes the secret of keys. A session with a database that has another one must serve nobody any more."""
        if self.callers.learn(key_secret):
            for lane in self._lanes:
                for dispatcher in lane.dispatchers:
                    if session is None or dispatcher.session is not session:
                        dispatcher.hang_up()

    def _is_connected(self) -> bool:
        return any(dispatcher.is_connected() for lane in self._lanes for dispatcher in lane.dispatchers)

    def poll(self) -> None:
        """Reads what the database has answered, so that the next batch is sent before the event loop's next turn.

        Not while calls are told their answers, or one within the other would read without end.
        """
        if not self._is_settling:
            self.batches.first.poll()

    def probe(self, done: Callable[[bool], None]) -> None:
        """Returns whether a charge could be committed now, by this release's migrations; known for a second."""
        if self._loop.time() - self._probed < limits.PROBE_SECONDS:
            done(self._ready)
            return
        self._asking.append(done)
        if len(self._asking) == 1:
            self._observer.command_began()
            latest = self._loop.time() + limits.QUEUE_SECONDS
            self.probes.add(PendingCall(PROBE, self._probe_ended, latest))
            self._sweep_later()

    def look(self) -> None:
        """Probes if nobody has for a while, and sooner without a session; to be called again and again."""
        seconds = limits.LOOK_SECONDS if self._is_connected() else limits.PROBE_SECONDS
        if self._loop.time() - self._probed >= seconds and not self._asking:
            self.probe(lambda _: None)

    async def open(self) -> None:
        """Opens the session of the first call, and waits a while for it."""
        await (self.batches if self._join else self.singles).open()

    async def close(self) -> None:
        """Ends the sessions. No call may wait any more."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for lane in self._lanes:
            await lane.close()

    def _probe_ended(self, answer: object) -> None:
        self._probed = self._loop.time()
        self._ready = isinstance(answer, Probed) and answer.is_ready
        if isinstance(answer, Probed):
            self._learn(answer.key_secret)
            if answer.broken_settings is not None:
                report_failure(UnsafeSettingsError(answer.broken_settings), self._observer)
        self._observer.probed(self._ready)
        if not self._ready:
            self.probes.hang_up()  # perhaps no longer the primary: look for it anew
        asking, self._asking = self._asking, []
        for done in asking:
            _tell(done, self._ready)

    def _settle(self, calls: Sequence[PendingCall], outcome: Rows | Exception, joined: bool) -> None:
        """Gives each call its part of the outcome."""
        settled_within, self._is_settling = self._is_settling, True
        try:
            if isinstance(outcome, Exception):
                self._refuse(calls, outcome, joined)
            else:
                self._observer.call_answered(len(calls))
                if joined:
                    for position, rows in groupby(outcome, itemgetter(0)):
                        self._answer(calls[position - 1], [row[1:] for row in rows])
                else:
                    self._answer(calls[0], outcome)
        finally:
            self._is_settling = settled_within

    def _refuse(self, calls: Sequence[PendingCall], error: Exception, joined: bool) -> None:
        """Repeats a batch of which one call may be to blame; fails others."""
        if joined and (getattr(error, "sqlstate", None) or "").startswith(_ONE_IS_TO_BLAME):
            self._repeat(calls, error)
            return
        if isinstance(error, psycopg.errors.LockNotAvailable):
            self._isolate(calls)
        if not isinstance(error, psycopg.errors.UniqueViolation):
            report_failure(error, self._observer)
        for call in calls:
            self._fail(call, error)

    def _repeat(self, calls: Sequence[PendingCall], error: Exception) -> None:
        """Repeats refused calls at once, without the account that caused the error: its calls are sent one by one."""
        blamed = _blamed(calls, error)
        now = self._loop.time()
        self.batches.queue.put_back(call for call in calls if call.latest > now)
        self._isolate(calls if blamed is None else [blamed])
        for call in calls:
            if call.latest <= now:  # or each refusal, of whomever, would make all wait longer
                self._fail(call)

    def _isolate(self, calls: Iterable[PendingCall]) -> None:
        """Sends the calls of these accounts one by one from now on: one that waits for a lock delays no others."""
        self.isolated.update(
            dict.fromkeys((call.account for call in calls), self._loop.time() + limits.ISOLATED_SECONDS)
        )
        # Also those put back whose accounts were isolated for another call while they were under way.
        for call in self.batches.queue.take_where(lambda call: call.account in self.isolated):
            self.singles.add(call)
        self._sweep_later()

    def _answer(self, call: PendingCall, rows: Rows) -> None:
        self._observer.command_ended()
        outcome = rows[0][0]
        if outcome in REMEMBERED:
            self._remember(call, outcome)
        try:
            answer = call.command.read(rows)
        except Exception as error:  # an error of ours is an answer too
            answer = error
        _tell(call.done, answer)

    def _remember(self, refused: PendingCall, code: str) -> None:
        """Answers the calls that wait with the same key, as the ledger would."""
        key_hash = refused.command.key_hash
        self.callers.refuse(key_hash, code)
        # Takes them all first: a callback may submit again immediately.
        waiting = [
            call
            for lane in (self.batches, self.singles)
            for call in lane.queue.take_where(lambda call: call.command.key_hash == key_hash, refused.account)
        ]
        for call in waiting:
            self._observer.command_ended()
            _tell(call.done, call.command.refused(code))

    def _fail(self, call: PendingCall, error: Exception | None = None) -> None:
        self._observer.command_ended()
        if isinstance(error, psycopg.errors.UniqueViolation) and call.command.on_duplicate is not None:
            _tell(call.done, call.command.on_duplicate)
        else:
            _tell(call.done, LedgerUnavailable())

    def _sweep_later(self) -> None:
        if self._sweep_timer is None and (self.isolated or any(lane.queue.accounts for lane in self._lanes)):
            self._sweep_timer = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Fails the calls that have waited too long, and ends isolation that is over."""
        self._sweep_timer = None
        now = self._loop.time()
        for lane in self._lanes:
            for call in lane.queue.take_where(lambda call: call.latest <= now):
                self._fail(call)
        self.isolated = {account: until for account, until in self.isolated.items() if until > now}
        self._sweep_later()


def _tell(done: Done, answer: object) -> None:
    """Calls back. What a callback raises must not keep others from their answers."""
    try:
        done(answer)
    except Exception as raised:
        report_fault(raised)


def _blamed(calls: Sequence[PendingCall], error: Exception) -> PendingCall | None:
    """Returns the call that was refused: the detail of the error is its position, from 1."""
    detail = isinstance(error, psycopg.Error) and error.diag.message_detail
    if detail and detail.isdecimal() and 0 < int(detail) <= len(calls):
        return calls[int(detail) - 1]
    return None
