"""Whether a history can be true: each attempt with its answer, and the final content of the ledger.

The usage headers order the answers about a counter (a meter of an account in a month): each charge begins where another
one ended or later, and no answer may precede one that ended before it began. An account's plan may change and units may
be granted during a call: its answer must have been right at some instant of the call. `sepu audit` checks that counters
are the sums of the stored results.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import accumulate, pairwise
from math import inf
from typing import Generic, NamedTuple, TypeVar

import psycopg
from tests.faults.history import Attempt, Counter, History, Outcome, Terms, digest

from sepu import limits

WINDOW_SECONDS = 60  # of the abuse limit
CHARGED, REPLAYED, QUOTA, IN_PROGRESS, CONFLICT, RATE_LIMITED, ADMITTED, READ, REFUSED, UNKNOWN = Outcome
# Answers that follow a commit and so count against the abuse limit. (A constraint may also answer "in progress".)
COUNTED = {CHARGED, REPLAYED, QUOTA, CONFLICT, ADMITTED}

STORED = """
    select account_id, idempotency_key, meter, period, units, body from sepu.stored_result where account_id = any(%s)
"""
COUNTED_UNITS = """
    select account_id, meter, period, committed, granted, credited from sepu.usage where account_id = any(%s)
"""
PLANS = """
    select account_id, json_object_agg(meter, units), requests_per_minute, json_object_agg(meter, thresholds)
      from sepu.account join sepu.plan using (plan_id) join sepu.plan_limit using (plan_id)
     where account_id = any(%s) group by account_id, requests_per_minute
"""
# Only events with a delivery.
EVENTS = """
    select account_id, meter, period, q.committed, unit_limit, threshold
      from sepu.quota_event q
      join sepu.event_delivery using (account_id, period, meter, threshold, unit_limit)
     where account_id = any(%s)
