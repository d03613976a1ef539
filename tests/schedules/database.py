"""The ledger's database and its network, simulated: it implements `Session`, with every fault.

A statement is a transaction. Arrival, locks, commit and answer come at separate instants, and any of them may fail. The
answer to a call contains its number; the database knows what happened to each call.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any, LiteralString

import psycopg
from psycopg import errors
from psycopg.pq import DiagnosticField

from sepu import limits
from sepu.database import migrate
from sepu.database.hosts import Hosts
from sepu.metering import commands
from sepu.metering.codec import Rows
from sepu.metering.commands import Command
from sepu.metering.key_format import Credential
from sepu.metering.meters import METERS
from sepu.metering.session import Done, Session, SessionLost

PERIOD = "2031-03"
_LOOK_SECONDS = 0.1
_READ_USAGE = commands.read_usage(Credential("", b"")).statement
_APPLIED = ",".join(sorted(migrate._applied_migrations()))


class KeyHash(bytes):
    """The hash of a key, which carries its call: every statement of a call has it as a parameter."""

    call: "Call"
    is_revoked = False


class State(Enum):
    """The batcher's knowledge of a call that it sent."""

    WAITING = 0
    SENT = 1
    REFUSED = 2
    LOST = 3
    SERVED = 4


@dataclass(eq=False, slots=True, repr=False)
class Call:
    """A client's command, and its outcome."""

    number: int
    command: Command[Any]
    submitted: float
    account: str
    answers: int = 0
    state: State = State.WAITING
    single: bool = False  # last sent by itself
    error: Exception | None = None
    rows: Rows | None = None  # the database's answer
    transaction: "Transaction | None" = None  # the last one

    def __repr__(self) -> str:
        return f"{self.account}.{self.number}"


class Fate(Enum):
    """What happens to a statement."""

    FINE = "fine"
    SEND_FAILS = "cannot be sent"
    NEVER_ARRIVES = "never arrives"
    HANGS_UP_BEFORE = "the session breaks before the commit"
    HANGS_UP_AFTER = "the session breaks after the commit"
    NEVER_ANSWERS = "is executed and never answered"
    ANSWERS_LATE = "is executed and answered late"
    DUPLICATE = "unique violation"
    LOCKED = "lock not available"
    DEADLOCK = "deadlock"
    READ_ONLY = "read-only"
    CANCELLED = "cancelled"


_ERRORS: dict[Fate, type[psycopg.Error]] = {
    Fate.DUPLICATE: errors.UniqueViolation,
    Fate.LOCKED: errors.LockNotAvailable,
    Fate.DEADLOCK: errors.DeadlockDetected,
    Fate.READ_ONLY: errors.ReadOnlySqlTransaction,
    Fate.CANCELLED: errors.QueryCanceled,
}
FAULTS: tuple[Fate, ...] = tuple(fate for fate in Fate if fate is not Fate.FINE)
REFUSALS: tuple[Fate, ...] = (Fate.DUPLICATE, Fate.LOCKED, Fate.DEADLOCK)  # a batch is sent again after these


@dataclass(eq=False, slots=True, repr=False)
class Transaction:
    """A statement at the server."""

    session: "SimulatedSession"
    calls: list[Call]
    fate: Fate
    joined: bool
    rows: list[Rows] = field(default_factory=list)  # of each call
    blamed: int = 0
    give_up: asyncio.TimerHandle | None = None
    committed: bool = False

    def __repr__(self) -> str:
        return f"{self.session} {self.calls}"


class SimulatedSession(Session):
    """Behaves as `Session` promises, one statement at a time."""

    def __init__(self, database: "Database", number: int, seconds: float) -> None:
        self._database = database
        self._number = number
        self._seconds = seconds
        self.is_closed = False
        self.key_secret = database.key_secret
        self._done: Done | None = None
        self._outcome: Rows | Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.hung_up = False  # by the server
        self.read_only = False  # its server is no longer the primary
        self.calls: list[Call] = []  # under way

    def __repr__(self) -> str:
        return f"session {self._number}"

    def is_over(self) -> bool:
        assert self._done is None
        if not self.is_closed and self.hung_up:
            self.close()
        return self.is_closed

    def send(self, statement: LiteralString, parameters: Sequence[Any], done: Done) -> None:
        assert self._done is None, f"{self} has two statements at a time"
        assert not self.is_closed, f"{self} is over, and a statement is sent"
        self._done = done
        self._timer = self._database.loop.call_later(self._seconds + _LOOK_SECONDS / 2, self.close)
        self._database.receive(self, statement, parameters)

    def poll(self) -> None:
        if self._outcome is not None:
            self._conclude(self._outcome)
        elif self.hung_up:
            self.close()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._database.left(self)
        self._conclude(SessionLost())

    def arrive(self, outcome: Rows | Exception) -> None:
        """Delivers the answer; the event loop may notice somewhat later."""
        if not self.is_closed:
            self._outcome = outcome
            self._database.soon(self.poll)

    def _conclude(self, outcome: Rows | Exception) -> None:
        done, self._done, self._outcome = self._done, None, None
        if done is None or self._timer is None:
            return
        self._timer.cancel()
        calls, self.calls = self.calls, []
        lost = isinstance(outcome, SessionLost)
        for call in calls:
            call.state = State.LOST if lost else State.REFUSED if isinstance(outcome, Exception) else State.SERVED
            call.error = outcome if isinstance(outcome, Exception) else None
        self._database.note(self, "is told", outcome)
        self._database.on_outcome(calls, outcome)
        done(outcome)


