"""Sessions that meet in the middle of a request, step by step. That a step returns shows that it did not wait."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from sepu.admin import accounts
from sepu.metering.keys import credential

if TYPE_CHECKING:
    from tests.metering.conftest import Answer, Customer, MakeCustomer

NOON = datetime(2031, 3, 10, 12, tzinfo=UTC)
MARCH = ("2031-03", "color_match")

Session = Callable[[], psycopg.Connection]


def refused(outcome: str) -> tuple[str | None, ...]:
    return (outcome, None, None, None, None, None)


def kill(a: psycopg.Connection, other: psycopg.Connection) -> None:
    """As by `kill -9` of its client: the server finds the connection closed and rolls back."""
    pid = a.info.backend_pid
    a.close()
    until_gone(other, pid)


def terminate(a: psycopg.Connection, other: psycopg.Connection) -> None:
    other.execute("select pg_terminate_backend(%s, 10000)", (a.info.backend_pid,))


def freeze_then_terminate(a: psycopg.Connection, other: psycopg.Connection) -> None:
    pid = a.info.backend_pid
    os.kill(pid, signal.SIGSTOP)
    other.execute("select pg_terminate_backend(%s)", (pid,))
    os.kill(pid, signal.SIGCONT)
    until_gone(other, pid)


def rollback(a: psycopg.Connection, _other: psycopg.Connection) -> None:
    a.execute("rollback")


def until_gone(session: psycopg.Connection, pid: int) -> None:
    while session.execute("select from pg_stat_activity where pid = %s", (pid,)).fetchall():
        pass


def test_same_input_while_running(session: Session, customer: "Customer") -> None:
    a, b = session(), session()
    a.execute("begin")
    assert customer.meter(a, units=3).outcome == "charged"
    assert customer.meter(b, units=3) == refused("request_in_progress")
    assert customer.meter(b, units=3) == refused("request_in_progress")
    assert customer.stored(b) == {}
    a.execute("commit")
    assert customer.meter(b, units=3) == ("replayed", "2031-03", 2000, 3, 0, b"{}")
    assert customer.committed(b) == customer.stored(b) == {MARCH: 3}


def test_other_input_while_running(session: Session, customer: "Customer") -> None:
    a, b = session(), session()
    a.execute("begin")
    assert customer.meter(a, what="red").outcome == "charged"
    assert customer.meter(b, what="blue") == refused("idempotency_conflict")
    assert customer.meter(b, what="red", meter="color_match") == refused("request_in_progress")
    a.execute("commit")
    assert customer.meter(b, what="blue") == refused("idempotency_conflict")
    assert customer.meter(b, what="red").outcome == "replayed"
    assert customer.committed(b) == {MARCH: 1}


@pytest.mark.parametrize("end", [rollback, kill, terminate, freeze_then_terminate])
def test_after_a_crash_the_retry_executes(
    session: Session, customer: "Customer", end: Callable[[psycopg.Connection, psycopg.Connection], None]
) -> None:
    a, b = session(), session()
    a.execute("begin")
    assert customer.meter(a, what="red").outcome == "charged"
    assert customer.meter(b, what="red").outcome == "request_in_progress"
    end(a, b)
    assert customer.meter(b, what="red").outcome == "charged"
    assert customer.committed(b) == customer.stored(b) == {MARCH: 1}


def test_after_a_crash_the_key_is_free_for_another_input(session: Session, customer: "Customer") -> None:
    a, b = session(), session()
    a.execute("begin")
    customer.meter(a, what="red")
    assert customer.meter(b, what="blue").outcome == "idempotency_conflict"
    terminate(a, b)
    assert customer.meter(b, what="blue").outcome == "charged"


def test_a_refused_execution_frees_the_key(session: Session, make_customer: "MakeCustomer") -> None:
    customer = make_customer(match_limit=3)
    a, b = session(), session()
    a.execute("begin")
    assert customer.meter(a, what="red", units=5).outcome == "quota_exceeded"
    assert customer.meter(b, what="red", units=5).outcome == "request_in_progress"
    a.execute("commit")
    assert customer.meter(b, what="blue", units=3).outcome == "charged"


def test_two_replays_do_not_disturb_each_other(session: Session, customer: "Customer") -> None:
    a, b = session(), session()
    assert customer.meter(a).outcome == "charged"
    a.execute("begin")
    assert customer.meter(a).outcome == "replayed"
    assert customer.meter(b).outcome == "replayed"


def test_a_conflict_does_not_disturb_a_replay(session: Session, customer: "Customer") -> None:
    a, b = session(), session()
    assert customer.meter(a, what="red").outcome == "charged"
    a.execute("begin")
    assert customer.meter(a, what="blue").outcome == "idempotency_conflict"
    assert customer.meter(b, what="red").outcome == "replayed"


@pytest.mark.parametrize("second", ["blue", "green"])
def test_two_conflicting_probers(
    session: Session, customer: "Customer", until_blocked: Callable[[], None], second: str
) -> None:
    a, b, c = session(), session(), session()
    a.execute("begin")
    assert customer.meter(a, what="red").outcome == "charged"
    b.execute("begin")
    assert customer.meter(b, what="blue").outcome == "idempotency_conflict"
    with ThreadPoolExecutor() as threads:
        # Refused requests count in bucket 1, so c waits for b here, and never for the one that executes.
        waiting = threads.submit(customer.meter, c, what=second)
        until_blocked()
        b.execute("commit")
        answer = waiting.result()
    # Of two that bring the same other input at the same instant, the second may be told to try again.
    expected = {"idempotency_conflict", "request_in_progress"} if second == "blue" else {"idempotency_conflict"}
    assert answer.outcome in expected
    assert customer.meter(c, what=second).outcome == "idempotency_conflict"
    a.execute("commit")
    assert customer.committed(c) == {MARCH: 1}


def test_a_prober_does_not_keep_the_next_from_executing_for_good(session: Session, customer: "Customer") -> None:
    a, b, c = session(), session(), session()
    a.execute("begin")
    customer.meter(a, what="red")
    b.execute("begin")
    assert customer.meter(b, what="blue").outcome == "idempotency_conflict"
    a.execute("rollback")
    assert customer.meter(c, what="red").outcome == "charged"
    b.execute("commit")
    assert customer.meter(b, what="blue").outcome == "idempotency_conflict"


def test_an_idempotency_key_that_looks_like_another_with_its_input(
    session: Session, customer: "Customer", until_blocked: Callable[[], None]
) -> None:
    a, b = session(), session()
    a.execute("begin")
    assert customer.meter(a, "key-0001", what="red").outcome == "charged"
    digest = customer.request(what="red").parameters[3].hex()
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(customer.meter, b, f"key-0001:{digest}", what="blue")
        until_blocked()  # as any other key of the account: for its counters
        a.execute("commit")
        assert waiting.result().outcome == "charged"


def test_the_month_rolls_over_between_charge_and_replay(session: Session, customer: "Customer") -> None:
    a, b = session(), session()
    midnight = datetime(2031, 4, 1, tzinfo=UTC)
    before, after = midnight - timedelta(microseconds=1), midnight
    a.execute("begin")
    assert customer.meter(a, at=before).period == "2031-03"
    assert customer.meter(b, at=after).outcome == "request_in_progress"
    a.execute("commit")
    assert customer.meter(b, at=after) == ("replayed", "2031-03", 2000, 1, 0, b"{}")
    assert customer.meter(b, "key-0002", at=after) == ("charged", "2031-04", 2000, 1, 0, b"{}")
    assert customer.committed(b) == customer.stored(b)


@pytest.mark.parametrize(("end", "outcome"), [("commit", "quota_exceeded"), ("rollback", "charged")])
def test_the_last_units(
    session: Session,
    make_customer: "MakeCustomer",
    until_blocked: Callable[[], None],
    end: str,
    outcome: str,
) -> None:
    customer = make_customer(match_limit=5)
    a, b = session(), session()
    a.execute("begin")
    assert customer.meter(a, "key-0001", units=3).outcome == "charged"
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(customer.meter, b, "key-0002", units=3)
        until_blocked()
        a.execute("commit" if end == "commit" else "rollback")
        assert waiting.result().outcome == outcome
    assert customer.committed(b) == customer.stored(b) == {MARCH: 3}


def test_the_last_request_of_a_minute(
    session: Session, make_customer: "MakeCustomer", until_blocked: Callable[[], None]
) -> None:
    customer = make_customer(requests_per_minute=1)
    a, b = session(), session()
    a.execute("begin")
    assert customer.admit(a) == "ok"
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(customer.admit, b)
        until_blocked()
        a.execute("commit")
        assert waiting.result() == "rate_limited"


def admitted(customer: "Customer", session: psycopg.Connection, at: datetime = NOON) -> int:
    """How many more requests pass, one after the other."""
    passed = 0
    while customer.admit(session, at=at) == "ok":
        passed += 1
    return passed


def test_requests_refused_for_a_running_one_count_too(session: Session, make_customer: "MakeCustomer") -> None:
    customer = make_customer(requests_per_minute=8)
    a, b = session(), session()
    assert customer.admit(b) == "ok"
    a.execute("begin")
    assert customer.meter(a).outcome == "charged"
    outcomes = [customer.meter(b).outcome for _ in range(4)]
    # A quarter of the limit is for them, as they cannot know how many are running.
    assert outcomes == ["request_in_progress"] * 2 + ["rate_limited"] * 2
    a.execute("commit")
    assert admitted(customer, b) == 8 - 1 - 1 - 2
    assert customer.admit(b, at=NOON + timedelta(minutes=1)) == "ok"


@pytest.mark.parametrize(("end", "outcome"), [("commit", "rate_limited"), ("rollback", "ok")])
def test_a_refused_request_not_yet_committed_has_its_place(
    session: Session, make_customer: "MakeCustomer", until_blocked: Callable[[], None], end: str, outcome: str
) -> None:
    customer = make_customer(requests_per_minute=4)
    a, b, c = session(), session(), session()
    a.execute("begin")
    assert customer.meter(a).outcome == "charged"
    b.execute("begin")
    assert customer.meter(b).outcome == "request_in_progress"
    a.execute("commit")
    assert [customer.admit(c), customer.admit(c)] == ["ok", "ok"]
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(customer.admit, c)
        until_blocked()
        b.execute("commit" if end == "commit" else "rollback")
        assert waiting.result() == outcome
    assert customer.admit(c) == "rate_limited"


def test_near_the_limit_nobody_waits_for_a_running_request_either(
    session: Session, make_customer: "MakeCustomer"
) -> None:
    customer = make_customer(requests_per_minute=4)
    a, b = session(), session()
    assert [customer.admit(b) for _ in range(3)] == ["ok"] * 3
    a.execute("begin")
    assert customer.meter(a).outcome == "charged"
    assert customer.meter(b).outcome == "rate_limited"
    a.execute("rollback")
    assert customer.meter(b).outcome == "charged"
    assert customer.meter(b).outcome == "rate_limited"


def test_one_window_for_both_buckets(session: Session, make_customer: "MakeCustomer") -> None:
    customer = make_customer(requests_per_minute=8)
    a, b = session(), session()
    for minute in range(3):
        start = NOON + timedelta(minutes=minute)
        a.execute("begin")
        assert customer.meter(a, f"key-{minute:04}", at=start).outcome == "charged"
        outcomes = [
            customer.meter(b, f"key-{minute:04}", at=start + timedelta(seconds=seconds)).outcome
            for seconds in (10, 20, 30)
        ]
        assert outcomes == ["request_in_progress"] * 2 + ["rate_limited"]
        a.execute("commit")
        assert admitted(customer, b, start + timedelta(seconds=40)) == 8 - 1 - 2
        assert admitted(customer, b, start + timedelta(minutes=1, microseconds=-1)) == 0
    assert admitted(customer, b, NOON + timedelta(minutes=3)) == 8


def test_a_plan_changes_between_two_calls(session: Session, make_customer: "MakeCustomer") -> None:
    customer = make_customer(match_limit=5)
    a, b, operator = session(), session(), session()
    a.execute("begin")
    assert customer.meter(a, "key-0001", units=5).outcome == "charged"
    accounts.set_plan(operator, customer.plan_id, match_limit=6, search_limit=0, requests_per_minute=100)
    a.execute("commit")
    assert customer.meter(b, "key-0002") == ("charged", "2031-03", 6, 6, 0, b"{}")
    assert customer.meter(b, "key-0003", meter="color_search").outcome == "quota_exceeded"


def test_suspension_between_two_calls(session: Session, customer: "Customer") -> None:
    a, b, operator = session(), session(), session()
    a.execute("begin")
    assert customer.meter(a).outcome == "charged"
    accounts.set_status(operator, customer.account_id, "suspended")
    assert customer.meter(b).outcome == "account_unavailable"
    a.execute("commit")
    assert customer.meter(b).outcome == "account_unavailable", "not even a replay"
    accounts.set_status(operator, customer.account_id, "active")
    assert customer.meter(b).outcome == "replayed"


def test_a_suspension_not_yet_committed_does_not_count(session: Session, customer: "Customer") -> None:
    a, operator = session(), session()
    operator.execute("begin")
    accounts.set_status(operator, customer.account_id, "suspended")
    assert customer.meter(a).outcome == "charged"
    operator.execute("commit")
    assert customer.meter(a).outcome == "account_unavailable"


def test_revocation_between_two_calls(session: Session, customer: "Customer") -> None:
    a, b, operator = session(), session(), session()
    second = credential(accounts.issue_key(operator, customer.account_id).api_key)
    assert customer.admit(a) == "ok"  # a call with the first use of a day would hold the key's row until it ends
    a.execute("begin")
    assert customer.meter(a).outcome == "charged"
    accounts.revoke_key(operator, customer.key_id)
    a.execute("commit")
    assert customer.meter(b).outcome == "unauthorized"
    assert customer.meter(b, holder=second).outcome == "replayed", "the result belongs to the account"


def test_other_accounts_are_not_kept_waiting(session: Session, make_customer: "MakeCustomer") -> None:
    first, second = make_customer(), make_customer()
    a, b = session(), session()
    a.execute("begin")
    assert first.meter(a).outcome == "charged"
    answer: Answer = second.meter(b)
    assert answer.outcome == "charged"
    assert second.admit(b) == "ok"
