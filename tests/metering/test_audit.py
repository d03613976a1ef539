"""The audit finds every way in which counters and stored results can disagree."""

import pytest
from psycopg import Connection
from tests.metering.conftest import Customer, MakeCustomer

from sepu.admin.audit import Audit, audit, last_audit, record_audit
from sepu.database.nodes import NodeConnection, NodeState, own_state

pytestmark = pytest.mark.usefixtures("own_ledger")  # an audit looks at all accounts


@pytest.fixture
def charged(connection: Connection, make_customer: MakeCustomer) -> Customer:
    """A customer with 3 + 2 colours in 2 results, and a search."""
    customer = make_customer()
    customer.meter(connection, "match-0001", units=3)
    for _ in range(2):
        customer.meter(connection, "match-0002", units=2)
    customer.meter(connection, "search-0001", meter="color_search")
    return customer


# Each damage, and of each difference: period, meter, committed, pruned and stored.
Difference = tuple[str, str, int | None, int | None, int | None]
TAMPERED: dict[str, list[Difference]] = {
    "update sepu.usage set committed = committed + 1 where meter = 'color_match'": [
        ("2031-03", "color_match", 6, 0, 5)
    ],
    "delete from sepu.usage where meter = 'color_match'": [("2031-03", "color_match", None, None, 5)],
    "update sepu.usage set pruned = 1 where meter = 'color_match'": [("2031-03", "color_match", 5, 1, 5)],
    "delete from sepu.stored_result where idempotency_key = 'match-0002'": [("2031-03", "color_match", 5, 0, 3)],
    "delete from sepu.stored_result where meter = 'color_search'": [("2031-03", "color_search", 1, 0, None)],
    "insert into sepu.stored_result select account_id, 'match-0003', fingerprint, meter, 4, period, body, "
    "created_at, key_id, request_id from sepu.stored_result where idempotency_key = 'match-0002'": [
        ("2031-03", "color_match", 5, 0, 9)
    ],
    "update sepu.stored_result set period = '2031-04' where units = 3": [
        ("2031-03", "color_match", 5, 0, 2),
        ("2031-04", "color_match", None, None, 3),
    ],
    "update sepu.stored_result set meter = 'color_search' where units = 3": [
        ("2031-03", "color_match", 5, 0, 2),
        ("2031-03", "color_search", 1, 0, 4),
    ],
}


def test_a_difference_is_named(connection: Connection, charged: Customer) -> None:
    for statement, differences in TAMPERED.items():
        with connection.transaction(force_rollback=True):
            connection.execute(statement.encode())
            found = audit(connection).differences
        assert {(one.account_id, one.days) for one in found} == {(charged.account_id, None)}
        told = [(one.period, one.meter, one.committed, one.pruned, one.stored) for one in found]
        assert told == differences, statement
    assert audit(connection) == Audit(2, 3, 6, ())


# Rows that no function writes, although the sums agree: how many of them the audit finds.
INVALID: dict[str, int] = {
    "update sepu.usage set reserved = -1 where meter = 'color_match'": 1,
    "update sepu.usage set pruned = -1, committed = committed - 1 where meter = 'color_match'": 1,
    "update sepu.stored_result set units = case units when 3 then 6 else -1 end where meter = 'color_match'": 1,
    "insert into sepu.stored_result select account_id, 'match-0003', fingerprint, meter, 0, period, body, "
    "created_at, key_id, request_id from sepu.stored_result where idempotency_key = 'match-0002'": 1,
    "update sepu.stored_result set units = units - 6 where meter = 'color_match'; "
    "update sepu.usage set committed = -7 where meter = 'color_match'": 3,
    "update sepu.quota_event set unit_limit = 4": 1,
    "update sepu.quota_event set threshold = 99": 1,
}


def test_a_row_that_no_function_writes_is_a_difference(connection: Connection, make_customer: MakeCustomer) -> None:
    customer = make_customer(match_limit=6)
    customer.meter(connection, "match-0001", units=3)
    customer.meter(connection, "match-0002", units=2)  # crosses 80 %
    connection.execute("delete from sepu.event_delivery")
    for statement, count in INVALID.items():
        with connection.transaction(force_rollback=True):
            connection.execute(statement.encode())
            assert [found.invalid for found in audit(connection).differences] == [count], statement
    assert audit(connection).differences == ()


# Each damage to the two events of a charge, and how many of them the audit finds.
LOST_OR_MADE_UP: dict[str, int | None] = {
    "delete from sepu.quota_event where threshold = 95": 1,
    "delete from sepu.quota_event": None,
    "update sepu.quota_event set meter = 'color_search' where threshold = 95": 1,
    "insert into sepu.quota_event select account_id, period, meter, 50, unit_limit, committed, crossed_at "
    "from sepu.quota_event where threshold = 80": 3,
    "update sepu.quota_event set committed = 20 where threshold = 95": 2,
}


def test_an_event_that_is_lost_or_made_up_is_a_difference(connection: Connection, make_customer: MakeCustomer) -> None:
    make_customer(match_limit=20).meter(connection, units=19)
    connection.execute("delete from sepu.event_delivery")  # deliveries come and go
    assert audit(connection).differences == ()
    for tampered, recorded in LOST_OR_MADE_UP.items():
        with connection.transaction(force_rollback=True):
            connection.execute(tampered.encode())
            (found, *more) = audit(connection).differences
        assert (found.meter, found.events, found.recorded) == ("color_match", 2, recorded)
        others = [("color_search", None, 1)] if "color_search" in tampered else []
        assert [(other.meter, other.events, other.recorded) for other in more] == others


def test_the_node_that_lacks_an_audit_is_outdated(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    record_audit(connection, audit(connection))
    restored, own = NodeState((), 0, (0, None)), own_state(connection)
    states = {"same:1": [own] * 2, "late:1": [own, restored], "restored:1": [restored] * 2}  # the last is read first
    monkeypatch.setattr("sepu.admin.audit.other_nodes", lambda _: [*states])
    monkeypatch.setattr(NodeConnection, "state", lambda _, node: states[node].pop())
    assert audit(connection).outdated_nodes == ("restored:1",)


@pytest.mark.usefixtures("charged")
def test_a_standby_audits_and_keeps_nothing(connection: Connection) -> None:
    connection.execute("set default_transaction_read_only = on")
    found = audit(connection)
    record_audit(connection, found)
    assert found.differences == ()
    assert last_audit(connection) is None
