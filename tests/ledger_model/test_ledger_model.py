"""Requests and commands in any order, over months: the ledger and its model agree to the last row."""

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, TypeVar
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from joserfc.jwk import RSAKey
from psycopg import Connection
from tests.keys import holder_of
from tests.ledger_model.model import (
    DAY,
    METERS,
    MINUTE,
    PLAN_MOST,
    TICK,
    Charge,
    Fails,
    Model,
    Refused,
    Request,
    Row,
    key_state,
    month,
    next_month,
)
from tests.ledger_model.real_ledger import TABLES, RealLedger, real_ledger

from sepu import limits
from sepu.admin import accounts, keys, plans, receipts
from sepu.admin import prune as pruning
from sepu.admin.erase import erase_account
from sepu.admin.grants_and_credits import adjust_usage
from sepu.admin.operator import operator_name
from sepu.admin.rotation import rotate_key
from sepu.errors import SepuError

T = TypeVar("T")
Asked = tuple[int, str, tuple[int | None, int, bool]]

EXAMPLES = int(os.environ.get("SEPU_EXAMPLES", "0"))
START = datetime(2031, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
# The second and third put clocks forward in March; the others' months begin long before or after UTC's.
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Pacific/Kiritimati", "Pacific/Pago_Pago")
PLANS = ("standard", "gold", "silver")
UNITS = (1, 1, 2, 3, 5, 8, 13, 1)  # an intent's units

near = st.sampled_from([-HOUR, -30 * MINUTE, -TICK, timedelta(0), TICK, 30 * MINUTE, HOUR])
PRUNED_RESULTS = 4  # per transaction
LAST = 7
which = st.integers(0, LAST)
meter = st.sampled_from(METERS)
months = st.sampled_from([0, 0, 0, 0, -1, 1])
adjustments = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, -1]),
        st.sampled_from([1, 2, 5, 8, 20, "most", "one too many", "used", "again", "again", PLAN_MOST + 1]),
        st.integers(0, 3),
    ),
    max_size=6,
)
limit = st.sampled_from([20, 50, 100, 200, 1000, 10, 5, 1, 0, PLAN_MOST])
rate = st.sampled_from([1000] * 8 + [1, 2, 3, 5, 8, 40, 2**31 - 1])
thresholds = st.sampled_from([[], [100], [50, 50, 51], [1, 80, 100], [80, 95, 100]])
sometimes = st.integers(0, 5).map(lambda number: number == 0)
# An intent is an idempotency key with its usual input; None is a new one.
intent = st.tuples(st.integers(0, 5) | st.none(), st.sampled_from(UNITS), sometimes)
holder = st.sampled_from(["valid"] * 15 + ["any", "made up", "another's"])
asked = st.tuples(which, holder, intent)
kind = st.sampled_from(["charge", "charge", "charge", "usage", "admit"])


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self, real: RealLedger, pairs: Sequence[RSAKey]) -> None:
        super().__init__()
        self.real, self.pairs = real, pairs
        self.model = Model()
        self.now = self.latest = START
        self.zone = "UTC"
        self.count = 0
        self.key_hashes: dict[str, list[bytes]] = {}  # by account, in order of creation
        self.key_ids: dict[bytes, str] = {}
        self.operator = (operator_name(), real.connection.info.user)
        real.empty()

    # Shared by rules

    def number(self) -> int:
        self.count += 1
        return self.count

    def command(self, real: Callable[[], T], model: Callable[[T], Any]) -> None:
        """Runs a command, then the model's with its result: both refuse or neither.

        Commands run at the latest time so far: the history is in the order of time.
        """
        self.real.set_clock(self.latest, self.zone)
        try:
            made = real()
        except SepuError:
            with pytest.raises(Refused), self.model.all_or_nothing():
                model(None)  # type: ignore[arg-type]  # it refuses before it needs that
        else:
            model(made)

    def account(self, number: int) -> str:
        """Returns an account that is not erased, or now and then any one."""
        found = list(self.key_hashes) if number == LAST else self.open_accounts()
        return found[number % len(found)]

    def key(self, account: int, number: int) -> tuple[str, bytes]:
        account_id = self.account(account)
        hashes = self.key_hashes[account_id]
        return account_id, hashes[number % len(hashes)]

    def valid_key(self, account_id: str, otherwise: bytes) -> bytes:
        hashes = self.key_hashes[account_id]
        rows = [(key_hash, self.model.api_key.get((account_id, key_hash))) for key_hash in hashes]
        return next((key_hash for key_hash, row in rows if row and key_state(row, self.now) == "valid"), otherwise)

    def stored_results(self) -> list[tuple[tuple[str, str], Row]]:
        """Returns the stored results in an order independent of random ids, so that Hypothesis can repeat a case."""
        return sorted(self.model.stored_result.items(), key=lambda item: str(item[1]["request_id"]))

    def end(self, after: timedelta | None) -> datetime | None:
        return None if after is None else self.latest + after

    def open_accounts(self) -> list[str]:
        return [account_id for account_id in self.key_hashes if self.model.account[account_id]["status"] != "erased"]

    def _added(self, made: keys.IssuedKey | None) -> tuple[bytes, str]:
        return self.add_key(made.api_key) if made else (b"", "")

    def add_key(self, api_key: str) -> tuple[bytes, str]:
        credential = holder_of(api_key)
        self.key_hashes.setdefault(credential.account_id, []).append(credential.key_hash)
        self.key_ids[credential.key_hash] = credential.key_id
        return credential.key_hash, credential.key_id

    # The clock

    @rule(by=st.timedeltas(timedelta(0), 3 * MINUTE) | st.sampled_from([MINUTE, MINUTE - TICK, HOUR, DAY, 31 * DAY]))
    def time_passes(self, by: timedelta) -> None:
        self._set_clock(self.now + by)

    @rule(by=st.sampled_from([TICK, MINUTE, HOUR, DAY, 31 * DAY]))
    def clock_is_set_back(self, by: timedelta) -> None:
        self._set_clock(max(START - 40 * DAY, self.now - by))

    @rule(by=near, zone=st.sampled_from(ZONES), account=which)
    def month_ends(self, by: timedelta, zone: str, account: int) -> None:
        """In the session's zone the month may end hours earlier or later."""
        self.zone = zone
        self._set_clock(next_month(month(self.latest)) + by)
        if len(self.open_accounts()) < 3:
            self.account_is_made(PLANS[0], None, None)
            self.operator_looks(-1, 0, 80)
            self.operator_looks(-1, -1, 80)
        account_id = self.account(account)
        self._charge_alone(account_id, {"units": 2})
        self._ask([Request(account_id, self.valid_key(account_id, bytes(32)), "usage")], joined=False)
        self.operator_looks(account, 0, 80)

    @rule(zone=st.sampled_from(ZONES))
    def session_moves(self, zone: str) -> None:
        self.zone = zone

    def _set_clock(self, now: datetime) -> None:
        self.now = now
        self.latest = max(self.latest, now)

    # Requests

    @rule(those=st.lists(st.tuples(asked, kind), min_size=1, max_size=8))
    def requests(self, those: list[Any]) -> None:
        for one, kind in those:
            self._ask([self._request(one, kind)], joined=False)

    @rule(those=st.lists(asked, min_size=1, max_size=limits.batches.CALLS), kind=kind)
    def batch(self, those: list[Any], kind: str) -> None:
        self._ask([self._request(one, kind) for one in those], joined=True)

    @rule(one=which, number=st.integers(2, limits.batches.CALLS), units=st.sampled_from(UNITS))
    def burst(self, one: int, number: int, units: int) -> None:
        self._ask([self._request((one, "valid", (None, units, False)), "charge") for _ in range(number)], joined=True)

    @precondition(lambda self: self.model.stored_result)
    @rule(those=st.lists(st.tuples(st.integers(0, 60), sometimes), min_size=1, max_size=8), joined=st.booleans())
    def results_are_asked_for_again(self, those: list[tuple[int, bool]], joined: bool) -> None:
        """With their own input, or another one."""
        stored = self.stored_results()
        requests = []
        for number, other in those if joined else those[:1]:
            (account_id, key), row = stored[number % len(stored)]
            given = {"key": key, "meter": row["meter"], "units": row["units"] + other}
            holder = account_id, self.valid_key(account_id, bytes(32))
            requests.append(Request(*holder, self._charge((None, 1, False), given)))
        self._ask(requests, joined=joined)

    @rule(
        those=st.lists(asked, max_size=5),
        wrong=st.sampled_from(
            [{"meter": "color_taste"}, {"body": b"x"}, {"key": "short"}, {"units": 0}, {"units": -1}]
        ),
        at=which,
        alone=st.booleans(),
    )
    def something_that_no_server_sends(self, those: list[Any], wrong: dict[str, Any], at: int, alone: bool) -> None:
        those.insert(at % (len(those) + 1), (at, "valid", (None, 1, False)))
        requests = [self._request(one, "charge") for one in ([(at, "valid", (None, 1, False))] if alone else those)]
        at = 0 if alone else at % len(those)
        requests[at] = Request(requests[at].account_id, requests[at].key_hash, self._charge((None, 1, False), wrong))
        self._ask(requests, joined=not alone)

    @rule(account=which, meter=meter, excess=st.sampled_from([0, 1]))
    def last_units(self, account: int, meter: str, excess: int) -> None:
        """Charges the rest of a limit, or one unit more."""
        account_id = self.account(account)
        limit, committed, reserved, *_ = self._month_usage(account_id, month(self.now))[meter]
        units = limit - committed - reserved + excess
        if 1 <= units < 2**31:
            self._charge_alone(account_id, {"meter": meter, "units": units})

    def _charge_alone(self, account_id: str, given: dict[str, Any]) -> Request:
        charge = self._charge((None, 1, False), given)
        request = Request(account_id, self.valid_key(account_id, bytes(32)), charge)
        self._ask([request], joined=False)
        return request

    def _month_usage(self, account_id: str, period: str) -> dict[str, list[int]]:
        plan = self.model.plan.get(self.model.plan_of(account_id))  # an erased account's may be deleted
        limits = plan["limits"] if plan else dict.fromkeys(METERS, 0)
        return {meter: rest for meter, *rest in self.model.month_usage(account_id, period, limits)}

    @rule(
        account=which,
        of=st.sampled_from(["account", "key", "minute", "day"]),
        by=st.sampled_from([-TICK, timedelta(0), TICK]),
        what=st.sampled_from(["admit", "usage"]),
    )
    def asked_when_something_ends(self, account: int, of: str, by: timedelta, what: str) -> None:
        """Asks near the end of the account, its key, its abuse limit's minute, or the day of the key's last use."""
        account_id = self.account(account)
        holder = account_id, self.valid_key(account_id, bytes(32))
        if of == "minute":
            end = self.model.window.get(account_id, (self.now, 0))[0] + MINUTE
        elif of == "day":
            end = self.model.api_key.get(holder, {}).get("used_until") or self.now
        else:
            end = self.latest + HOUR
        if of == "account":
            self._change_account(account, _set_account, "account.set", expires_at=end)
        elif of == "key":
            self.key_is_issued(account, HOUR)
            holder = account_id, self.key_hashes[account_id][-1]
        self._set_clock(end + by)
        self._ask([Request(*holder, what)], joined=False)
        if of == "account":
            self._change_account(account, _set_account, "account.set", expires_at=None)

    def _request(self, one: Asked, kind: str) -> Request:
        account, holder, intent = one
        account_id, key_hash = self.key(account, account)
        if holder == "valid":
            key_hash = self.valid_key(account_id, key_hash)
        elif holder == "made up":
            key_hash = bytes(32)
        elif holder == "another's":  # if there is another
            key_hash = self.key(account + 1, 0)[1]
        return Request(account_id, key_hash, self._charge(intent, {}) if kind == "charge" else kind)

    def _charge(self, intent: tuple[int | None, int, bool], wrong: dict[str, Any]) -> Charge:
        number, units, other = intent
        unique = self.number()
        name = f"new-{unique:05}" if number is None else f"key-{number:05}"
        if number is not None:
            units = UNITS[number % len(UNITS)] + other
        meter = METERS[(number or 0) % 3 == 2]
        given = {"key": name, "meter": meter, "units": units, "body": f'{{"for":{unique}}}'.encode(), **wrong}
        digest = sha256(f"{given['meter']} {given['units']}".encode()).digest()
        return Charge(fingerprint=digest, request_id=str(UUID(int=unique)), **given)

    def _ask(self, requests: list[Request], *, joined: bool) -> None:
        self.real.set_clock(self.now, self.zone)
        expected = _or_failure(lambda: self.model.batch(requests, self.now, joined=joined))
        assert _or_failure(lambda: self.real.ask(requests, joined=joined)) == expected

    # Plans and accounts

    @initialize(limit=st.sampled_from([20, 50, 100, 1000]), number=st.integers(1, 3))
    def begin(self, limit: int, number: int) -> None:
        for plan_id in PLANS[:2]:
            self.plan_is_set(plan_id, (limit, limit), 1000, None)
        for _ in range(number):
            self.account_is_made("standard", None, None)

    @rule(
        plan_id=st.sampled_from(PLANS),
        limits=st.tuples(st.none() | limit, st.none() | limit | st.sampled_from([-1, PLAN_MOST + 1])),
        rate=st.none() | rate | st.just(0),
        thresholds=st.none() | thresholds | st.just([101]),
    )
    def plan_is_set(
        self, plan_id: str, limits: tuple[int | None, int | None], rate: int | None, thresholds: list[int] | None
    ) -> None:
        given = {meter: units for meter, units in zip(METERS, limits, strict=True) if units is not None}
        self.command(
            lambda: plans.set_plan(
                self.real.connection, plan_id, given, requests_per_minute=rate, thresholds=thresholds
            ),
            lambda _: self.model.set_plan(plan_id, given, rate, thresholds, self.latest),
        )

    @rule(account=which, meter=meter, by=st.sampled_from([-1, 0, 1, 5]))
    def plan_is_set_beside_what_is_used(self, account: int, meter: str, by: int) -> None:
        account_id = self.account(account)
        plan_id = self.model.plan_of(account_id)
        used = self.model.usage.get((account_id, month(self.now), meter), {"committed": 0})["committed"]
        match, search = (used + by if each == meter else None for each in METERS)
        self.plan_is_set(plan_id, (match, search), None, None)
        self.last_units(account, meter, 0)  # crosses reached and unreached thresholds

    @rule(account=which, rates=st.lists(st.integers(-2, 3), min_size=1, max_size=5))
    def rate_is_set_beside_what_passed(self, account: int, rates: list[int]) -> None:
        account_id = self.account(account)
        plan_id = self.model.plan_of(account_id)
        ask = [Request(account_id, self.valid_key(account_id, bytes(32)), "admit")] * 3
        for by in (*rates, 1000):
            _, passed = self.model.window.get(account_id, (None, 0))
            self.plan_is_set(plan_id, (None, None), passed + by, None)
            self._ask(ask, joined=True)

    @rule(plan_id=st.sampled_from(PLANS))
    def plan_is_deleted(self, plan_id: str) -> None:
        self.command(
            lambda: plans.delete_plan(self.real.connection, plan_id),
            lambda _: self.model.delete_plan(plan_id, self.latest),
        )

    @precondition(lambda self: len(self.open_accounts()) < 4)
    @rule(
        plan_id=st.sampled_from(PLANS),
        external_id=st.none() | st.sampled_from(["cus_1", "cus_2"]),
        after=st.sampled_from([None, None, MINUTE, 90 * DAY]),
    )
    def account_is_made(self, plan_id: str, external_id: str | None, after: timedelta | None) -> None:
        expires_at = self.end(after)

        def make(made: keys.IssuedKey | None) -> None:
            account_id = made.account_id if made else ""
            self.model.create_account(account_id, plan_id, external_id, expires_at, self.latest)
            assert made is not None
            self.model.issue_key(account_id, *self.add_key(made.api_key), None, self.latest)

        self.command(
            lambda: accounts.create_account(self.real.connection, plan_id, None, external_id, expires_at), make
        )

    @rule(account=which, plan_id=st.sampled_from(PLANS))
    def account_is_moved(self, account: int, plan_id: str) -> None:
        self._change_account(account, accounts.move_account, "account.move", plan_id=plan_id)

    @rule(account=which, status=st.sampled_from(["active", "active", "suspended"]))
    def account_is_suspended_or_not(self, account: int, status: str) -> None:
        action = "account.suspend" if status == "suspended" else "account.reactivate"
        self._change_account(account, accounts.set_status, action, status=status)

    @rule(
        account=which,
        columns=st.fixed_dictionaries({"expires_at": st.sampled_from([None, None, MINUTE, HOUR, 90 * DAY])})
        | st.fixed_dictionaries({"external_id": st.sampled_from([None, "cus_1", "cus_2"])}),
    )
    def account_is_changed(self, account: int, columns: Any) -> None:
        if "expires_at" in columns:
            columns = {"expires_at": self.end(columns["expires_at"])}
        self._change_account(account, _set_account, "account.set", **columns)

    def _change_account(self, account: int, command: Callable[..., None], action: str, **columns: Any) -> None:
        account_id = self.account(account)
        self.command(
            lambda: command(self.real.connection, account_id, **columns),
            lambda _: self.model.change_account(account_id, action, self.latest, **columns),
        )

    # Keys

    @rule(account=which, after=st.sampled_from([None, None, MINUTE, HOUR, 60 * DAY]))
    def key_is_issued(self, account: int, after: timedelta | None) -> None:
        account_id, end = self.account(account), self.end(after)
        self.command(
            lambda: keys.issue_key(self.real.connection, account_id, end),
            lambda made: self.model.issue_key(account_id, *self._added(made), end, self.latest),
        )

    @rule(account=which, number=which, after=st.none() | st.sampled_from([-MINUTE, MINUTE, HOUR]))
    def key_gets_an_end(self, account: int, number: int, after: timedelta | None) -> None:
        key, end = self.key(account, number), self.end(after)
        key_id = self.key_ids[key[1]]
        self.command(
            lambda: keys.change_key(self.real.connection, key_id, expires_at=end or ""),
            lambda _: self.model.change_key(key, end, self.latest),
        )

    @rule(account=which, number=which)
    def key_is_revoked(self, account: int, number: int) -> None:
        if number >= len(self.key_hashes[self.account(account)]):
            return  # otherwise hardly any key would be valid
        key = self.key(account, number)
        key_id = self.key_ids[key[1]]
        self.command(
            lambda: keys.revoke_key(self.real.connection, key_id), lambda _: self.model.revoke_key(key, self.latest)
        )

    @rule(
        account=which,
        rotation_id=st.sampled_from(["first", "second"]),
        pair=st.sampled_from([0, 0, 0, 1]),
        grace=st.sampled_from([timedelta(0), HOUR, 7 * DAY]),
        after=st.none() | st.sampled_from([-MINUTE, MINUTE, 30 * DAY]),
        number=st.none() | which,
        again=st.lists(st.sampled_from([timedelta(0), MINUTE, HOUR]), max_size=2),
    )
    def key_is_rotated(
        self,
        account: int,
        rotation_id: str,
        pair: int,
        grace: timedelta,
        after: timedelta | None,
        number: int | None,
        again: list[timedelta],
    ) -> None:
        replaced = None if number is None else self.key_ids[self.key(account, number)[1]]
        self._rotate_key(account, rotation_id, pair, grace, after, replaced)
        for pause in again:
            self._set_clock(self.latest + pause)
            self._rotate_key(account, rotation_id, pair, grace, after, replaced)

    def _rotate_key(
        self, account: int, rotation_id: str, pair: int, grace: timedelta, after: timedelta | None, replaced: str | None
    ) -> None:
        account_id, end, private = self.account(account), self.end(after), self.pairs[pair]
        stored_id = f"{replaced}:{rotation_id}" if replaced else rotation_id

        def rotate(made: Any) -> None:
            earlier = self.model.repeated_rotation(account_id, stored_id, private.thumbprint(), self.latest)
            if earlier:
                assert made == type(made)(
                    earlier["key_id"], earlier["created_at"], earlier["older_keys_expire_at"], True, earlier["receipt"]
                )
                return
            if made:
                assert not made.repeated
                contents = receipts.unseal(made.receipt.encode(), private)
                new = (*self.add_key(contents.api_key), made.receipt)
                assert (contents.key_id, contents.issued_at, contents.expires_at) == (new[1], self.latest, end)
            else:
                new = (b"", "", "")
            self.model.rotate_key(account_id, stored_id, private.thumbprint(), grace, end, new, replaced, self.latest)

        given = (account_id, private, rotation_id, grace, end)
        self.command(lambda: rotate_key(self.real.connection, *given, replaced=replaced), rotate)

    # Months

    @rule(account=which, meter=meter, months=months, steps=adjustments, used=st.booleans())
    def units_are_granted(self, account: int, meter: str, months: int, steps: list[Any], used: bool) -> None:
        self._adjust_often("grant", account, meter, months, steps, used)

    @rule(account=which, meter=meter, months=months, steps=adjustments, used=st.booleans())
    def units_are_credited(self, account: int, meter: str, months: int, steps: list[Any], used: bool) -> None:
        self._adjust_often("credit", account, meter, months, steps, used)

    def _adjust_often(self, kind: Any, account: int, meter: str, months: int, steps: list[Any], used: bool) -> None:
        """Adds a few or the maximum, uses them, or repeats an id. In the end adds one too many."""
        account_id = self.account(account)
        period = month(self.latest.replace(day=15) + months * 30 * DAY)
        self._set_clock(self.latest)
        charged = self._charge_alone(account_id, {"meter": meter, "units": 5})
        earlier = 0, 0
        for sign, units, name in [(1, 3, 0), (1, "again", 0), *steps]:
            if units == "used":
                self.last_units(account, meter, 0)
            elif units == "again":
                self._adjust(kind, account_id, meter, earlier[0] + name % 2, period, earlier[1])
            else:
                earlier = sign * self._amount(kind, sign, units, (account_id, period, meter)), self.number()
                self._adjust(kind, account_id, meter, earlier[0], period, earlier[1])
        self._ask([charged], joined=False)
        if used:
            self.last_units(account, meter, 0)
        for sign in (1, -1):
            one_too_many = sign * self._amount(kind, sign, "one too many", (account_id, period, meter))
            self._adjust(kind, account_id, meter, one_too_many, period, self.number())

    def _amount(self, kind: str, sign: int, units: Any, counter: tuple[str, str, str]) -> int:
        if isinstance(units, int):
            return units
        account_id, period, meter = counter
        limit, committed, reserved, granted, credited = self._month_usage(account_id, period)[meter]
        most: int = {
            ("grant", 1): 2**31 - 1 - PLAN_MOST - granted,
            ("grant", -1): max(0, min(granted, limit - committed - reserved)),
            ("credit", 1): committed - credited,
            ("credit", -1): credited,
        }[kind, sign]
        return most + int(units == "one too many")

    def _adjust(self, kind: Any, account_id: str, meter: str, units: int, period: str, name: int) -> None:
        adjustment_id = str(UUID(int=name))

        def adjust(made: Any) -> None:
            self.model.adjust_usage(kind, account_id, adjustment_id, period, meter, units, self.operator, self.latest)
            added = self.model.adjustment[account_id, adjustment_id]
            assert (made.id, made.at, made.units) == (adjustment_id, added["adjusted_at"], added["units"])

        given = {"reason": "Fair", "period": period, "adjustment_id": adjustment_id}
        self.command(lambda: adjust_usage(self.real.connection, kind, account_id, meter, units, **given), adjust)

    @rule(account=which, meter=meter, units=st.sampled_from([0, 1, 3]))
    def units_are_reserved(self, account: int, meter: str, units: int) -> None:
        """No function does this. Reserved units cannot be charged until the reservation ends."""
        account_id = self.account(account)
        self._charge_alone(account_id, {"meter": meter, "units": 1})
        counter = account_id, month(self.now), meter
        if counter in self.model.usage:
            self.real.connection.execute(
                "update sepu.usage set reserved = %s where (account_id, period, meter) = (%s, %s, %s)",
                (units, *counter),
            )
            self.model.reserve(counter, units)
        for excess in (1, 0):
            self.last_units(account, meter, excess)

    @rule(days=st.sampled_from([31, 31, 90]))
    def results_are_pruned(self, days: int) -> None:
        def prune() -> tuple[int, int, int]:
            batches = list(pruning.prune(self.real.connection, days))
            assert all(batch.results <= PRUNED_RESULTS for batch in batches)
            pruning.prune_deliveries(self.real.connection, days)
            prunable = pruning.count_prunable(self.real.connection, days)
            return sum(batch.results for batch in batches), sum(batch.units for batch in batches), prunable

        def model(made: Any) -> None:
            assert made == (*self.model.prune(days, self.latest), 0)

        self.command(prune, model)

    @precondition(lambda self: self.model.stored_result)
    @rule(number=st.integers(0, 40))
    def a_result_reaches_its_retention(self, number: int) -> None:
        """In a zone that puts its clock forward while the result is kept."""
        ends = [row["created_at"] + 31 * DAY for _, row in self.stored_results()]
        ends = [end for end in ends if end - HOUR > self.latest] or [self.latest + HOUR]
        end = ends[number % len(ends)]
        summer = ",".join(f"J{min(int(f'{day:%j}'), 365)}" for day in (end - 15 * DAY, end + 60 * DAY))
        self.zone = f"Winter0Summer,{summer}"
        for by in (-HOUR, -30 * MINUTE, timedelta(0), TICK):
            self._set_clock(max(self.latest, end + by))
            self.results_are_pruned(31)

    @precondition(lambda self: len(self.open_accounts()) > 1 and len(self.key_hashes) < 6)
    @rule(account=which)
    def account_is_erased(self, account: int) -> None:
        """With a name in its history."""
        account_id = self.account(account)
        self._change_account(account, _set_account, "account.set", external_id="cus_3")
        self._set_clock(self.latest + MINUTE)  # so that all its results are in the past

        def erase(made: Any) -> None:
            assert (made.keys, made.receipts, made.results) == self.model.erase(account_id, self.latest)

        self.command(lambda: erase_account(self.real.connection, account_id), erase)

    # What operators see, and every row

    @rule(account=which, months=st.sampled_from([-2, -1, 0]), percent=st.sampled_from([0, 80, 100]))
    def operator_looks(self, account: int, months: int, percent: int) -> None:
        real, model, now = self.real, self.model, self.latest
        real.set_clock(now, self.zone)
        account_id, period = self.account(account), month(now.replace(day=15) + months * 30 * DAY)
        plans = {each: model.plan.get(model.plan_of(each)) for each in model.account}  # an erased one's may be deleted
        usage = {each: model.month_usage(each, month(now), plan["limits"]) for each, plan in plans.items() if plan}
        known = {
            row["key_id"]: (
                key_state(row, now),
                (row["used_until"] - DAY).astimezone(UTC).date() if row["used_until"] else None,
            )
            for row in model.keys_of(account_id)
        }
        if account_id in usage:
            shown = (model.status(account_id, now), model.plan_of(account_id), usage[account_id], known)
            assert real.shown(account_id) == shown
        exists = month(model.account[account_id]["created_at"]) <= period
        expected = model.exported(account_id, period, now) if exists else None
        assert real.exported(account_id, period) == expected
        assert real.near_limits(percent) == {
            (each, meter)
            for each, rows in usage.items()
            if model.account[each]["status"] != "erased"
            for meter, limit, committed, reserved, *_ in rows
            if committed + reserved > 0 and (committed + reserved) * 100 >= limit * percent
        }
        for each in (None, account_id):
            assert real.used_by_month(each) == model.used_by_month(each)
            assert real.used_by_day_and_key(each, period) == model.used_by_day_and_key(each, period)
        assert real.events() == {
            (":".join(map(str, event)), row["committed"], row["crossed_at"], _delivery(model.event_delivery.get(event)))
            for event, row in model.quota_event.items()
        }

    def teardown(self) -> None:
        real, model = self.real, self.model
        assert real.plans() == model.plan
        assert real.windows() == model.window
        for name in TABLES:
            assert _comparable(real.table(name)) == getattr(model, name), name
        assert real.changes() == tuple(sorted(model.change, key=lambda row: (row["changed_at"], row["account_id"])))
        for account in range(len(model.account)):
            for months in (-1, 0):
                self.operator_looks(account, months, 80)
        charged = sum(row["committed"] for row in model.usage.values())
        assert real.audited() == (len(model.usage), len(model.stored_result), charged)


