"""The checker accepts a true history, and finds each lie inserted into it."""

from typing import Any

import pytest
from tests.faults.consistency import Counted, Ledger, Stored, contradictions
from tests.faults.history import (
    UNANSWERED,
    Adjustment,
    Attempt,
    Change,
    Counter,
    History,
    Outcome,
    Request,
    Terms,
    Told,
)

MONTH = "2031-03"
THRESHOLDS = {"color_match": (1, 50, 100), "color_search": ()}


def terms(match: int = 1000, per_minute: int = 1000) -> Terms:
    return Terms({"color_match": match, "color_search": 1000}, per_minute)


def counter(account: str) -> Counter:
    return Counter(account, "color_match", MONTH)


def row(start: float, account: str, key: str, units: int, told: Told, content: int = 1) -> Attempt:
    request = Request(account, key, "color_match" if units else "library", units, content)
    return Attempt(request, start, start + 0.1, told)


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
    row(1, "scarce", "s-1", 10, told(Outcome.CHARGED, 10, 10, 6)),
    row(3, "scarce", "s-3", 1, told(Outcome.QUOTA_EXCEEDED, 10, 10)),
    row(1, "varied", "v-1", 1, told(Outcome.CHARGED, 1, 1000, 7)),
    row(4, "varied", "v-2", 1, told(Outcome.CHARGED, 2, 500, 8)),
    row(1, "granted", "g-1", 4, told(Outcome.CHARGED, 4, 5, 9)),
    row(4, "granted", "g-2", 4, told(Outcome.CHARGED, 8, 8, 10)),
    row(1, "slow", "library-1", 0, Told(Outcome.ADMITTED)),
    row(2, "slow", "library-2", 0, Told(Outcome.ADMITTED)),
    row(3, "slow", "library-3", 0, Told(Outcome.RATE_LIMITED)),
)
(FIRST, SECOND, REPLAY, SILENT, _, IN_PROGRESS, USAGE, CONFLICT) = range(8)
(_, REFUSED, BEFORE_CHANGE, AFTER_CHANGE, BEFORE_GRANT, AFTER_GRANT, EARLIEST, EARLY, LIMITED) = range(8, 17)


def played(lies: dict[int, dict[str, Any]], held: dict[str, dict[Any, Any]]) -> tuple[History, Ledger]:
    """Returns the true history with changed attempts and ledger rows; None removes."""
    history = History()
    for at, one in enumerate(ROWS):
        lie = lies.get(at, {})
        fields = ({"key", "content"}, set(Told._fields), {"start", "end"})
        parts: list[dict[str, Any]] = [{name: lie[name] for name in of & lie.keys()} for of in fields]
        request, answer = one.request._replace(**parts[0]), one.told._replace(**parts[1])
        history.attempts.append(one._replace(request=request, told=answer, **parts[2]))
    history.changes["varied"] = [Change(2.5, 2.6, terms())]
    history.grants[counter("granted")] = [Adjustment(2.5, 2.6, 5), Adjustment(2.8, 2.9, -2)]
    history.credits[counter("ample")] = [Adjustment(2.5, 2.6, 4)]
    stored = {
        one.request[:2]: Stored("color_match", MONTH, one.request.units, one.told.body)
        for one in ROWS
        if one.told.outcome in (Outcome.CHARGED, Outcome.UNKNOWN)
    }
    counted = {"ample": (10, 0, 4), "scarce": (10,), "varied": (2,), "granted": (8, 3)} | held.get("counted", {})
    final = {"ample": terms(), "scarce": terms(10), "varied": terms(500), "slow": terms(per_minute=2)}
    events = {
        counter("ample"): {(10, 1000, 1)},
        counter("granted"): {(4, 5, 1), (4, 5, 50), (8, 8, 100)},
        counter("scarce"): {(10, 10, 1), (10, 10, 50), (10, 10, 100)},
    }
    return history, Ledger(
        {key: one for key, one in (stored | held.get("stored", {})).items() if one},
        {counter(account): Counted(*units) for account, units in counted.items()},
        (final := {**final, "granted": terms(5)}),
        dict.fromkeys(final, THRESHOLDS),
        events | {counter(account): each for account, each in held.get("events", {}).items()},
    )


def result(units: int, body: int = 0) -> Stored:
    return Stored("color_match", MONTH, units, body)


