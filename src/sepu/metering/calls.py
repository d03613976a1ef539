"""Calls of the ledger that wait to be sent, with a share for each account."""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Set
from typing import Any

from sepu.metering.commands import Command

# Takes the answer, or the exception that stands for it.
Done = Callable[[Any], None]


class PendingCall:
    """A command, and what takes its answer. It must be sent by `latest`, in the time of the event loop."""

    __slots__ = ("account", "command", "done", "latest")

    def __init__(self, command: Command[Any], done: Done, latest: float) -> None:
        self.command = command
        self.account = command.account if command.look_up_for is None else command.look_up_for  # whose turn it takes
        self.done = done
        self.latest = latest


class FairQueue:
    """Gives each account its turn: one that sends many calls delays itself.

    The calls of an account keep their order. It belongs to one event loop, so it needs no lock.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[PendingCall]] = OrderedDict()  # the next account first

    def __bool__(self) -> bool:
        """Tells whether anything waits."""
        return bool(self._waiting)

    def add(self, call: PendingCall) -> None:
        """Puts a call behind the others of its account."""
        calls = self._waiting.get(call.account)
        if calls is None:
            self._waiting[call.account] = deque((call,))
        else:
            calls.append(call)

    def put_back(self, calls: Iterable[PendingCall]) -> None:
        """Puts taken calls back to their places, before all others."""
        for call in reversed(list(calls)):
            self._waiting.setdefault(call.account, deque()).appendleft(call)
            self._waiting.move_to_end(call.account, last=False)

    def take(self, most: int, busy: Set[str] = frozenset()) -> list[PendingCall]:
        """Takes the next call, and up to `most` in all that can share one with it: of one statement, in turns.

        Accounts that are busy, or whose next call is of another statement, are passed over and keep their turn.
        """
        taken: list[PendingCall] = []
        passed: list[tuple[str, deque[PendingCall]]] = []
        while len(taken) < most and self._waiting:
            account, calls = self._waiting.popitem(last=False)
            command = calls[0].command
            if account in busy or (taken and command.joined_statement is not taken[0].command.joined_statement):
                passed.append((account, calls))
                continue
            taken.append(calls.popleft())
            if calls:
                self._waiting[account] = calls
            if command.joined_statement is None:
                break
        for account, calls in reversed(passed):
            self._waiting[account] = calls
            self._waiting.move_to_end(account, last=False)
        return taken

    def waits_beside(self, busy: Set[str]) -> bool:
        """Tells whether a call waits of an account that is not busy."""
        return bool(self._waiting) and (not busy or any(account not in busy for account in self._waiting))

    def take_all(self, account: str) -> Iterable[PendingCall]:
        """Takes an account's calls."""
        return self._waiting.pop(account, ())

    def take_overdue(self, now: float) -> list[PendingCall]:
        """Takes the calls that should have been sent by now."""
        overdue = []
        for account, calls in list(self._waiting.items()):
            while calls and calls[0].latest <= now:
                overdue.append(calls.popleft())
            if not calls:
                del self._waiting[account]
        return overdue