def _set_account(connection: Connection, account_id: str, **columns: Any) -> None:
    """Sets columns; None clears one."""
    accounts.change_account(connection, account_id, **{column: value or "" for column, value in columns.items()})


def _or_failure(answer: Callable[[], T]) -> T | tuple[str, int | None]:
    try:
        return answer()
    except Fails as failure:
        return failure.sqlstate, failure.at


def _comparable(table: dict[Any, Row]) -> dict[Any, Row]:
    """Converts ids to text, as in the model."""

    def text(value: Any) -> Any:
        return str(value) if isinstance(value, UUID) else value

    return {
        tuple(map(text, key)) if isinstance(key, tuple) else key: {column: text(value) for column, value in row.items()}
        for key, row in table.items()
    }


def _delivery(row: Row | None) -> str | None:
    return "due" if row else None


@pytest.mark.parametrize(
    ("examples", "derandomize"),
    [
        pytest.param(60, True, marks=pytest.mark.timeout(600)),  # takes half a minute on two idle cores
        pytest.param(EXAMPLES or 100, False, marks=[pytest.mark.slow, pytest.mark.timeout(0 if EXAMPLES else 600)]),
    ],
    ids=["few", "many"],
)
def test_the_ledger_does_what_its_model_does(
    empty_url: str, monkeypatch: pytest.MonkeyPatch, examples: int, derandomize: bool
) -> None:
    monkeypatch.setattr("sepu.admin.erase.time.sleep", lambda _seconds: None)  # no call is under way
    monkeypatch.setattr(limits.retention, "RESULTS", PRUNED_RESULTS)
    monkeypatch.setattr(limits.retention, "COUNTERS", 3)
    # Otherwise, Postgres ends the session of a grant if this process pauses for a second, as on a busy machine.
    monkeypatch.setattr(limits.database, "LOCK_SECONDS", 60.0)
    pairs = [receipts.new_private_key() for _ in range(2)]
    with real_ledger(empty_url, START) as real:
        run_state_machine_as_test(
            lambda: LedgerMachine(real, pairs),  # type: ignore[arg-type]  # any factory will do
            settings=settings(
                max_examples=examples, stateful_step_count=50, derandomize=derandomize, database=None, print_blob=True,
                suppress_health_check=list(HealthCheck),
            ),
        )  # fmt: skip
