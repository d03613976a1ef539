"""The ledger for an event loop. Calls that come while one is under way share the next: a batch.

A batch is one statement, one round trip and one commit for many charges, over one session. A call that finds no batch
under way is sent at once. A batch does for each of its calls what the call alone would do. If the database refuses a
batch because of one account, the other calls are sent again at once, and that account's calls are sent one by one.
While a batch takes long, perhaps because of one account, a second batch takes the calls of other accounts. After a
batch that took long, the next one waits a little for the same clients.

A key that is not verified may be made up, and name any account. A call with one takes a turn of its sender's address,
and only others like it wait for its end. Its key is looked up first if many keys were refused of late, or before its
account goes alone: no account does so because of a key that is made up.
"""

import asyncio
from asyncio import TimerHandle
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
import psycopg

from sepu import limits
from sepu.database.hosts import Hosts
from sepu.metering.calls import Done, PendingCall
from sepu.metering.codec import Rows
from sepu.metering.commands import PROBE, RATE_LIMITED, UNAUTHORIZED, Command, find_key
from sepu.metering.failure import LedgerUnavailable, report_failure, report_fault
from sepu.metering.key_format import Credential
from sepu.metering.lanes import BatchLane, Lane, LookUpLane, Shared
from sepu.metering.observer import LedgerObserver
from sepu.metering.refused_keys import RefusedKeys
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
        open_session = partial(connect, Hosts(database_url), limits.STATEMENT_SECONDS)
        shared = Shared(self._loop, open_session, self._settle, self._observer)
        self.batches = BatchLane(shared)
        self.singles = Lane(shared, SINGLE_SESSIONS if join else SINGLE_SESSIONS + BATCH_SESSIONS, keeps=not join)
        self.look_ups = LookUpLane(shared, PROBE_SESSIONS, most=limits.LOOK_UP_CALLS if join else 1)
        # The marks of calls that are sent one by one, or whose keys are looked up first; and until when.
        self.isolated: dict[str, float] = {}
        self._queues = (self.batches.queue, self.singles.queue, self.look_ups.queue, self.look_ups.probes)
        self._limited: dict[tuple[str, bytes], _Limited] = {}  # keys over the abuse limit
        self._refused_keys = RefusedKeys()
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
        if not call.is_verified and (call.mark in self.isolated or self._refused_keys.are_many(self._loop.time())):
            self._look_up(call)
        elif not self._join or call.mark in self.isolated:
            self.singles.add(call)
        else:
            self.batches.add(call)
        self._sweep_later()

    def is_limited(self, holder: Credential) -> bool:
        """Returns whether to refuse a key known to be over the abuse limit; the first requests still ask the ledger."""
        if not self._limited or (known := self._limited.get((holder.account_id, holder.key_hash))) is None:
            return False
        known.asked += 1
        return known.asked > limits.LIMITED_CALLS and known.until > self._loop.time()

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
            self.look_ups.probes.add(PendingCall(PROBE, self._probe_ended, latest))
            self.look_ups.go()
            self._sweep_later()

    def look(self) -> None:
        """Probes if nobody has for a while; to be called again and again."""
        if self._loop.time() - self._probed >= limits.LOOK_SECONDS and not self._asking:
            self.probe(lambda _: None)

    async def open(self) -> None:
        """Opens the session of the first call, and waits a while for it."""
        await (self.batches if self._join else self.singles).open()

    async def close(self) -> None:
        """Ends the sessions. No call may wait any more."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for lane in (self.batches, self.singles, self.look_ups):
            await lane.close()

    def _look_up(self, call: PendingCall) -> None:
        """Sends a call once its key is known to be valid."""

        def done(is_valid: object) -> None:
            if is_valid is True:
                is_suspect = call.mark in self.isolated
                call.verify()
                self._observer.command_began()
                if call.latest <= self._loop.time():
                    self._fail(call)
                    return
                if is_suspect and call.mark not in self.isolated:
                    self._isolate([call])
                self._add(call)
            elif is_valid is False:
                self._refused_keys.count(self._loop.time())
                call.done(call.command.refused(UNAUTHORIZED))
            else:
                call.done(is_valid)

        command = find_key(Credential(*call.command.holder), call.command.sender)
        self.look_ups.add(PendingCall(command, done, call.latest))
        self._sweep_later()

    def _probe_ended(self, answer: object) -> None:
        self._probed = self._loop.time()
        self._ready = answer is True
        self._observer.probed(self._ready)
        if not self._ready:
            for dispatcher in self.look_ups.dispatchers:
                dispatcher.hang_up()  # perhaps no longer the primary: look for it anew
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
        """Repeats a batch of which one call may be to blame, and a call whose key is not verified; or fails them."""
        if not calls[0].command.is_look_up:
            may_be_repeated = joined or not calls[0].is_verified
            if may_be_repeated and (getattr(error, "sqlstate", None) or "").startswith(_ONE_IS_TO_BLAME):
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
        marks = {mark for call in calls for mark in call.suspects}
        self.isolated.update(dict.fromkeys(marks, self._loop.time() + limits.ISOLATED_SECONDS))
        # Also those put back whose accounts were isolated for another call while they were under way.
        for call in self.batches.queue.take_where(lambda call: call.mark in self.isolated):
            if call.is_verified:
                self.singles.add(call)
            else:
                self._look_up(call)
        self._sweep_later()

    def _answer(self, call: PendingCall, rows: Rows) -> None:
        self._observer.command_ended()
        outcome = rows[0][0]
        if outcome == RATE_LIMITED:
            self._limit(call)
        elif outcome == UNAUTHORIZED:
            self._refused_keys.count(self._loop.time())
        try:
            answer = call.command.read(rows)
        except Exception as error:  # an error of ours is an answer too
            answer = error
        _tell(call.done, answer)

    def _limit(self, refused: PendingCall) -> None:
        """Answers the calls that wait with a key over its abuse limit, as the ledger would in the same window."""
        now = self._loop.time()
        holder = refused.command.holder
        if (known := self._limited.get(holder)) is None or known.until <= now:
            self._limited[holder] = _Limited(now + limits.LIMITED_SECONDS)
        # Taken all at once: who is told may ask again at once.
        for call in self.batches.queue.take_where(lambda call: call.command.holder == holder, refused.turn):
            self._observer.command_ended()
            _tell(call.done, call.command.refused(RATE_LIMITED))

    def _fail(self, call: PendingCall, error: Exception | None = None) -> None:
        self._observer.command_ended()
        if isinstance(error, psycopg.errors.UniqueViolation) and call.command.on_duplicate is not None:
            _tell(call.done, call.command.on_duplicate)
        else:
            _tell(call.done, LedgerUnavailable())

    def _sweep_later(self) -> None:
        if self._sweep_timer is None and (self.isolated or self._limited or any(queue.turns for queue in self._queues)):
            self._sweep_timer = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Fails the calls that have waited too long, and forgets what is no longer known."""
        self._sweep_timer = None
        now = self._loop.time()
        for queue in self._queues:
            for call in queue.take_where(lambda call: call.latest <= now):
                self._fail(call)
        self._limited = {key: known for key, known in self._limited.items() if known.until > now}
        self.isolated = {mark: until for mark, until in self.isolated.items() if until > now}
        self._sweep_later()


class _Limited(msgspec.Struct):
    """What is known of a key over its abuse limit: until when, and how many requests came since."""

    until: float
    asked: int = 0


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
