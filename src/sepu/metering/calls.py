"""Calls of the ledger that wait to be sent, with a share for each account, and for each address without one."""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Set
from typing import Any

from sepu.metering.commands import Command

# Takes the answer, or the exception that stands for it.
Done = Callable[[Any], None]


class PendingCall:
    """A command, and what takes its answer. It must be sent by `latest`, in the time of the event loop.

    With a key that is not verified it takes the `turn` of its sender's address, otherwise that of its account. It may
    have to wait for the rows of its account. So while it is under way, those with the same `mark` wait here: those of
    the account, or those that name it and are not verified.
    """

    __slots__ = ("command", "done", "is_verified", "latest", "mark", "turn")

    def __init__(self, command: Command[Any], done: Done, latest: float) -> None:
        self.command = command
        self.done = done
        self.latest = latest
        self.turn = self.mark = command.account
        self.is_verified = command.sender is None
        if command.sender is not None:
            self.turn = command.sender
            self.mark = _unverified(command.account)

    def verify(self) -> None:
        """Lets it take its account's turn, because its key is valid."""
        self.turn = self.mark = self.command.account
        self.is_verified = True

    @property
    def suspects(self) -> tuple[str, ...]:
        """Returns the marks of those that may wait as long: what is not verified casts suspicion on its like."""
        return (self.mark, _unverified(self.mark)) if self.is_verified else (self.mark,)


def _unverified(account: str) -> str:
    return f"?{account}"


class FairQueue:
    """Takes the accounts (or addresses) in turn: one that sends many calls delays itself.

    The calls of a turn keep their order. It belongs to one event loop, so it needs no lock.
    """

    def __init__(self) -> None:
        # What waits: the next turn first, and none without calls.
        self.turns: OrderedDict[str, deque[PendingCall]] = OrderedDict()

    def add(self, call: PendingCall) -> None:
        """Puts a call behind the others of its turn."""
        calls = self.turns.get(call.turn)
        if calls is None:
            self.turns[call.turn] = deque((call,))
        else:
            calls.append(call)

    def put_back(self, calls: Iterable[PendingCall]) -> None:
        """Puts taken calls back to their places, before all others."""
        for call in reversed(list(calls)):
            self.turns.setdefault(call.turn, deque()).appendleft(call)
            self.turns.move_to_end(call.turn, last=False)

    def take(self, most: int, busy: Set[str] = frozenset()) -> list[PendingCall]:
        """Takes the next call, and up to `most` in all that can share one with it: of one statement, in turns.

        Who is busy, or whose next call is of another statement, is passed over and keeps the turn.
        """
        taken: list[PendingCall] = []
        passed: list[tuple[str, deque[PendingCall]]] = []
        while len(taken) < most and self.turns:
            turn, calls = self.turns.popitem(last=False)
            command = calls[0].command
            if calls[0].mark in busy or (taken and command.joined_statement is not taken[0].command.joined_statement):
                passed.append((turn, calls))
                continue
            taken.append(calls.popleft())
            if calls:
                self.turns[turn] = calls
            if command.joined_statement is None:
                break
        for turn, calls in reversed(passed):
            self.turns[turn] = calls
            self.turns.move_to_end(turn, last=False)
        return taken

    def waits_beside(self, busy: Set[str]) -> bool:
        """Returns whether the next call of anybody waits who is not busy."""
        return bool(self.turns) and (not busy or any(calls[0].mark not in busy for calls in self.turns.values()))

    def take_where(self, condition: Callable[[PendingCall], bool], turn: str | None = None) -> list[PendingCall]:
        """Takes the calls, perhaps only those of one turn, of which the condition holds."""
        taken = []
        for name in [*self.turns] if turn is None else [turn]:
            calls = self.turns.get(name, ())
            found = [call for call in calls if condition(call)]
            if len(found) == len(calls):
                self.turns.pop(name, None)
            elif found:
                self.turns[name] = deque(call for call in calls if not condition(call))
            taken += found
        return taken
