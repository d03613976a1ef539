"""One schedule of the batcher: clients, a database and its faults, drawn from a seed, and the invariants."""

import asyncio
import logging
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import UUID

import psycopg
from async_solipsism import EventLoop, ResolutionWarning, SleepForeverError
from tests.schedules.database import FAULTS, REFUSALS, Call, Database, KeyHash, SimulatedSession, State

from sepu import limits
from sepu.metering import failure
from sepu.metering.batcher import Batcher
from sepu.metering.callers import REMEMBERED
from sepu.metering.codec import Rows
from sepu.metering.commands import (
    RATE_LIMITED,
    UNAUTHORIZED,
    Charge,
    Command,
    Metered,
    admit,
    meter_request,
    read_usage,
)
from sepu.metering.failure import LedgerUnavailable
from sepu.metering.key_format import Credential, KeyTags
from sepu.metering.queues import Queue, make_queues
from sepu.metering.session import SessionLost

SESSIONS = sum(len(queue.slots) for queue in make_queues(batches=True))  # that a batcher may have
_LOOK_SECONDS = 0.1  # between checks for overdue calls and late answers
# The longest wait of a client: for its turn, its statement, and two such checks.
MAX_WAIT = limits.database.QUEUE_SECONDS + limits.database.STATEMENT_SECONDS + 2 * _LOOK_SECONDS + 0.001
# While only one account's rows are locked, others wait for the lock in its batch.
MAX_NEIGHBOUR_WAIT = limits.database.BATCH_LOCK_SECONDS + 0.1
# Requests of clients: metered ones, the library, the usage.
_KINDS = ("m", "m", "mmmmau", "a", "u")
# Probability of a revoked key.
_REVOKED = (0.0, 0.3, 1.0)
REPEATED = ("22", "23", "40", "55")  # error classes after which a batch is sent again

logging.getLogger("asyncio").setLevel(logging.CRITICAL)


