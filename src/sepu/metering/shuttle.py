"""Who waits for an answer of the database, and the shuttles that fetch it: a call at a time, for one rider or more."""

import asyncio
from asyncio import Future, TimerHandle
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict

from sepu.metering.observer import LedgerObserver
from sepu.metering.outage import (
    CONNECTION_SECONDS,
    RECONNECT_SECONDS,
    STATEMENT_SECONDS,
    LedgerUnavailable,
    report_failure,
)
from sepu.metering.session import Rows, Session

# Errors for which one of a joined call's commands is to blame: its data, a constraint, a deadlock, a lock not had.
_ONE_IS_TO_BLAME = ("22", "23", "40", "55")


class Rider:
    """A statement, and the caller who waits for its answer."""

    def __init__(
        self,
        statement: LiteralString,
        parameters: Sequence[Any],
        read: Callable[[Rows], Any],
        joined_statement: LiteralString | None = None,
        on_duplicate: object = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.statement = statement
        self.parameters = parameters
        self.joined_statement = joined_statement
        self.on_duplicate = on_duplicate  # the answer when a unique constraint refuses the row
        self.answer: Future[Any] = loop.create_future()
        self._read = read
        self._latest = loop.time() + CONNECTION_SECONDS
        self._timer: TimerHandle | None = None

    def wait(self) -> None:
        """Gives up unless it is sent off in time."""
        self._timer = self.answer.get_loop().call_at(self._latest, self.fail)

    def set_off(self) -> None:
        """Is on the way, and from now on waits for the session."""
        if self._timer is not None:
            self._timer.cancel()

    def conclude(self, rows: Rows) -> None:
        """Has its answer."""
        if not self.answer.done():
            try:
                self.answer.set_result(self._read(rows))
            except Exception as error:  # ours, and told like any other
                self.answer.set_exception(error)

    def fail(self, error: Exception | None = None) -> None:
        """Has none, or none in time."""
        if self.answer.done():
            return
        if isinstance(error, psycopg.errors.UniqueViolation) and self.on_duplicate is not None:
            self.answer.set_result(self.on_duplicate)
        else:
            self.answer.set_exception(LedgerUnavailable())


class Shuttle:
    """Sends the riders of a queue over a session of its own, one call at a time.

    `most` may ride together; `part` takes those of a joined call that was refused for the sake of one of them. The
    session is made when there is somebody to ride, and kept for the next if the shuttle `keeps` it.
    """

    def __init__(
        self,
        conninfo: str,
        queue: deque[Rider],
        most: int,
        part: Callable[[Sequence[Rider]], None],
        observer: LedgerObserver,
        *,
        keeps: bool,
    ) -> None:
        self._conninfo = conninfo
        self._observer = observer
        # A server that takes a connection and does not answer keeps us no longer than our riders wait. Of several hosts
        # the first may be such a one, and libpq then goes on to the next by itself, after its connect_timeout.
        self._patience = None if "," in str(conninfo_to_dict(conninfo).get("host")) else CONNECTION_SECONDS
        self._queue = queue
        self._most = most
        self._part = part
        self._keeps = keeps
        self._session: Session | None = None
        self._busy = False
        self._closed = False
        self._connecting: asyncio.Task[None] | None = None

    def go(self) -> bool:
        """Sends off who waits, unless a call or a connection is under way; whether it was."""
        if self._closed or self._busy or self._connecting is not None:
            return False
        if self._session is not None and not self._session.is_over():
            if riders := self._board():
                self._busy = True
                self._session.send(*_call(riders), partial(self._arrive, riders))
            elif not self._keeps:
                self._session.close()
        elif self._somebody_waits():
            self._connecting = asyncio.create_task(self._connect())
        return True

    async def close(self) -> None:
        """Ends the session."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        if self._session is not None:
            self._session.close()

    def _somebody_waits(self) -> bool:
        while self._queue and self._queue[0].answer.done():  # the caller has gone, or got tired
            self._queue.popleft()
        return bool(self._queue)

    def _board(self) -> list[Rider]:
        """Who waits longest, and who can ride with them: of one statement there is one joined form."""
        riders: list[Rider] = []
        others: list[Rider] = []
        while len(riders) < self._most and self._somebody_waits():
            rider = self._queue.popleft()
            if riders and rider.joined_statement is not riders[0].joined_statement:
                others.append(rider)
                continue
            rider.set_off()
            riders.append(rider)
            if rider.joined_statement is None:
                break
        self._queue.extendleft(reversed(others))
        return riders

    def _arrive(self, riders: Sequence[Rider], outcome: Rows | Exception) -> None:
        self._busy = False
        if isinstance(outcome, Exception):
            self._fail(riders, outcome)
        else:
            self._observer.call_answered(len(riders))
            if len(riders) == 1:
                riders[0].conclude(outcome)
            else:
                for position, *row in outcome:
                    riders[position - 1].conclude([tuple(row)])
        self.go()

    def _fail(self, riders: Sequence[Rider], error: Exception) -> None:
        state = getattr(error, "sqlstate", None) or ""
        if len(riders) > 1 and state.startswith(_ONE_IS_TO_BLAME):
            self._part(riders)
            return
        if not isinstance(error, psycopg.errors.UniqueViolation):
            report_failure(error, self._observer)
        if isinstance(error, psycopg.errors.ReadOnlySqlTransaction) and self._session is not None:
            self._session.close()  # no longer the primary
        for rider in riders:
            rider.fail(error)

    async def _connect(self) -> None:
        """Tries until there is a session, or nobody waits any more."""
        try:
            while True:
                try:
                    async with asyncio.timeout(self._patience):
                        self._session = await Session.connect(self._conninfo, STATEMENT_SECONDS)
                    self._observer.connected()
                    break
                except TimeoutError as error:  # which was wait enough
                    report_failure(error, self._observer)
                except psycopg.Error as error:
                    report_failure(error, self._observer)
                    await asyncio.sleep(RECONNECT_SECONDS)
                if not self._somebody_waits():
                    break
        finally:
            self._connecting = None
        self.go()


def _call(riders: Sequence[Rider]) -> tuple[LiteralString, Sequence[Any]]:
    """The statement for all of them: of several, each parameter becomes an array."""
    first = riders[0]
    if len(riders) == 1 or first.joined_statement is None:
        return first.statement, first.parameters
    columns = zip(*(rider.parameters for rider in riders), strict=True)
    return first.joined_statement, [list(column) for column in columns]
