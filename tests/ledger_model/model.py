"""The ledger in plain dicts: the answer to each request and the effect of each command, one after the other.

Written from the contract, not from the SQL; it has no locks, batches or statements. A row is a dict with the columns of
its table. No row is changed in place, so a copy of the dicts is a copy of the ledger.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

Row = dict[str, Any]
Table = dict[Any, Row]
Answer = list[tuple[Any, ...]]

METERS = ("color_match", "color_search")
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
TICK = timedelta(microseconds=1)
PLAN_MOST = 2_000_000_000
MOST = 2**31 - 1
INVALID = "22023"  # the SQLSTATE for parameters that no server sends


class Refused(Exception):  # noqa: N818  # a result, not a fault
    """A command refuses, and changes nothing."""


class Fails(Exception):  # noqa: N818
    """A call fails as a whole: the SQLSTATE, and in a batch the position to blame."""

    def __init__(self, sqlstate: str, at: int | None = None) -> None:
        super().__init__(sqlstate, at)
        self.sqlstate = sqlstate
        self.at = at


@dataclass(frozen=True)
class Charge:
    """The content of a metered request."""

    key: str
    meter: str
    units: int
    fingerprint: bytes
    body: bytes
    request_id: str


@dataclass(frozen=True)
class Request:
    """A request of an account with a key: a charge, an admission, or a reading of the usage."""

    account_id: str
    key_hash: bytes
    what: Charge | str


def month(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m}"


def next_month(period: str) -> datetime:
    first = datetime.strptime(period, "%Y-%m").replace(tzinfo=UTC)
    return (first + 32 * DAY).replace(day=1)


@dataclass
class Model:
    """Every table by its primary key, and the windows of the abuse limit."""

    plan: Table = field(default_factory=dict)
    plan_allowance: Table = field(default_factory=dict)
    account: Table = field(default_factory=dict)
    api_key: Table = field(default_factory=dict)
    receipt: Table = field(default_factory=dict)
    usage: Table = field(default_factory=dict)
    usage_day: Table = field(default_factory=dict)
    adjustment: Table = field(default_factory=dict)
    stored_result: Table = field(default_factory=dict)
    quota_event: Table = field(default_factory=dict)
    event_delivery: Table = field(default_factory=dict)
    window: dict[str, tuple[datetime, int]] = field(default_factory=dict)
    """By account: when the minute of the abuse limit began, and how many requests passed in it."""
    change: tuple[Row, ...] = ()
    plan_then: dict[str, tuple[tuple[datetime, str], ...]] = field(default_factory=dict)
    """The plans of each account over time."""

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        before = {name: dict(value) if isinstance(value, dict) else value for name, value in vars(self).items()}
        try:
            yield
        except (Refused, Fails):
            vars(self).update(before)
            raise

    # Requests

    def batch(self, requests: Sequence[Request], now: datetime, *, joined: bool) -> list[Answer]:
        """Answers requests in one transaction: account by account, and each account's in order of arrival."""
        answers: dict[int, Answer] = {}
        with self.all_or_nothing():
            for at in order(requests):
                try:
                    answers[at] = self.answer(requests[at], now)
                except Fails as failure:
                    raise Fails(failure.sqlstate, at + 1 if joined else None) from failure
        return [answers[at] for at in range(len(requests))]

    def answer(self, request: Request, now: datetime) -> Answer:
        """Answers with the function's rows, without a position."""
        refused = self._authenticate(request, now) or self._count(request.account_id, now)
        if isinstance(request.what, Charge):
            return [self._meter(request.account_id, request.key_hash, request.what, now, refused)]
        if request.what == "admit":
            return [(refused or "ok",)]
        if refused:
            return [(refused, *[None] * 6)]
        plan_id = self.account[request.account_id]["plan_id"]
        period = month(now)
        found = []
        for meter, units in sorted(self.plan[plan_id]["limits"].items()):
            counter = self._counter(request.account_id, period, meter)
            limit = units + counter["granted"]
            found.append(("ok", plan_id, period, meter, limit, counter["committed"], counter["reserved"]))
        return found

    def _authenticate(self, request: Request, now: datetime) -> str | None:
        key = self.api_key.get((request.account_id, request.key_hash))
        if key is None or key["revoked_at"] or (key["expires_at"] and key["expires_at"] <= now):
            return "unauthorized"
        if self.status(request.account_id, now) != "active":
            return "account_unavailable"
        if key["used_until"] is None or key["used_until"] <= now:
            today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
            self._change_row(self.api_key, (request.account_id, request.key_hash), used_until=today + DAY)
        return None

    def _count(self, account_id: str, now: datetime) -> str | None:
        """Lets the plan's requests per minute pass. A minute begins with the first request after the previous one.

        A minute in the future, after the clock was set back, is over too.
        """
        began, passed = self.window.get(account_id, (now, 0))
        if not -MINUTE < now - began < MINUTE:
            began, passed = now, 0
        if passed >= self.plan[self.account[account_id]["plan_id"]]["requests_per_minute"]:
            return "rate_limited"
        self.window[account_id] = began, passed + 1
        return None

    def _meter(
        self, account_id: str, key_hash: bytes, charge: Charge, now: datetime, refused: str | None
    ) -> tuple[Any, ...]:
        if refused:
            return (refused, *[None] * 5)
        stored = self.stored_result.get((account_id, charge.key))
        if stored and stored["fingerprint"] != charge.fingerprint:
            return ("idempotency_conflict", *[None] * 5)
        plan = self.plan[self.account[account_id]["plan_id"]]
        if charge.meter not in plan["limits"]:
            raise Fails(INVALID)
        period = stored["period"] if stored else month(now)
        counter = self._counter(account_id, period, charge.meter)
        limit = plan["limits"][charge.meter] + counter["granted"]
        if stored:
            return ("replayed", period, limit, counter["committed"], counter["reserved"], stored["body"])
        if not (charge.units >= 1 and 8 <= len(charge.key) <= 128 and 2 <= len(charge.body) <= 65536):
            raise Fails(INVALID)
        if counter["committed"] + counter["reserved"] + charge.units > limit:
            return ("quota_exceeded", period, limit, counter["committed"], counter["reserved"], None)
        committed = counter["committed"] + charge.units
        self.usage[account_id, period, charge.meter] = {**counter, "committed": committed}
        self.stored_result[account_id, charge.key] = {
            "fingerprint": charge.fingerprint, "meter": charge.meter, "units": charge.units, "period": period,
            "body": charge.body, "created_at": now, "key_id": self.api_key[account_id, key_hash]["key_id"],
            "request_id": charge.request_id,
        }  # fmt: skip
        for threshold in plan["thresholds"]:
            if counter["committed"] * 100 < threshold * limit <= committed * 100:
                self._cross((account_id, period, charge.meter), threshold, limit, committed, now)
        return ("charged", period, limit, committed, counter["reserved"], charge.body)

    def _cross(self, of: tuple[str, str, str], threshold: int, limit: int, committed: int, now: datetime) -> None:
        event = (*of, threshold, limit)
        if event not in self.quota_event:
            self.quota_event[event] = {"committed": committed, "crossed_at": now}
            self.event_delivery[event] = {"due_at": now, "attempts": 0, "delivered_at": None, "last_error": None}
            self._change_row(self.usage, of, events=self.usage[of]["events"] + 1)

    # Commands. Their random values, such as ids and keys, are arguments.

    def set_plan(
        self,
        plan_id: str,
        limits: Mapping[str, int],
        requests_per_minute: int | None,
        thresholds: Iterable[int] | None,
        now: datetime,
    ) -> None:
        before = self.plan.get(plan_id)
        in_bounds = (
            all(0 <= units <= PLAN_MOST for units in limits.values())
            and (requests_per_minute is None or requests_per_minute >= 1)
            and all(1 <= threshold <= 100 for threshold in thresholds or ())
        )
        if not in_bounds or (before is None and (requests_per_minute is None or limits.keys() != set(METERS))):
            raise Refused
        old = before or {"limits": {}, "thresholds": [80, 95, 100]}
        self.plan[plan_id] = {
            "requests_per_minute": requests_per_minute or old["requests_per_minute"],
            "limits": {**old["limits"], **limits},
            "thresholds": old["thresholds"] if thresholds is None else sorted(set(thresholds)),
        }
        self._record("plan.set", "", plan_id, _plan_state(before), _plan_state(self.plan[plan_id]), now)
        self._allow(plan_id, before, self.plan[plan_id], now)

    def delete_plan(self, plan_id: str, now: datetime) -> None:
        """Deletes a plan that no account has."""
        if plan_id not in self.plan or plan_id in {row["plan_id"] for row in self.account.values()}:
            raise Refused
        before = self.plan.pop(plan_id)
        self._record("plan.delete", "", plan_id, _plan_state(before), None, now)
        self._allow(plan_id, before, None, now)

    def _allow(self, plan_id: str, before: Row | None, after: Row | None, now: datetime) -> None:
        """Records what a plan allows from now on, under a later instant than before, so that no earlier row is lost."""
        old, new = _allowed(before), _allowed(after)
        for allowed in {**old, **new}:
            if old.get(allowed) != new.get(allowed):
                since = max([now, *(at + TICK for at, _ in self._allowances(plan_id, allowed))])
                self.plan_allowance[plan_id, allowed, since] = {"units": new.get(allowed)}

    def _allowances(self, plan_id: str, allowed: str) -> list[tuple[datetime, int | None]]:
        rows = self.plan_allowance.items()
        return sorted((since, row["units"]) for (*of, since), row in rows if of == [plan_id, allowed])

    def create_account(
        self, account_id: str, plan_id: str, external_id: str | None, expires_at: datetime | None, now: datetime
    ) -> None:
        if plan_id not in self.plan or self._is_taken(external_id, account_id):
            raise Refused
        self.account[account_id] = {
            "plan_id": plan_id, "erased_plan_id": None, "status": "active", "created_at": now,
            "expires_at": expires_at, "name": None, "external_id": external_id,
        }  # fmt: skip
        self.plan_then[account_id] = ((now, plan_id),)
        self._record("account.create", account_id, account_id, None, self._state_of(account_id), now)

    def change_account(self, account_id: str, action: str, now: datetime, **columns: Any) -> None:
        """Changes columns of an account: the plan, the status, when it expires, the external id."""
        before, state = self._open_account(account_id), self._state_of(account_id)
        plan_id: str = {**before, **columns}["plan_id"]
        if plan_id not in self.plan or self._is_taken(columns.get("external_id"), account_id):
            raise Refused
        self._change_row(self.account, account_id, **columns)
        if plan_id != before["plan_id"]:
            self.plan_then[account_id] += ((now, plan_id),)
        self._record(action, account_id, account_id, state, self._state_of(account_id), now)

    def issue_key(
        self, account_id: str, key_hash: bytes, key_id: str, expires_at: datetime | None, now: datetime
    ) -> None:
        self._open_account(account_id)
        with self._recording_keys("key.issue", account_id, now):
            self._add_key(account_id, key_hash, key_id, expires_at, now)

    def change_key(self, key: tuple[str, bytes], expires_at: datetime | None, now: datetime) -> None:
        self._known_key(key)
        with self._recording_keys("key.set", key[0], now):
            self._change_row(self.api_key, key, expires_at=expires_at)

    def revoke_key(self, key: tuple[str, bytes], now: datetime) -> None:
        revoked_at = self._known_key(key)["revoked_at"] or now
        with self._recording_keys("key.revoke", key[0], now):
            self._change_row(self.api_key, key, revoked_at=revoked_at)

    def repeated_rotation(self, account_id: str, rotation_id: str, thumbprint: str, now: datetime) -> Row | None:
        """Returns the existing receipt of a rotation."""
        made = self.receipt.get((account_id, rotation_id))
        if made is None:
            return None
        (key,) = (key for key in self.api_key.values() if key["key_id"] == made["key_id"])
        if made["thumbprint"] != thumbprint or key_state(key, now) != "valid":
            raise Refused
        return made

    def rotate_key(
        self,
        account_id: str,
        rotation_id: str,
        thumbprint: str,
        grace: timedelta,
        expires_at: datetime | None,
        new: tuple[bytes, str, str],
        replaced: str | None,
        now: datetime,
    ) -> None:
        """Adds a new rotation's key (hash, id and receipt), and lets older keys end, none of them later than before.

        If a key is named as replaced, only that one ends.
        """
        self._open_account(account_id)
        if expires_at is not None and expires_at <= now:
            raise Refused
        key_hash, key_id, receipt = new
        end = now + grace
        with self._recording_keys("key.rotate", account_id, now):
            for name, key in self.api_key.items():
                if name[0] == account_id and not key["revoked_at"] and replaced in {None, key["key_id"]}:
                    self._change_row(self.api_key, name, expires_at=min(key["expires_at"] or end, end))
            self._add_key(account_id, key_hash, key_id, expires_at, now)
        self.receipt[account_id, rotation_id] = {
            "thumbprint": thumbprint, "key_id": key_id, "receipt": receipt, "older_keys_expire_at": end,
            "created_at": now,
        }  # fmt: skip

    def adjust_usage(
        self,
        kind: str,
        account_id: str,
        adjustment_id: str,
        period: str,
        meter: str,
        units: int,
        operator: tuple[str, str],
        now: datetime,
    ) -> None:
        """Grants or credits units of a month, once for each id."""
        self._open_account(account_id)
        if units == 0 or abs(units) > PLAN_MOST:
            raise Refused
        given = {"kind": kind, "period": period, "meter": meter, "units": units}
        if earlier := self.adjustment.get((account_id, adjustment_id)):
            if given.items() <= earlier.items():
                return
            raise Refused
        counter = self._counter(account_id, period, meter)
        if kind == "grant":
            plan_limit = self.plan[self.account[account_id]["plan_id"]]["limits"][meter]
            left = plan_limit + counter["granted"] - counter["committed"] - counter["reserved"]
            can_be_taken_back = max(0, min(counter["granted"], left))
            column, least, most = "granted", -can_be_taken_back, MOST - PLAN_MOST - counter["granted"]
            is_of_time = period >= month(now)
        else:
            column, least, most = "credited", -counter["credited"], counter["committed"] - counter["credited"]
            is_of_time = period <= month(now)
        if not (is_of_time and least <= units <= most):
            raise Refused
        self.usage[account_id, period, meter] = {**counter, column: counter[column] + units}
        who = dict(zip(("operator", "database_role"), operator, strict=True))
        added = {**given, "reason": "Fair"}
        self.adjustment[account_id, adjustment_id] = {**added, "adjusted_at": now, **who}
        del added["kind"]
        self._record(f"{kind}.add", account_id, adjustment_id, None, added, now)

    def reserve(self, counter: tuple[str, str, str], units: int) -> None:
        """Reserves units: no function does that, but the contract allows it."""
        self._change_row(self.usage, counter, reserved=units)

    def prune(self, days: int, now: datetime) -> tuple[int, int]:
        """Deletes results and deliveries older than `days`; returns the number of results, and their units."""
        gone = {name: row for name, row in self.stored_result.items() if row["created_at"] < now - days * DAY}
        for (account_id, key), row in gone.items():
            del self.stored_result[account_id, key]
            counter = (account_id, row["period"], row["meter"])
            pruned = {column: self.usage[counter][column] + row["units"] for column in ("pruned", "dated")}
            self._change_row(self.usage, counter, **pruned)
            day = (*counter, row["created_at"].astimezone(UTC).date(), row["key_id"])
            self.usage_day[day] = {"units": self.usage_day.get(day, {"units": 0})["units"] + row["units"]}
        if gone:
            self._record("prune", "", "results", None, {"olderThanDays": days}, now)
        for event, row in self.quota_event.items():
            if row["crossed_at"] < now - days * DAY:
                self.event_delivery.pop(event, None)
        return len(gone), sum(row["units"] for row in gone.values())

    def erase(self, account_id: str, now: datetime) -> tuple[int, int, int]:
        """Forgets a customer, except for the bill; returns the number of keys, receipts and results."""
        before = self._state_of(account_id)
        row = self.account[account_id]
        plan = {"plan_id": None, "erased_plan_id": row["plan_id"] or row["erased_plan_id"]}
        self._change_row(self.account, account_id, status="erased", name=None, external_id=None, **plan)
        self._record("account.erase", account_id, account_id, before, self._state_of(account_id), now)
        self.change = tuple(_nameless(row) if row["account_id"] == account_id else row for row in self.change)
        for (account, period, meter), counter in self.usage.items():
            if account == account_id:
                pruned = counter["committed"]
                self.usage[account, period, meter] = {**counter, "pruned": pruned, "dated": 0, "events": 0}
        for name in self.adjustment:
            if name[0] == account_id:
                self._change_row(self.adjustment, name, reason=None)
        gone = [
            [table.pop(name) for name in list(table) if name[0] == account_id]
            for table in (self.api_key, self.receipt, self.stored_result)
        ]
        for table in (self.usage_day, self.quota_event, self.event_delivery):
            for name in [name for name in table if name[0] == account_id]:
                del table[name]
        self.window.pop(account_id, None)
        keys, receipts, results = map(len, gone)
        return keys, receipts, results

    # What operators see

    def status(self, account_id: str, now: datetime) -> str:
        account = self.account[account_id]
        has_ended = account["expires_at"] is not None and account["expires_at"] <= now
        return "expired" if account["status"] == "active" and has_ended else str(account["status"])

    def month_usage(self, account_id: str, period: str, limits: Mapping[str, int]) -> list[tuple[Any, ...]]:
        """Returns for each meter the limit, committed, reserved, granted and credited."""
        found = []
        for meter in METERS:
            counter = self._counter(account_id, period, meter)
            used = (counter[column] for column in ("committed", "reserved", "granted", "credited"))
            found.append((meter, limits[meter] + counter["granted"], *used))
        return found

    def exported(self, account_id: str, period: str, now: datetime) -> tuple[Any, ...] | None:
        """Returns status, plan, usage and the changes of a month, with plan and limits at its end.

        None for an erased account that used nothing.
        """
        used = any(self._counter(account_id, period, meter)["committed"] for meter in METERS)
        if self.account[account_id]["status"] == "erased" and not used:
            return None
        end = next_month(period)
        plan_id = self.plan_at(account_id, end - TICK)
        limits = {meter: self._limit_at(plan_id, meter, end - TICK) for meter in METERS}
        had = self.plan_then[account_id]
        changes: list[tuple[Any, ...]] = [(at, None, before, after) for (_, before), (at, after) in pairwise(had)]
        for plan, allowed in {name[:2]: None for name in self.plan_allowance}:
            kept = self._allowances(plan, allowed)
            for (_, before), (at, after) in pairwise(kept):
                is_its = at > self.account[account_id]["created_at"] and plan == self.plan_at(account_id, at)
                if is_its and None not in (before, after):
                    changes.append((at, allowed, before, after))
        of_month = [change for change in changes if month(change[0]) == period]
        return (
            self.status(account_id, now),
            plan_id,
            self.month_usage(account_id, period, limits),
            sorted(of_month, key=str),
        )

    def plan_at(self, account_id: str, at: datetime) -> str:
        """Returns the account's plan at an instant, or its first one before it was created."""
        had = self.plan_then[account_id]
        return next((plan_id for since, plan_id in reversed(had) if since <= at), had[0][1])

    def _limit_at(self, plan_id: str, meter: str, at: datetime) -> Any:
        kept = [each for each in self._allowances(plan_id, meter) if each[1] is not None]
        return next((units for since, units in reversed(kept) if since <= at), kept[0][1])

    def used_by_month(self, account_id: str | None) -> dict[str | None, dict[str, int]]:
        return _added_up(
            (period, meter, row["committed"])
            for (account, period, meter), row in self.usage.items()
            if account_id in (None, account)
        )

    def used_by_day_and_key(
        self, account_id: str | None, period: str
    ) -> tuple[dict[str | None, dict[str, int]], dict[str | None, dict[str, int]]]:
        days, keys = [], []
        parts: list[tuple[Any, ...]] = [
            (
                account,
                row["period"],
                row["meter"],
                row["created_at"].astimezone(UTC).date(),
                row["key_id"],
                row["units"],
            )
            for (account, _), row in self.stored_result.items()
        ]
        parts += [(*name, row["units"]) for name, row in self.usage_day.items()]
        parts += [(*name, None, None, row["pruned"] - row["dated"]) for name, row in self.usage.items()]  # erased
        for account, of, meter, day, key_id, units in parts:
            if of == period and account_id in (None, account):
                days.append((day and f"{day}", meter, units))
                keys.append((key_id if account_id else None, meter, units))
        return _added_up(days), _added_up(keys)

    # Shared

    def _open_account(self, account_id: str) -> Row:
        if self.account[account_id]["status"] == "erased":
            raise Refused
        return self.account[account_id]

    def _known_key(self, key: tuple[str, bytes]) -> Row:
        if key not in self.api_key:
            raise Refused
        return self.api_key[key]

    def _counter(self, account_id: str, period: str, meter: str) -> Row:
        empty = dict.fromkeys(("committed", "reserved", "pruned", "dated", "events", "granted", "credited"), 0)
        return self.usage.get((account_id, period, meter), empty)

    def _is_taken(self, external_id: str | None, account_id: str) -> bool:
        others = (row["external_id"] for other, row in self.account.items() if other != account_id)
        return bool(external_id) and external_id in others

    def _add_key(
        self, account_id: str, key_hash: bytes, key_id: str, expires_at: datetime | None, now: datetime
    ) -> None:
        self.api_key[account_id, key_hash] = {
            "key_id": key_id, "created_at": now, "expires_at": expires_at, "revoked_at": None, "name": None,
            "external_id": None, "used_until": None,
        }  # fmt: skip

    def keys_of(self, account_id: str) -> list[Row]:
        rows = (row for (account, _), row in self.api_key.items() if account == account_id)
        return sorted(rows, key=lambda row: (row["created_at"], row["key_id"]))

    @contextmanager
    def _recording_keys(self, action: str, account_id: str, now: datetime) -> Iterator[None]:
        """Records what the block changes of keys: first of those that there were, each in the order of their ids."""
        before = {row["key_id"]: _key_state(row) for row in self.keys_of(account_id)}
        yield
        after = {row["key_id"]: _key_state(row) for row in self.keys_of(account_id)}
        for key_id in sorted(after, key=lambda key_id: (key_id not in before, key_id)):
            self._record(action, account_id, key_id, before.get(key_id), after[key_id], now)

    def _state_of(self, account_id: str) -> Row:
        account = self.account[account_id]
        plan_id = self.plan_of(account_id)
        return {
            "planId": plan_id, "status": account["status"], "name": account["name"],
            "externalId": account["external_id"], "expiresAt": account["expires_at"],
            **_allowed(self.plan.get(plan_id)),
        }  # fmt: skip

    def plan_of(self, account_id: str) -> str:
        """Returns the plan that an account has, or had when it was erased."""
        row = self.account[account_id]
        return str(row["plan_id"] or row["erased_plan_id"])

    def _change_row(self, table: Table, row: Any, /, **columns: Any) -> None:
        table[row] = {**table[row], **columns}

    def _record(
        self, action: str, account_id: str, subject: str, before: Row | None, after: Row | None, now: datetime
    ) -> None:
        """Records the differences in the history, if there are any."""
        old, new = before or {}, after or {}
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        if names or (before is None) is not (after is None):
            row = {
                "account_id": account_id, "changed_at": now, "action": action, "subject": subject,
                "before": None if before is None else _json({name: old.get(name) for name in names}),
                "after": None if after is None else _json({name: new.get(name) for name in names}),
            }  # fmt: skip
            self.change += (row,)


