"""Runs commands that arrive while others are under way together: one statement, one round trip, one commit.

A lone command never waits for company. Under load a worker then needs one connection, and the database one commit for
many charges. What a joined call does for each command is what the command alone would do; only if the database refuses
the whole of it are its commands run one by one.
"""

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Coroutine
from typing import Any, TypeVar

from sepu.metering.commands import Command
from sepu.metering.ledger import AsyncLedger, CallRefused, LedgerUnavailable

T = TypeVar("T")

# As many as share one commit; more would only hold their rows longer.
MAX_JOINED = 32
# What more would wait is told so at once. A worker runs several thousand commands a second.
MAX_WAITING = 1000
# What is not answered by then gets no answer: a client is told of an outage within two seconds.
PATIENCE_SECONDS = 1.9


class _Waiting:
    """A command and the caller that waits for it."""

    __slots__ = ("answer", "command", "deadline")

    def __init__(self, command: Command[Any]) -> None:
        loop = asyncio.get_running_loop()
        self.command = command
        self.answer: Future[Any] = loop.create_future()
        self.deadline = loop.call_later(PATIENCE_SECONDS, self.give_up)

    def conclude(self, answer: object) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def give_up(self) -> None:
        self.fail(LedgerUnavailable())


class JoinedLedger:
    """An `AsyncLedger` whose commands ride together when there are several at a time."""

    def __init__(self, ledger: AsyncLedger) -> None:
        self._ledger = ledger
        self._waiting: deque[_Waiting] = deque()
        self._under_way = False
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself keeps no task alive

    async def open(self) -> None:
        """Lets connections be made; in the event loop that will use them."""
        await self._ledger.open()

    async def close(self) -> None:
        """Gives the connections back, once what is under way is done."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._ledger.close()

    async def ready(self) -> bool:
        """Whether the database answers and holds this release's migrations."""
        return await self._ledger.ready()

    async def run(self, command: Command[T]) -> T:
        """Runs one command, by itself or with others.

        Raises:
            LedgerUnavailable: no answer, or not in time.
        """
        if not self._under_way:
            self._under_way = True
            try:
                return await self._ledger.run(command)
            finally:
                self._go_on()
        if len(self._waiting) >= MAX_WAITING:
            raise LedgerUnavailable
        waiting = _Waiting(command)
        self._waiting.append(waiting)
        try:
            answer: T = await waiting.answer
        finally:
            waiting.deadline.cancel()
        return answer

    def _go_on(self) -> None:
        """Sends off what has come meanwhile."""
        if joined := self._next():
            self._start(self._run_joined(joined))
        else:
            self._under_way = False

    def _next(self) -> list[_Waiting]:
        """The one that waits longest, and those that can ride with it."""
        joined: list[_Waiting] = []
        others: list[_Waiting] = []
        while self._waiting and len(joined) < MAX_JOINED:
            waiting = self._waiting.popleft()
            if waiting.answer.done():  # its caller has gone
                continue
            (joined if not joined or _ride_together(joined[0].command, waiting.command) else others).append(waiting)
        self._waiting.extendleft(reversed(others))
        return joined

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_joined(self, joined: list[_Waiting]) -> None:
        try:
            statement = joined[0].command.joined_statement
            if len(joined) == 1 or statement is None:
                await self._run_one(joined[0])
                return
            arrays = zip(*(waiting.command.parameters for waiting in joined), strict=True)
            for position, *row in await self._ledger.call(statement, [list(array) for array in arrays]):
                waiting = joined[position - 1]
                waiting.conclude(waiting.command.read(tuple(row)))
        except CallRefused:
            for waiting in joined:
                self._start(self._run_one(waiting))
        except Exception as error:
            for waiting in joined:
                waiting.fail(error)
        finally:
            self._go_on()

    async def _run_one(self, waiting: _Waiting) -> None:
        try:
            waiting.conclude(await self._ledger.run(waiting.command))
        except Exception as error:
            waiting.fail(error)


def _ride_together(one: Command[Any], other: Command[Any]) -> bool:
    return one.joined_statement is not None and one.joined_statement is other.joined_statement
