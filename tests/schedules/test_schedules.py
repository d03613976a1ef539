"""The batcher on a simulated clock, network and database; and faults of its source, planted to be found by that."""

import sys
from collections import Counter
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import psycopg
import pytest
from tests.schedules.prove import play, play_all
from tests.schedules.schedule import Schedule

from sepu.metering.batcher import Batcher
from sepu.metering.session import SessionLost

# A planted fault has to be found by so many.
FEW = 2_000


@pytest.mark.parametrize("schedules", [400, pytest.param(4_000, marks=pytest.mark.slow)])
def test_all_holds(schedules: int) -> None:
    reached = Counter[str]()
    for played in play_all(schedules) if schedules > 1_000 else [play(0, schedules)]:
        assert played.failures == []
        reached += played.reached
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


class Fault(NamedTuple):
    """A text of the batcher's source, another instead of it, and what a schedule then finds."""

    old: str
    new: str
    found: str


# More of them are in tests/mutants: those that `test_all_holds` notices.
FAULTS = {
    "answers by the wrong position": Fault("calls[position - 1]", "calls[position % len(calls)]", "is told"),
    "keeps an account busy": Fault(
        "for call in calls:\n            self.busy.discard",
        "for call in calls[:-1] or calls:\n            self.busy.discard",
        "is not served",
    ),
    "sends single calls side by side": Fault(
        "self.queue.take(self._most, self.busy)",
        "self.queue.take(self._most, self.busy if self._most > 1 else set())",
        "two sessions hold",
    ),
    "forgets overdue single calls": Fault(
        "self.singles.queue, self.look_ups", "self.look_ups", "waits for|is sent late"
    ),
    "forgets overdue look-ups": Fault(
        "self.look_ups.queue, self.look_ups.probes)", "self.look_ups.probes)", "waits for|nobody answers|is sent late"
    ),
    "looks only at the next for overdue calls": Fault(
        "queue.take_where(lambda call: call.latest <= now)",
        "queue.take_where(lambda call, q=[c[0] for c in queue.turns.values()]: call in q and call.latest <= now)",
        "is sent late|waits for",
    ),
    "never sweeps": Fault("if self._sweep_timer is None and", "if False and", "waits for|nobody answers|is sent late"),
    "leaves a timer": Fault("            self._sweep_timer.cancel()", "            pass", "left a timer behind"),
    "leaves what waited for the relief": Fault("if not self.go() and", "if self.go() and", "is not served|waits for"),
    "isolates nobody": Fault(
        "marks = {mark for call in calls for mark in call.suspects}",
        "marks: set[str] = set()",
        "is in a batch, and goes alone",
    ),
    "isolates many and sends one": Fault(
        """self.singles.add(call)
            else:
                self._look_up(call)
""",
        """self.singles.queue.add(call)
            else:
                self._look_up(call)
        self.singles.go()
""",
        "for the sake of others",
    ),
    "isolates whom a made-up key names": Fault(
        "return (self.mark, _unverified(self.mark)) if self.is_verified else (self.mark,)",
        "return (self.command.account, _unverified(self.command.account))",
        "goes alone without need",
    ),
    "blames the next": Fault(
        "calls[int(detail) - 1]",
        "calls[int(detail) % len(calls)]",
        "is in a batch, and goes alone|for the sake of others",
    ),
    "repeats overdue calls": Fault(
        "        self.batches.queue.put_back(",
        "        for call in calls: call.latest += 10.0\n        self.batches.queue.put_back(",
        "is sent late",
    ),
    "ends before it repeats": Fault(
        """            self._settle(calls, outcome, joined)  # first: what is repeated goes before what came later
            self._ended(calls)
""",
        """            self._ended(calls)
            self._settle(calls, outcome, joined)
""",
        "goes before|is in a batch, and goes alone",
    ),
    "knows a limited key for too long": Fault(
        "_Limited(now + limits.LIMITED_SECONDS)",
        "_Limited(now + limits.LIMITED_SECONDS + 1.0, limits.LIMITED_CALLS)",
        "is limited, and the database did not say so",
    ),
    "disorders what is not limited": Fault(
        "deque(call for call in calls if not", "deque(call for call in reversed(calls) if not", "goes before"
    ),
    "looks up without limit": Fault("if self._next - now > _EARLY_SECONDS:", "if False:", "are looked up sooner"),
    "forgets look-ups that wait": Fault(
        "self._timer = None\n        self.go()",
        "self._timer = None",
        "waits for|nobody answers|is not served|is given up",
    ),
    "looks up before it probes": Fault(
        "if self.probes.turns:", "if self.probes.turns and not self.queue.turns:", "are looked up before a probe"
    ),
    "repeats refused look-ups": Fault("if not calls[0].command.is_look_up:", "if True:", "goes over another's session"),
    "takes no turns of addresses": Fault(
        "                self.turns[turn] = calls\n",
        "                self.turns[turn] = calls\n                self.turns.move_to_end(turn, turn[:1] != '@')\n",
        "others have two turns",
    ),
    "passes over without keeping turns": Fault(
        "            self.turns.move_to_end(turn, last=False)\n        return taken",
        "        return taken",
        "was in none of",
    ),
    "takes the turn of whom a key names": Fault(
        "self.turn = command.sender", "self.turn = command.account", "goes before|others have two turns|was in none of"
    ),
}


def planted(fault: Fault) -> type[Batcher]:
    """Makes the batcher of a changed source."""
    found = 0
    with patch.dict(sys.modules):
        for name in ("calls", "lanes", "batcher"):
            spec = find_spec(f"sepu.metering.{name}")
            assert spec is not None
            assert spec.origin is not None
            source = Path(spec.origin).read_text("utf-8")
            found += source.count(fault.old)
            sys.modules[spec.name] = module = module_from_spec(spec)
            exec(compile(source.replace(fault.old, fault.new), spec.origin, "exec"), module.__dict__)
    assert found == 1, "the source is another: plant the fault anew"
    changed: type[Batcher] = module.Batcher
    return changed


@pytest.mark.slow
@pytest.mark.parametrize("what", FAULTS)
def test_a_planted_fault_is_found(what: str) -> None:
    changed = planted(FAULTS[what])
    batches = (play(first, first + 20, changed).failures for first in range(0, FEW, 20))
    failures = next(filter(None, batches), [])
    with pytest.raises(AssertionError, match=FAULTS[what].found):
        raise AssertionError("\n".join(failures))
