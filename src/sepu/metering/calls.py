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
        self.done = done
        self.latest = latest
        self.account = command.account


class FairQueue:
    """Takes the accounts in turn: one that sends many calls delays itself.

    An account's calls keep their order. The queue belongs to one event loop, so it needs no lock.
    """

    def __init__(self) -> None:
        # The accounts whose calls wait: the next to be taken first.
        self.accounts: OrderedDict[str, deque[PendingCall]] = OrderedDict()

    def add(self, call: PendingCall) -> None:
        """Puts a call behind the others of its account."""
        calls = self.accounts.get(call.account)
        if calls is None:
            self.accounts[call.account] = deque((call,))
        else:
            calls.append(call)

    def put_back(self, calls: Iterable[PendingCall]) -> None:
        """Puts taken calls back to their places, before all others."""
        for call in reversed(list(calls)):
            self.accounts.setdefault(call.account, deque()).appendleft(call)
            self.accounts.move_to_end(call.account, last=False)

    def take(self, most: int, busy: Set[str] = frozenset()) -> list[PendingCall]:
        """Takes the next call, and up to `most` in all that can share its statement, one account after the other.

        Skips busy accounts and other statements; they keep their place.
        """
        taken: list[PendingCall] = []
        skipped: list[tuple[str, deque[PendingCall]]] = []
        while len(taken) < most and self.accounts:
            account, calls = self.accounts.popitem(last=False)
            command = calls[0].command
            if account in busy or (taken and command.joined_statement is not taken[0].command.joined_statement):
                skipped.append((account, calls))
                continue
            taken.append(calls.popleft())
            if calls:
                self.accounts[account] = calls
            if command.joined_statement is None:
                break
        for account, calls in reversed(skipped):
            self.accounts[account] = calls
            self.accounts.move_to_end(account, last=False)
        return taken

    def has_other_than(self, busy: Set[str]) -> bool:
        """Returns whether a call waits whose account is not busy."""
        return not self.accounts.keys() <= busy

    def take_where(self, condition: Callable[[PendingCall], bool], account: str | None = None) -> list[PendingCall]:
        """Takes the calls for which the condition holds: of one account, or of all."""
        taken = []
        for name in [*self.accounts] if account is None else [account]:
            calls = self.accounts.get(name, ())
            found = [call for call in calls if condition(call)]
            if len(found) == len(calls):
                self.accounts.pop(name, None)
            elif found:
                self.accounts[name] = deque(call for call in calls if not condition(call))
            taken += found
        return taken
