"""The check of quota events: it believes those of a reference ledger, and notices each that is missing or made up."""

from functools import cache

import pytest
from tests.faults.consistency import Ledger
from tests.faults.crossings import Event, Recorded, Wrong, wrong_events
from tests.faults.history import Counter, History
from tests.faults.simulated import PLANS, THRESHOLDS, Scene, simulate

pytestmark = pytest.mark.slow
SEEDS = range(20)


@cache
def true_scene(seed: int) -> tuple[Scene, History, Ledger]:
    scene = simulate(seed, 400)
    return scene, scene.history, scene.ledger


def found(seed: int, counter: Counter, events: set[Event]) -> Wrong | None:
    """What is found when one counter has these events."""
    scene, history, ledger = true_scene(seed)
    told = Recorded({**scene.events, counter: events}, scene.recorded.thresholds)
    wrong = dict(wrong_events(history, ledger, told))
    assert wrong.keys() <= {counter}
    return wrong.get(counter)


@pytest.mark.parametrize("seed", SEEDS)
def test_true_events_are_believed(seed: int) -> None:
    for scene in (true_scene(seed)[0], simulate(seed, 300, clients=40, cut=0.3)):
        assert list(wrong_events(scene.history, scene.ledger, scene.recorded)) == []


def test_there_are_events_of_every_kind() -> None:
    events = {(counter, event) for seed in SEEDS for counter, of in true_scene(seed)[0].events.items() for event in of}
    assert {event.threshold for _, event in events} == set(THRESHOLDS)
    varied = {event.limit for counter, event in events if counter.account_id == "varied"}
    assert len(varied) >= 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_missing_event_is_noticed(seed: int) -> None:
    """Unless nobody was told of the charge, and the limit changed about then."""
    unnoticed = noticed = 0
    for counter, events in true_scene(seed)[0].events.items():
        for event in events:
            wrong = found(seed, counter, events - {event})
            if wrong is None:
                assert len(PLANS[counter.account_id]) > 1
                unnoticed += 1
            else:
                assert wrong.extra == []
                assert [(gone.threshold, gone.limit) for gone in wrong.missing] == [event[:2]]
                noticed += 1
    assert noticed > 9 * unnoticed


@pytest.mark.parametrize("seed", SEEDS)
def test_an_event_that_no_charge_crossed_is_noticed(seed: int) -> None:
    for counter, events in true_scene(seed)[0].events.items():
        for event in events:
            for made_up in (
                event._replace(threshold=event.threshold - 1),
                event._replace(limit=event.limit + 1),
                event._replace(committed=event.committed + 1000),
                event._replace(limit=10**6, threshold=100),
            ):
                if made_up not in events:
                    wrong = found(seed, counter, events | {made_up})
                    assert wrong is not None
                    assert (wrong.missing, wrong.extra) == ([], [made_up])
