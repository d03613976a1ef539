"""The ledger against a model of it in memory: any history of requests and operators' acts, compared step by step.

A few seconds by default; SEPU_MODEL_HISTORIES=3000 plays that many histories. Time is the model's and moves by rules
only, so every edge of a minute, a month and a retention can be met exactly.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from psycopg import Connection
from tests.metering.conftest import Answer

from sepu.admin import accounts
from sepu.admin.audit import audit
from sepu.admin.keys import IssuedKey, issue_key, revoke_key
from sepu.admin.plans import set_plan, set_thresholds
from sepu.cli.database import connect
from sepu.metering.key_format import credential, new_key_id
from sepu.metering.meters import METERS

HISTORIES = int(os.environ.get("SEPU_MODEL_HISTORIES", "40"))
STEPS = 40

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


class Plan(NamedTuple):
    """What an account may do."""

    match_limit: int
    search_limit: int
    requests_per_minute: int
    thresholds: tuple[int, ...] = (80, 95, 100)

    def limit(self, meter: str) -> int:
        return self.match_limit if meter == "color_match" else self.search_limit


class Input(NamedTuple):
    """What is asked, whatever the key: meter, a stand-in for colours or text, and its units."""

    meter: str
    what: str
    units: int


@dataclass
class Stored:
    """What a key was charged for."""

    given: Input
    period: str
    body: bytes
    at: datetime


@dataclass
class Counter:
    """One month of one meter."""

    committed: int = 0
    pruned: int = 0
    events: int = 0


class Event(NamedTuple):
    """What a charge crossed."""

    period: str
    meter: str
    threshold: int
    limit: int
    committed: int
    at: datetime


@dataclass(eq=False)
class Account:
    """One account as the model knows it."""

    account_id: str
    plan_id: str
    active: bool = True
    window_start: datetime = LONG_AGO
    requests: int = 0
    counters: dict[tuple[str, str], Counter] = field(default_factory=dict)
    stored: dict[str, Stored] = field(default_factory=dict)
    events: set[Event] = field(default_factory=set)


@dataclass(eq=False)
class Key:
    """One API key as the model knows it."""

    account: Account
    key_id: str
    key_hash: bytes
    expires_at: datetime | None
    revoked: bool = False


class Request(NamedTuple):
    """A metered request."""

    key: Key
    idempotency_key: str
    given: Input


LIMITS = st.builds(
    Plan,
    st.sampled_from([0, 3, 7, 20, 10**6]),
    st.sampled_from([0, 2, 9, 10**6]),
    st.sampled_from([2, 3, 10**6]),
    st.sampled_from([(80, 95, 100), (), (1,), (34, 50, 51, 100), tuple(range(1, 101))]),
)
INPUTS = st.builds(Input, st.sampled_from(list(METERS)), st.sampled_from(["red", "blue"]), st.integers(1, 4))
# Few, and shared by all accounts, so that they meet.
IDEMPOTENCY_KEYS = st.sampled_from([f"key-{number:04}" for number in range(12)])
RETENTIONS = (0, 1, 90)
SPANS = st.sampled_from([TICK, SECOND, MINUTE - TICK, MINUTE, 3600 * SECOND, DAY, 31 * DAY])


class LedgerMachine(RuleBasedStateMachine):
    """Does everything twice: in the ledger and in the model."""

    keys = Bundle("keys")
    lost_keys = Bundle("lost_keys")  # that may have expired or were revoked
    requests = Bundle("requests")

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
        self.now = datetime(2031, 3, 10, 12, tzinfo=UTC)
        self.plans: dict[str, Plan] = {}
        self.everybody: list[Account] = []
        self.calls = 0

    # Operators

    @initialize(target=keys)
    def begin(self) -> Key:
        return self.open_account(self.make_plan(Plan(20, 10, 10**6)))

    @rule(target=keys, limits=LIMITS)
    def another_account(self, limits: Plan) -> Key:
        return self.open_account(self.make_plan(limits))

    @rule(target=keys, key=keys)
    def an_account_on_the_same_plan(self, key: Key) -> Key:
        return self.open_account(key.account.plan_id)

    def make_plan(self, limits: Plan) -> str:
        plan_id = f"model-{new_key_id('plan')}"
        self.set_plan(plan_id, limits)
        return plan_id

    def open_account(self, plan_id: str) -> Key:
        issued = accounts.create_account(self.connection, plan_id)
        self.everybody.append(Account(issued.account_id, plan_id))
        return self.known(issued)

    def known(self, issued: IssuedKey) -> Key:
        found = credential(issued.api_key)
        assert found is not None
        (account,) = (account for account in self.everybody if account.account_id == issued.account_id)
        return Key(account, issued.key_id, found.key_hash, issued.expires_at)

    def set_plan(self, plan_id: str, limits: Plan) -> None:
        match, search, per_minute, thresholds = limits
        by_meter = {"color_match": match, "color_search": search}
        set_plan(self.connection, plan_id, by_meter, requests_per_minute=per_minute)
        set_thresholds(self.connection, plan_id, thresholds)
        self.plans[plan_id] = limits

    @rule(key=keys, limits=LIMITS)
    def the_plan_changes(self, key: Key, limits: Plan) -> None:
        self.set_plan(key.account.plan_id, limits)

    @rule(key=keys, other=keys)
    def an_account_moves(self, key: Key, other: Key) -> None:
        accounts.move_account(self.connection, key.account.account_id, other.account.plan_id)
        key.account.plan_id = other.account.plan_id

    @rule(key=keys, active=st.sampled_from([True, True, False]))
    def suspend_or_reactivate(self, key: Key, active: bool) -> None:
        accounts.set_status(self.connection, key.account.account_id, "active" if active else "suspended")
        key.account.active = active

    @rule(target=keys, key=keys)
    def issue_key(self, key: Key) -> Key:
        return self.known(issue_key(self.connection, key.account.account_id))

    @rule(target=lost_keys, key=keys, lifetime=SPANS)
    def issue_key_that_expires(self, key: Key, lifetime: timedelta) -> Key:
        return self.known(issue_key(self.connection, key.account.account_id, self.now + lifetime))

    @rule(target=lost_keys, key=consumes(keys) | lost_keys)
    def revoke_key(self, key: Key) -> Key:
        revoke_key(self.connection, key.key_id)
        key.revoked = True
        return key

    @rule(days=st.sampled_from(RETENTIONS), limit=st.sampled_from([1, 2, 1000]))
    def prune(self, days: int, limit: int) -> None:
        for account in self.everybody:
            for (period, meter), counter in account.counters.items():
                old = {
                    name: stored
                    for name, stored in account.stored.items()
                    if (stored.period, stored.given.meter) == (period, meter) and stored.at < self.now - days * DAY
                }
                units = sum(stored.given.units for stored in old.values())
                results = 0
                deleted = limit
                while deleted == limit:
                    deleted, freed = self.call(
                        "results, units", "prune_results", account.account_id, period, meter, days, limit
                    )
                    results += deleted
                    units -= freed
                assert (results, units) == (len(old), 0)
                for name, stored in old.items():
                    counter.pruned += stored.given.units
                    del account.stored[name]

    # Time

    @rule(span=SPANS)
    def time_passes(self, span: timedelta) -> None:
        self.now += span

    @rule(key=lost_keys)
    def a_key_expires(self, key: Key) -> None:
        for before in (TICK, timedelta(0)):
            if key.expires_at is not None and key.expires_at - before >= self.now:
                self.now = key.expires_at - before
                self.admit(key, key.account)

    @rule(which=st.integers(0, 99), before=st.booleans())
    def a_moment_comes(self, which: int, before: bool) -> None:
        """The next month's first instant, the end of a minute's window, a result's retention."""
        month = (self.now.replace(day=1, hour=0, minute=0, second=0, microsecond=0) + 32 * DAY).replace(day=1)
        moments = {month}
        for account in self.everybody:
            moments.add(account.window_start + MINUTE)
            moments.update(stored.at + days * DAY for stored in account.stored.values() for days in RETENTIONS)
        future = sorted(moment for moment in moments if moment - TICK >= self.now)
        self.now = future[which % len(future)] - before * TICK

    # Customers

    @rule(target=requests, key=keys, asked=st.lists(st.tuples(IDEMPOTENCY_KEYS, INPUTS), min_size=2, max_size=8))
    def ask(self, key: Key, asked: list[tuple[str, Input]]) -> MultipleResults[Request]:
        requests = [Request(key, *each) for each in asked]
        for request in requests:
            self.meter(request)
        return multiple(*requests)

    @rule(request=requests, times=st.integers(1, 3))
    def ask_again(self, request: Request, times: int) -> None:
        for _ in range(times):
            self.meter(request)

    @rule(request=requests, given=INPUTS)
    def ask_something_else(self, request: Request, given: Input) -> None:
        self.meter(request._replace(given=given))

    @rule(request=requests, key=keys | lost_keys)
    def ask_with_another_key(self, request: Request, key: Key) -> None:
        self.meter(request._replace(key=key))

    @rule(key=keys | lost_keys, other=keys)
    def claim_an_account(self, key: Key, other: Key) -> None:
        """With a key that may be another account's."""
        self.admit(key, other.account)

    def admit(self, key: Key, account: Account) -> None:
        (outcome,) = self.call("outcome", "admit", account.account_id, key.key_hash)
        assert outcome == (self.admitted(key) if key.account is account else "unauthorized")

    @rule(key=keys | lost_keys)
    def read_usage(self, key: Key) -> None:
        columns = "outcome, plan_id, period, meter, unit_limit, committed, reserved"
        answer = self.rows(columns, "read_usage", key.account.account_id, key.key_hash)
        outcome = self.admitted(key)
        if outcome != "ok":
            assert answer == [(outcome, *[None] * 6)]
        else:
            assert answer == [(outcome, key.account.plan_id, self.period, *used) for used in self.usage(key)]

    # The model's rules

    @property
    def period(self) -> str:
        return f"{self.now:%Y-%m}"

    def usage(self, key: Key) -> list[tuple[str, int, int, int]]:
        """Meter, limit, committed and reserved, for each meter."""
        plan, counters = self.plans[key.account.plan_id], key.account.counters
        return [
            (meter, plan.limit(meter), counters.get((self.period, meter), Counter()).committed, 0) for meter in METERS
        ]

    def admitted(self, key: Key) -> str:
        """Judges and counts a request."""
        account = key.account
        if key.revoked or (key.expires_at is not None and key.expires_at <= self.now):
            return "unauthorized"
        if not account.active:
            return "account_unavailable"
        if self.now - account.window_start >= MINUTE:
            window_start, requests = self.now, 0
        else:
            window_start, requests = account.window_start, account.requests
        if requests >= self.plans[account.plan_id].requests_per_minute:
            return "rate_limited"
        account.window_start, account.requests = window_start, requests + 1
        return "ok"

    def meter(self, request: Request) -> None:
        self.calls += 1
        body = f'{{"call":{self.calls}}}'.encode()
        answer = Answer(
            *self.call(
                "outcome, period, unit_limit, committed, reserved, body",
                "meter_request",
                request.key.account.account_id,
                request.key.key_hash,
                request.idempotency_key,
                sha256(repr(request.given).encode()).digest(),
                request.given.meter,
                request.given.units,
                body,
            )
        )
        assert answer == self.metered(request, body)

    def metered(self, request: Request, body: bytes) -> Answer:
        account, given = request.key.account, request.given
        outcome = self.admitted(request.key)
        if outcome != "ok":
            return Answer(outcome, None, None, None, None, None)
        limit = self.plans[account.plan_id].limit(given.meter)
        if stored := account.stored.get(request.idempotency_key):
            if stored.given != given:
                return Answer("idempotency_conflict", None, None, None, None, None)
            counter = account.counters[stored.period, given.meter]
            return Answer("replayed", stored.period, limit, counter.committed, 0, stored.body)
        counter = account.counters.get((self.period, given.meter), Counter())
        if counter.committed + given.units > limit:
            return Answer("quota_exceeded", self.period, limit, counter.committed, 0, None)
        # A threshold is reached with the first unit that is not below so many percent of the limit in force.
        for threshold in self.plans[account.plan_id].thresholds:
            if counter.committed < -(-limit * threshold // 100) <= counter.committed + given.units:
                total = counter.committed + given.units
                account.events.add(Event(self.period, given.meter, threshold, limit, total, self.now))
                counter.events += 1
        counter.committed += given.units
        account.counters[self.period, given.meter] = counter
        account.stored[request.idempotency_key] = Stored(given, self.period, body, self.now)
        return Answer("charged", self.period, limit, counter.committed, 0, body)

    def call(self, columns: str, function: str, *arguments: object) -> tuple[Any, ...]:
        """Calls one of the ledger's functions that give one row, at the model's instant."""
        (row,) = self.rows(columns, function, *arguments)
        return row

    def rows(self, columns: str, function: str, *arguments: object) -> list[tuple[Any, ...]]:
        places = ", ".join(["%s"] * len(arguments))
        statement = f"select {columns} from sepu.{function}({places}, p_now => %s)".encode()
        return self.connection.execute(statement, (*arguments, self.now)).fetchall()

    def teardown(self) -> None:
        """The next history finds the ledger empty: a difference of this one is not its."""
        for table in (
            *("event_delivery", "quota_event", "stored_result", "usage_day", "usage", "request_rate", "api_key"),
            *("account_move", "account"),
        ):
            self.connection.execute(f"delete from sepu.{table}".encode())

    # What must be true after every step

    @invariant()
    def it_adds_up(self) -> None:
        assert audit(self.connection).differences == ()

    @invariant()
    def the_ledger_is_as_the_model(self) -> None:
        ids = [account.account_id for account in self.everybody]
        counters = self.connection.execute(
            "select account_id, period, meter, committed, pruned, events from sepu.usage where account_id = any (%s)",
            (ids,),
        ).fetchall()
        assert {(owner, period, meter): Counter(*units) for owner, period, meter, *units in counters} == {
            (account.account_id, *name): counter
            for account in self.everybody
            for name, counter in account.counters.items()
        }
        stored = self.connection.execute(
            "select account_id, idempotency_key, body from sepu.stored_result where account_id = any (%s)", (ids,)
        ).fetchall()
        assert {(owner, name): body for owner, name, body in stored} == {
            (account.account_id, name): result.body
            for account in self.everybody
            for name, result in account.stored.items()
        }
        events = self.connection.execute(
            "select account_id, period, meter, threshold, unit_limit, committed, crossed_at from sepu.quota_event"
            " join sepu.event_delivery using (account_id, period, meter, threshold, unit_limit)"
            " where account_id = any (%s) and due_at = crossed_at and attempts = 0",
            (ids,),
        ).fetchall()
        assert {(owner, Event(*event)) for owner, *event in events} == {
            (account.account_id, event) for account in self.everybody for event in account.events
        }
        assert len(events) == sum(len(account.events) for account in self.everybody)


@pytest.fixture
def connection(own_url: str) -> Iterator[Connection]:
    """To a database of the test's own, which the audit looks at as a whole. Nothing here survives, so no disk waits."""
    with connect(own_url) as opened:
        opened.execute("set synchronous_commit = off")
        yield opened


@pytest.mark.timeout(0)  # a failure is shrunk for minutes, at most five
def test_the_ledger_is_as_the_model(connection: Connection) -> None:
    class Machine(LedgerMachine):
        def __init__(self) -> None:
            super().__init__(connection)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=HISTORIES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            report_multiple_bugs=False,
        ),
    )