class Schedule:
    """Plays one schedule."""

    def __init__(self, seed: int) -> None:
        self.calls = 0
        self.broken: list[str] = []  # violated invariants
        self.reached: Counter[str] = Counter()  # events, and how often
        self._trace: list[tuple[float, tuple[object, ...]]] = []
        self._random = random = Random(seed)
        self._mode = random.choices(("calm", "locked", "trouble"), (1, 2, 5))[0]
        self._join = random.random() < 0.95
        small = self._mode != "trouble"
        self._latency = random.choice((0.0005, 0.002) if small else (0.0005, 0.005, 0.03))
        self._overflow_seconds = limits.batches.OVERFLOW_SECONDS if random.random() < 0.7 else 0.04
        self._batch_calls = limits.batches.CALLS if small else random.choice((1, 2, 3, limits.batches.CALLS))
        self._revoked = random.choice(_REVOKED)
        self._names = "abcdef"[: random.choice((1, 2, 2, 3, 3, 4, 6))]
        self._waiting: defaultdict[str, dict[int, Call]] = defaultdict(dict)  # unanswered, by account, in order
        self._locked: str | None = None
        self._isolated: dict[str, float] = {}
        self._refused: dict[bytes, tuple[str, float]] = {}  # by key: the reason, and when the database last gave it
        self._passed_over: Counter[int] = Counter()  # batches sent before an account's next call
        self._statements = 0
        self._thinking = 0  # clients that will ask again
        self._served_from = float("inf")

    def play(self) -> None:
        """Plays it, and records violations in `broken`."""
        self._loop = loop = EventLoop()
        loop.set_exception_handler(self._failed)
        try:
            with (
                warnings.catch_warnings(action="ignore", category=ResolutionWarning),  # nearly equal instants
                patch.multiple(limits.batches, CALLS=self._batch_calls, OVERFLOW_SECONDS=self._overflow_seconds),
                patch.object(failure.log, "disabled", new=True),
            ):
                loop.run_until_complete(self._play())
                quiet_from = max(loop.time(), self._database.quiet_from)
                try:
                    loop.run_until_complete(loop.create_future())
                except SleepForeverError:
                    self._check(loop.time() <= quiet_from + 1e-5, "close() left a timer behind")
        except AssertionError as error:
            self.broken.append(str(error))
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    def trace(self) -> list[str]:
        """The events, with virtual seconds."""
        return [f"{time:9.6f}  {_line(parts)}" for time, parts in self._trace]

    # --- What happens

    async def _play(self) -> None:
        random, loop = self._random, self._loop
        requests = {name: random.choice((4, 1000, 1000, 1000)) for name in self._names}
        self._database = database = Database(loop, random, requests, self._latency, self._sent, self._told, self._note)
        self._batcher = Batcher("postgresql://one/sepu", batches=self._join, loop=loop, connect=database.connect)
        until = 1.2 if self._mode == "locked" else random.choice((0.05, 0.2, 0.4, 1.2))
        for _ in range(random.choice((1, 2, 2, 3, 5))):
            self._add_client(until)
        if self._mode == "locked":
            self._locked = random.choice(self._names)
            database.call_later(random.random() * until, database.locked.add, self._locked)
            database.names_blamed = random.random() < 0.5
        elif self._mode == "trouble":
            database.faults = random.choice((0.0, 0.05, 0.3, 0.5))
            database.fates = random.choice((FAULTS, REFUSALS))
            for _ in range(random.randint(0, 3)):
                self._add_trouble(until)
        await asyncio.sleep(until)
        self._note("the trouble ends")
        database.faults = 0.0
        database.refuses = database.silent = False
        database.locked.clear()
        database.unblock()
        # Waits for the last unanswered statement or connection, which may be a probe's, and then for the next probe,
        # which sees who answers.
        await asyncio.sleep(limits.database.STATEMENT_SECONDS + 0.2 + limits.probes.PROBE_SECONDS)
        self._batcher.probe(lambda _: None)
        await asyncio.sleep(limits.probes.PROBE_SECONDS)
        self._served_from = loop.time()
        for account in self._names:
            self._ask(account, random.choice(_KINDS))
        probed: list[bool] = []
        database.call_later(limits.probes.PROBE_SECONDS, self._batcher.probe, probed.append)
        if random.random() < 0.9:
            await asyncio.sleep(MAX_WAIT)
        else:  # closes as soon as nobody waits, possibly while it connects
            while self._thinking or any(self._waiting.values()) or not probed:
                assert loop.time() < self._served_from + 2 * MAX_WAIT, "nobody answers"
                await asyncio.sleep(0.1)
        self._check(probed == [True], "a probe is told", probed)
        key = KeyTags(database.key_secret).new_key("a" * 16)
        self._check(self._batcher.callers.recognise(key), "the keys of the database that answers are refused")
        for calls in self._waiting.values():
            self._check(not calls, "nobody answers", [*calls.values()])
        await self._batcher.close()
        self._check(not database.sessions and not database.connecting, "close() left a session behind")

    def _add_client(self, until: float) -> None:
        """Adds a client that asks again when answered, or many that ask at the same time."""
        random = self._random
        account, kinds = random.choice(self._names), random.choice(_KINDS)
        start = random.random() * until
        if random.random() < 0.5:
            alone = random.choice((1.0, 0.3))
            for _ in range(random.choice((1, 3, 6, 9, 12))):
                asking = account if random.random() < alone else random.choice(self._names)
                self._database.call_later(start, self._ask, asking, kinds)
        else:
            thinks = random.choice((0.0, 0.0, 0.001, 0.1))
            self._database.call_later(start, self._ask_again, account, kinds, random.randint(2, 8), thinks)

    def _ask_again(self, account: str, kinds: str, times: int, thinks: float) -> None:
        def again() -> None:
            self._thinking -= 1
            self._ask_again(account, kinds, times - 1, thinks)

        def answered() -> None:
            self._thinking += 1
            if thinks:
                self._database.call_later(self._random.random() * thinks, again)
            else:
                again()

        self._ask(account, kinds, answered if times > 1 else lambda: None)

    def _add_trouble(self, until: float) -> None:
        random, database = self._random, self._database
        start = random.random() * until
        end = start + random.random() * (until - start)
        kind = random.choice(("lock", "refuses", "silent", "hang up", "key_secret"))
        if kind == "lock":
            account = random.choice(self._names)
            database.call_later(start, database.locked.add, account)
            database.call_later(end, self._unlock, account)
        elif kind == "key_secret":  # another database answers, with or without broken sessions
            database.call_later(start, setattr, database, kind, random.randbytes(32))
        elif kind != "hang up":
            database.call_later(start, setattr, database, kind, True)
            database.call_later(end, setattr, database, kind, False)
        if kind in ("refuses", "hang up"):
            database.call_later(start, self._hang_up_all)

    def _unlock(self, account: str) -> None:
        self._database.locked.discard(account)
        self._database.unblock()

    def _hang_up_all(self) -> None:
        for session in sorted(self._database.sessions, key=str):
            self._database.hang_up(session)

    def _ask(self, account: str, kinds: str, then: Callable[[], object] = lambda: None) -> None:
        random, batcher = self._random, self._batcher
        number = self.calls = self.calls + 1
        make = _MAKERS[random.choice(kinds)]
        key_hash = KeyHash(b"%s-%d" % (account.encode(), random.random() < 0.4))
        if random.random() < self._revoked:
            key_hash = KeyHash(b"%s revoked" % account.encode())
            key_hash.is_revoked = True
        command = make(Credential(account, key_hash))
        call = key_hash.call = Call(number, command, self._loop.time(), account)
        if random.random() < 0.5 and (code := batcher.callers.refusal(Credential(account, key_hash))) is not None:
            self._check(self._is_refused(call, code), call, "is refused, and the database did not say so:", code)
            return
        self._waiting[call.account][number] = call
        self._note("ask", call, call.command.parameters[2:])
        batcher.submit(call.command, partial(self._answered, call, then))
        if random.random() < 0.2:
            batcher.poll()
        if random.random() < 0.05:
            self._loop.call_soon(batcher.probe, lambda _: None)

    # --- What must hold

    def _check(self, holds: object, *otherwise: object) -> None:
        if not holds:
            self._note("!!!", *otherwise)
            self.broken.append(_line(otherwise))

    def _failed(self, _loop: object, context: dict[str, Any]) -> None:
        self._check(None, context["message"], context.get("exception"))

    def _sent(self, session: SimulatedSession, calls: list[Call]) -> None:
        now = self._loop.time()
        self._statements += 1
        assert self._statements < 10_000, "statements without end"
        for call in calls:
            self._check(
                call.state is State.WAITING or (call.state is State.REFUSED and _may_be_repeated(call)),
                call,
                "is sent again, and may have been executed",
            )
            self._check(call.answers == 0, call, "is sent and was answered")
            self._check(
                now - call.submitted <= MAX_WAIT - limits.database.STATEMENT_SECONDS - _LOOK_SECONDS,
                call,
                "is sent late",
            )
            self.reached["sent again"] += call.state is State.REFUSED
        shared, isolated = self._batcher.shared, self._batcher.isolated
        accounts = Counter(call.account for call in calls)
        for queue in (shared, isolated):
            sessions = [slot.session for slot in queue.slots if isinstance(slot.session, SimulatedSession)]
            if session not in sessions:
                continue
            others = {call.account for other in sessions if other is not session for call in other.calls}
            both = accounts.keys() & others
            self._check(not both, "two sessions hold", both)
            self._check_order(calls, queue)
            if queue is shared:
                if self._join:
                    self.reached["batch beside another"] += session is not shared.slots[0].session
                self._check(len(calls) <= (self._batch_calls if self._join else 1), "a batch of", len(calls))
                for call in calls:
                    self._check(self._isolated.get(call.account, 0.0) <= now, call, "is in a batch, and goes alone")
                self._check_turns(calls, accounts, others, queue)
            else:
                self.reached["call that goes alone"] += 1
                self._check(len(calls) == 1, len(calls), "together, and should go alone")
                until = self._isolated.get(calls[0].account, -9.0) + 2 * _LOOK_SECONDS
                self._check(until >= calls[0].submitted, calls[0], "goes alone without need")
            return
        self._check(not calls, calls, "goes over another's session")

    def _check_order(self, calls: list[Call], queue: Queue) -> None:
        """Checks that no earlier call of the account is left behind in the same queue."""
        now = self._loop.time()
        for at, call in enumerate(calls):
            waiting = (*queue.ready.get(call.account, ()), *queue.held.get(call.account, ()))
            left = {command.parameters[1].call for command in waiting}
            for earlier in self._waiting[call.account].values():
                if earlier is call:
                    break
                if earlier in calls[:at] or earlier.state in (State.SENT, State.LOST, State.SERVED):
                    continue
                if earlier.state is State.REFUSED and not _may_be_repeated(earlier):
                    continue  # its refusal is being delivered
                overdue = earlier.submitted + limits.database.QUEUE_SECONDS <= now
                self._check(overdue or earlier not in left, call, "goes before", earlier)

    def _check_turns(self, calls: list[Call], accounts: Counter[str], busy: set[str], queue: Queue) -> None:
        """Checks that each account gets its turn."""
        repeated = any(call.state is State.REFUSED for call in calls)
        for account in queue.ready.keys() - accounts.keys() - busy:
            next_command = queue.ready[account][0]
            if next_command.batch_statement is calls[0].command.batch_statement:
                self._check(max(accounts.values()) == 1, account, "waits, and others have two turns:", accounts)
            if not repeated:
                number = next_command.parameters[1].call.number
                skipped = self._passed_over[number] = self._passed_over[number] + 1
                self._check(skipped <= len(self._names), account, "was in none of", skipped, "batches")

    def _told(self, calls: list[Call], outcome: Rows | Exception) -> None:
        """Called before the batcher gets a statement's outcome."""
        now = self._loop.time()
        if isinstance(outcome, Exception):
            if isinstance(outcome, SessionLost) and not self._join:
                for call in calls:
                    self._isolated[call.account] = now + limits.batches.UNANSWERED_SECONDS
                return
            lock = isinstance(outcome, psycopg.errors.LockNotAvailable)
            if calls and (lock or _may_be_repeated(calls[0])):
                detail = outcome.diag.message_detail if isinstance(outcome, psycopg.Error) else None
                for call in calls if detail is None else [calls[int(detail) - 1]]:
                    self._isolated[call.account] = now + limits.batches.ISOLATED_SECONDS
            return
        for call in calls:
            if call.rows is not None and (code := call.rows[0][0]) in REMEMBERED:
                self._refused[call.command.credential.key_hash] = code, now

    def _is_refused(self, call: Call, code: str) -> bool:
        """Whether the database has just refused its key with this code."""
        why, at = self._refused.get(call.command.credential.key_hash, ("", -9.0))
        return why == code and self._loop.time() < at + limits.batches.REFUSED_SECONDS + _LOOK_SECONDS

    def _answered(self, call: Call, then: Callable[[], object], answer: object) -> None:
        now = self._loop.time()
        waited = now - call.submitted
        self._note("answer", call, answer)
        call.answers += 1
        self._check(call.answers == 1, call, "is answered again")
        self._waiting[call.account].pop(call.number, None)
        self._check(waited <= MAX_WAIT, call, "waits for", waited, "seconds")
        small = self._mode == "calm" or (self._mode == "locked" and call.account != self._locked)
        if small and self._join:
            self._check(waited <= MAX_NEIGHBOUR_WAIT, call, "waits for", waited, "seconds for the sake of others")
        self.reached[getattr(answer, "outcome", answer if isinstance(answer, str) else type(answer).__name__)] += 1
        if isinstance(answer, LedgerUnavailable):
            self.reached[type(call.error).__name__ if call.error else "overdue"] += 1
            self._check(not small, call, "is not served")
            self._check(call.submitted < self._served_from, call, "is not served when the trouble is over")
            self._check(
                waited >= limits.database.QUEUE_SECONDS - 0.001
                or isinstance(call.error, SessionLost)
                or (call.state is State.REFUSED and not _may_be_repeated(call)),
                call,
                "is given up without need",
            )
        elif call.state is State.SERVED:
            transaction = call.transaction
            self._check(
                transaction is not None and transaction.committed and call.rows is not None, call, "was not executed"
            )
            if call.rows is not None:
                expected = call.command.reply(call.command.read(call.rows))
                self._check(answer == expected, call, "is told", answer, ", and is", expected)
        elif call.single and isinstance(call.error, psycopg.errors.UniqueViolation):
            self._check(answer == Metered("request_in_progress"), call, "is told", answer)
        else:
            code = UNAUTHORIZED if call.command.parameters[1].is_revoked else RATE_LIMITED
            self.reached[f"{code} without asking"] += 1
            self._check(answer == call.command.refused(code) and self._is_refused(call, code), call, "is told", answer)
        self._check(self._database.most_sessions <= SESSIONS, self._database.most_sessions, "sessions")
        then()

    def _note(self, *parts: object) -> None:
        self._trace.append((self._loop.time(), parts))


def _may_be_repeated(call: Call) -> bool:
    """Whether a call was refused together with others."""
    sqlstate: str = getattr(call.error, "sqlstate", None) or ""
    return sqlstate.startswith(REPEATED) and not call.single


def _charge(holder: Credential) -> Command[Metered]:
    return meter_request(holder, "key-0001", Charge("color_match", 1, bytes(32), b"{}"), str(UUID(int=1)))


_MAKERS: dict[str, Callable[[Credential], Command[Any]]] = {"m": _charge, "a": admit, "u": read_usage}


def _line(parts: tuple[object, ...]) -> str:
    return " ".join(part if isinstance(part, str) else repr(part) for part in parts)
