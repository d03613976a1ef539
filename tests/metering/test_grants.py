"""Grants and credits beyond the model: messages, concurrent charges, and damage."""

import re
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import Any

import pytest
from psycopg import Connection
from tests.metering.conftest import NOON, Customer, HeldUp, MakeCustomer, OpenSession, until_gone

from sepu import limits
from sepu.admin.audit import audit
from sepu.admin.grants_and_credits import Adjustment, adjust_usage, list_adjustments
from sepu.errors import SepuError

MARCH = "2031-03"


def grant(connection: Connection, customer: Customer, units: int, period: str = MARCH, **given: Any) -> Adjustment:
    return adjust_usage(
        connection, "grant", customer.account_id, "color_match", units, reason="Fair", period=period, **given
    )


def credit(connection: Connection, customer: Customer, units: int, period: str) -> Adjustment:
    return adjust_usage(connection, "credit", customer.account_id, "color_match", units, reason="Outage", period=period)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"units": 0}, "units are a number from 1 to 2000000000"),
        ({"units": 2**31}, "units are a number"),
        ({"reason": " "}, "a reason has 1 to 1000 characters"),
        *(({"reason": reason}, "a reason has") for reason in ("Fair\n", "x" * 1001)),
        ({"account_id": "nobody"}, "there is no account 'nobody'"),
        ({"meter": "color_mix"}, "plan 'test-.{8}' has no limit for the meter 'color_mix'"),
    ],
)
def test_what_is_wrong_is_told(connection: Connection, customer: Customer, wrong: dict[str, Any], why: str) -> None:
    given: dict[str, Any] = {"account_id": customer.account_id, "meter": "color_match", "units": 5, "reason": "Fair"}
    with pytest.raises(SepuError, match=why):
        adjust_usage(connection, "grant", **given | wrong)
    assert list(list_adjustments(connection, account_id=customer.account_id)) == []


def test_an_id_belongs_to_one_adjustment(connection: Connection, customer: Customer) -> None:
    given: dict[str, Any] = {"kind": "grant", "meter": "color_match", "units": 5, "period": MARCH}
    given |= {"account_id": customer.account_id, "reason": "Fair"}
    given["adjustment_id"] = adjust_usage(connection, **given).id
    for other in ({"kind": "credit"}, {"meter": "color_search"}, {"units": 6}, {"period": "2031-04"}):
        with pytest.raises(SepuError, match="is that of another grant or credit"):
            adjust_usage(connection, **given | other)


def test_accounts_may_have_adjustments_of_one_id(connection: Connection, make_customer: MakeCustomer) -> None:
    customers = [make_customer(), make_customer()]
    shared = "6f1c0d2e-8a4b-4c1d-9e5f-0a1b2c3d4e5f"
    assert [grant(connection, each, 5, adjustment_id=shared).account_id for each in customers] == [
        each.account_id for each in customers
    ]


def test_a_refusal_tells_the_bound(connection: Connection, customer: Customer) -> None:
    grant(connection, customer, 10)
    customer.meter(connection, units=3, at=datetime.now(UTC))
    this = f"{datetime.now(UTC):%Y-%m}"
    most, left = limits.plans.PLANNED_UNITS, limits.plans.GRANTED_UNITS - 10
    back = "can be taken back: the rest is used, or was not granted"
    for adjust, units, period, why in (
        (grant, -11, MARCH, f"at most 10 units of color_match in {MARCH} {back}"),
        (grant, most, MARCH, f"at most {left} more units of color_match in {MARCH} can be granted"),
        (credit, -1, this, f"at most 0 units of color_match in {this} can be billed again: no more are credited"),
        (
            credit,
            4,
            this,
            f"at most 3 units of color_match in {this} can be credited: no more are charged, or they are ",
        ),
        (credit, 1, MARCH, f"the month {MARCH} has not begun; it is {this}"),
    ):
        with pytest.raises(SepuError, match=f"^{re.escape(why)}"):
            adjust(connection, customer, units, period)


