"""The checker of histories: it believes those of a reference ledger, and finds each lie that is put into one."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.faults.consistency import Stored, _merged, contradictions, first_unfilled, windows
from tests.faults.history import Counter, Outcome, Request, Told
from tests.faults.simulated import PLANS, Row, Scene, simulate

pytestmark = pytest.mark.slow
SEEDS = range(20)
Tell = Callable[["Lie"], set[int] | None]
LIES: dict[str, Tell] = {}


@cache
def true_scene(seed: int) -> Scene:
    return simulate(seed, 400)


class Lie:
    """A true history to be spoilt: a lie changes it, and gives the attempts of which one has to be named, or None."""

    def __init__(self, seed: int) -> None:
        scene = true_scene(seed)
        self.scene = replace(
            scene,
            rows=[replace(row) for row in scene.rows],
            stored=dict(scene.stored),
            committed=dict(scene.committed),
            terms=dict(scene.terms),
        )
        self.rows = self.scene.rows
        self.random = random.Random(seed)
        self.order = self.random.sample(range(len(self.rows)), len(self.rows))

    def those(self, *outcomes: Outcome) -> list[int]:
        """The attempts that were told so, in an order of the seed's."""
        return [at for at in self.order if self.rows[at].told.outcome in outcomes]

    def tell(self, at: int, **told: object) -> None:
        self.rows[at].told = self.rows[at].told._replace(**told)  # type: ignore[arg-type]

    def tell_committed(self, at: int, committed: int) -> None:
        told = self.rows[at].told
        self.tell(at, committed=committed, remaining=max(0, told.limit - committed))

    def tell_limit(self, at: int, limit: int) -> set[int]:
        self.tell(at, limit=limit, remaining=max(0, limit - self.rows[at].told.committed))
        return {at}

    def limits(self, at: int) -> tuple[set[int], set[int], set[int]] | None:
        """Of an account whose plan varied, those in force surely before an attempt, perhaps during it, and after it."""
        row, changes = self.rows[at], self.scene.changes
        if row.request.account_id != "varied":
            return None
        spans = [(-1.0, 0.0), *((change.start, change.end) for change in changes), (99.0, 99.0)]
        in_force = [*(change.before for change in changes), self.scene.terms["varied"]]
        found: tuple[set[int], set[int], set[int]] = (set(), set(), set())
        for terms, (begin, end) in zip(in_force, pairwise(spans), strict=True):
            when = 0 if end[1] < row.start else 2 if begin[0] > row.end else 1
            found[when].add(terms.units[row.told.meter])
        return found

    def counter(self, at: int) -> Counter:
        row = self.rows[at]
        return Counter(row.request.account_id, row.told.meter, row.told.period)

    def charges(self, counter: Counter) -> list[int]:
        """Of a counter, as they were committed."""
        found = [at for at in self.those(Outcome.CHARGED) if self.counter(at) == counter]
        return sorted(found, key=lambda at: self.rows[at].told.committed)

    def chained(self) -> list[tuple[int, int]]:
        """Charges that were told, each with the one right before it, that was told too."""
        pairs = []
        for counter in self.scene.committed:
            charges = self.charges(counter)
            for one, other in pairwise(charges):
                if self.rows[other].told.committed - self.rows[other].request.units == self.rows[one].told.committed:
                    pairs.append((one, other))
        return self.random.sample(pairs, len(pairs))

    def fresh(self, outcome: Outcome, account: str = "ample") -> int:
        """An attempt with a key of its own, in the midst of the others."""
        start = self.rows[len(self.rows) // 2].end
        request = Request(account, "key-fresh", "color_match", 1, 7)
        self.rows.append(Row(request, start, start + 0.01, Told(outcome)))
        return len(self.rows) - 1

    def replay(self) -> tuple[int, int] | None:
        """A replay, and an answer to the same key that had ended before."""
        for at in self.those(Outcome.REPLAYED):
            for other in self.those(Outcome.CHARGED, Outcome.REPLAYED):
                same = self.rows[other].request == self.rows[at].request
                if same and self.rows[other].end < self.rows[at].start:
                    return at, other
        return None


def lie(tell: Tell) -> None:
    LIES[tell.__name__] = tell


def lie_of_a_state(tell: Callable[[Lie, Outcome], set[int] | None]) -> None:
    """By a replay, and by an answer of usage."""
    LIES[f"{tell.__name__}_by_a_replay"] = lambda scene: tell(scene, Outcome.REPLAYED)
    LIES[f"{tell.__name__}_by_usage"] = lambda scene: tell(scene, Outcome.READ)


@lie
def committed_3_too_low(scene: Lie) -> set[int] | None:
    for _, at in scene.chained():
        scene.tell_committed(at, scene.rows[at].told.committed - 3)
        return {at}
    return None


@lie
def everything_3_too_low(scene: Lie) -> set[int] | None:
    told = scene.those(Outcome.CHARGED, Outcome.REPLAYED, Outcome.QUOTA_EXCEEDED)
    for at in told:
        scene.tell_committed(at, scene.rows[at].told.committed - 3)
    return set(told)


@lie
def two_charges_in_the_wrong_order(scene: Lie) -> set[int] | None:
    for one in scene.those(Outcome.CHARGED):
        for other in scene.charges(scene.counter(one)):
            first, second = scene.rows[one], scene.rows[other]
            if first.request.units == second.request.units and first.end < second.start:
                told = first.told.committed
                scene.tell_committed(one, second.told.committed)
                scene.tell_committed(other, told)
                return {one, other}
    return None


@lie_of_a_state
def future_state(scene: Lie, outcome: Outcome) -> set[int] | None:
    for at in scene.those(outcome):
        for later in scene.charges(scene.counter(at)):
            if scene.rows[later].start > scene.rows[at].end:
                scene.tell_committed(at, scene.rows[later].told.committed)
                return {at}
    return None


@lie_of_a_state
def old_state(scene: Lie, outcome: Outcome) -> set[int] | None:
    for at in scene.those(outcome):
        for old, following in scene.chained():
            if scene.counter(old) == scene.counter(at) and scene.rows[following].end < scene.rows[at].start:
                scene.tell_committed(at, scene.rows[old].told.committed)
                return {at}
    return None


@lie_of_a_state
def no_state(scene: Lie, outcome: Outcome) -> set[int] | None:
    for at in scene.those(outcome):
        for charge in scene.charges(scene.counter(at)):
            if scene.rows[charge].request.units > 1:
                scene.tell_committed(at, scene.rows[charge].told.committed - 1)
                return {at, charge}
    return None


@lie
def a_retry_is_charged_again(scene: Lie) -> set[int] | None:
    if found := scene.replay():
        at, _ = found
        counter, units = scene.counter(at), scene.rows[at].request.units
        scene.scene.committed[counter] += units
        scene.tell(at, outcome=Outcome.CHARGED)
        return {at, *(other for other in scene.order if scene.rows[other].request == scene.rows[at].request)}
    return None


@lie
def a_unit_is_charged_that_nobody_asked(scene: Lie) -> set[int] | None:
    for before, at in scene.chained():
        counter, state = scene.counter(at), scene.rows[at].told.committed
        if counter.account_id in {"scarce", "varied"}:
            continue  # it would overshoot
        for other in scene.those(Outcome.CHARGED, Outcome.REPLAYED, Outcome.READ):
            if scene.counter(other) == counter and scene.rows[other].told.committed >= state:
                scene.tell_committed(other, scene.rows[other].told.committed + 1)
        scene.scene.committed[counter] += 1
        same = [other for other in scene.order if scene.rows[other].told.committed == scene.rows[before].told.committed]
        return {before, at, *same}
    return None


@lie
def the_ledger_ends_a_unit_too_high(scene: Lie) -> set[int] | None:
    at = scene.those(Outcome.CHARGED)[0]
    counter = scene.counter(at)
    if counter.account_id in {"scarce", "varied"}:
        return None
    scene.scene.committed[counter] += 1
    return {other for other in scene.order if scene.counter(other) == counter}


@lie
def an_answered_result_is_not_stored(scene: Lie) -> set[int] | None:
    at = scene.those(Outcome.CHARGED)[0]
    request = scene.rows[at].request
    del scene.scene.stored[request.account_id, request.key]
    return {other for other in scene.order if scene.rows[other].request == request}


@lie
def a_replay_has_another_body(scene: Lie) -> set[int] | None:
    at = scene.those(Outcome.REPLAYED)[0]
    scene.tell(at, body=1)
    return {at}


@lie
def a_replay_is_of_another_input(scene: Lie) -> set[int] | None:
    at = scene.those(Outcome.REPLAYED)[0]
    scene.rows[at].request = scene.rows[at].request._replace(content=-1)
    return {at}


@lie
def a_replay_ends_before_its_charge_begins(scene: Lie) -> set[int] | None:
    for at in scene.those(Outcome.CHARGED):
        row = scene.rows[at]
        told = row.told._replace(outcome=Outcome.REPLAYED)
        scene.rows.append(Row(row.request, row.start - 0.02, row.start - 0.01, told))
        return {len(scene.rows) - 1}
    return None


@lie
def stored_units_are_not_those_asked(scene: Lie) -> set[int] | None:
    at = scene.those(Outcome.CHARGED)[0]
    name = scene.rows[at].request[:2]
    scene.scene.stored[name] = scene.scene.stored[name]._replace(units=9)
    return {other for other in scene.order if scene.rows[other].request == scene.rows[at].request}


@lie
def remaining_is_wrong(scene: Lie) -> set[int] | None:
    at = scene.those(Outcome.CHARGED, Outcome.REPLAYED, Outcome.QUOTA_EXCEEDED)[0]
    scene.tell(at, remaining=scene.rows[at].told.remaining + 1)
    return {at}


@lie
def the_limit_is_of_another_plan(scene: Lie) -> set[int] | None:
    at = scene.those(Outcome.CHARGED, Outcome.REPLAYED)[0]
    return scene.tell_limit(at, scene.rows[at].told.limit + 100)


@lie
def the_limit_is_no_longer_in_force(scene: Lie) -> set[int] | None:
    return another_limit(scene, 0)


@lie
def the_limit_is_not_yet_in_force(scene: Lie) -> set[int] | None:
    return another_limit(scene, 2)


def another_limit(scene: Lie, when: int) -> set[int] | None:
    for at in scene.those(Outcome.CHARGED, Outcome.REPLAYED, Outcome.QUOTA_EXCEEDED, Outcome.READ):
        if (found := scene.limits(at)) and (others := found[when] - found[1]):
            return scene.tell_limit(at, max(others))
    return None


@lie
def a_silent_charge_goes_beyond_the_quota(scene: Lie) -> set[int] | None:
    at = scene.fresh(Outcome.UNKNOWN, "scarce")
    period = next(counter.period for counter in scene.scene.committed if counter[:2] == ("scarce", "color_match"))
    counter = Counter("scarce", "color_match", period)
    units = PLANS["scarce"][0].units["color_match"] - scene.scene.committed[counter] + 1
    request = scene.rows[at].request = scene.rows[at].request._replace(units=units)
    scene.scene.committed[counter] += units
    scene.scene.stored[request[:2]] = Stored("color_match", period, units, 1)
    return {at}


@lie
def more_are_let_through_than_the_abuse_limit_allows(scene: Lie) -> set[int] | None:
    crashed = max((end for _, end in scene.scene.forgotten), default=0)
    late = [at for at, row in enumerate(scene.rows) if row.start > crashed and row.request.account_id == "slow"]
    for at in set(late) & set(scene.those(Outcome.RATE_LIMITED)):
        scene.rows[at].request = Request("slow", "key-fresh", "library", 0, 0)
        scene.rows[at].told = Told(Outcome.ADMITTED)
    surely = [at for at in late if scene.rows[at].told.outcome not in {Outcome.UNKNOWN, Outcome.IN_PROGRESS}]
    return set(late) if len(surely) > 2 * PLANS["slow"][0].per_minute else None


@lie
def in_progress_without_another(scene: Lie) -> set[int] | None:
    return {scene.fresh(Outcome.IN_PROGRESS)}


@lie
def in_progress_after_the_answer(scene: Lie) -> set[int] | None:
    if found := scene.replay():
        at, other = found
        scene.rows[at].told = Told(Outcome.IN_PROGRESS)
        return {at, other}
    return None


@lie
def a_conflict_without_another(scene: Lie) -> set[int] | None:
    return {scene.fresh(Outcome.CONFLICT)}


@lie
def a_conflict_with_its_own_answer(scene: Lie) -> set[int] | None:
    if found := scene.replay():
        at, _ = found
        scene.rows[at].told = Told(Outcome.CONFLICT)
        return {at}
    return None


@lie
def a_limit_of_requests_that_nobody_reached(scene: Lie) -> set[int] | None:
    return {scene.fresh(Outcome.RATE_LIMITED)}


@lie
def a_quota_refusal_of_what_would_fit(scene: Lie) -> set[int] | None:
    for at in scene.those(Outcome.REPLAYED):
        if scene.rows[at].request.account_id == "ample":
            row = scene.rows[at]
            told = row.told._replace(outcome=Outcome.QUOTA_EXCEEDED, body=0)
            scene.rows.append(Row(row.request._replace(key="key-fresh"), row.start, row.end, told))
            return {len(scene.rows) - 1}
    return None


@lie
def a_quota_refusal_before_its_time(scene: Lie) -> set[int] | None:
    for at in scene.those(Outcome.QUOTA_EXCEEDED):
        charges = scene.charges(scene.counter(at))
        if len(charges) > 2 and scene.rows[at].told.committed == scene.rows[charges[-1]].told.committed:
            start = scene.rows[charges[-1]].start
            request = scene.rows[at].request._replace(key="key-fresh")
            scene.rows.append(Row(request, start - 0.02, start - 0.01, scene.rows[at].told))
            return {len(scene.rows) - 1}
    return None


@lie
def a_charge_after_the_quota_ended(scene: Lie) -> set[int] | None:
    for at in scene.those(Outcome.QUOTA_EXCEEDED):
        row = scene.rows[at]
        counter, name = scene.counter(at), row.request[:2]
        if name in scene.scene.stored:
            continue
        committed = scene.scene.committed[counter] + row.request.units
        scene.scene.committed[counter] = committed
        scene.scene.stored[name] = next(iter(scene.scene.stored.values()))._replace(
            meter=counter.meter, period=counter.period, units=row.request.units, body=5
        )
        scene.tell(at, outcome=Outcome.CHARGED, committed=committed, body=5)
        return {at}
    return None


@lie
def a_silent_charge_that_was_refused(scene: Lie) -> set[int] | None:
    told = {scene.rows[at].request[:2] for at in scene.those(Outcome.CHARGED)}
    for at in scene.those(Outcome.UNKNOWN):
        name = scene.rows[at].request[:2]
        if name in scene.scene.stored and name not in told:
            same = {other for other in scene.order if scene.rows[other].request[:2] == name}
            for other in same & set(scene.those(Outcome.UNKNOWN)):
                scene.rows[other].told = Told(Outcome.REFUSED)
            stored = scene.scene.stored[name]
            counter = Counter(name[0], stored.meter, stored.period)
            return same | {other for other in scene.order if scene.counter(other) == counter}
    return None


@lie
def a_silent_charge_that_is_not_counted(scene: Lie) -> set[int] | None:
    at = scene.fresh(Outcome.UNKNOWN)
    request = scene.rows[at].request
    period = next(counter.period for counter in scene.scene.committed if counter[:2] == (request[0], request.meter))
    scene.scene.stored[request[:2]] = next(iter(scene.scene.stored.values()))._replace(
        meter=request.meter, period=period, units=1
    )
    return {at}


@pytest.mark.parametrize("seed", SEEDS)
def test_true_histories_are_believed(seed: int) -> None:
    patient = simulate(seed, 300, think=0.05 if seed % 2 else 10)  # or a window of the abuse limit is ever the first
    hasty = simulate(seed, 300, clients=40, cut=0.3)
    for scene in (true_scene(seed), patient, hasty):
        assert [Outcome(row.told.outcome) for row in scene.rows]
        history = scene.history
        found = contradictions(history, scene.ledger)
        assert not found, f"{found[0].what}\n{history.table(found[0].attempts)}"


def test_every_kind_of_answer_occurs() -> None:
    assert {row.told.outcome for seed in SEEDS for row in true_scene(seed).rows} == set(Outcome) - {Outcome.REFUSED}


@pytest.mark.parametrize("name", LIES)
def test_every_lie_is_found_and_named(name: str) -> None:
    tell, told = LIES[name], 0
    for seed in SEEDS:
        scene = Lie(seed)
        if (liars := tell(scene)) is None:
            continue
        told += 1
        history = scene.scene.history
        found = contradictions(history, scene.scene.ledger)
        assert found, seed
        assert len(found[0].attempts) <= 2 or len(found) == 1, seed
        assert liars & set(found[0].attempts), f"{seed}: {found[0].what}\n{history.table(found[0].attempts)}"
    assert told > len(SEEDS) / 2


GAPS = 4


@given(
    st.lists(st.tuples(*[st.integers(0, GAPS - 1)] * 3, st.integers(1, 5)), max_size=5),
    st.sampled_from([(), (), (0,), (0, 0, 1), (1, 2)]),
)
@settings(deadline=None, derandomize=True, max_examples=200)
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
@settings(deadline=None, derandomize=True, max_examples=300)
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
