"""The batcher on a simulated clock, network and database: 10,000 schedules, and faults planted to be found by them."""

from collections import Counter
from collections.abc import Callable, Sequence, Set
from typing import Any

import psycopg
import pytest
from tests.schedules.prove import play, play_all
from tests.schedules.schedule import Schedule

from sepu import limits
from sepu.metering import batcher
from sepu.metering.batcher import Batcher, _Dispatcher, _Limited
from sepu.metering.calls import FairQueue, PendingCall
from sepu.metering.commands import Command
from sepu.metering.session import Rows, SessionLost

SCHEDULES = 10_000
# A planted fault has to be found by so many.
FEW = 6_000

Outcome = Rows | Exception


def test_all_holds() -> None:
    schedules, reached = 0, Counter[str]()
    for played in play_all(SCHEDULES):
        assert played.failures == []
        schedules += played.schedules
        reached += played.reached
    assert schedules == SCHEDULES
    outcomes = {"charged", "replayed", "idempotency_conflict", "request_in_progress", "quota_exceeded", "rate_limited"}
    ways = {"sent again", "call that goes alone", "batch beside another", "overdue", "told without asking"}
    ways |= {"look-ups together", "look-up that waited", "verified", "refused", "looked up and refused"}
    errors = {
        error.__name__ for error in (SessionLost, psycopg.errors.LockNotAvailable, psycopg.errors.UniqueViolation)
    }
    assert outcomes | ways | errors <= reached.keys()


def test_a_seed_replays() -> None:
    traces = []
    for _ in range(2):
        schedule = Schedule(7)
        schedule.play()
        traces.append(schedule.trace())
    assert traces[0] == traces[1]
    assert len(traces[0]) > 20


# --- Faults, planted in the batcher


def repeats_what_was_lost(patch: pytest.MonkeyPatch) -> None:
    settle = Batcher._settle

    def planted(self: Batcher, calls: Sequence[PendingCall], outcome: Outcome, joined: bool) -> None:
        if isinstance(outcome, SessionLost) and len(calls) > 1:
            self._repeat(calls, outcome)
        else:
            settle(self, calls, outcome, joined)

    patch.setattr(Batcher, "_settle", planted)


def answers_by_the_wrong_position(patch: pytest.MonkeyPatch) -> None:
    settle = Batcher._settle

    def planted(self: Batcher, calls: Sequence[PendingCall], outcome: Outcome, joined: bool) -> None:
        if not isinstance(outcome, Exception) and len(calls) > 1:
            outcome = [(position % len(calls) + 1, *row) for position, *row in outcome]
        settle(self, calls, outcome, joined)

    patch.setattr(Batcher, "_settle", planted)


def keeps_an_account_busy(patch: pytest.MonkeyPatch) -> None:
    ended = Batcher._ended
    patch.setattr(Batcher, "_ended", lambda self, calls: ended(self, calls[:-1] if len(calls) > 1 else calls))


def takes_busy_accounts(patch: pytest.MonkeyPatch) -> None:
    take = FairQueue.take
    patch.setattr(
        FairQueue, "take", lambda self, most, busy=frozenset(): take(self, most, busy if most == 1 else frozenset())
    )


def sends_single_calls_side_by_side(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Batcher, "_take_single", lambda self: self._single.take(1))


def forgets_overdue_single_calls(patch: pytest.MonkeyPatch) -> None:
    take_where = FairQueue.take_where
    queues: list[FairQueue] = []

    def sweep(self: Batcher, sweep: Callable[[Batcher], None] = Batcher._sweep) -> None:
        queues[:] = [self._single]
        sweep(self)

    patch.setattr(Batcher, "_sweep", sweep)
    patch.setattr(
        FairQueue,
        "take_where",
        lambda self, condition: [] if any(self is queue for queue in queues) else take_where(self, condition),
    )


def never_sweeps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Batcher, "_sweep_later", lambda _: None)


def leaves_a_timer(patch: pytest.MonkeyPatch) -> None:
    async def planted(self: Batcher) -> None:
        for dispatcher in (self._batches, self._relief, self._prober, *self._single_dispatchers):
            await dispatcher.close()

    patch.setattr(Batcher, "close", planted)


def keeps_a_read_only_session(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Dispatcher, "hang_up", lambda self: None if self._busy else _close(self))


def _close(dispatcher: _Dispatcher) -> None:
    if dispatcher._session is not None:
        dispatcher._session.close()


def isolates_nobody(patch: pytest.MonkeyPatch) -> None:
    def planted(self: Batcher, _accounts: object) -> None:
        self._go_single()

    patch.setattr(Batcher, "_isolate", planted)


def blames_the_next(patch: pytest.MonkeyPatch) -> None:
    blamed = batcher._blamed

    def planted(calls: Sequence[PendingCall], error: Exception) -> PendingCall | None:
        call = blamed(calls, error)
        return None if call is None else calls[(calls.index(call) + 1) % len(calls)]

    patch.setattr(batcher, "_blamed", planted)


