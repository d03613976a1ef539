"""The sender of an event loop's commands, which also knows whether its database answers, and which database that is."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from sepu import limits
from sepu.database.connection import UnsafeSettingsError
from sepu.database.hosts import Hosts
from sepu.metering.callers import Callers
from sepu.metering.commands import Probed, probe
from sepu.metering.failure import report_failure
from sepu.metering.nodes import NodeWatch
from sepu.metering.observer import LedgerObserver
from sepu.metering.outcomes import call_back
from sepu.metering.sending import Sender
from sepu.metering.session import Session

# Opens a session. The number is how many seconds each of its statements may take.
Connect = Callable[[Hosts, float], Awaitable[Session]]


class Batcher(Sender):
    """Sends commands, probes the database, and learns its secret from both."""

    def __init__(
        self,
        database_url: str,
        *,
        batches: bool = True,
        observer: LedgerObserver | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        connect: Connect = Session.connect,
    ) -> None:
        """Takes the database's URL, but does not connect yet. Without `batches`, each command is sent by itself."""
        loop, observer = loop or asyncio.get_running_loop(), observer or LedgerObserver()
        self.callers = Callers(loop.time, self.is_connected)
        super().__init__(loop, self._open_session, self.callers, observer, batches=batches)
        self._connect_to = partial(connect, Hosts(database_url), limits.database.STATEMENT_SECONDS)
        self._nodes = NodeWatch(self._open_session, loop, observer)
        self._probed_at = float("-inf")
        self._is_ready = False
        self._probing: list[Callable[[bool], None]] = []  # callbacks waiting for the current probe

    async def close(self) -> None:
        """Ends the sessions. No command may be waiting."""
        await super().close()
        await self._nodes.close()

    def probe(self, done: Callable[[bool], None]) -> None:
        """Calls `done` with True if a charge can be committed now, else False. Caches the result for a second."""
        if self._loop.time() - self._probed_at < limits.probes.PROBE_SECONDS:
            done(self._is_ready)
            return
        self._probing.append(done)
        if len(self._probing) == 1:
            self.submit(probe(), self._probe_ended, self.probes)

    def probe_if_due(self) -> None:
        """Probes if the last probe was long ago; sooner if there is no session. The worker calls this often."""
        seconds = limits.probes.LOOK_SECONDS if self.is_connected() else limits.probes.PROBE_SECONDS
        if self._loop.time() - self._probed_at >= seconds and not self._probing:
            self.probe(lambda _: None)

    def _probe_ended(self, answer: Any) -> None:  # noqa: ANN401
        self._probed_at = self._loop.time()
        self._is_ready = isinstance(answer, Probed) and answer.is_ready
        try:
            if isinstance(answer, Probed):
                self._learn_secret(answer.key_secret)
                if answer.broken_settings is not None:
                    report_failure(UnsafeSettingsError(answer.broken_settings), self._observer)
                self._nodes.look_if_due(answer.nodes)
            self._observer.probed(self._is_ready)
            if not self._is_ready:
                self._disconnect_probes()  # perhaps no longer the primary; the next probe finds the new one
        finally:
            probing, self._probing = self._probing, []
            for done in probing:
                call_back(done, self._is_ready)

    async def _open_session(self) -> Session:
        try:
            session = await self._connect_to()
        except UnsafeSettingsError:
            self._disconnect_probes()  # a session with the old settings would still report ready
            raise
        self._observer.connected()
        self._learn_secret(session.key_secret)
        return session

    def _learn_secret(self, key_secret: bytes) -> None:
        """Keeps the secret for key tags. If it has changed, ends all sessions: they may be with the database before."""
        if self.callers.learn_secret(key_secret):
            self.disconnect()

    def _disconnect_probes(self) -> None:
        for slot in self.probes.slots:
            slot.disconnect()
