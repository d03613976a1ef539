"""Decides what a statement's outcome means for its commands: rows are answers, an error refuses or fails them.

If an error refuses a batch because of one command, the commands are sent again; for a while, that account's go one by
one.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import psycopg

from sepu import limits
from sepu.metering.callers import REMEMBERED, Callers
from sepu.metering.codec import Row, Rows
from sepu.metering.commands import Command
from sepu.metering.failure import report_failure, report_fault
from sepu.metering.observer import LedgerObserver
from sepu.metering.queues import Queue
from sepu.metering.session import SessionLost, UnreadableValueError

# SQLSTATE classes of errors that one command in a batch can cause: bad data, a constraint, a deadlock, a lock timeout.
_REFUSALS = ("22", "23", "40", "55")
# All others are faults of our own code.
_LEDGER_FAILURES = (psycopg.Error, SessionLost, UnreadableValueError)


class Outcomes:
    """Answers commands; those of a refused batch go back to one of two queues, shared or for isolated accounts."""

    def __init__(
        self,
        shared: Queue,
        isolated: Queue,
        callers: Callers,
        observer: LedgerObserver,
        time: Callable[[], float],
        *,
        isolates_lost: bool,
    ) -> None:
        """Takes the queues. `isolates_lost` also isolates the accounts of commands whose session was lost."""
        self.isolated_until: dict[str, float] = {}  # when each account's isolation ends
        self._isolates_lost = isolates_lost
        self._shared, self._isolated = shared, isolated
        self._callers = callers
        self._observer = observer
        self._time = time

    # Before the next statement is sent

    def put_back(self, commands: Sequence[Command[Any]], error: Exception, *, as_batch: bool) -> Sequence[Command[Any]]:
        """Puts a refused batch's commands back, except late ones, and isolates the accounts to blame.

        Returns the commands that the error fails: also those of a lost batch, because it may have committed.
        """
        if as_batch and _is_refusal(error):
            now = self._time()
            blamed = _blamed(commands, error)
            self._shared.put_back([command for command in commands if command.latest > now])
            self._isolate(commands if blamed is None else [blamed], limits.batches.ISOLATED_SECONDS)
            # Sending these again too would extend everyone's wait.
            return [command for command in commands if command.latest <= now]
        if isinstance(error, psycopg.errors.LockNotAvailable):
            self._isolate(commands, limits.batches.ISOLATED_SECONDS)
        elif isinstance(error, SessionLost) and self._isolates_lost:  # a Citus node may not be answering
            self._isolate(commands, limits.batches.UNANSWERED_SECONDS)
        return commands

    def _isolate(self, commands: Iterable[Command[Any]], seconds: float) -> None:
        """Sends these accounts' commands one by one for a while, so that they do not delay other accounts' batches."""
        until = self._time() + seconds
        self.isolated_until.update(dict.fromkeys([command.credential.account_id for command in commands], until))
        # Not only of these accounts: a command just put back may be of one isolated in the meantime.
        for account in self.isolated_until:
            for command in self._shared.take_account(account):
                self._isolated.add(command)

    def end_isolations(self, now: float) -> None:
        """Ends those whose time is up."""
        for account in [account for account, until in self.isolated_until.items() if until <= now]:
            del self.isolated_until[account]

    # After the next statement has been sent

    def answer(self, commands: Sequence[Command[Any]], outcome: Rows | Exception, *, as_batch: bool) -> None:
        """Gives each command its part of a statement's outcome."""
        if isinstance(outcome, Exception):
            self._fail(commands, outcome, as_batch)
            return
        self._observer.call_answered(len(commands))
        if as_batch:
            rows_of: list[list[Row]] = [[] for _ in commands]
            try:
                for row in outcome:
                    rows_of[row[0] - 1].append(row[1:])
            except (TypeError, IndexError) as error:  # no position, or one beyond the batch
                self._fail(commands, error, as_batch)
                return
            for command, rows in zip(commands, rows_of, strict=True):
                self._answer(command, rows)
        else:
            self._answer(commands[0], outcome)

    def _answer(self, command: Command[Any], rows: Sequence[Row]) -> None:
        try:
            if rows[0][0] in REMEMBERED:
                self._refuse_waiting(command, rows[0][0])
            answer = command.reply(command.read(rows))
        except Exception as error:  # the caller must get an answer even then
            answer = error
        self._end(command, answer)

    def _refuse_waiting(self, refused: Command[Any], code: str) -> None:
        """Remembers that the ledger refused a key, and refuses the waiting commands with that key."""
        credential = refused.credential
        self._callers.remember(credential.key_hash, code)
        # Takes them all first: a callback may submit again immediately.
        waiting = [
            command
            for queue in (self._shared, self._isolated)
            for command in queue.take_where(
                lambda command: command.credential.key_hash == credential.key_hash, credential.account_id
            )
        ]
        for command in waiting:
            self._refuse(command, code)

    def _fail(self, commands: Sequence[Command[Any]], error: Exception, as_batch: bool) -> None:
        # In a batch, the duplicate may be another command's.
        if isinstance(error, psycopg.errors.UniqueViolation) and not as_batch and commands[0].on_duplicate is not None:
            self._refuse(commands[0], commands[0].on_duplicate)
        elif isinstance(error, _LEDGER_FAILURES):
            self.fail(commands, error)
        else:  # our own fault, which each caller reports
            for command in commands:
                self._end(command, error)

    def fail(self, commands: Sequence[Command[Any]], error: Exception | None) -> None:
        """Fails commands that the ledger did not answer, and reports the error, if there is one."""
        if commands and error is not None:
            report_failure(error, self._observer)
        for command in commands:
            self._end(command, command.unanswered())

    def _refuse(self, command: Command[Any], code: str) -> None:
        try:
            answer = command.refused(code)
        except Exception as error:  # the other commands must get their answers even then
            answer = error
        self._end(command, answer)

    def _end(self, command: Command[Any], answer: object) -> None:
        self._observer.command_ended()
        call_back(command.done, answer)


def call_back(done: Callable[[Any], object], answer: object) -> None:
    """Calls a callback. If it raises an exception, the other callbacks must still get their answers."""
    try:
        done(answer)
    except Exception as raised:
        report_fault(raised)


def _is_refusal(error: Exception) -> bool:
    """Returns whether one command of a batch may have caused the error."""
    return (getattr(error, "sqlstate", None) or "").startswith(_REFUSALS)


def _blamed(commands: Sequence[Command[Any]], error: Exception) -> Command[Any] | None:
    """Returns the command to blame, if known: the error's detail is its 1-based position."""
    detail = isinstance(error, psycopg.Error) and error.diag.message_detail
    if detail and detail.isdecimal() and 0 < int(detail) <= len(commands):
        return commands[int(detail) - 1]
    return None
