"""Sends commands to the ledger, in batches or one by one.

A command, an outcome, a new session, or the timer of a gathering or an overflow changes a queue or a slot, then calls
the pump. There are three cases:

1. Nothing waits, and the queue's first slot is free and connected: a command is sent past the queue, by itself.
2. A command waits in its queue for a free slot, and shares the slot's next statement with others: a batch.
3. A statement is slow: 10 ms after it was sent, a second slot sends the commands of accounts that are not in it. It
   also stands in for a first slot that has lost its session.

The commands of isolated accounts, probes, and all commands without batches are sent one by one, and have no overflow.
outcomes.py decides what an outcome means.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import psycopg

from sepu import limits
from sepu.metering.callers import Callers
from sepu.metering.codec import Rows
from sepu.metering.commands import Command
from sepu.metering.failure import Overdue, report_failure
from sepu.metering.observer import LedgerObserver
from sepu.metering.outcomes import Outcomes
from sepu.metering.queues import Queue, Slot, make_queues
from sepu.metering.session import Session

_SWEEP_SECONDS = 0.1
_EARLY_SECONDS = 0.0005  # by which a loop may fire a timer early: uvloop's clock counts milliseconds


class Sender:
    """Sends commands in batches or one by one; passes each answer, or an exception, to the command's `done`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        open_session: Callable[[], Awaitable[Session]],
        callers: Callers,
        observer: LedgerObserver,
        *,
        batches: bool,
    ) -> None:
        """Does not connect yet. Without `batches`, each command is sent by itself."""
        self._loop = loop
        self._open_session = open_session
        self._observer = observer
        self.shared, self.isolated, self.probes = self._queues = make_queues(batches=batches)
        self._slots = [slot for queue in self._queues for slot in queue.slots]
        for slot in self._slots:
            slot.answered = partial(self._answered, slot)
        self._outcomes = Outcomes(self.shared, self.isolated, callers, observer, loop.time, isolates_lost=not batches)
        self._isolated_until = self._outcomes.isolated_until
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._overflow_timer: asyncio.TimerHandle | None = None
        self._is_answering = False
        self._is_closed = False

    async def open(self) -> None:
        """Opens a session before the first command, but waits only a limited time for it."""
        slot = self.shared.slots[0]
        slot.connecting = slot.connecting or self._loop.create_task(self._connect(slot))
        await asyncio.wait([slot.connecting], timeout=limits.database.CONNECT_SECONDS)

    async def close(self) -> None:
        """Ends the sessions. No command may be waiting."""
        self._is_closed = True
        if connecting := [slot.connecting for slot in self._slots if slot.connecting is not None]:
            for task in connecting:
                task.cancel()
            await asyncio.wait(connecting)
        self.disconnect()
        for timer in (self._sweep_timer, self._overflow_timer, *(queue.gather_timer for queue in self._queues)):
            if timer is not None:
                timer.cancel()

    def is_connected(self) -> bool:
        """Returns whether any session is not known to be over. Makes no system call."""
        return any(slot.is_connected() for slot in self._slots)

    def disconnect(self) -> None:
        """Ends all sessions."""
        for slot in self._slots:
            slot.disconnect()

    # What happens

    def submit(self, command: Command[Any], done: Callable[[Any], object], queue: Queue | None = None) -> None:
        """Sends a command as soon as its turn comes; `done` gets the answer, or an exception. Submit it only once."""
        self._observer.command_began()
        now = self._loop.time()
        command.done, command.latest = done, now + limits.database.QUEUE_SECONDS
        account = command.credential.account_id
        if queue is None:
            queue = self.isolated if account in self._isolated_until else self.shared
        slot = queue.slots[0]
        if not (slot.commands or queue.ready or queue.expected or account in queue.under_way) and slot.is_open():
            # PERF: a lone command goes past the queue.
            queue.under_way.add(account)
            slot.send([command], now)
            return
        queue.add(command)
        if queue.expected:
            queue.expected -= 1
            if not queue.expected:
                self._end_gathering(queue)
        else:
            self._pump_queue(queue)
        if self._sweep_timer is None:
            self._sweep_later()

    def poll(self) -> None:
        """Reads a batch's answer if it has arrived, so that the next batch is sent before the loop's next turn.

        Does nothing while answers are being delivered; otherwise a callback that polls would recurse without bound.
        """
        slot = self.shared.slots[0]
        if slot.commands and slot.session is not None and not self._is_answering:
            slot.session.poll()

    def _answered(self, slot: Slot, outcome: Rows | Exception) -> None:
        """Frees the slot; sends the next commands, so that the database works on them while these get their answers."""
        queue, as_batch = slot.queue, slot.as_batch
        commands, slot.commands, slot.is_slow = slot.commands, (), False
        queue.finish(commands)
        if isinstance(outcome, Exception):
            if isinstance(outcome, psycopg.errors.ReadOnlySqlTransaction):
                slot.disconnect()  # no longer the primary
            commands = self._outcomes.put_back(commands, outcome, as_batch=as_batch)
            self._sweep_later()
        self._gather(slot, len(commands))
        self._pump()
        is_within, self._is_answering = self._is_answering, True
        try:
            self._outcomes.answer(commands, outcome, as_batch=as_batch)
        finally:
            self._is_answering = is_within

    def _gather(self, slot: Slot, number: int) -> None:
        """After a slow batch, waits briefly for as many commands to arrive.

        Otherwise the first client to call again would be served alone, and the others by another slow statement.
        """
        queue = slot.queue
        if slot.most == 1 or not number or (number == 1 and queue.is_empty()):
            return
        seconds = self._loop.time() - slot.sent_at
        if seconds > limits.batches.SLOW_CALL_SECONDS * number:
            queue.expected = max(0, min(queue.expected + number, slot.most - len(queue.ready)))
            if queue.expected and queue.gather_timer is None:
                pause = min(seconds * limits.batches.GATHER_SHARE, limits.batches.GATHER_SECONDS)
                queue.gather_timer = self._loop.call_later(pause, self._end_gathering, queue)

    def _end_gathering(self, queue: Queue) -> None:
        if queue.gather_timer is not None:
            queue.gather_timer.cancel()
            queue.gather_timer = None
        queue.expected = 0
        self._pump_queue(queue)

    def _sweep_later(self) -> None:
        if self._sweep_timer is None and (
            self._isolated_until
            or not all(queue.is_empty() for queue in self._queues)
            or any(slot.is_connected() for slot in self.isolated.slots)
        ):
            self._sweep_timer = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Fails commands that have waited too long, and ends isolations whose time is up, with their sessions."""
        self._sweep_timer = None
        now = self._loop.time()
        overdue = [command for queue in self._queues for command in queue.take_where(lambda each: each.latest <= now)]
        # Without any session, it has been reported why there is none.
        self._outcomes.fail(overdue, Overdue() if self.is_connected() else None)
        self._outcomes.end_isolations(now)
        if not self._isolated_until and self.isolated.is_empty():
            for slot in self.isolated.slots:
                if not slot.commands:
                    slot.disconnect()
        self._sweep_later()

    # What is sent

    def _pump(self) -> None:
        for queue in self._queues:
            if queue.ready:
                self._pump_queue(queue)

    def _pump_queue(self, queue: Queue) -> None:
        """Sends what can be sent over open sessions, then connects, but for no more slots than accounts are ready."""
        if queue.expected or self._is_closed:
            return
        unconnected: list[Slot] = []
        for slot in queue.slots:
            if not queue.ready:
                return
            if slot.commands or slot.connecting is not None:
                continue
            if (slot.may_send() or slot.stands_in()) and slot.is_open():
                slot.send(queue.take(slot.most), self._loop.time())
            elif slot.may_send():
                unconnected.append(slot)
            elif slot.overflow_of is not None and slot.overflow_of.commands and self._overflow_timer is None:
                self._overflow_later(slot.overflow_of)
        if unconnected:
            connecting = sum(slot.connecting is not None and slot.may_send() for slot in queue.slots)
            for slot in unconnected[: max(0, len(queue.ready) - connecting)]:
                # A send may have failed within itself, which pumps too.
                slot.connecting = slot.connecting or self._loop.create_task(self._connect(slot))

    def _overflow_later(self, first: Slot) -> None:
        due = first.sent_at + limits.batches.OVERFLOW_SECONDS
        self._overflow_timer = self._loop.call_at(due, self._overflow, first)

    def _overflow(self, first: Slot) -> None:
        self._overflow_timer = None
        seconds = self._loop.time() - first.sent_at
        first.is_slow = bool(first.commands) and seconds >= limits.batches.OVERFLOW_SECONDS - _EARLY_SECONDS
        self._pump_queue(first.queue)

    # Sessions

    async def _connect(self, slot: Slot) -> None:
        """Tries until there is a session, or no command that it could send."""
        try:
            while True:
                try:
                    slot.session = await self._open_session()
                    break
                except TimeoutError as error:  # no pause: the attempt itself was slow
                    report_failure(error, self._observer)
                except (psycopg.Error, OSError) as error:
                    report_failure(error, self._observer)
                    await asyncio.sleep(limits.database.RECONNECT_SECONDS)
                if not slot.queue.ready:
                    break
        finally:
            slot.connecting = None
        self._pump_queue(slot.queue)
        self._sweep_later()
