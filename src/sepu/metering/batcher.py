"""Sends an event loop's calls to the ledger. Calls that arrive while a statement runs share the next one, as a batch.

A batch is one statement, one round trip and one commit for many calls. Each call has the same effect as if it were sent
alone. If the database refuses a batch because of one account, the calls are sent again; for a while, that account's
calls go one by one. `lanes.py` decides when a call is sent, and over which session.
"""

import asyncio
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
from sepu.metering.codec import Rows
from sepu.metering.commands import PROBE, Command, Probed
from sepu.metering.failure import LedgerUnavailable, report_failure, report_fault
from sepu.metering.fair_queue import Done, PendingCall
from sepu.metering.lanes import BatchLane, Hooks, Lane
from sepu.metering.nodes import NodeWatch
from sepu.metering.observer import LedgerObserver
from sepu.metering.session import Session, SessionLost

# Sessions for batches (the second is used while the first is slow), for single calls, and for probes. Without batches,
# BATCH_SESSIONS serves only isolated accounts, and SINGLE_SESSIONS all others.
BATCH_SESSIONS = 2
SINGLE_SESSIONS = 3
PROBE_SESSIONS = 1
# For looks at the nodes of a Citus cluster.
NODE_SESSIONS = 1

# SQLSTATE classes of errors that one call in a batch can cause: bad data, a constraint, a deadlock, a lock timeout.
_ONE_IS_TO_BLAME = ("22", "23", "40", "55")
_SWEEP_SECONDS = 0.1

# Opens a session. The number is how many seconds each of its statements may take.
Connect = Callable[[Hosts, float], Awaitable[Session]]


