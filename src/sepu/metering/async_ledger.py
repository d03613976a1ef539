"""The ledger for an event loop. Commands that arrive while a call is under way share the next one.

That is one statement, one round trip and one commit for many charges, over one connection. A lone command never waits
for company. What a joined call does for each command is what the command alone would do; if the database refuses the
whole of it, its commands are repeated one by one.
"""

from asyncio import Future
from collections import deque
from collections.abc import Sequence
from typing import Any, TypeVar

from sepu.metering import migrate, scripts
from sepu.metering.commands import Command
from sepu.metering.observer import LedgerObserver
from sepu.metering.outage import LedgerUnavailable, bounded
from sepu.metering.session import Rows
from sepu.metering.shuttle import Rider, Shuttle

T = TypeVar("T")

# As many as share one commit; more would only hold their rows longer.
MAX_JOINED = 32
# What more would wait is told so at once. A worker runs one to several thousand commands a second.
MAX_WAITING = 500
# Sessions for commands that go alone.
SHUTTLES_ALONE = 4


class AsyncLedger:
    """Runs commands for an event loop, joined or each by itself."""

    def __init__(self, database_url: str, *, join: bool = True, observer: LedgerObserver | None = None) -> None:
        conninfo = bounded(database_url)
        self._join = join
        self._observer = observer = observer or LedgerObserver()
        self._joined: deque[Rider] = deque()
        self._alone: deque[Rider] = deque()
        self._shuttle = Shuttle(conninfo, self._joined, MAX_JOINED, self._part, observer, keeps=True)
        self._shuttles_alone = [
            Shuttle(conninfo, self._alone, 1, self._part, observer, keeps=not join) for _ in range(SHUTTLES_ALONE)
        ]

    async def close(self) -> None:
        """Ends the sessions; nobody may be waiting any more."""
        for shuttle in (self._shuttle, *self._shuttles_alone):
            await shuttle.close()

    async def run(self, command: Command[T]) -> T:
        """Runs one command.

        Raises:
            LedgerUnavailable: no answer, or not in time.
        """

        def read(rows: Rows) -> T:
            return command.read(rows[0])

        rider = Rider(command.statement, command.parameters, read, command.joined_statement, command.on_duplicate)
        self._observer.command_began()
        try:
            answer: T = await self._ride(rider)
        finally:
            self._observer.command_ended()
        return answer

    async def ready(self) -> bool:
        """Whether the database answers and holds this release's migrations."""
        try:
            holds: bool = await self._ride(Rider(scripts.statement("read_migrations"), (), migrate.holds_migrations))
        except LedgerUnavailable:
            return False
        return holds

    def _ride(self, rider: Rider) -> Future[Any]:
        if len(self._joined) + len(self._alone) >= MAX_WAITING:
            raise LedgerUnavailable
        if self._join:
            self._joined.append(rider)
            self._shuttle.go()
            if self._joined:
                rider.wait()
        else:
            self._go_alone(rider)
        return rider.answer

    def _part(self, riders: Sequence[Rider]) -> None:
        """Repeats a refused call's commands one by one, where one that waits for a lock holds no other up."""
        for rider in riders:
            self._go_alone(rider)

    def _go_alone(self, rider: Rider) -> None:
        self._alone.append(rider)
        rider.wait()
        any(shuttle.go() for shuttle in self._shuttles_alone)
