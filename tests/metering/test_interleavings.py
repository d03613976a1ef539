"""Sessions that meet in the middle of a request, step by step. A step that returns did not have to wait."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from psycopg import Connection
from psycopg.errors import LockNotAvailable
from tests.keys import holder_of
from tests.metering.conftest import NOON, Customer, HeldUp, MakeCustomer, until_gone

from sepu.admin import accounts
from sepu.admin.history import NO_ACCOUNT, make_change
from sepu.admin.keys import issue_key, revoke_key
from sepu.admin.plans import set_plan

MARCH = ("2031-03", "color_match")


def refused(outcome: str) -> tuple[str | None, ...]:
    return (outcome, None, None, None, None, None)


def kill(a: Connection, other: Connection) -> None:
    """As if `kill -9` ended its client: the server finds the connection closed and rolls back."""
    pid = a.info.backend_pid
    a.close()
    until_gone(other, pid)


def rollback(a: Connection, _other: Connection) -> None:
    a.execute("rollback")


def commit(a: Connection, _other: Connection) -> None:
    a.execute("commit")


End = Callable[[Connection, Connection], None]


def test_while_a_request_runs(a: Connection, b: Connection, customer: Customer) -> None:
    assert customer.meter(a, what="red", units=3).outcome == "charged"
    for _ in range(2):
        assert customer.meter(b, what="red", units=3) == refused("request_in_progress")
        assert customer.meter(b, what="blue") == refused("idempotency_conflict")
    assert customer.stored(b) == {}
    a.execute("commit")
    assert customer.meter(b, what="blue") == refused("idempotency_conflict")
    assert customer.meter(b, what="red", units=3) == ("replayed", "2031-03", 2000, 3, 0, b"{}")
    assert customer.committed(b) == customer.stored(b) == {MARCH: 3}


@pytest.mark.parametrize(("end", "what"), [(rollback, "blue"), (kill, "red")])
def test_after_a_crash_the_next_executes(a: Connection, b: Connection, customer: Customer, end: End, what: str) -> None:
    assert customer.meter(a, what="red").outcome == "charged"
    assert customer.meter(b, what="red").outcome == "request_in_progress"
    end(a, b)
    assert customer.meter(b, what=what).outcome == "charged"
    assert customer.committed(b) == customer.stored(b) == {MARCH: 1}


@pytest.mark.parametrize(("what", "outcome"), [("red", "replayed"), ("blue", "idempotency_conflict")])
def test_what_has_a_result_is_counted_and_waits_for_the_count_before(
    a: Connection, b: Connection, customer: Customer, held_up: HeldUp, what: str, outcome: str
) -> None:
    assert customer.meter(b, what="red").outcome == "charged"
    assert customer.meter(a, what=what).outcome == outcome
    assert held_up(lambda: customer.meter(b, what="red")).outcome == "replayed"


@pytest.mark.parametrize("second", ["blue", "green"])
def test_two_conflicting_probers(
    a: Connection, b: Connection, connection: Connection, customer: Customer, second: str
) -> None:
    assert customer.meter(a, what="red").outcome == "charged"
    b.execute("begin")
    assert customer.meter(b, what="blue").outcome == "idempotency_conflict"
    # If two send the same other input at the same time, the second is told to try again.
    outcome = "request_in_progress" if second == "blue" else "idempotency_conflict"
    assert customer.meter(connection, what=second).outcome == outcome
    b.execute("commit")
    assert customer.meter(connection, what=second).outcome == "idempotency_conflict"
    a.execute("commit")
    assert customer.committed(connection) == {MARCH: 1}


def test_a_prober_does_not_keep_the_next_from_executing_for_good(
    a: Connection, b: Connection, connection: Connection, customer: Customer
) -> None:
    customer.meter(a, what="red")
    b.execute("begin")
    assert customer.meter(b, what="blue").outcome == "idempotency_conflict"
    a.execute("rollback")
    assert customer.meter(connection, what="red").outcome == "charged"
    b.execute("commit")
    assert customer.meter(b, what="blue").outcome == "idempotency_conflict"


def test_an_idempotency_key_that_looks_like_another_with_its_input(
    a: Connection, b: Connection, customer: Customer, held_up: HeldUp
) -> None:
    assert customer.meter(a, "key-0001", what="red").outcome == "charged"
    digest = customer.request(what="red").parameters[3].hex()
    # It waits for the account's counters, as any other key of the account does.
    assert held_up(lambda: customer.meter(b, f"key-0001:{digest}", what="blue")).outcome == "charged"


@pytest.mark.parametrize(("end", "outcome"), [(commit, "quota_exceeded"), (rollback, "charged")])
def test_the_last_units(
    a: Connection, b: Connection, make_customer: MakeCustomer, held_up: HeldUp, end: End, outcome: str
) -> None:
    customer = make_customer(match_limit=5)
    assert customer.meter(a, "key-0001", units=3).outcome == "charged"
    assert held_up(lambda: customer.meter(b, "key-0002", units=3), lambda: end(a, b)).outcome == outcome
    assert customer.committed(b) == customer.stored(b) == {MARCH: 3}


def admitted(customer: Customer, session: Connection, at: datetime = NOON) -> int:
    """How many more requests pass, one after the other."""
    passed = 0
    while customer.admit(session, at=at) == "ok":
        passed += 1
    return passed


@pytest.mark.parametrize(("end", "outcome"), [(commit, "rate_limited"), (rollback, "ok")])
def test_the_last_request_of_a_minute(
    a: Connection, b: Connection, make_customer: MakeCustomer, held_up: HeldUp, end: End, outcome: str
) -> None:
    customer = make_customer(requests_per_minute=3)
    assert [customer.admit(b), customer.admit(b)] == ["ok", "ok"]
    assert customer.meter(a).outcome == "charged"
    assert held_up(lambda: customer.admit(b), lambda: end(a, b)) == outcome
    assert customer.admit(b) == "rate_limited"


def test_a_refusal_for_a_running_request_is_not_counted(
    a: Connection, b: Connection, make_customer: MakeCustomer
) -> None:
    customer = make_customer(requests_per_minute=4)
    assert customer.meter(a).outcome == "charged"
    for _ in range(5):
        assert customer.meter(b).outcome == "request_in_progress"
        assert customer.meter(b, what="blue").outcome == "idempotency_conflict"
    a.execute("commit")
    assert admitted(customer, b) == 4 - 1


@pytest.mark.parametrize("what", ["red", "blue"])
def test_over_the_limit_a_running_request_changes_nothing(
    a: Connection, b: Connection, connection: Connection, make_customer: MakeCustomer, what: str
) -> None:
    customer = make_customer(requests_per_minute=4)
    assert [customer.admit(b), customer.admit(b)] == ["ok", "ok"]
    assert customer.meter(a, what="red").outcome == "charged"
    set_plan(connection, customer.plan_id, requests_per_minute=2)
    assert customer.meter(b, what=what).outcome == "rate_limited"


@pytest.mark.parametrize("end", [commit, rollback])
def test_a_window_that_two_open_has_one_count(
    a: Connection, b: Connection, make_customer: MakeCustomer, held_up: HeldUp, end: End
) -> None:
    customer = make_customer(requests_per_minute=2)
    later = NOON + timedelta(minutes=1)
    assert customer.admit(b) == "ok"
    assert customer.admit(a, at=later) == "ok"
    assert held_up(lambda: customer.admit(b, at=later), lambda: end(a, b)) == "ok"
    assert admitted(customer, b, later) == (0 if end is commit else 1)


def test_operators_wait_for_no_request_and_their_change_holds_from_the_next(
    a: Connection, b: Connection, connection: Connection, make_customer: MakeCustomer
) -> None:
    customer = make_customer(match_limit=5)
    second = holder_of(issue_key(connection, customer.account_id).api_key)
    assert customer.admit(b) == "ok"  # a day's first use would hold the key's row until the call ends
    assert customer.meter(a, "key-0001", units=5).outcome == "charged"
    set_plan(connection, customer.plan_id, {"color_match": 6, "color_search": 0})
    a.execute("commit and chain")
    assert customer.meter(a, "key-0002") == ("charged", "2031-03", 6, 6, 0, b"{}")
    accounts.set_status(connection, customer.account_id, "suspended")
    assert customer.meter(b, "key-0002").outcome == "account_unavailable"
    a.execute("commit and chain")
    assert customer.meter(b, "key-0002").outcome == "account_unavailable", "not even a replay"
    accounts.set_status(connection, customer.account_id, "active")
    assert customer.meter(a, "key-0003", meter="color_search").outcome == "quota_exceeded"
    revoke_key(connection, customer.key_id)
    a.execute("commit")
    assert customer.meter(b, "key-0002").outcome == "unauthorized"
    assert customer.meter(b, "key-0002", holder=second).outcome == "replayed", "the result belongs to the account"


def test_no_request_waits_for_another_account_or_an_operator(
    a: Connection, b: Connection, make_customer: MakeCustomer
) -> None:
    first, second = make_customer(), make_customer()
    assert first.meter(a).outcome == "charged"
    accounts.set_status(a, second.account_id, "suspended")
    assert second.meter(b).outcome == "charged"
    a.execute("commit")
    assert second.admit(b) == "account_unavailable"


def test_two_batches_do_not_wait_for_each_other_in_a_circle(
    connection: Connection, make_customer: MakeCustomer
) -> None:
    """Each takes the accounts in a fixed order, not in the order of its calls."""
    customers = sorted((make_customer() for _ in range(3)), key=lambda customer: customer.account_id, reverse=True)
    commands = [customer.request() for customer in customers]
    columns = [list(column) for column in zip(*(command.parameters for command in commands), strict=True)]
    rows = connection.execute(str(commands[0].batch_statement).encode(), columns).fetchall()
    assert [at for at, *_ in rows] == [3, 2, 1]


def test_one_change_of_a_plan_at_a_time_also_of_one_that_is_being_made(a: Connection, b: Connection) -> None:
    """Concurrent changes of a plan that was created and deleted used to deadlock."""
    with a.transaction():
        assert make_change(a, "plan.set", NO_ACCOUNT, "test-new").outcome == "missing"
        b.execute("set lock_timeout = '100ms'")
        with pytest.raises(LockNotAvailable):
            set_plan(b, "test-new", {"color_match": 1, "color_search": 1}, requests_per_minute=1)