class Batcher:
    """Sends commands in batches or one by one; passes each answer, or an exception, to its callback."""

    def __init__(
        self,
        database_url: str,
        *,
        join: bool = True,
        observer: LedgerObserver | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        connect: Connect = Session.connect,
    ) -> None:
        """Takes the database's URL, but does not connect yet. Without `join`, there are no batches."""
        self._loop = loop or asyncio.get_running_loop()
        self._join = join
        self._observer = observer or LedgerObserver()
        self._connect = partial(connect, Hosts(database_url), limits.database.STATEMENT_SECONDS)
        hooks = Hooks(self._loop, self._open_session, self._settle, self._connected, self._observer)
        self.callers = Callers(self._loop.time, self._is_connected)
        self.batches = BatchLane(hooks) if join else Lane(hooks, SINGLE_SESSIONS)
        self.singles = Lane(hooks, SINGLE_SESSIONS if join else BATCH_SESSIONS, closes_idle=True)
        self.probes = Lane(hooks, PROBE_SESSIONS)
        self.nodes = NodeWatch(self._loop.time, self._observer)
        self.nodes.lane = Lane(
            Hooks(self._loop, self._open_session, self.nodes.settle, self._connected, self._observer),
            NODE_SESSIONS,
            closes_idle=True,
        )
        self._lanes = (self.batches, self.singles, self.probes, self.nodes.lane)
        self.isolated: dict[str, float] = {}  # when each account's isolation ends
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._is_settling = False
        self._probed_at = float("-inf")
        self._is_ready = False
        self._probing: list[Callable[[bool], None]] = []  # callbacks waiting for the current probe

    async def open(self) -> None:
        """Opens a session before the first call, but waits only a limited time for it."""
        await self.batches.open()

    async def close(self) -> None:
        """Ends the sessions. No call may be waiting."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for lane in self._lanes:
            await lane.close()

    # From a call to its answer

    def submit(self, command: Command[Any], done: Done) -> None:
        """Sends a command as soon as its turn comes; `done` gets the answer, or an exception."""
        self._observer.command_began()
        call = PendingCall(command, done, self._loop.time() + limits.database.QUEUE_SECONDS)
        (self.singles if call.account in self.isolated else self.batches).add(call)
        self._sweep_later()

    def poll(self) -> None:
        """Reads a batch's answer if it has arrived, so that the next batch is sent before the loop's next turn.

        Does nothing while answers are being delivered; otherwise a callback that polls would recurse without bound.
        """
        if not self._is_settling:
            self.batches.dispatchers[0].poll()

    def _settle(self, calls: Sequence[PendingCall], outcome: Rows | Exception, joined: bool) -> None:
        """Gives each call its part of a statement's outcome. The lanes call this."""
        settled_within, self._is_settling = self._is_settling, True
        try:
            if isinstance(outcome, Exception):
                self._retry_or_fail(calls, outcome, joined)
            else:
                self._observer.call_answered(len(calls))
                if joined:
                    for position, rows in groupby(outcome, itemgetter(0)):
                        self._answer(calls[position - 1], [row[1:] for row in rows])
                else:
                    self._answer(calls[0], outcome)
        finally:
            self._is_settling = settled_within

    def _answer(self, call: PendingCall, rows: Rows) -> None:
        outcome = rows[0][0]
        if outcome in REMEMBERED:
            self._refuse_waiting(call, outcome)
        try:
            answer = call.command.read(rows)
        except Exception as error:  # the caller must get an answer even then
            answer = error
        self._end(call, answer)

    def _refuse_waiting(self, refused: PendingCall, code: str) -> None:
        """Remembers that the ledger refused a key, and refuses the waiting calls with that key."""
        key_hash = refused.command.key_hash
        self.callers.remember(key_hash, code)
        # Takes them all first: a callback may submit again immediately.
        waiting = [
            call
            for lane in (self.batches, self.singles)
            for call in lane.queue.take_where(lambda call: call.command.key_hash == key_hash, refused.account)
        ]
        for call in waiting:
            self._end(call, call.command.refused(code))

    def _retry_or_fail(self, calls: Sequence[PendingCall], error: Exception, joined: bool) -> None:
        """Retries a batch if one of its calls may have caused the error.

        Otherwise fails the calls: a lost batch may have committed. A call not sent as a batch is never retried.
        """
        if joined and (getattr(error, "sqlstate", None) or "").startswith(_ONE_IS_TO_BLAME):
            self._retry(calls, error)
            return
        if isinstance(error, psycopg.errors.LockNotAvailable):
            self._isolate(calls)
        elif isinstance(error, SessionLost) and not self._join:  # a Citus node may not be answering
            self._isolate(calls, limits.batches.UNANSWERED_SECONDS)
        is_duplicate = isinstance(error, psycopg.errors.UniqueViolation)
        if not is_duplicate:
            report_failure(error, self._observer)
        for call in calls:
            on_duplicate = call.command.on_duplicate if is_duplicate else None
            self._end(call, LedgerUnavailable() if on_duplicate is None else on_duplicate)

    def _retry(self, calls: Sequence[PendingCall], error: Exception) -> None:
        """Sends a refused batch's calls again, except late ones. Isolates the blamed account, or all if unknown."""
        blamed = _blamed(calls, error)
        now = self._loop.time()
        self.batches.queue.put_back(call for call in calls if call.latest > now)
        self._isolate(calls if blamed is None else [blamed])
        for call in calls:
            if call.latest <= now:  # retrying these too would extend everyone's wait
                self._end(call, LedgerUnavailable())

    def _isolate(self, calls: Iterable[PendingCall], seconds: float = limits.batches.ISOLATED_SECONDS) -> None:
        """Sends these accounts' calls one by one for a while, so that they do not delay other accounts' batches."""
        until = self._loop.time() + seconds
        self.isolated.update(dict.fromkeys([call.account for call in calls], until))
        # Check every waiting call: one just put back may be from an account isolated in the meantime.
        for call in self.batches.queue.take_where(lambda call: call.account in self.isolated):
            self.singles.add(call)
        self._sweep_later()

    def _end(self, call: PendingCall, answer: object) -> None:
        self._observer.command_ended()
        _call_back(call.done, answer)

    def _sweep_later(self) -> None:
        if self._sweep_timer is not None:
            return
        batches, singles, probes, nodes = self._lanes
        waiting = batches.queue.accounts or singles.queue.accounts or probes.queue.accounts or nodes.queue.accounts
        if waiting or self.isolated:
            self._sweep_timer = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Fails calls that have waited too long, and ends isolations whose time is up."""
        self._sweep_timer = None
        now = self._loop.time()
        for lane in self._lanes:
            for call in lane.queue.take_where(lambda call: call.latest <= now):
                self._end(call, LedgerUnavailable())
        self.isolated = {account: until for account, until in self.isolated.items() if until > now}
        self._sweep_later()

    # Whether the database answers, and which database it is

    def probe(self, done: Callable[[bool], None]) -> None:
        """Calls `done` with True if a charge can be committed now, else False. Caches the result for a second."""
        if self._loop.time() - self._probed_at < limits.probes.PROBE_SECONDS:
            done(self._is_ready)
            return
        self._probing.append(done)
        if len(self._probing) == 1:
            self._observer.command_began()
            self.probes.add(PendingCall(PROBE, self._probe_ended, self._loop.time() + limits.database.QUEUE_SECONDS))
            self._sweep_later()

    def probe_if_due(self) -> None:
        """Probes if the last probe was long ago; sooner if there is no session. The worker calls this often."""
        seconds = limits.probes.LOOK_SECONDS if self._is_connected() else limits.probes.PROBE_SECONDS
        if self._loop.time() - self._probed_at >= seconds and not self._probing:
            self.probe(lambda _: None)

    def _probe_ended(self, answer: object) -> None:
        self._probed_at = self._loop.time()
        self._is_ready = isinstance(answer, Probed) and answer.is_ready
        if isinstance(answer, Probed):
            self._learn_secret(answer.key_secret)
            if answer.broken_settings is not None:
                report_failure(UnsafeSettingsError(answer.broken_settings), self._observer)
            self.nodes.look_if_due(answer.nodes)
            self._sweep_later()
        self._observer.probed(self._is_ready)
        if not self._is_ready:
            self.probes.disconnect()  # perhaps no longer the primary; the next probe finds the new one
        probing, self._probing = self._probing, []
        for done in probing:
            _call_back(done, self._is_ready)

    async def _open_session(self) -> Session:
        try:
            return await self._connect()
        except UnsafeSettingsError:
            self.probes.disconnect()  # a session with the old settings would still report ready
            raise

    def _connected(self, session: Session) -> None:
        self._observer.connected()
        self._learn_secret(session.key_secret, session)

    def _learn_secret(self, key_secret: bytes, session: Session | None = None) -> None:
        """Keeps the secret for key tags. If it has changed, ends all sessions but `session`."""
        if self.callers.learn_secret(key_secret):
            for lane in self._lanes:
                for dispatcher in lane.dispatchers:
                    if session is None or dispatcher.session is not session:
                        dispatcher.disconnect()

    def _is_connected(self) -> bool:
        return any(dispatcher.is_connected() for lane in self._lanes for dispatcher in lane.dispatchers)


def _call_back(done: Done, answer: object) -> None:
    """Calls a callback. If it raises an exception, the other callbacks must still get their answers."""
    try:
        done(answer)
    except Exception as raised:
        report_fault(raised)


def _blamed(calls: Sequence[PendingCall], error: Exception) -> PendingCall | None:
    """Returns the call to blame, if known: the error's detail is the call's 1-based position."""
    detail = isinstance(error, psycopg.Error) and error.diag.message_detail
    if detail and detail.isdecimal() and 0 < int(detail) <= len(calls):
        return calls[int(detail) - 1]
    return None
