"""The checkers of histories and of quota events believe a true history, and find each lie that is put into it."""

from collections.abc import Callable, Mapping, Set
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.faults.consistency import Ledger, Stored, _merged, contradictions, first_unfilled, windows
from tests.faults.crossings import Event, Recorded, wrong_events
from tests.faults.history import UNANSWERED, Adjustment, Change, Counter, History, Outcome, Request, Terms, Told

pytestmark = pytest.mark.slow
MONTH = "2031-03"
THRESHOLDS = (1, 50, 100)


def terms(match: int = 1000, per_minute: int = 1000) -> Terms:
    return Terms({"color_match": match, "color_search": 1000}, per_minute)


class Row(NamedTuple):
    request: Request
    told: Told
    start: float
    end: float


def row(start: float, account: str, key: str, units: int, told: Told, content: int = 1) -> Row:
    return Row(Request(account, key, "color_match" if units else "library", units, content), told, start, start + 0.1)


def told(outcome: Outcome, committed: int, limit: int = 1000, body: int = 0) -> Told:
    return Told(outcome, "color_match", MONTH, limit, committed, 0, limit - committed, body)


ROWS = (
    row(1, "ample", "a-1", 3, told(Outcome.CHARGED, 3, body=1)),
    row(2, "ample", "a-2", 2, told(Outcome.CHARGED, 5, body=2)),
    row(3, "ample", "a-1", 3, told(Outcome.REPLAYED, 5, body=1)),
    row(4, "ample", "a-3", 4, UNANSWERED),
    row(5, "ample", "a-4", 1, told(Outcome.CHARGED, 10, body=4)),
    row(5.05, "ample", "a-4", 1, Told(Outcome.IN_PROGRESS)),
    row(6, "ample", "usage", 0, told(Outcome.READ, 10)),
    row(7, "ample", "a-4", 1, Told(Outcome.CONFLICT), content=2),
    row(1, "scarce", "s-1", 5, told(Outcome.CHARGED, 5, 10, 5)),
    row(2, "scarce", "s-2", 5, told(Outcome.CHARGED, 10, 10, 6)),
    row(3, "scarce", "s-3", 1, told(Outcome.QUOTA_EXCEEDED, 10, 10)),
    row(1, "varied", "v-1", 1, told(Outcome.CHARGED, 1, 1000, 7)),
    row(4, "varied", "v-2", 1, told(Outcome.CHARGED, 2, 500, 8)),
    row(1, "granted", "g-1", 4, told(Outcome.CHARGED, 4, 5, 9)),
    row(4, "granted", "g-2", 4, told(Outcome.CHARGED, 8, 8, 10)),
    row(5, "granted", "g-1", 4, told(Outcome.REPLAYED, 8, 8, 9)),
    row(1, "slow", "library-1", 0, Told(Outcome.ADMITTED)),
    row(2, "slow", "library-2", 0, Told(Outcome.ADMITTED)),
    row(3, "slow", "library-3", 0, Told(Outcome.RATE_LIMITED)),
)
(FIRST, SECOND, REPLAY, SILENT, LAST, IN_PROGRESS, READ, CONFLICT) = range(8)
(REFUSED, BEFORE_CHANGE, AFTER_CHANGE, BEFORE_GRANT, AFTER_GRANT, _, EARLIEST, _, LIMITED) = range(10, 19)
STORED = {
    at.request[:2]: Stored("color_match", MONTH, at.request.units, at.told.body)
    for at in ROWS
    if at.told.outcome == Outcome.CHARGED or at.told == UNANSWERED
}
COMMITTED = {"ample": 10, "scarce": 10, "varied": 2, "granted": 8}
GRANTED, CREDITED = {"granted": 3}, {"ample": 4}
FINAL = {"ample": terms(), "scarce": terms(10), "varied": terms(500), "slow": terms(per_minute=2), "granted": terms(5)}
EVENTS = {
    "ample": {Event(1, 1000, 10)},
    "granted": {Event(1, 5, 4), Event(50, 5, 4), Event(100, 8, 8)},
    "scarce": {Event(1, 10, 5), Event(50, 10, 5), Event(100, 10, 10)},
}


