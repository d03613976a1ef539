"""Quota events beyond the model: one that exists already, and invalid thresholds."""

import pytest
from psycopg import Connection
from tests.metering.conftest import Customer, MakeCustomer

from sepu.admin.events import list_events
from sepu.admin.naming import AccountError
from sepu.admin.plans import set_plan, show_plan


def crossed(connection: Connection, customer: Customer) -> list[tuple[str, int, int, int]]:
    """Meter, threshold, limit and committed of each event."""
    return [
        (event.meter, event.threshold, event.limit, event.committed)
        for event in list_events(connection, account_id=customer.account_id)
    ]


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