LIES: list[tuple[str, dict[int, dict[str, Any]], dict[str, dict[Any, Any]]]] = [
    ("it is stored with other units", {FIRST: {"period": ""}}, {}),
    ("it tells another meter", {FIRST: {"meter": "color_search"}}, {}),
    ("its limit is of no plan", {REPLAY: {"limit": 900, "remaining": 895}}, {}),
    ("its limit is of no plan", {AFTER_CHANGE: {"limit": 1000, "remaining": 998}}, {}),
    ("its limit is of no plan", {BEFORE_CHANGE: {"limit": 500, "remaining": 499}}, {}),
    ("its limit is of no plan", {BEFORE_GRANT: {"limit": 8, "remaining": 4}}, {}),
    ("its limit is of no plan", {AFTER_GRANT: {"limit": 10, "remaining": 2}}, {}),
    ("3 units were granted, not 0", {}, {"counted": {"granted": (8, 0)}}),
    ("0 units were granted, not 3", {}, {"counted": {"scarce": (10, 3)}}),
    ("4 units were credited, not 8", {}, {"counted": {"ample": (10, 0, 8)}}),
    ("remaining is not what", {REPLAY: {"remaining": 996}}, {}),
    ("charged beyond the quota", {REFUSED: {"outcome": Outcome.CHARGED, "committed": 11, "remaining": 0}}, {}),
    ("were charged, beyond the quota", {}, {"counted": {"scarce": (11,)}}),
    ("its units would have fitted", {REFUSED: {"committed": 5, "remaining": 5}}, {}),
    ("nothing is stored", {}, {"stored": {("ample", "a-1"): None}}),
    ("another body than is stored", {REPLAY: {"body": 9}}, {}),
    ("stored with other units", {}, {"stored": {("ample", "a-1"): result(9, 1)}}),
    ("charged more than once", {REPLAY: {"outcome": Outcome.CHARGED, "committed": 8}}, {}),
    ("was never asked", {}, {"stored": {("ample", "a-9"): result(1)}}),
    ("no attempt can have been charged", {SILENT: {"outcome": Outcome.REFUSED}}, {}),
    ("the second none", {REPLAY: {"outcome": Outcome.IN_PROGRESS, "period": ""}}, {}),
    ("the second none", {REPLAY: {"outcome": Outcome.CONFLICT, "period": ""}}, {}),
    ("a replay of what no attempt", {REPLAY: {"content": 9}}, {}),
    ("a replay of what no attempt", {REPLAY: {"start": 0.5, "end": 0.6}}, {}),
    ("no other attempt with this key", {IN_PROGRESS: {"key": "a-9"}}, {}),
    ("no other attempt with this key", {CONFLICT: {"key": "a-9"}}, {}),
    ("the second none", {CONFLICT: {"content": 1}}, {}),
    ("more than 2 requests were let through", {LIMITED: {"outcome": Outcome.ADMITTED}}, {}),
    ("fewer than 1 requests", {at: {"start": -200, "end": -199} for at in (EARLIEST, EARLY)}, {}),
    ("by the clock before it", {REPLAY: {"committed": 10, "remaining": 990}}, {}),
    ("by the clock before it", {USAGE: {"committed": 5, "remaining": 995}}, {}),
    ("which another one tells", {SECOND: {"committed": 4, "remaining": 996}}, {}),
    ("the ledger holds 9 units", {}, {"counted": {"ample": (9, 0, 4)}}),
    ("it crossed {(10, 10, 50)} unrecorded", {}, {"events": {"scarce": {(10, 10, 1), (10, 10, 100)}}}),
    ("and not {(8, 9, 100)}", {}, {"events": {"granted": {(4, 5, 1), (4, 5, 50), (8, 8, 100), (8, 9, 100)}}}),
]


def test_a_true_history_is_believed() -> None:
    assert contradictions(*played({}, {})) == []
    history, ledger = played({LIMITED: {"outcome": Outcome.ADMITTED}}, {})
    history.forgotten = [(2.5, 2.6)]  # a crash of Postgres begins another window of the abuse limit
    assert contradictions(history, ledger) == []


@pytest.mark.parametrize(("what", "lies", "held"), LIES)
def test_every_lie_is_found(what: str, lies: dict[int, dict[str, Any]], held: dict[str, dict[Any, Any]]) -> None:
    found = contradictions(*played(lies, held))
    assert any(what in one for _, one in found), found