def order(requests: Sequence[Request]) -> list[int]:
    """Returns the positions of a batch's requests, from 0, in the order in which they are answered."""
    return sorted(range(len(requests)), key=lambda at: (requests[at].account_id, at))


def key_state(key: Row, now: datetime) -> str:
    if key["revoked_at"]:
        return "revoked"
    return "expired" if key["expires_at"] and key["expires_at"] <= now else "valid"


def _allowed(plan: Row | None) -> Row:
    return {} if plan is None else {**plan["limits"], "requestsPerMinute": plan["requests_per_minute"]}


def _plan_state(plan: Row | None) -> Row | None:
    return None if plan is None else {**_allowed(plan), "thresholds": plan["thresholds"]}


def _key_state(key: Row) -> Row:
    return {
        "name": key["name"], "externalId": key["external_id"], "expiresAt": key["expires_at"],
        "revokedAt": key["revoked_at"],
    }  # fmt: skip


def _nameless(change: Row) -> Row:
    """Removes from a history row what an erasure forgets."""

    def forget(state: Row | None) -> Row | None:
        names = ("name", "externalId", "reason")
        return state and {name: value for name, value in state.items() if name not in names}

    return {**change, "before": forget(change["before"]), "after": forget(change["after"])}


def _json(state: Row) -> Row:
    return {name: _text(value) if isinstance(value, datetime) else value for name, value in state.items()}


def _text(at: datetime) -> str:
    """Writes an instant as Postgres does in JSON: without zeros at the end of its fraction."""
    whole = f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}"
    return f"{whole.rstrip('0').rstrip('.')}Z"


def _added_up(parts: Iterable[tuple[str | None, str, int]]) -> dict[str | None, dict[str, int]]:
    found: dict[str | None, dict[str, int]] = defaultdict(lambda: dict.fromkeys(METERS, 0))
    for name, meter, units in parts:
        if units:
            found[name][meter] += units
    return dict(found)
