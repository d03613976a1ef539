"""Kills and cuts at random moments, until stopped."""

import asyncio
import os
import random
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.harness.processes import children, command_line
from tests.harness.proxy import Cut, Odds, Proxy
from tests.harness.serving import Server
from tests.harness.standby import promote, until_replicated

from sepu.database.embedded import embedded_postgres

MAX_CRASH_SECONDS = 5  # for Postgres to notice that a back end was killed
CUTS: dict[Cut, str] = {
    "before": "cuts before the statement",
    "during": "cuts during the statement",
    "after": "cuts after COMMIT",
    "anywhere": "cuts at any moment",
}


def kinds_of_faults(*, failover: bool) -> tuple[str, ...]:
    """Names the faults of a Postgres and its clients, with or without a standby."""
    killed = ("workers killed", "back ends killed", "back ends terminated", "restarts of Postgres")
    return (*killed, *CUTS.values(), *(("failovers",) if failover else ()))


def postmaster(state_dir: Path) -> int | None:
    """The process id of the postmaster, or None while Postgres does not run."""
    try:
        return int((state_dir / "postgres" / "postmaster.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def back_ends(state_dir: Path) -> list[int]:
    """The process ids of back ends that serve clients."""
    return _children(state_dir, "[local]")


def checkpointers(state_dir: Path) -> list[int]:
    """The checkpointer's process id, which changes only when all processes restart; empty while there is none."""
    return _children(state_dir, "checkpointer")


def _children(state_dir: Path, title: str) -> list[int]:
    main = postmaster(state_dir)
    return [one.pid for one in children(main) if title in command_line(one)] if main else []


async def stop_at_once(state_dir: Path) -> None:
    """Stops Postgres in its `immediate` mode, which equals a crash."""
    if (pid := postmaster(state_dir)) is not None:
        os.kill(pid, signal.SIGQUIT)
    while postmaster(state_dir) is not None:
        await asyncio.sleep(0.02)


def start(state_dir: Path) -> None:
    """Starts Postgres again; another user of the directory keeps it running."""
    with embedded_postgres(state_dir):
        pass


@dataclass(frozen=True)
class Pace:
    """Mean seconds between faults of a kind."""

    worker_kill: float
    back_end_kill: float
    back_end_terminate: float
    restart: float
    cut: float


@dataclass(frozen=True)
class Host:
    """A Postgres, and the proxy in front of it."""

    state_dir: Path
    url: str  # past the proxy
    proxy: Proxy


class Injector(ABC):
    """Faults against one server and the database behind it."""

    kinds: tuple[str, ...] = ("workers killed",)

    def __init__(self, server: Server, seed: int) -> None:
        self._server = server
        self._random = random.Random(seed)
        self._one = asyncio.Lock()  # one fault of the database at a time
        self.failover_due = asyncio.Event()
        self.done: Counter[str] = Counter()
        self.crashes: list[tuple[float, float]] = []  # when Postgres crashed, and so lost its unlogged tables

    @abstractmethod
    async def inject(self) -> None:
        """Continues until cancelled; then the database runs again."""

    def faults(self) -> dict[str, int]:
        """Counts the faults of each kind."""
        return {name: self.done[name] for name in self.kinds}

    async def _again_and_again(self, mean: float, fault: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(0.2, 1.8) * mean)
            await fault()

    async def _kill_worker(self) -> None:
        self._kill(self._server.workers(), signal.SIGKILL, "workers killed")

    def _kill(self, victims: list[int], number: signal.Signals, kind: str) -> bool:
        if not victims:
            return False
        try:
            os.kill(self._random.choice(victims), number)
        except ProcessLookupError:
            return False
        self.done[kind] += 1
        return True


class FaultInjector(Injector):
    """Faults of every kind; Postgres fails over to the next host once."""

    def __init__(self, server: Server, hosts: Sequence[Host], pace: Pace, odds: Odds, seed: int) -> None:
        super().__init__(server, seed)
        self._hosts = hosts
        self._primary, *self._standbys = hosts
        self._pace = pace
        self._odds = odds
        self._noting: list[asyncio.Task[None]] = []
        self.kinds = kinds_of_faults(failover=bool(self._standbys))

    def faults(self) -> dict[str, int]:
        cuts = Counter[str]()
        for host in self._hosts:
            cuts.update({CUTS[cut]: count for cut, count in host.proxy.cuts.items()})
        return {name: self.done[name] + cuts[name] for name in self.kinds}

    async def inject(self) -> None:
        pace = self._pace
        for host in self._hosts:
            host.proxy.odds = self._odds
        try:
            async with asyncio.TaskGroup() as kinds:
                for mean, fault in (
                    (pace.worker_kill, self._kill_worker),
                    (pace.back_end_kill, self._kill_back_end),
                    (pace.back_end_terminate, self._terminate_back_end),
                    (pace.restart, self._restart),
                    (pace.cut, self._cut),
                ):
                    kinds.create_task(self._again_and_again(mean, fault))
                for standby in self._standbys:
                    kinds.create_task(self._fail_over(standby))
        finally:
            await asyncio.to_thread(start, self._primary.state_dir)
            await asyncio.gather(*self._noting)
            for host in self._hosts:
                host.proxy.odds = Odds()

    async def _kill_back_end(self) -> None:
        # The postmaster then restarts all its processes and recovers, unless this back end was just ending.
        async with self._one:
            state_dir = self._primary.state_dir
            began, others = time.monotonic(), checkpointers(state_dir)
            if self._kill(back_ends(state_dir), signal.SIGKILL, "back ends killed"):
                # Recorded even if this is the last fault and its task is cancelled now.
                noting = asyncio.to_thread(self._note_crash, state_dir, began, others)
                self._noting.append(asyncio.create_task(noting))
                await asyncio.shield(self._noting[-1])

    def _note_crash(self, state_dir: Path, began: float, others: list[int]) -> None:
        while time.monotonic() < began + MAX_CRASH_SECONDS:
            if others != checkpointers(state_dir):
                self.crashes.append((began, time.monotonic()))
                return
            time.sleep(0.02)

    async def _terminate_back_end(self) -> None:
        # The signal that pg_terminate_backend() sends.
        async with self._one:
            self._kill(back_ends(self._primary.state_dir), signal.SIGTERM, "back ends terminated")

    async def _restart(self) -> None:
        async with self._one:
            began = time.monotonic()
            try:
                await stop_at_once(self._primary.state_dir)
                await asyncio.sleep(self._random.uniform(0, 2))
                await asyncio.to_thread(start, self._primary.state_dir)
            finally:  # when cancelled, it may still be stopping
                self.crashes.append((began, time.monotonic() + 1))
            self.done["restarts of Postgres"] += 1

    async def _fail_over(self, standby: Host) -> None:
        await self.failover_due.wait()
        async with self._one:
            # After a crash the primary shows commits that it has not yet replicated: a replay may have returned one.
            await asyncio.to_thread(until_replicated, self._primary.url, standby.url)
            began = time.monotonic()
            try:
                await stop_at_once(self._primary.state_dir)
                self._primary = standby
                await asyncio.to_thread(promote, standby.url)
            finally:
                self.crashes.append((began, time.monotonic() + 1))
            self.done["failovers"] += 1

    async def _cut(self) -> None:
        self._primary.proxy.cut_one()
