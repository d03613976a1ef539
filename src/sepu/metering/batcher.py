"""The ledger for an event loop. Calls that come while one is under way share the next: a batch.

A batch is one statement, one round trip and one commit for many charges, over one session. A call that finds no batch
under way is sent at once. A batch does for each of its calls what the call alone would do. If the database refuses a
batch because of one account, the other calls are sent again at once, and that account's calls are sent one by one.
While a batch takes long, perhaps because of one account, a second batch takes the calls of other accounts.

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

import psycopg

from sepu import limits
from sepu.database.hosts import Hosts
from sepu.metering.calls import Done, FairQueue, PendingCall
from sepu.metering.commands import PROBE, RATE_LIMITED, UNAUTHORIZED, Command, find_key
from sepu.metering.failure import LedgerUnavailable, report_failure, report_fault
from sepu.metering.keys import Credential
from sepu.metering.observer import LedgerObserver
from sepu.metering.refusals import Refusals
from sepu.metering.session import Rows, Session

# Sessions for batches (the second for while the first takes long), for single calls, and for probes.
BATCH_SESSIONS = 2
SINGLE_SESSIONS = 3
PROBE_SESSIONS = 1

# Classes of errors that one call of a batch causes: its data, a constraint, a deadlock, a lock that it does not get.
_ONE_IS_TO_BLAME = ("22", "23", "40", "55")
_SWEEP_SECONDS = 0.1
# An event loop may be so early with a timer. Who takes that for too early asks for the next at once, without end.
_EARLY_SECONDS = 1e-5

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
        open_session = partial(connect, Hosts(database_url), limits.STATEMENT_SECONDS)
        self._loop = loop or asyncio.get_running_loop()
        self._join = join
        self._observer = observer = observer or LedgerObserver()
        self._queue = FairQueue()
        self._single = FairQueue()
        self._busy: set[str] = set()  # the marks of batches under way
        self._busy_single: set[str] = set()  # the marks of single calls under way: of each one at a time
        self._is_settling = False
        self._refusals = Refusals()
        self._probes = FairQueue()
        self._look_ups = FairQueue()
        self._next_look_up = float("-inf")
        self._look_up_timer: TimerHandle | None = None
        # The marks of calls that are sent one by one, or whose keys are looked up first; and until when.
        self._isolated: dict[str, float] = {}
        self._limited: dict[tuple[str, bytes], _Limited] = {}  # keys over the abuse limit
        self._sweep_timer: TimerHandle | None = None
        self._relief_timer: TimerHandle | None = None
        self._probed = float("-inf")
        self._ready = False
        self._asking: list[Callable[[bool], None]] = []

        def dispatcher(
            take: Callable[[], list[PendingCall]],
            waits: Callable[[], bool],
            *,
            keeps: bool,
            joins: bool = False,
            end: Done = lambda _: None,
        ) -> _Dispatcher:
            return _Dispatcher(
                open_session, self._loop, take, waits, self._settle, end, observer, keeps=keeps, joins=joins
            )

        self._batches = dispatcher(self._take, self._waits, keeps=True, end=self._ended)
        self._relief = dispatcher(self._take_relief, self._waits_relief, keeps=True, joins=True, end=self._ended_relief)
        self._prober = dispatcher(self._take_probe, lambda: bool(self._probes or self._look_ups), keeps=True)
        self._single_dispatchers = [
            dispatcher(self._take_single, self._waits_single, keeps=not join, end=self._ended_single)
            for _ in range(SINGLE_SESSIONS if join else SINGLE_SESSIONS + BATCH_SESSIONS)
        ]

    def submit(self, command: Command[Any], done: Done) -> None:
        """Sends a command as soon as may be; `done` gets its answer, or an exception."""
        self._observer.command_began()
        self._add(PendingCall(command, done, self._loop.time() + limits.QUEUE_SECONDS))

    def _add(self, call: PendingCall) -> None:
        if not call.is_verified and (call.mark in self._isolated or self._refusals.are_many(self._loop.time())):
            self._look_up(call)
        elif not self._join or call.mark in self._isolated:
            self._single.add(call)
            self._go_single()
        else:
            self._queue.add(call)
            self._batches.go()
            self._relieve_later()
        self._sweep_later()

    def is_limited(self, holder: Credential) -> bool:
        """Tells whether to refuse a key known to be over the abuse limit; the first requests still ask the ledger."""
        if not self._limited or (known := self._limited.get((holder.account_id, holder.key_hash))) is None:
            return False
        known.asked += 1
        return known.asked > limits.LIMITED_CALLS and known.until > self._loop.time()

    def poll(self) -> None:
        """Reads what the database has answered, so that the next batch is sent before the event loop's next turn.

        Not while calls are told their answers, or one within the other would read without end.
        """
        if not self._is_settling:
            self._batches.poll()

    def probe(self, done: Callable[[bool], None]) -> None:
        """Tells whether a charge could be committed now, by this release's migrations; known for a second."""
        if self._loop.time() - self._probed < limits.PROBE_SECONDS:
            done(self._ready)
            return
        self._asking.append(done)
        if len(self._asking) == 1:
            latest = self._loop.time() + limits.QUEUE_SECONDS
            self._observer.command_began()
            self._probes.add(PendingCall(PROBE, self._probe_ended, latest))
            self._prober.go()
            self._sweep_later()

    def look(self) -> None:
        """Probes if nobody has for a while; to be called again and again."""
        if self._loop.time() - self._probed >= limits.LOOK_SECONDS and not self._asking:
            self.probe(lambda _: None)

    async def close(self) -> None:
        """Ends the sessions. No call may wait any more."""
        for timer in (self._sweep_timer, self._relief_timer, self._look_up_timer):
            if timer is not None:
                timer.cancel()
        for dispatcher in (self._batches, self._relief, self._prober, *self._single_dispatchers):
            await dispatcher.close()

    def _take_probe(self) -> list[PendingCall]:
        """Takes a probe, or look-ups: together so many a second, and no more."""
        if self._probes or not self._look_ups:
            return self._probes.take(1)
        wait = self._next_look_up - self._loop.time()
        if wait > _EARLY_SECONDS:
            if self._look_up_timer is None:
                self._look_up_timer = self._loop.call_later(wait, self._look_up_again)
            return []
        calls = self._look_ups.take(limits.LOOK_UP_CALLS if self._join else 1)
        self._next_look_up = self._loop.time() + len(calls) / limits.LOOK_UPS_PER_SECOND
        return calls

    def _look_up_again(self) -> None:
        self._look_up_timer = None
        self._prober.go()

    def _look_up(self, call: PendingCall) -> None:
        """Sends a call once its key is known to be valid."""

        def done(is_valid: object) -> None:
            if is_valid is True:
                is_suspect = call.mark in self._isolated
                call.verify()
                self._observer.command_began()
                if call.latest <= self._loop.time():
                    self._fail(call)
                    return
                if is_suspect and call.mark not in self._isolated:
                    self._isolate([call])
                self._add(call)
            elif is_valid is False:
                self._refusals.count(self._loop.time())
                call.done(call.command.refused(UNAUTHORIZED))
            else:
                call.done(is_valid)

        command = find_key(Credential(*call.command.holder), call.command.sender)
        self._look_ups.add(PendingCall(command, done, call.latest))
        self._prober.go()
        self._sweep_later()

    def _probe_ended(self, answer: object) -> None:
        self._probed = self._loop.time()
        self._ready = answer is True
        self._observer.probed(self._ready)
        if not self._ready:
            self._prober.hang_up()  # perhaps no longer the primary: look for it anew
        asking, self._asking = self._asking, []
        for done in asking:
            _tell(done, self._ready)

    def _waits(self) -> bool:
        return self._queue.waits_beside(self._busy)

    def _take(self) -> list[PendingCall]:
        calls = self._queue.take(limits.BATCH_CALLS, self._busy)
        for call in calls:
            self._busy.add(call.mark)
        return calls

    def _ended(self, calls: Sequence[PendingCall]) -> None:
        for call in calls:
            self._busy.discard(call.mark)

    def _ended_relief(self, calls: Sequence[PendingCall]) -> None:
        self._ended(calls)
        self._batches.go()

    def _waits_relief(self) -> bool:
        return self._batches.busy_for() > limits.RELIEF_SECONDS and self._waits()

    def _take_relief(self) -> list[PendingCall]:
        return self._take() if self._waits_relief() else []

    def _relieve_later(self) -> None:
        if self._relief_timer is None and self._queue:
            self._relief_timer = self._loop.call_later(limits.RELIEF_SECONDS, self._relieve)

    def _relieve(self) -> None:
        self._relief_timer = None
        self._relief.go()
        self._relieve_later()

    def _waits_single(self) -> bool:
        return self._single.waits_beside(self._busy_single)

    def _take_single(self) -> list[PendingCall]:
        calls = self._single.take(1, self._busy_single)
        self._busy_single.update(call.mark for call in calls)
        return calls

    def _ended_single(self, calls: Sequence[PendingCall]) -> None:
        self._busy_single.difference_update(call.mark for call in calls)
        self._go_single()

    def _go_single(self) -> None:
        any(dispatcher.go() for dispatcher in self._single_dispatchers)

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
        self._queue.put_back(call for call in calls if call.latest > now)
        self._isolate(calls if blamed is None else [blamed])
        for call in calls:
            if call.latest <= now:  # or each refusal, of whomever, would make all wait longer
                self._fail(call)

    def _isolate(self, calls: Iterable[PendingCall]) -> None:
        """Sends the calls of these accounts one by one from now on: one that waits for a lock delays no others."""
        marks = {mark for call in calls for mark in call.suspects}
        self._isolated.update(dict.fromkeys(marks, self._loop.time() + limits.ISOLATED_SECONDS))
        for call in self._queue.take_where(lambda call: call.mark in marks):
            if call.is_verified:
                self._single.add(call)
                self._go_single()  # for each: it may wait for long
            else:
                self._look_up(call)
        self._sweep_later()

    def _answer(self, call: PendingCall, rows: Rows) -> None:
        self._observer.command_ended()
        outcome = rows[0][0]
        if outcome == RATE_LIMITED:
            self._limit(call)
        elif outcome == UNAUTHORIZED:
            self._refusals.count(self._loop.time())
        try:
            answer = call.command.read(rows)
        except Exception as error:  # an error of ours is an answer too
            answer = error
        _tell(call.done, answer)

    def _limit(self, refused: PendingCall) -> None:
        """Answers the calls that wait with a key over its abuse limit, as the ledger would in the same window."""
        now = self._loop.time()
        if (known := self._limited.get(refused.command.holder)) is None or known.until <= now:
            self._limited[refused.command.holder] = _Limited(now + limits.LIMITED_SECONDS)
        limited = []
        for call in self._queue.take_all(refused.turn):
            if call.command.holder == refused.command.holder:
                limited.append(call)
            else:
                self._queue.add(call)
        for call in limited:  # when all is in order: who is told may ask again at once
            self._observer.command_ended()
            _tell(call.done, call.command.refused(RATE_LIMITED))

    def _fail(self, call: PendingCall, error: Exception | None = None) -> None:
        self._observer.command_ended()
        if isinstance(error, psycopg.errors.UniqueViolation) and call.command.on_duplicate is not None:
            _tell(call.done, call.command.on_duplicate)
        else:
            _tell(call.done, LedgerUnavailable())

    def _sweep_later(self) -> None:
        waiting = self._queue or self._single or self._probes or self._look_ups
        if self._sweep_timer is None and (waiting or self._isolated or self._limited):
            self._sweep_timer = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Fails the calls that have waited too long, and forgets what is no longer known."""
        self._sweep_timer = None
        now = self._loop.time()
        for queue in (self._queue, self._single, self._probes, self._look_ups):
            for call in queue.take_where(lambda call: call.latest <= now):
                self._fail(call)
        self._limited = {key: known for key, known in self._limited.items() if known.until > now}
        self._isolated = {account: until for account, until in self._isolated.items() if until > now}
        self._sweep_later()


class _Limited:
    """What is known of a key over its abuse limit: until when, and how many requests came since."""

    __slots__ = ("asked", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self.asked = 0


def _tell(done: Done, answer: object) -> None:
    """Calls back. What a callback raises must not keep others from their answers."""
    try:
        done(answer)
    except Exception as raised:
        report_fault(raised)


def _blamed(calls: Sequence[PendingCall], error: Exception) -> PendingCall | None:
    """Gives the call that was refused: the detail of the error is its position, from 1."""
    detail = isinstance(error, psycopg.Error) and error.diag.message_detail
    if detail and detail.isdecimal() and 0 < int(detail) <= len(calls):
        return calls[int(detail) - 1]
    return None


class _Dispatcher:
    """Sends the calls that it takes over a session of its own, one batch at a time.

    It connects when a call `waits`, and afterwards keeps the session if `keeps` says so. If it `joins`, even one call
    goes as a batch, which waits less long for a lock.
    """

    def __init__(
        self,
        open_session: Callable[[], Awaitable[Session]],
        loop: asyncio.AbstractEventLoop,
        take: Callable[[], list[PendingCall]],
        waits: Callable[[], bool],
        settle: Callable[[Sequence[PendingCall], Rows | Exception, bool], None],
        end: Callable[[Sequence[PendingCall]], None],
        observer: LedgerObserver,
        *,
        keeps: bool,
        joins: bool,
    ) -> None:
        self._open_session = open_session
        self._loop = loop
        self._take = take
        self._waits = waits
        self._settle = settle
        self._end = end
        self._observer = observer
        self._keeps = keeps
        self._joins = joins
        self._session: Session | None = None
        self._busy = False
        self._sent = 0.0  # when, by the loop's time
        self._closed = False
        self._connecting: asyncio.Task[None] | None = None

    def go(self) -> bool:
        """Sends what waits. Tells whether it could: no batch and no connection was under way."""
        if self._closed or self._busy or self._connecting is not None:
            return False
        # PERF: a session is asked whether it is over only before a statement: that is a system call.
        if self._session is not None and not (self._waits() and self._session.is_over()):
            if calls := self._take():
                self._busy = True
                self._sent = self._loop.time()
                joined = len(calls) > 1 or (self._joins and calls[0].command.joined_statement is not None)
                self._session.send(*_statement(calls, joined), partial(self._arrived, calls, joined))
            elif not self._keeps:
                self._session.close()
        elif self._waits():
            self._connecting = self._loop.create_task(self._connect())
        return True

    def poll(self) -> None:
        """Reads the answer, if it has come."""
        if self._busy and self._session is not None:
            self._session.poll()

    def busy_for(self) -> float:
        """Tells for how many seconds a batch has been under way."""
        return self._loop.time() - self._sent if self._busy else 0.0

    def hang_up(self) -> None:
        """Ends the session; the next call has another."""
        if self._session is not None:
            self._session.close()

    async def close(self) -> None:
        """Ends the session for good."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        self.hang_up()

    def _arrived(self, calls: Sequence[PendingCall], joined: bool, outcome: Rows | Exception) -> None:
        if isinstance(outcome, Exception):
            if isinstance(outcome, psycopg.errors.ReadOnlySqlTransaction):
                self.hang_up()  # no longer the primary
            self._settle(calls, outcome, joined)  # first: what is repeated goes before what came later
            self._busy = False
            self._end(calls)
            self.go()
        else:
            self._busy = False
            self._end(calls)
            self.go()  # first, so that the database works while we answer
            self._settle(calls, outcome, joined)

    async def _connect(self) -> None:
        """Tries until there is a session, or no call waits any more."""
        try:
            while True:
                try:
                    self._session = await self._open_session()
                    self._observer.connected()
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
    """Gives the statement for these calls. For a batch, each parameter becomes an array."""
    first = calls[0].command
    if not joined:
        return first.statement, first.parameters
    columns = zip(*(call.command.parameters for call in calls), strict=True)
    return first.joined_statement, [list(column) for column in columns]