def limits_all_keys_of_an_account(patch: pytest.MonkeyPatch) -> None:
    def planted(self: Batcher, refused: PendingCall) -> None:
        for call in self._queue.take_all(refused.turn):
            self._observer.command_ended()
            call.done(call.command.refused("rate_limited"))

    patch.setattr(Batcher, "_limit", planted)


def knows_a_limited_key_for_too_long(patch: pytest.MonkeyPatch) -> None:
    limit = Batcher._limit

    def planted(self: Batcher, refused: PendingCall) -> None:
        limit(self, refused)
        self._limited[refused.command.holder].until += 1.0

    patch.setattr(Batcher, "_limit", planted)
    patch.setattr(limits, "LIMITED_CALLS", 0)


def looks_up_without_limit(patch: pytest.MonkeyPatch) -> None:
    take = Batcher._take_probe

    def planted(self: Batcher) -> list[PendingCall]:
        self._next_look_up = float("-inf")
        return take(self)

    patch.setattr(Batcher, "_take_probe", planted)


def forgets_look_ups_that_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Batcher, "_look_up_again", lambda self: setattr(self, "_look_up_timer", None))


def looks_up_before_it_probes(patch: pytest.MonkeyPatch) -> None:
    take = Batcher._take_probe

    def planted(self: Batcher) -> list[PendingCall]:
        probes, self._probes = self._probes, FairQueue()
        try:
            return take(self) or probes.take(1)
        finally:
            self._probes = probes

    patch.setattr(Batcher, "_take_probe", planted)


def takes_no_turns_of_addresses(patch: pytest.MonkeyPatch) -> None:
    def planted(self: FairQueue, most: int, busy: Set[str] = frozenset()) -> list[PendingCall]:
        taken: list[PendingCall] = []
        if self._waiting and next(iter(self._waiting)).startswith("@"):
            while len(taken) < most and self._waiting:
                taken += take(self, 1)
                self._waiting.move_to_end(taken[-1].turn, last=False) if taken[-1].turn in self._waiting else None
            return taken
        return take(self, most, busy)

    take = FairQueue.take
    patch.setattr(FairQueue, "take", planted)


def repeats_refused_look_ups(patch: pytest.MonkeyPatch) -> None:
    settle = Batcher._settle

    def planted(self: Batcher, calls: Sequence[PendingCall], outcome: Outcome, joined: bool) -> None:
        if isinstance(outcome, psycopg.errors.DeadlockDetected) and len(calls) > 1:
            self._repeat(calls, outcome)
        else:
            settle(self, calls, outcome, joined)

    patch.setattr(Batcher, "_settle", planted)


def forgets_overdue_look_ups(patch: pytest.MonkeyPatch) -> None:
    take_where = FairQueue.take_where

    def planted(self: FairQueue, condition: Callable[[PendingCall], bool]) -> list[PendingCall]:
        look_ups = any(calls[0].command.is_look_up for calls in self._waiting.values())
        return [] if look_ups else take_where(self, condition)

    patch.setattr(FairQueue, "take_where", planted)


def isolates_whom_a_made_up_key_names(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingCall, "suspects", property(lambda self: (self.command.account, f"?{self.command.account}")))


def lets_an_account_wait_for_a_made_up_key(patch: pytest.MonkeyPatch) -> None:
    begin = PendingCall.__init__

    def planted(self: PendingCall, command: Command[Any], done: Any, latest: float) -> None:
        begin(self, command, done, latest)
        self.mark = command.account

    patch.setattr(PendingCall, "__init__", planted)


def takes_the_turn_of_whom_a_key_names(patch: pytest.MonkeyPatch) -> None:
    begin = PendingCall.__init__

    def planted(self: PendingCall, command: Command[Any], done: Any, latest: float) -> None:
        begin(self, command, done, latest)
        self.turn = command.account

    patch.setattr(PendingCall, "__init__", planted)


# --- Faults that schedules found, and that were mended


def looks_only_at_the_next_for_overdue_calls(patch: pytest.MonkeyPatch) -> None:
    take_where, sweep = FairQueue.take_where, Batcher._sweep

    def only_next(self: FairQueue, condition: Callable[[PendingCall], bool]) -> list[PendingCall]:
        nexts = [calls[0] for calls in self._waiting.values()]
        return take_where(self, lambda call: call in nexts and condition(call))

    def planted(self: Batcher) -> None:
        with patch.context() as swept:
            swept.setattr(FairQueue, "take_where", only_next)
            sweep(self)

    patch.setattr(Batcher, "_sweep", planted)


