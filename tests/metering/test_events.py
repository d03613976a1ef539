"""Quota events: what a charge crosses is recorded with it, once."""

import pytest
from psycopg import Connection
from tests.metering.conftest import NOON, Customer, MakeCustomer

from sepu.admin.events import list_events
from sepu.admin.naming import AccountError
from sepu.admin.plans import set_plan, show_plan
from sepu.limits import PLANNED_UNITS as MOST


def crossed(connection: Connection, customer: Customer) -> list[tuple[str, int, int, int]]:
    """Meter, threshold, limit and committed of each event."""
    return [
        (event.meter, event.threshold, event.limit, event.committed)
        for event in list_events(connection, account_id=customer.account_id)
    ]


def test_each_threshold_is_told_once(connection: Connection, make_customer: MakeCustomer) -> None:
    customer = make_customer(match_limit=20)
    told = []
    for number in range(20):
        customer.meter(connection, f"key-{number:04}")
        customer.meter(connection, f"key-{number:04}")  # a replay
        told.append(len(crossed(connection, customer)))
    assert customer.meter(connection, "key-over").outcome == "quota_exceeded"
    assert told == [*[0] * 15, *[1] * 3, 2, 3]
    assert crossed(connection, customer) == [
        ("color_match", 80, 20, 16),
        ("color_match", 95, 20, 19),
        ("color_match", 100, 20, 20),
    ]
    (first, *_) = list_events(connection, account_id=customer.account_id)
    assert first.event_id == f"{customer.account_id}:2031-03:color_match:80:20"
    assert (first.crossed_at, first.state, first.attempts, first.due_at) == (NOON, "due", 0, NOON)


@pytest.mark.parametrize(
    ("limit", "thresholds", "charges", "expected"),
    [
        (7, [80], [5, 1], [(80, 6)]),  # 5.6 units: the sixth
        (1, [1, 80, 100], [1], [(1, 1), (80, 1), (100, 1)]),  # all at once
        (100, [51, 50, 50], [49, 1, 1], [(50, 50), (51, 51)]),
        (10, [], [10], []),
        (MOST, [80, 100], [MOST - 1, 1], [(80, MOST - 1), (100, MOST)]),
    ],
)
def test_where_a_threshold_is(
    connection: Connection,
    make_customer: MakeCustomer,
    limit: int,
    thresholds: list[int],
    charges: list[int],
    expected: list[tuple[int, int]],
) -> None:
    customer = make_customer(match_limit=limit)
    set_plan(connection, customer.plan_id, thresholds=thresholds)
    for number, units in enumerate(charges):
        assert customer.meter(connection, f"key-{number:04}", units=units).outcome == "charged"
    found = [(threshold, committed) for _, threshold, _, committed in crossed(connection, customer)]
    assert found == expected


def test_only_a_charge_crosses(connection: Connection, make_customer: MakeCustomer) -> None:
    """A limit that is lowered below what is used crosses nothing; one that is raised has thresholds of its own."""
    customer = make_customer(match_limit=10)
    customer.meter(connection, "key-0001", units=8)
    set_plan(connection, customer.plan_id, {"color_match": 9})  # 88 %: no charge made it so
    set_plan(connection, customer.plan_id, thresholds=[50, 100])
    customer.meter(connection, "key-0002", units=1)
    set_plan(connection, customer.plan_id, {"color_match": 18})
    customer.meter(connection, "key-0003", units=1)  # from 50 % on
    set_plan(connection, customer.plan_id, {"color_match": 20})
    customer.meter(connection, "key-0004", units=10)
    set_plan(connection, customer.plan_id, {"color_match": 0})
    assert customer.meter(connection, "key-0005").outcome == "quota_exceeded"
    told = [event[1:] for event in crossed(connection, customer)]
    assert told == [(80, 10, 8), (100, 9, 9), (100, 20, 20)]


def test_each_meter_and_month_has_its_own(connection: Connection, make_customer: MakeCustomer) -> None:
    customer = make_customer(match_limit=10, search_limit=1)
    set_plan(connection, customer.plan_id, thresholds=[100])
    customer.meter(connection, "key-0001", units=10)
    customer.meter(connection, "key-0002", meter="color_search", at=NOON.replace(hour=13))
    customer.meter(connection, "key-0003", units=10, at=NOON.replace(month=4))
    found = list_events(connection, account_id=customer.account_id)
    assert [(event.period, event.meter) for event in found] == [
        ("2031-03", "color_match"),
        ("2031-03", "color_search"),
        ("2031-04", "color_match"),
    ]
    assert len(list(list_events(connection, account_id=customer.account_id, period="2031-04"))) == 1
    assert list(list_events(connection, account_id=customer.account_id, state="dead")) == []


def test_a_charge_does_not_fail_for_an_event_that_is_there(connection: Connection, make_customer: MakeCustomer) -> None:
    customer = make_customer(match_limit=1)
    customer.meter(connection)
    connection.execute("update sepu.usage set committed = 0 where account_id = %s", (customer.account_id,))
    assert customer.meter(connection, "key-0002").outcome == "charged"
    assert [event[1] for event in crossed(connection, customer)] == [80, 95, 100]


@pytest.mark.parametrize("thresholds", [[0], [101], [80, -1], [2**63]])
def test_a_threshold_is_a_percentage(connection: Connection, customer: Customer, thresholds: list[int]) -> None:
    with pytest.raises(AccountError, match="from 1 to 100"):
        set_plan(connection, customer.plan_id, thresholds=thresholds)
    assert show_plan(connection, customer.plan_id).thresholds == [80, 95, 100]
    with pytest.raises(AccountError, match="there is no plan"):
        set_plan(connection, "nobody", thresholds=[80])