class Database:
    """Executes the statements that reach it. `faults` is the probability of a fault of a statement or connection.

    `on_send` is called for each statement sent, `on_outcome` for each outcome that the batcher gets, `note` for all.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        random: Random,
        requests: dict[str, int],
        latency: float,
        on_send: Callable[[SimulatedSession, list[Call]], None],
        on_outcome: Callable[[list[Call], Rows | Exception], None],
        note: Callable[..., None],
    ) -> None:
        self.loop, self.note, self.on_outcome = loop, note, on_outcome
        self.requests = requests  # that the abuse limit still allows, by account
        self.faults = 0.0
        self.fates = FAULTS  # of statements that meet one
        self.key_secret = bytes(32)
        self.probed: tuple[str | None, str | None] = None, None  # broken settings, and nodes of Citus
        self.refuses = False  # connections
        self.silent = False  # to connections and statements
        self.locked: set[str] = set()  # accounts whose rows somebody else keeps
        self.names_blamed = True
        self.quiet_from = 0.0  # when the last timer fires that is not the batcher's
        self.sessions: set[SimulatedSession] = set()
        self.connecting = self.most_sessions = self._opened = 0
        self._on_send, self._random, self._latency = on_send, random.random, latency
        self._blocked: list[Transaction] = []

    # --- The network

    async def connect(self, _hosts: Hosts, seconds: float) -> Session:
        """Replaces `Session.connect`."""
        self.connecting += 1
        try:
            self.most_sessions = max(self.most_sessions, len(self.sessions) + self.connecting)
            fault = self._random() < self.faults and self._random()
            self.note("connect")
            if self.silent or (fault and fault < 0.3):
                async with asyncio.timeout(limits.database.QUEUE_SECONDS):
                    await asyncio.sleep(limits.database.CONNECT_SECONDS)
                raise errors.ConnectionTimeout
            await asyncio.sleep(self._random() * self._latency * (40 if fault and fault > 0.7 else 4))
            if self.refuses or fault:
                raise psycopg.OperationalError
        finally:
            self.connecting -= 1
        self._opened += 1
        session = SimulatedSession(self, self._opened, seconds)
        self.sessions.add(session)
        self.note("connected", session)
        return session

    def left(self, session: SimulatedSession) -> None:
        """Called when the batcher has closed a session."""
        self.sessions.discard(session)
        self.note(session, "closed")

    def hang_up(self, session: SimulatedSession) -> None:
        """Ends a session from the server's side."""
        if session in self.sessions:
            session.hung_up = True
            self.note(session, "hung up")
            self.soon(session.poll)

    def soon(self, act: Callable[[], None]) -> None:
        """Calls `act`, sometimes a little later, as from a busy event loop."""
        if self._random() < 0.7:
            act()
        else:
            self.call_later(self._random() * 0.002, act)

    def call_later(self, seconds: float, act: Callable[..., object], *arguments: object) -> asyncio.TimerHandle:
        """Makes a timer for anything but the batcher."""
        timer = self.loop.call_later(seconds, act, *arguments)
        self.quiet_from = max(self.quiet_from, timer.when())
        return timer

    def _later(self, act: Callable[..., object], *arguments: object) -> asyncio.TimerHandle:
        return self.call_later(self._random() * self._latency, act, *arguments)

    def _fate(self) -> Fate:
        if self.silent:
            return Fate.NEVER_ARRIVES
        if self._random() >= self.faults:
            return Fate.FINE
        return self.fates[int(self._random() * len(self.fates))]

    # --- Statements

    def receive(self, session: SimulatedSession, statement: LiteralString, parameters: Sequence[Any]) -> None:
        """Receives a session's statement."""
        joined = bool(parameters) and isinstance(parameters[0], list)
        hashes = (parameters[1] if joined else (parameters[1],)) if parameters else ()
        calls: list[Call] = [key_hash.call for key_hash in hashes]
        fate = self._fate()
        if session.read_only:
            fate = Fate.READ_ONLY
        transaction = Transaction(session, calls, fate, joined)
        self._on_send(session, calls)
        session.calls = calls
        for call in calls:
            assert statement == (call.command.batch_statement if joined else call.command.statement)
            call.state = State.SENT
            call.single = not joined
            call.rows = None
            call.transaction = transaction
        self.note(session, "sends", list(calls), fate)
        if fate is Fate.SEND_FAILS:
            session.close()
        elif session.hung_up:
            self.soon(session.poll)
        elif fate is not Fate.NEVER_ARRIVES:
            self._later(self._begin, transaction)

    def _begin(self, transaction: Transaction) -> None:
        session, fate = transaction.session, transaction.fate
        if session.hung_up:
            return
        if fate is Fate.HANGS_UP_BEFORE:
            self.hang_up(session)
        elif fate in _ERRORS:
            if fate is Fate.READ_ONLY:
                session.read_only = True
            blamed = int(self._random() * (len(transaction.calls) + 1))  # 0 names nobody
            self._refuse(transaction, _ERRORS[fate], blamed)
        else:
            self._try(transaction)

    def _refuse(self, transaction: Transaction, error: type[psycopg.Error], blamed: int) -> None:
        info: dict[int, bytes | None] = {}
        if transaction.joined and blamed and self.names_blamed:
            info[DiagnosticField.MESSAGE_DETAIL] = b"%d" % blamed
        self._later(transaction.session.arrive, error(info=info))

    def _try(self, transaction: Transaction) -> None:
        """Executes, or waits for the holder of a row."""
        if self._execute(transaction):
            if transaction.give_up is not None:
                transaction.give_up.cancel()
            self._later(self._commit, transaction)
            return
        self._blocked.append(transaction)
        if transaction.give_up is None:
            self.note(transaction, "waits for a lock")
            seconds = limits.database.BATCH_LOCK_SECONDS if transaction.joined else limits.database.LOCK_SECONDS
            transaction.give_up = self.call_later(seconds, self._give_up, transaction)

    def _give_up(self, transaction: Transaction) -> None:
        self._blocked.remove(transaction)
        self._refuse(transaction, errors.LockNotAvailable, transaction.blamed)

    def unblock(self) -> None:
        """Lets transactions that wait for rows try again."""
        blocked, self._blocked = self._blocked, []
        for transaction in blocked:
            self._try(transaction)

    def _commit(self, transaction: Transaction) -> None:
        fate = transaction.fate
        # A back end whose client is gone usually still commits.
        transaction.committed = not transaction.session.hung_up or self._random() < 0.5
        if transaction.committed:
            for call, rows in zip(transaction.calls, transaction.rows, strict=False):
                call.rows = rows
        self.note(transaction, "committed" if transaction.committed else "rolled back")
        if fate is Fate.HANGS_UP_AFTER:
            self.hang_up(transaction.session)
        elif transaction.committed and fate is not Fate.NEVER_ANSWERS:
            answer = transaction.rows[0]
            if transaction.joined:
                # In the order of accounts, as the functions take them.
                order = sorted(range(len(transaction.rows)), key=lambda at: transaction.calls[at].account)
                answer = [(at + 1, *row) for at in order for row in transaction.rows[at]]
            late = self._random() * 1.5 if fate is Fate.ANSWERS_LATE else 0.0
            self.call_later(late + self._random() * self._latency, transaction.session.arrive, answer)

    def _execute(self, transaction: Transaction) -> bool:
        """Decides every call; returns whether no row that it needs is held."""
        transaction.rows = [] if transaction.calls else [[(_APPLIED, self.key_secret, *self.probed)]]
        for position, call in enumerate(transaction.calls, 1):
            is_valid = not call.command.parameters[1].is_revoked
            if is_valid and call.account in self.locked:
                transaction.blamed = position
                return False
            transaction.rows.append(self._decide(call, is_valid))
        return True

    def _decide(self, call: Call, is_valid: bool) -> Rows:
        parameters = call.command.parameters
        metered, reads_usage = len(parameters) > 2, call.command.statement == _READ_USAGE
        self.requests[call.account] -= is_valid
        if not is_valid or self.requests[call.account] < 0:
            refusal = commands.RATE_LIMITED if is_valid else commands.UNAUTHORIZED
            return [(refusal, *[None] * (5 if metered else 6 if reads_usage else 0))]
        if reads_usage:
            return [("ok", "standard", PERIOD, meter, 10**6, call.number, 0) for meter in METERS]
        return [("charged", PERIOD, 10**6, call.number, 0, parameters[6])] if metered else [("ok",)]
