"""Queues of commands for the ledger, and the slots that send them over sessions."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sepu import limits
from sepu.metering.codec import Rows
from sepu.metering.commands import Command
from sepu.metering.session import Session

SINGLE_SESSIONS = 3  # of isolated accounts; without batches, of all others
ISOLATED_SESSIONS = 2  # of isolated accounts, without batches
PROBE_SESSIONS = 1


class Slot:
    """One session of a queue, and the commands under way in it."""

    def __init__(self, *, most: int = 1, always_batch: bool = False, overflow_of: "Slot | None" = None) -> None:
        """Takes up to `most` commands at a time. As the overflow of another slot, only if that one is slow or broken.

        `always_batch` sends even one command as a batch, for its shorter lock timeout.
        """
        self.most = most
        self.always_batch = always_batch
        self.overflow_of = overflow_of
        self.queue: Queue
        self.answered: Callable[[Rows | Exception], None]  # takes each statement's outcome
        self.session: Session | None = None
        self.connecting: asyncio.Task[None] | None = None
        self.commands: Sequence[Command[Any]] = ()
        self.as_batch = False  # whether they were sent as one
        self.sent_at = 0.0  # on the loop's clock
        self.is_slow = False  # whether they have been under way for so long that the overflow may send others

    def may_send(self) -> bool:
        """Returns whether this slot may send now, and connect in order to send."""
        return self.overflow_of is None or self.overflow_of.is_slow

    def stands_in(self) -> bool:
        """Returns whether this slot may send, if it has a session, because the other slot has none."""
        return self.overflow_of is not None and not (self.overflow_of.commands or self.overflow_of.is_open())

    def is_open(self) -> bool:
        """Returns whether a free slot has a session that can be used. PERF: this is a system call."""
        return self.session is not None and not self.session.is_over()

    def is_connected(self) -> bool:
        """Returns whether there is a session that is not known to be over. Makes no system call."""
        return self.session is not None and not self.session.is_closed

    def send(self, commands: Sequence[Command[Any]], now: float) -> None:
        """Sends commands in one statement. For a batch, each parameter becomes an array."""
        assert self.session is not None  # noqa: S101
        first = commands[0]
        self.commands, self.sent_at = commands, now
        self.as_batch = len(commands) > 1 or (self.always_batch and first.batch_statement is not None)
        if self.as_batch:
            assert first.batch_statement is not None  # noqa: S101
            columns = zip(*[command.parameters for command in commands], strict=True)
            self.session.send(first.batch_statement, list(map(list, columns)), self.answered)
        else:
            self.session.send(first.statement, first.parameters, self.answered)

    def disconnect(self) -> None:
        """Ends the session, and fails what is under way; the next command gets a new one."""
        if self.session is not None:
            self.session.close()


class Queue:
    """Serves accounts in turn, so that an account with many commands delays only itself.

    An account's commands keep their order: while some are under way (until `finish`), its others are held.
    """

    def __init__(self, *slots: Slot) -> None:
        """Takes the slots that send its commands."""
        # The waiting commands of each account: of those that may have a turn, in that order, and of those held.
        self.ready: OrderedDict[str, deque[Command[Any]]] = OrderedDict()
        self.held: dict[str, deque[Command[Any]]] = {}
        self.under_way: set[str] = set()  # accounts
        self.slots = slots
        # After a slow batch: how many commands must arrive before the next is sent, and the timer that ends this wait.
        self.expected = 0
        self.gather_timer: asyncio.TimerHandle | None = None
        for slot in slots:
            slot.queue = self

    def is_empty(self) -> bool:
        """Returns whether no command waits."""
        return not self.ready and not self.held

    def add(self, command: Command[Any]) -> None:
        """Adds a command behind the others of its account."""
        account = command.credential.account_id
        waiting = self.held if account in self.under_way else self.ready
        commands = waiting.get(account)
        if commands is None:
            waiting[account] = deque((command,))
        else:
            commands.append(command)

    def take(self, most: int) -> list[Command[Any]]:
        """Takes up to `most` commands that can share a statement, one from each account in turn.

        Skips accounts whose next command needs a different statement. They keep their place.
        """
        ready = self.ready
        taken: list[Command[Any]] = []
        skipped: list[tuple[str, deque[Command[Any]]]] = []
        while ready and len(taken) < most:
            account, commands = ready.popitem(last=False)
            statement = commands[0].batch_statement
            if taken and statement is not taken[0].batch_statement:
                skipped.append((account, commands))
                continue
            taken.append(commands.popleft())
            if commands:
                ready[account] = commands
            if statement is None:
                break
        for account, commands in reversed(skipped):
            ready[account] = commands
            ready.move_to_end(account, last=False)
        for command in taken:
            account = command.credential.account_id
            self.under_way.add(account)
            if account in ready:
                self.held[account] = ready.pop(account)
        return taken

    def finish(self, commands: Iterable[Command[Any]]) -> None:
        """Marks taken commands as no longer under way. Their accounts' turns come after those that wait."""
        under_way, held = self.under_way, self.held
        for command in commands:
            account = command.credential.account_id
            under_way.discard(account)
            if account in held:
                self.ready[account] = held.pop(account)

    def put_back(self, commands: Iterable[Command[Any]]) -> None:
        """Puts finished commands back in front of all others, in the same order."""
        for command in reversed(list(commands)):
            account = command.credential.account_id
            self.ready.setdefault(account, deque()).appendleft(command)
            self.ready.move_to_end(account, last=False)

    def take_account(self, account: str) -> Iterable[Command[Any]]:
        """Takes an account's waiting commands. They do not count as under way."""
        return self.ready.pop(account, self.held.pop(account, ()))

    def take_where(self, condition: Callable[[Command[Any]], bool], account: str | None = None) -> list[Command[Any]]:
        """Takes the matching commands of one account or of all accounts. They do not count as under way."""
        taken = []
        for name in [*self.ready, *self.held] if account is None else [account]:
            waiting = self.held if name in self.held else self.ready
            commands = waiting.get(name, ())
            found = [command for command in commands if condition(command)]
            if len(found) == len(commands):
                waiting.pop(name, None)
            elif found:
                waiting[name] = deque(command for command in commands if not condition(command))
            taken += found
        return taken


def make_queues(*, batches: bool) -> tuple[Queue, Queue, Queue]:
    """Returns the queues of all other commands, of isolated accounts' commands, and of probes.

    With `batches`, the first queue has two sessions: the second is used while the first is slow.
    """
    first = Slot(most=limits.batches.CALLS)
    overflow = Slot(most=limits.batches.CALLS, always_batch=True, overflow_of=first)
    single, isolated, probes = (
        Queue(*(Slot() for _ in range(number))) for number in (SINGLE_SESSIONS, ISOLATED_SESSIONS, PROBE_SESSIONS)
    )
    return (Queue(first, overflow), single, probes) if batches else (single, isolated, probes)