def test_a_grant_waits_for_a_charge_and_a_charge_for_a_grant(
    a: Connection, b: Connection, connection: Connection, make_customer: MakeCustomer, held_up: HeldUp
) -> None:
    """Each sees the other's change; neither is refused."""
    customer = make_customer(match_limit=10)
    customer.meter(connection, "key-0001")
    customer.meter(a, "key-0002", units=4)
    held_up(lambda: grant(b, customer, 10))
    for key, units, charged, told in (
        ("key-0003", 5, 11, ("charged", 25, 16)),
        ("key-0004", -9, 9, ("quota_exceeded", 16, 16)),
    ):
        a.execute("begin")
        grant(a, customer, units)
        answer = held_up(partial(customer.meter, b, key, units=charged))
        assert (answer.outcome, answer.limit, answer.committed) == told


def test_a_counter_that_stays_locked_is_tried_again_then_told(
    a: Connection, connection: Connection, customer: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits.database, "LOCK_SECONDS", 0.05)
    monkeypatch.setattr(limits.plans, "ADJUSTMENT_SECONDS", 0.2)
    customer.meter(a)
    began = monotonic()
    with pytest.raises(SepuError, match="is busy: others held it for 0.2 seconds, and nothing was changed; try again"):
        grant(connection, customer, 5)
    assert monotonic() - began > 0.2
    a.execute("commit")
    assert grant(connection, customer, 5).units == 5


def test_an_operator_who_is_silent_lets_go_of_the_counter(
    session: OpenSession, connection: Connection, customer: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits.database, "LOCK_SECONDS", 0.05)
    a = session()
    a.execute("begin")
    grant(a, customer, 5)
    until_gone(connection, a.info.backend_pid)
    assert customer.meter(connection)[:3] == ("charged", MARCH, 2000)


# Each damage to a counter with a grant of 7 and a credit of 2, and of each difference: granted, grants, credited,
# credits.
TAMPERED: dict[str, list[tuple[int | None, ...]]] = {
    "update sepu.usage set granted = 8": [(8, 7, 2, 2)],
    "update sepu.usage set credited = 0": [(7, 7, 0, 2)],
    "delete from sepu.adjustment where kind = 'grant'": [(7, 0, 2, 2)],
    "delete from sepu.adjustment": [(7, None, 2, None)],
    "update sepu.adjustment set kind = 'credit'": [(7, 0, 2, 9)],
    "update sepu.adjustment set units = 3 where kind = 'credit'": [(7, 7, 2, 3)],
    "update sepu.adjustment set period = '2025-04' where kind = 'grant'": [(7, 0, 2, 2), (None, 7, None, 0)],
    "update sepu.usage set granted = -1; update sepu.adjustment set units = -1 where kind = 'grant'": [(-1, -1, 2, 2)],
    "update sepu.usage set credited = -1; update sepu.adjustment set units = -1 where units = 2": [(7, 7, -1, -1)],
    "update sepu.usage set credited = 11; update sepu.adjustment set units = 11 where units = 2": [(7, 7, 11, 11)],
}


@pytest.mark.usefixtures("own_ledger")
def test_the_audit_names_what_was_lost_or_made_up(connection: Connection, customer: Customer) -> None:
    customer.meter(connection, units=10, at=NOON.replace(year=2025))
    grant(connection, customer, 7)
    credit(connection, customer, 2, "2025-03")
    connection.execute("update sepu.adjustment set period = '2025-03'")
    connection.execute("delete from sepu.usage where period = '2031-03'")
    connection.execute("update sepu.usage set granted = 7")
    assert audit(connection).differences == ()
    for tampered, differences in TAMPERED.items():
        with connection.transaction(force_rollback=True):
            for statement in tampered.split(";"):
                connection.execute(statement.encode())
            found = audit(connection).differences
        assert [(one.granted, one.grants, one.credited, one.credits) for one in found] == differences, tampered