def passes_over_without_keeping_turns(patch: pytest.MonkeyPatch) -> None:
    def planted(self: FairQueue, most: int, busy: Set[str] = frozenset()) -> list[PendingCall]:
        taken: list[PendingCall] = []
        passed = 0
        while len(taken) < most and passed < len(self._waiting):
            account, calls = self._waiting.popitem(last=False)
            command = calls[0].command
            if calls[0].mark in busy or (taken and command.joined_statement is not taken[0].command.joined_statement):
                passed += 1
                self._waiting[account] = calls
                continue
            passed = 0
            taken.append(calls.popleft())
            if calls:
                self._waiting[account] = calls
        return taken

    patch.setattr(FairQueue, "take", planted)


def repeats_overdue_calls(patch: pytest.MonkeyPatch) -> None:
    repeat = Batcher._repeat

    def planted(self: Batcher, calls: Sequence[PendingCall], error: Exception) -> None:
        for call in calls:
            call.latest += 10.0
        repeat(self, calls, error)

    patch.setattr(Batcher, "_repeat", planted)


def isolates_many_and_sends_one(patch: pytest.MonkeyPatch) -> None:
    isolate, go_single = Batcher._isolate, Batcher._go_single

    def planted(self: Batcher, accounts: Any) -> None:
        patch.setattr(Batcher, "_go_single", lambda _: None)
        isolate(self, accounts)
        patch.setattr(Batcher, "_go_single", go_single)
        self._go_single()

    patch.setattr(Batcher, "_isolate", planted)


def disorders_what_is_not_limited(patch: pytest.MonkeyPatch) -> None:
    def planted(self: Batcher, refused: PendingCall) -> None:
        self._limited.setdefault(refused.command.holder, _Limited(self._loop.time() + limits.LIMITED_SECONDS))
        for call in self._queue.take_all(refused.turn):
            if call.command.holder == refused.command.holder:
                self._observer.command_ended()
                call.done(call.command.refused("rate_limited"))
            else:
                self._queue.add(call)

    patch.setattr(Batcher, "_limit", planted)


def releases_before_it_repeats(patch: pytest.MonkeyPatch) -> None:
    def planted(self: _Dispatcher, calls: Sequence[PendingCall], joined: bool, outcome: Outcome) -> None:
        self._busy = False
        self._end(calls)
        if isinstance(outcome, psycopg.errors.ReadOnlySqlTransaction):
            self.hang_up()
        if isinstance(outcome, Exception):
            self._settle(calls, outcome, joined)
            self.go()
        else:
            self.go()
            self._settle(calls, outcome, joined)

    patch.setattr(_Dispatcher, "_arrived", planted)


PLANTED = [
    (repeats_what_was_lost, "is sent again, and may have been executed"),
    (answers_by_the_wrong_position, "is told"),
    (keeps_an_account_busy, "is not served"),
    (takes_busy_accounts, "both sessions hold"),
    (sends_single_calls_side_by_side, "go side by side"),
    (forgets_overdue_single_calls, "waits for|is sent late"),
    (never_sweeps, "waits for|nobody answers|is sent late"),
    (leaves_a_timer, "left a timer behind"),
    (keeps_a_read_only_session, "not served when the trouble is over|a probe is told"),
    (isolates_nobody, "is in a batch, and goes alone"),
    (blames_the_next, "is in a batch, and goes alone|for the sake of others"),
    (limits_all_keys_of_an_account, "is told"),
    (knows_a_limited_key_for_too_long, "is limited, and the database did not say so"),
    (looks_up_without_limit, "are looked up sooner"),
    (forgets_look_ups_that_wait, "waits for|nobody answers|is not served|is given up"),
    (looks_up_before_it_probes, "are looked up before a probe"),
    (takes_no_turns_of_addresses, "others have two turns"),
    (repeats_refused_look_ups, "goes over another's session"),
    (forgets_overdue_look_ups, "waits for|nobody answers|is sent late"),
    (isolates_whom_a_made_up_key_names, "goes alone without need"),
    (lets_an_account_wait_for_a_made_up_key, "goes alone without need|others have two turns"),
    (takes_the_turn_of_whom_a_key_names, "goes before|others have two turns|was in none of"),
    (looks_only_at_the_next_for_overdue_calls, "is sent late|waits for"),
    (passes_over_without_keeping_turns, "was in none of"),
    (repeats_overdue_calls, "is sent late"),
    (isolates_many_and_sends_one, "for the sake of others"),
    (disorders_what_is_not_limited, "goes before"),
    (releases_before_it_repeats, "goes before|is in a batch, and goes alone"),
]


# One in some ten thousand finds it: so they begin shortly before that one.
RARE: dict[Callable[[pytest.MonkeyPatch], None], int] = {releases_before_it_repeats: 9_300}


@pytest.mark.parametrize(("plant", "words"), PLANTED, ids=lambda value: getattr(value, "__name__", ""))
def test_a_planted_fault_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    begin = RARE.get(plant, 0)
    for first in range(begin, begin + FEW, 50):
        failures = play(first, first + 50).failures
        if failures:
            break
    with pytest.raises(AssertionError, match=words):
        raise AssertionError("\n".join(failures))
