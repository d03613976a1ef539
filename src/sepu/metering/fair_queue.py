"""Queues calls to the ledger, and serves accounts in turn."""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Any

from sepu.metering.commands import Command

# Takes a command's answer, or an exception instead.
Done = Callable[[Any], None]


class PendingCall:
    """A command and the callback for its answer. If not sent by `latest`, on the loop's clock, it fails."""

    __slots__ = ("account", "command", "done", "latest")

    def __init__(self, command: Command[Any], done: Done, latest: float) -> None:
        self.command = command
        self.done = done
        self.latest = latest
        self.account = command.account


class FairQueue:
    """Serves accounts in turn, so that an account with many calls delays only itself.

    An account's calls keep their order: while some are under way (until `finish`), its other calls wait.
    """

    def __init__(self) -> None:
        # The waiting calls of each account. The first account is next.
        self.accounts: OrderedDict[str, deque[PendingCall]] = OrderedDict()
        self._under_way: set[str] = set()  # accounts

    def add(self, call: PendingCall) -> None:
        """Adds a call behind the others of its account."""
        calls = self.accounts.get(call.account)
        if calls is None:
            self.accounts[call.account] = deque((call,))
        else:
            calls.append(call)

    def pass_by(self, call: PendingCall) -> bool:
        """Lets a call bypass an empty queue if its account has none under way; returns whether it did."""
        if self.accounts or call.account in self._under_way:
            return False
        self._under_way.add(call.account)
        return True

    def has_next(self) -> bool:
        """Returns whether `take` would return a call now."""
        return not self.accounts.keys() <= self._under_way

    def take(self, most: int) -> list[PendingCall]:
        """Takes up to `most` calls that can share one statement, one from each account in turn.

        Skips accounts that have calls under way or whose next call needs a different statement. They keep their place.
        """
        taken: list[PendingCall] = []
        skipped: list[tuple[str, deque[PendingCall]]] = []
        while len(taken) < most and self.accounts:
            account, calls = self.accounts.popitem(last=False)
            statement = calls[0].command.joined_statement
            if account in self._under_way or (taken and statement is not taken[0].command.joined_statement):
                skipped.append((account, calls))
                continue
            taken.append(calls.popleft())
            if calls:
                self.accounts[account] = calls
            if statement is None:
                break
        for account, calls in reversed(skipped):
            self.accounts[account] = calls
            self.accounts.move_to_end(account, last=False)
        for call in taken:
            self._under_way.add(call.account)
        return taken

    def finish(self, calls: Iterable[PendingCall]) -> None:
        """Marks taken calls as no longer under way, so that their accounts get turns again."""
        for call in calls:
            self._under_way.discard(call.account)

    def put_back(self, calls: Iterable[PendingCall]) -> None:
        """Puts taken calls back in front of all others, in the same order."""
        for call in reversed(list(calls)):
            self.accounts.setdefault(call.account, deque()).appendleft(call)
            self.accounts.move_to_end(call.account, last=False)

    def take_where(self, condition: Callable[[PendingCall], bool], account: str | None = None) -> list[PendingCall]:
        """Takes the matching calls of one account or of all accounts. They do not count as under way."""
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