"""

Value = TypeVar("Value")
Finding = tuple[str, str]  # the kind and the contradiction


class Stored(NamedTuple):
    """The charge of a key, and a digest of the answer."""

    meter: str
    period: str
    units: int
    body: int


class Counted(NamedTuple):
    """The units of a counter."""

    committed: int = 0
    granted: int = 0
    credited: int = 0


class Ledger(NamedTuple):
    """The final state of some accounts in the database. Their counters began at 0.

    All plans that an account was on have the same thresholds. An event is the counter after its charge, the limit and
    the threshold.
    """

    stored: Mapping[tuple[str, str], Stored]
    counted: Mapping[Counter, Counted]
    terms: Mapping[str, Terms]
    thresholds: Mapping[str, Mapping[str, Sequence[int]]]
    events: Mapping[Counter, Set[tuple[int, int, int]]]


def read_ledger(connection: psycopg.Connection, accounts: list[str]) -> Ledger:
    """Reads the state of these accounts."""
    stored = {
        (account, key): Stored(meter, period, units, digest(body))
        for account, key, meter, period, units, body in connection.execute(STORED, [accounts])
    }
    counted = {Counter(*row[:3]): Counted(*row[3:]) for row in connection.execute(COUNTED_UNITS, [accounts])}
    plans = connection.execute(PLANS, [accounts]).fetchall()
    events = defaultdict(set)
    for account, meter, period, *event in connection.execute(EVENTS, [accounts]):
        events[Counter(account, meter, period)].add(tuple(event))
    terms = {account: Terms(units, requests) for account, units, requests, _ in plans}
    return Ledger(stored, counted, terms, {account: thresholds for account, *_, thresholds in plans}, events)


class InForce(Generic[Value]):
    """The values in force over time: one before each change, and the final one."""

    def __init__(self, changes: Sequence[tuple[float, float, Value]], final: Value) -> None:
        self.values = [*(before for _, _, before in changes), final]
        self._begins = [-inf, *(start for start, _, _ in changes)]
        self._ends = [*(end for _, end, _ in changes), inf]

    def within(self, start: float, end: float) -> list[Value]:
        """All values that may have been in force at some instant between these."""
        return self.values[bisect_left(self._ends, start) : bisect_right(self._begins, end)]


def contradictions(history: History, ledger: Ledger) -> list[Finding]:
    """Finds contradictions, with the attempts that show them."""
    keys = defaultdict[tuple[str, str], list[Attempt]](list)
    counters = defaultdict[Counter, list[Attempt]](list)
    accounts = defaultdict[str, list[Attempt]](list)
    for one in history.attempts:
        if one.told.outcome is not READ:
            keys[one.request[:2]].append(one)
            accounts[one.request.account_id].append(one)
        if one.told.period:
            counters[Counter(one.request.account_id, one.told.meter, one.told.period)].append(one)
    found = [("doubled", f"{key} is stored, and was never asked") for key in ledger.stored.keys() - keys.keys()]
    for key, attempts in keys.items():
        found += _of_key(attempts, ledger.stored.get(key))
    for counter in counters.keys() | ledger.counted.keys() | history.grants.keys() | history.credits.keys():
        found += _of_counter(counter, counters[counter], history, ledger)
    for account, attempts in accounts.items():
        terms = [*(change.before for change in history.changes[account]), ledger.terms[account]]
        found += _of_account(attempts, [each.per_minute for each in terms], history.forgotten)
    return found


def _of_key(attempts: list[Attempt], stored: Stored | None) -> Iterator[Finding]:
    """A key is charged once, for a request that was sent; its answer is stored, and stays the same."""
    charged = [one for one in attempts if one.told.outcome is CHARGED]
    answered = [one for one in attempts if one.told.outcome in (CHARGED, REPLAYED)]
    unknown = [one for one in attempts if one.told.outcome is UNKNOWN]
    if len(charged) > 1:
        yield "doubled", _told("a key was charged more than once", *charged)
    if stored and not charged and not any(one.request[2:4] == (stored.meter, stored.units) for one in unknown):
        yield "doubled", _told("its result is stored, and no attempt can have been charged", *attempts)
    for one in answered:
        if stored is None:
            yield "lost", _told("it was answered, and nothing is stored", one)
            continue
        if one.told.body not in (0, stored.body):
            yield "lost", _told("it was answered with another body than is stored", one)
        if (one.request.meter, one.request.units, one.told.period) != (stored.meter, stored.units, stored.period):
            yield "doubled", _told("it is stored with other units, or under another meter or month", one)
        if one.told.outcome is REPLAYED and not any(
            each.request == one.request and each.start < one.end for each in charged or unknown
        ):
            yield "wrong", _told("a replay of what no attempt with its input can have charged before", one)
    first = min(answered, key=lambda one: one.end, default=None)
    for one in attempts:
        outcome = one.told.outcome
        if first and one.start > first.end:
            again = outcome is CONFLICT and one.request == first.request
            if again or outcome in (CHARGED, QUOTA, IN_PROGRESS):
                yield "wrong", _told("the first answer shows that the result is stored, the second none", first, one)
        elif outcome in (IN_PROGRESS, CONFLICT) and not any(_is_reason(each, one) for each in attempts):
            yield "wrong", _told("no other attempt with this key is a reason", one)


def _is_reason(other: Attempt, one: Attempt) -> bool:
    """Whether an attempt may have held the key, and so caused the other's refusal."""
    outcome = other.told.outcome
    conflicts, same = one.told.outcome is CONFLICT, other.request == one.request
    if outcome in (IN_PROGRESS, REFUSED) or conflicts is same or (conflicts and outcome is CONFLICT):
        return False
    stays = outcome is UNKNOWN or (conflicts and outcome in (CHARGED, REPLAYED))
    return other.start < one.end and (stays or other.end > one.start)