class Lie(NamedTuple):
    """What is changed of attempts, and of what is stored and counted; None removes."""

    told: Mapping[int, dict[str, Any]] = {}
    asked: Mapping[int, dict[str, Any]] = {}
    began: Mapping[int, float] = {}
    stored: Mapping[tuple[str, str], Stored | None] = {}
    committed: Mapping[str, int] = {}
    granted: Mapping[str, int] = {}
    credited: Mapping[str, int] = {}
    names: Set[int] = frozenset()  # the attempts that the finding names, where they are not those changed

    def played(self) -> tuple[History, Ledger]:
        history = History()
        for at, (request, answer, start, end) in enumerate(ROWS):
            begin = self.began.get(at, start)
            asked, answered = self.asked.get(at, {}), self.told.get(at, {})
            history.add(request._replace(**asked), begin, begin + end - start, answer._replace(**answered))
        history.changes["varied"] = [Change(2.5, 2.6, terms())]
        history.grants[counter("granted")] = [Adjustment(2.5, 2.6, 5), Adjustment(2.8, 2.9, -2)]
        history.credits[counter("ample")] = [Adjustment(2.5, 2.6, 4)]
        stored = {key: one for key, one in {**STORED, **self.stored}.items() if one}
        sums = ((COMMITTED, self.committed), (GRANTED, self.granted), (CREDITED, self.credited))
        committed, granted, credited = (
            {counter(name): units for name, units in {**true, **lied}.items()} for true, lied in sums
        )
        return history, Ledger(stored, committed, granted, credited, FINAL)


def counter(account: str) -> Counter:
    return Counter(account, "color_match", MONTH)


def result(units: int, body: int = 0) -> Stored:
    return Stored("color_match", MONTH, units, body)


TOO_LOW = {at: {"committed": ROWS[at].told.committed - 3} for at in (FIRST, SECOND, REPLAY, LAST, READ)}
UNANSWERED_OF_QUOTA = {REFUSED: {"outcome": Outcome.UNKNOWN, "period": ""}}
LIES = [
    ("it lacks the usage headers", Lie({FIRST: {"period": ""}})),
    ("it tells another meter", Lie({FIRST: {"meter": "color_search"}})),
    ("its limit is of no plan", Lie({REPLAY: {"limit": 900, "remaining": 895}})),
    ("its limit is of no plan", Lie({AFTER_CHANGE: {"limit": 1000, "remaining": 998}})),
    ("its limit is of no plan", Lie({BEFORE_CHANGE: {"limit": 500, "remaining": 499}})),
    ("its limit is of no plan", Lie({BEFORE_GRANT: {"limit": 8, "remaining": 4}})),
    ("its limit is of no plan", Lie({AFTER_GRANT: {"limit": 5, "remaining": 0}})),
    ("its limit is of no plan", Lie({AFTER_GRANT: {"limit": 10, "remaining": 2}})),
    ("3 units were granted, not 0", Lie(granted={"granted": 0})),
    ("3 units were granted, not 6", Lie(granted={"granted": 6})),
    ("0 units were granted, not 3", Lie(granted={"scarce": 3})),
    ("4 units were credited, not 8", Lie(credited={"ample": 8})),
    ("remaining is not what", Lie({REPLAY: {"remaining": 996}})),
    (
        "charged beyond the quota",
        Lie(
            {REFUSED: {"outcome": Outcome.CHARGED, "committed": 11, "remaining": 0}},
            stored={("scarce", "s-3"): result(1)},
            committed={"scarce": 11},
        ),
    ),
    ("its units would have fitted", Lie({REFUSED: {"committed": 5, "remaining": 5}})),
    ("nothing is stored", Lie(stored={("ample", "a-1"): None})),
    ("another body than is stored", Lie({REPLAY: {"body": 9}})),
    ("stored with other units", Lie(stored={("ample", "a-1"): result(9, 1)})),
    ("charged more than once", Lie({REPLAY: {"outcome": Outcome.CHARGED, "committed": 8}})),
    ("was never asked", Lie(stored={("ample", "a-9"): result(1)})),
    ("no attempt can have been charged", Lie({SILENT: {"outcome": Outcome.REFUSED}})),
    ("the second is not its replay", Lie({REPLAY: {"outcome": Outcome.IN_PROGRESS, "period": ""}})),
    ("the second is not its replay", Lie({REPLAY: {"outcome": Outcome.CONFLICT, "period": ""}})),
    ("a replay of what no attempt", Lie(asked={REPLAY: {"content": 9}})),
    ("a replay of what no attempt", Lie(began={REPLAY: 0.5})),
    ("no other attempt with this key and input", Lie(asked={IN_PROGRESS: {"key": "a-9"}})),
    ("neither used nor in use", Lie(asked={CONFLICT: {"key": "a-9"}})),
    ("neither used nor in use", Lie(asked={CONFLICT: {"content": 1}})),
    ("more than 2 requests were let through", Lie({LIMITED: {"outcome": Outcome.ADMITTED}})),
    ("fewer than 2 requests", Lie(began={EARLIEST: -200}, names={LIMITED})),
    ("the one comes before the other, by the clock", Lie({REPLAY: {"committed": 10, "remaining": 990}})),
    ("the one comes before the other, by the clock", Lie({READ: {"committed": 5, "remaining": 995}})),
    ("before the state that the first tells", Lie({SECOND: {"committed": 4, "remaining": 996}})),
    ("it tells otherwise", Lie(TOO_LOW)),
    ("charged that none of them asked", Lie(committed={"ample": 11})),
    (
        "are not in the counter",
        Lie({at: {"committed": 6, "remaining": 994} for at in (LAST, READ)}, committed={"ample": 6}, names={SILENT}),
    ),
    (
        "units were charged, beyond the quota",
        Lie(UNANSWERED_OF_QUOTA, stored={("scarce", "s-3"): result(1)}, committed={"scarce": 11}),
    ),
]


def test_a_true_history_is_believed() -> None:
    assert contradictions(*Lie().played()) == []
    history, ledger = Lie({LIMITED: {"outcome": Outcome.ADMITTED}}).played()
    history.forgotten = [(2.5, 2.6)]  # a crash of Postgres begins another window of the abuse limit
    assert contradictions(history, ledger) == []


@pytest.mark.parametrize(("what", "lie"), LIES)
def test_every_lie_is_found_and_named(what: str, lie: Lie) -> None:
    history, ledger = lie.played()
    liars = lie.names or lie.told.keys() | lie.asked.keys() | lie.began.keys()
    found = contradictions(history, ledger)
    assert any(what in one.what and (not liars or liars & set(one.attempts)) for one in found), found
    assert history.table(found[0].attempts)


def test_an_event_that_is_missing_or_made_up_is_found() -> None:
    history, ledger = Lie().played()
    thresholds = {(account, "color_match"): THRESHOLDS for account in COMMITTED}

    def wrong(events: Mapping[str, set[Event]]) -> list[tuple[list[Event], list[Event]]]:
        found = wrong_events(history, ledger, Recorded({counter(name): of for name, of in events.items()}, thresholds))
        return [(each.missing, each.extra) for _, each in found]

    assert wrong(EVENTS) == []
    for account, events in EVENTS.items():
        for event in events:
            assert wrong({**EVENTS, account: events - {event}}) == [([event], [])]
            for field, more in (("threshold", 2), ("limit", 1), ("committed", 1000)):
                other = event._replace(**{field: getattr(event, field) + more})
                assert wrong({**EVENTS, account: events | {other}}) == [([], [other])]


GAPS = 4


@given(
    st.lists(st.tuples(*[st.integers(0, GAPS - 1)] * 3, st.integers(1, 5)), max_size=5),
    st.sampled_from([(), (), (0,), (0, 0, 1), (1, 2)]),
)
@settings(derandomize=True, max_examples=200)
def test_gaps_are_filled_if_they_can_be(drawn: list[tuple[int, int, int, int]], added: tuple[int, ...]) -> None:
    """Against the trial of every way. The gaps are those that some charges make, or a unit or two more."""
    silent = []
    gaps = [added.count(gap) for gap in range(GAPS)]
    for *places, units in drawn:
        first, at, last = sorted(places)
        gaps[at] += units
        silent.append((first, last, units))
    tried = product(*(range(first, last + 1) for first, last, _ in silent))
    fitting = any(gaps == [_filled(silent, ways, gap) for gap in range(GAPS)] for ways in tried)
    assert fitting or added
    assert (first_unfilled(gaps, silent) is None) == fitting


def _filled(silent: list[tuple[int, int, int]], ways: tuple[int, ...], gap: int) -> int:
    return sum(units for (_, _, units), way in zip(silent, ways, strict=True) if way == gap)


@given(st.data(), st.booleans())
@settings(derandomize=True, max_examples=300)
def test_windows_hold_who_counts_in_no_other(data: st.DataObject, exact: bool) -> None:
    """Against requests whose instants are known, which are told exactly, or only when they began and ended."""
    width = st.just(0.0) if exact else st.floats(0, 20)
    instants = sorted(data.draw(st.lists(st.floats(0, 300), max_size=40, unique=True)))
    crashes = sorted(data.draw(st.lists(st.floats(0, 300), max_size=2, unique=True).filter(instants_apart(instants))))
    start, end = (np.array([at + sign * data.draw(width) for at in instants]) for sign in (-1, 1))
    surely = np.array([exact or data.draw(st.booleans()) for _ in instants], bool)
    until = np.where(surely, end, np.inf)
    order = np.argsort(start, kind="stable")
    forgotten = _merged([(crash - data.draw(width), crash + data.draw(width)) for crash in crashes])
    found = windows(start[order], end[order], until[order], surely[order], forgotten)
    held = [{instants[at] for at in order[inside]} for _, inside in found]
    true = _true_windows(instants, crashes)
    if exact:
        assert held == true
    assert all(any(inside <= window for window in true) for inside in held)


def instants_apart(instants: list[float]) -> Callable[[list[float]], bool]:
    return lambda crashes: not set(crashes) & set(instants)


def _true_windows(instants: list[float], crashes: list[float]) -> list[set[float]]:
    found: list[set[float]] = []
    begin, left = float("-inf"), list(crashes)
    for at in instants:
        crashed = bool(left) and left[0] < at
        left = [crash for crash in left if crash > at]
        if crashed or at >= begin + 60:
            begin = at
            found.append(set())
        found[-1].add(at)
    return found