def _of_counter(counter: Counter, attempts: list[Attempt], history: History, ledger: Ledger) -> Iterator[Finding]:
    """The answers have an order, and agree with each other, with the plans in force and with the ledger."""
    meter, account = counter.meter, counter.account_id
    counted = ledger.counted.get(counter, Counted())
    for kind, given, held in (
        ("granted", history.grants[counter], counted.granted),
        ("credited", history.credits[counter], counted.credited),
    ):
        if (units := sum(one.units for one in given)) != held:
            yield "lost" if held < units else "doubled", f"of {counter} {units} units were {kind}, not {held}"
    if meter not in ledger.terms[account].units:
        yield "wrong", _told("it tells no meter", *attempts)
        return
    plans = InForce[Terms](history.changes[account], ledger.terms[account])
    *sums, granted = accumulate((one.units for one in history.grants[counter]), initial=0)
    grants = InForce([(*one[:2], before) for one, before in zip(history.grants[counter], sums, strict=True)], granted)
    most = max(terms.units[meter] for terms in plans.values) + max(grants.values)
    if counted.committed > most:
        yield "wrong", f"of {counter} {counted.committed} units were charged, beyond the quota"
    events, thresholds = ledger.events.get(counter, set()), ledger.thresholds[account][meter]
    before, latest = 0, -inf
    # Answers with the same state follow the charge that made it, in the order in which they began.
    order = sorted(attempts, key=lambda one: (one.told.committed, one.told.outcome is not CHARGED, one.start))
    for one in order:
        (outcome, _, _, limit, committed, reserved, remaining, _), units = one.told, one.request.units
        allowed = {
            terms.units[meter] + more
            for terms in plans.within(one.start, one.end)
            for more in grants.within(one.start, one.end)
        }
        if limit not in allowed:
            yield "wrong", _told("its limit is of no plan that was in force", one)
        if units and one.request.meter != meter:
            yield "wrong", _told("it tells another meter", one)
        if reserved or remaining != max(0, limit - committed):
            yield "wrong", _told("remaining is not what limit, committed and reserved leave", one)
        if outcome is CHARGED and committed > limit:
            yield "wrong", _told("it was charged beyond the quota", one)
        if outcome is QUOTA and committed + units <= limit:
            yield "wrong", _told("its units would have fitted", one)
        charged = units if outcome is CHARGED else 0
        if committed - charged < before:
            yield "wrong", _told(f"it begins before {before} units, which another one tells", one)
        if one.end < latest:
            yield "wrong", _told("by what it tells it comes after another one, and by the clock before it", one)
        if charged:
            crossed = {
                (committed, limit, percent)
                for percent in thresholds
                if committed - units < -(-limit * percent // 100) <= committed
            }
            recorded = {event for event in events if event[0] == committed}
            if crossed != recorded:
                yield "wrong", _told(f"it crossed {crossed - recorded} unrecorded, and not {recorded - crossed}", one)
        before, latest = committed, max(latest, one.start)
    if before > counted.committed:
        yield "lost", _told(f"the ledger holds {counted.committed} units", order[-1])


def _of_account(
    attempts: list[Attempt], per_minute: list[int], forgotten: Sequence[tuple[float, float]]
) -> Iterator[Finding]:
    """The abuse limit lets no more requests pass in a minute than it says, and refuses nobody who stays within it.

    A window begins with an account's first request, or the first one after a crash: only requests of the minute after
    that are known to share a window. A key in use may be refused at a quarter of the limit: sepu.count_request.
    """
    counted = [one for one in attempts if one.told.outcome in COUNTED]
    first = min(one.start for one in attempts)
    for (begin, since), (crash, _) in pairwise([(first, first), *sorted(forgotten), (inf, inf)]):
        inside = [one for one in counted if since <= one.start and one.end < min(begin + WINDOW_SECONDS, crash)]
        if len(inside) > max(per_minute):
            yield "wrong", _told(f"more than {max(per_minute)} requests were let through in a minute", *inside)
    passed = [one for one in attempts if one.told.outcome is not RATE_LIMITED]
    starts = sorted(one.start for one in passed)
    ends = sorted(inf if one.told.outcome is UNKNOWN else one.end for one in passed)
    for one in attempts:
        if one.told.outcome is RATE_LIMITED:
            # The worker may know this from a call that began in the window, and caches it for a while.
            since = one.start - WINDOW_SECONDS - limits.database.STATEMENT_SECONDS - limits.batches.REFUSED_SECONDS
            least = (min(per_minute) + 2) // 4
            if bisect_right(starts, one.end) - bisect_left(ends, since) < least:
                yield "wrong", _told(f"fewer than {least} requests can have counted against the limit", one)


def _told(what: str, *attempts: Attempt) -> str:
    return "\n  ".join([what, *map(repr, attempts[:5])])
