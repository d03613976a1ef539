"""Whether a history can be true: of each attempt with its answer, and of what the ledger holds in the end.

The usage headers order all that was told of a counter (a meter of an account in a month), so a sort finds what
elsewhere takes a search. In that order, from 0 to what the database holds, each charge begins where the one before it
ended; a replay or a refusal for the quota, which tells a state and charges nothing, stands where it was told; and
nothing stands before what had ended before it began. A charge that nobody was told of has no place of its own: its
result is stored, and its units fill a gap, at a time when it may have happened.

An account's plan may change meanwhile, and units may be granted of a counter: what is told of it has to have been in
force at some instant of the call.
"""

from bisect import bisect_left, bisect_right
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import psycopg
from tests.faults.history import Adjustment, Change, Counter, History, Outcome, Terms, digest

from sepu import limits
from sepu.metering.meters import METERS

Numbers = npt.NDArray[Any]
Kind = Literal["lost", "doubled", "wrong"]

MOST = 5  # contradictions of a kind that are told of one counter: one leads to the next
MOST_STATES = 10_000  # ways to fill gaps that are followed at a time
WINDOW_SECONDS = 60  # of the abuse limit
# What is told only by a commit, and so has counted against the abuse limit. (A constraint may say "in progress", too.)
COUNTED = (Outcome.CHARGED, Outcome.REPLAYED, Outcome.QUOTA_EXCEEDED, Outcome.CONFLICT, Outcome.ADMITTED)

STORED = """
    select account_id, idempotency_key, meter, period, units, body from sepu.stored_result where account_id = any(%s)
"""
COUNTED_UNITS = """
    select account_id, meter, period, committed, granted, credited from sepu.usage where account_id = any(%s)
"""
PLANS = """
    select account_id, json_object_agg(meter, units), requests_per_minute
      from sepu.account join sepu.plan using (plan_id) join sepu.plan_limit using (plan_id)
     where account_id = any(%s) group by account_id, requests_per_minute
"""


class Stored(NamedTuple):
    """What a key was charged for, and a digest of the answer."""

    meter: str
    period: str
    units: int
    body: int


@dataclass(frozen=True)
class Ledger:
    """What the database holds of some accounts in the end. Its counters began at 0."""

    stored: Mapping[tuple[str, str], Stored]
    committed: Mapping[Counter, int]
    granted: Mapping[Counter, int]
    credited: Mapping[Counter, int]
    terms: Mapping[str, Terms]  # of each account


def read_ledger(connection: psycopg.Connection, accounts: list[str]) -> Ledger:
    """Reads what is known of these accounts."""
    stored = {
        (account, key): Stored(meter, period, units, digest(body))
        for account, key, meter, period, units, body in connection.execute(STORED, [accounts])
    }
    counted = {Counter(*row[:3]): row[3:] for row in connection.execute(COUNTED_UNITS, [accounts])}
    committed, granted, credited = ({counter: units[n] for counter, units in counted.items()} for n in range(3))
    terms = {account: Terms(units, requests) for account, units, requests in connection.execute(PLANS, [accounts])}
    return Ledger(stored, committed, granted, credited, terms)


class Contradiction(NamedTuple):
    """Attempts that cannot all be true: together, or with what the ledger holds."""

    kind: Kind
    what: str
    attempts: tuple[int, ...]


def contradictions(history: History, ledger: Ledger) -> list[Contradiction]:
    """Finds what contradicts: the first of each kind before others, and of these the smallest set of attempts first.

    What only the ledger tells comes behind.
    """
    if not len(history):
        return []
    found = _Check(history, ledger)
    of_keys = (found.charges, found.results, found.replays, found.conflicts)
    rules = (found.answers, *of_keys, found.rates, found.chains, found.adjustments)
    alike = Tally[str]()

    def place(one: Contradiction) -> tuple[int, int]:
        alike[one.what] += 1
        return alike[one.what], len(one.attempts) or len(history)

    return sorted((one for rule in rules for one in rule()), key=place)


class InForce:
    """What an account was allowed, and when: what it is allowed in the end, and before each change."""

    def __init__(self, changes: Sequence[Change], final: Terms) -> None:
        self._terms = [*(change.before for change in changes), final]
        self._begins = [-np.inf, *(change.start for change in changes)]
        self._ends = [*(change.end for change in changes), np.inf]

    def within(self, start: float, end: float) -> list[Terms]:
        """All that may have been in force at an instant between these."""
        return self._terms[bisect_left(self._ends, start) : bisect_right(self._begins, end)]

    def includes(self, meter: str, limit: Numbers, start: Numbers, end: Numbers) -> Numbers:
        """Whether each of these limits was in force at an instant of its span."""
        limits = np.array([terms.units[meter] for terms in self._terms])
        at, last = np.searchsorted(self._ends, start), np.searchsorted(self._begins, end, "right") - 1
        found = limits[at] == limit
        while (at < last).any():
            at = np.minimum(at + 1, last)
            found |= limits[at] == limit
        return np.asarray(found)


def limits_of(counter: Counter, history: History, ledger: Ledger) -> InForce:
    """What a counter was limited to, and when. One operator changed plans and granted units, one after the other."""
    terms, granted = ledger.terms[counter.account_id], sum(grant.units for grant in history.grants[counter])

    def limited() -> Terms:
        return terms._replace(units={**terms.units, counter.meter: terms.units[counter.meter] + granted})

    final, changes = limited(), list[Change]()
    both: list[Change | Adjustment] = [*history.changes[counter.account_id], *history.grants[counter]]
    for change in sorted(both, key=lambda one: one.start, reverse=True):
        if isinstance(change, Change):
            terms = change.before
        else:
            granted -= change.units
        changes.append(Change(change.start, change.end, limited()))
    return InForce(changes[::-1], final)


class _Silent(NamedTuple):
    """A charge that nobody was told of, and when it may have happened."""

    start: float
    end: float
    units: int
    attempts: tuple[int, ...]


class _Check:
    """The rules, each over the whole history."""

    def __init__(self, history: History, ledger: Ledger) -> None:
        self.history, self.ledger = history, ledger
        self.forgotten = _merged(history.forgotten)
        self.names = list(history.keys)
        self.in_force = {name: InForce(history.changes[name], ledger.terms[name]) for name in history.accounts()}
        counters = history.counters | {
            counter: len(history.counters) + more
            for more, counter in enumerate(ledger.committed.keys() - history.counters.keys())
        }
        self.counters = list(counters)
        self.limits = {
            counter: limits_of(counter, history, ledger) for counter in self.counters if counter.meter in METERS
        }
        self.request, self.counter = np.array(history.request), np.array(history.counter)
        self.start, self.end, self.outcome = map(np.array, (history.start, history.end, history.outcome))
        self.limit, self.committed = np.array(history.limit), np.array(history.committed)
        self.reserved, self.remaining = np.array(history.reserved), np.array(history.remaining)
        self.body = np.array(history.body)
        self.units = np.array(history.units_of_request)[self.request]
        self.key = np.array(history.key_of_request)[self.request]
        self.meter = np.array(history.meter_of_request)[self.request]
        self.charged, self.replayed = self.outcome == Outcome.CHARGED, self.outcome == Outcome.REPLAYED
        self.unknown = self.outcome == Outcome.UNKNOWN
        self.is_200 = self.charged | self.replayed
        self.told = self.counter >= 0
        self.until = np.where(self.unknown, np.inf, self.end)  # when it surely changes nothing any more
        self.meter_of_counter = np.array([self._meter(counter) for counter in self.counters] or [-1])
        # Of each key.
        self.stored_units, self.stored_body = np.zeros(len(self.names), int), np.zeros(len(self.names), int)
        self.stored_counter = np.full(len(self.names), -1)
        for number, name in enumerate(self.names):
            if row := ledger.stored.get(name):
                self.stored_units[number], self.stored_body[number] = row.units, row.body
                self.stored_counter[number] = counters.get(Counter(name[0], row.meter, row.period), -1)
        self.is_charged = np.zeros(len(self.names), bool)
        self.is_charged[self.key[self.charged]] = True
        self.stored_by = self._least(self.end, self.is_200)  # an answer has told so by then

    @staticmethod
    def _meter(counter: Counter) -> int:
        return (*METERS, counter.meter).index(counter.meter)

    def answers(self) -> Iterator[Contradiction]:
        """What an answer says agrees with itself, the plan and the ledger."""
        told, known = self.told, self.counter
        used, stored = self.committed + self.reserved, self.stored_units[self.key]
        quota = self.outcome == Outcome.QUOTA_EXCEEDED
        yield from self._each("wrong", "it lacks the usage headers", (self.is_200 | quota) & ~told)
        other_meter = told & (self.units > 0) & (self.meter_of_counter[known] != self.meter)
        yield from self._each("wrong", "it tells another meter", other_meter)
        yield from self._each("wrong", "its limit is of no plan that was in force", told & ~self._limit_in_force())
        yield from self._each(
            "wrong",
            "remaining is not what limit, committed and reserved leave",
            told & ((self.remaining != np.maximum(0, self.limit - used)) | (self.reserved != 0)),
        )
        yield from self._each("wrong", "it was charged beyond the quota", told & self.charged & (used > self.limit))
        yield from self._each("wrong", "its units would have fitted", told & quota & (used + self.units <= self.limit))
        yield from self._each("lost", "it was answered, and nothing is stored", self.is_200 & (stored == 0))
        yield from self._each(
            "lost",
            "it was answered with another body than is stored",
            self.is_200 & (stored > 0) & (self.body != 0) & (self.body != self.stored_body[self.key]),
        )
        yield from self._each(
            "doubled",
            "it is stored with other units, or under another meter or month",
            told & self.is_200 & (stored > 0) & ((stored != self.units) | (self.stored_counter[self.key] != known)),
        )

    def _limit_in_force(self) -> Numbers:
        """Whether each limit that was told was in force at an instant of its call."""
        found = np.zeros(len(self.limit), bool)
        order = np.argsort(self.counter, kind="stable")
        edges = np.searchsorted(self.counter[order], np.arange(len(self.counters) + 1))
        for counter, (first, last) in zip(self.counters, pairwise(edges), strict=True):
            of = order[first:last]
            if counter in self.limits:
                found[of] = self.limits[counter].includes(counter.meter, self.limit[of], self.start[of], self.end[of])
        return found

    def adjustments(self) -> Iterator[Contradiction]:
        """The ledger holds what was granted and credited, once."""
        for what, given, held in (
            ("granted", self.history.grants, self.ledger.granted),
            ("credited", self.history.credits, self.ledger.credited),
        ):
            for counter in given.keys() | held.keys():
                units = sum(one.units for one in given.get(counter, ()))
                if units != held.get(counter, 0):
                    kind: Kind = "lost" if held.get(counter, 0) < units else "doubled"
                    yield Contradiction(kind, f"of {counter} {units} units were {what}, not {held.get(counter, 0)}", ())

    def charges(self) -> Iterator[Contradiction]:
        """A key is charged once; and what it was charged for, somebody asked."""
        for key in map(int, np.flatnonzero(np.bincount(self.key[self.charged], minlength=len(self.names)) > 1)):
            twice = self._of_key(key, self.charged)
            yield Contradiction("doubled", "a key was charged more than once", tuple(twice[:2]))
        for name in self.ledger.stored.keys() - set(self.names):
            yield Contradiction("doubled", f"{name} is stored, and was never asked", ())
        for key in self._silent_keys:
            if not self._of_key(key, self._may_be_silent) or self.stored_counter[key] < 0:
                what = "its result is stored, and no attempt can have been charged"
                yield Contradiction("doubled", what, tuple(self._of_key(key)[:MOST]))

    def results(self) -> Iterator[Contradiction]:
        """What is stored stays so: once an answer has told it, its key is replayed."""
        after = self.start > self.stored_by[self.key]
        gone = after & np.isin(self.outcome, (Outcome.CHARGED, Outcome.QUOTA_EXCEEDED, Outcome.IN_PROGRESS))
        for at in np.flatnonzero(gone | after & (self.outcome == Outcome.CONFLICT)):
            (first, *_) = sorted(self._of_key(self.key[at], self.is_200), key=self.end.__getitem__)
            if gone[at] or self.request[at] == self.request[first]:
                what = "the first answer shows that the key's result is stored, and the second is not its replay"
                yield Contradiction("wrong", what, (first, int(at)))

    def replays(self) -> Iterator[Contradiction]:
        """A replay is of this input, and does not end before its charge began."""
        charges = self.charged | self.unknown & ~self.is_charged[self.key]
        begun = np.full(self.request.max(initial=-1) + 1, np.inf)
        np.minimum.at(begun, self.request[charges], self.start[charges])
        for at in np.flatnonzero(self.replayed & ~(begun[self.request] < self.end)):
            others = self._of_key(self.key[at], charges)
            what = "a replay of what no attempt with its input can have charged before"
            yield Contradiction("wrong", what, (int(at), *others[:1]))

    def conflicts(self) -> Iterator[Contradiction]:
        """A 409 has its reason in another attempt with the key, which was under way or, for a conflict, is stored.

        Who is told that another one is under way holds nothing. Who is told of a conflict holds his input, not the key.
        """
        in_progress, conflict = self.outcome == Outcome.IN_PROGRESS, self.outcome == Outcome.CONFLICT
        holds_input = ~in_progress & (self.outcome != Outcome.REFUSED)
        for key in map(int, np.unique(self.key[in_progress | conflict])):
            of_key = np.array(self._of_key(key))
            runs = of_key[holds_input[of_key]]
            used = runs[~conflict[runs]]
            until = np.where(self.is_200[used], np.inf, self.until[used])
            for request in np.unique(self.request[of_key]):
                mine = self.request[of_key] == request
                its, others = runs[self.request[runs] == request], self.request[used] != request
                same = _Spans(self.start[its], self.until[its])
                other = _Spans(self.start[used[others]], until[others])
                for at in of_key[mine & in_progress[of_key]]:
                    if not same.meeting(self.start[at], self.end[at]):
                        what = "no other attempt with this key and input was under way"
                        yield Contradiction("wrong", what, (int(at),))
                for at in of_key[mine & conflict[of_key]]:
                    if not other.meeting(self.start[at], self.end[at]):
                        what = "the key was neither used nor in use with another input"
                        yield Contradiction("wrong", what, (int(at),))

    def rates(self) -> Iterator[Contradiction]:
        """The abuse limit lets no more pass in a minute than it says, and refuses nobody who asks less often.

        All attempts of an account count, of usage and library too.
        """
        limited = self.outcome == Outcome.RATE_LIMITED
        account = np.unique([account for account, _ in self.names], return_inverse=True)[1][self.key]
        order = np.lexsort((self.start, account))
        order = order[self.outcome[order] != Outcome.READ]
        for first, last in pairwise(np.searchsorted(account[order], np.arange(account.max() + 2))):
            of = order[first:last]
            in_force = self.in_force[self.names[self.key[of[0]]][0]]
            yield from self._too_many(of[~limited[of]], in_force)
            yield from self._too_few(of[limited[of]], of[~limited[of]], in_force)

    def _too_many(self, counted: Numbers, in_force: InForce) -> Iterator[Contradiction]:
        """Of those that may have counted, in the order in which they began."""
        start, end, until = self.start[counted], self.end[counted], self.until[counted]
        surely = np.isin(self.outcome[counted], COUNTED)
        for begin, inside in windows(start, end, until, surely, self.forgotten):
            # The limit may have been read while one waited for the window before.
            in_window = in_force.within(begin - limits.STATEMENT_SECONDS, end[inside].max())
            allowed = max(terms.per_minute for terms in in_window)
            if len(inside) > allowed:
                what = f"more than {allowed} requests were let through in a minute"
                yield Contradiction("wrong", what, tuple(map(int, counted[inside[: allowed + 1]])))

    def _too_few(self, limited: Numbers, counted: Numbers, in_force: InForce) -> Iterator[Contradiction]:
        """Who is told that he asks too often has asked so often within a window, but for what others count."""
        spans = _Spans(self.start[counted], self.until[counted])
        for at in limited:
            # A worker may have been told so by a call that began in the window, and knows it for a while.
            since = self.start[at] - limits.STATEMENT_SECONDS - limits.LIMITED_SECONDS
            allowed = min(terms.per_minute for terms in in_force.within(since, self.end[at]))
            if self.units[at] and self._is_in_use(at):
                allowed = (allowed + 2) // 4  # a key in use may be refused so early: sepu.count_request
            if spans.meeting(since - WINDOW_SECONDS, self.end[at]) < allowed:
                what = f"fewer than {allowed} requests can have counted against the limit in its minute"
                yield Contradiction("wrong", what, (int(at),))

    def _is_in_use(self, at: int) -> bool:
        """Whether the key of this attempt may have been in use by another one."""
        others = (other for other in self._of_key(self.key[at]) if self.outcome[other] != Outcome.RATE_LIMITED)
        return any(self.start[other] < self.end[at] and self.until[other] > self.start[at] for other in others)

    def chains(self) -> Iterator[Contradiction]:
        """What was told of a counter and what is stored make one chain from 0 to what the database holds."""
        final = [self.ledger.committed.get(counter, 0) for counter in self.counters]
        every, nobody = np.arange(len(final)), np.full(len(final), -1)
        attempt = np.concatenate([np.flatnonzero(self.told), nobody, nobody])
        counter = np.concatenate([self.counter[self.told], every, every])
        committed = np.concatenate([self.committed[self.told], np.zeros(len(final), int), final])
        endless = np.full(len(final), np.inf)
        start = np.concatenate([self.start[self.told], -endless, endless])
        end = np.concatenate([self.end[self.told], -endless, endless])
        units = np.where((attempt >= 0) & self.charged[attempt], self.units[attempt], 0)
        # Who tells the same state stands behind its charge, in the order in which they began.
        order = np.lexsort((start, units == 0, committed, counter))
        attempt, counter, committed, start, end, units = (
            column[order] for column in (attempt, counter, committed, start, end, units)
        )
        edges = np.searchsorted(counter, np.arange(len(final) + 1))
        silent = self._silent_by_counter()
        for number, (first, last) in enumerate(pairwise(edges)):
            part = slice(first, last)
            gap = np.diff(committed[part], prepend=0) - units[part]  # to the one before
            top = committed[part] - units[part]
            yield from self._chain(
                self.counters[number], attempt[part], gap, top, start[part], end[part], silent.get(number, [])
            )

    def _chain(
        self,
        counter: Counter,
        attempt: Numbers,
        gap: Numbers,
        top: Numbers,
        start: Numbers,
        end: Numbers,
        silent: list[_Silent],
    ) -> Iterator[Contradiction]:
        """One counter: its first and its last state are the ledger's, and no attempt's.

        Before each of them a gap of so many units, which silent charges fill, up to its top.
        """

        def these(*places: int) -> tuple[int, ...]:
            return tuple(int(attempt[place]) for place in places if attempt[place] >= 0)

        final = self.ledger.committed.get(counter, 0)
        name = f"{counter.meter} in {counter.period}, from 0 to {final} by the ledger"
        latest = np.maximum.accumulate(start)
        began = np.concatenate([[-np.inf], latest[:-1]])  # what stands before had all begun
        early = np.flatnonzero(began > end)[:MOST]
        overlapping = np.flatnonzero(gap[1:] < 0)[:MOST] + 1
        for place in early:
            what = "by what they tell the one comes before the other, by the clock after it"
            yield self._pair(name, what, these(int(np.argmax(start[:place])), place))
        for place in overlapping:
            what = f"the second begins {-gap[place]} units before the state that the first tells"
            yield self._pair(name, what, these(place - 1, place))
        if len(early) or len(overlapping):
            return
        gaps = np.flatnonzero(gap > 0)
        ends = np.minimum.accumulate(end[::-1])[::-1]  # what stands behind had none ended
        spans = [
            (
                int(np.searchsorted(ends[gaps], one.start)),
                int(np.searchsorted(began[gaps], one.end, "right")) - 1,
                one.units,
            )
            for one in silent
        ]
        unfilled = first_unfilled([int(units) for units in gap[gaps]], spans)
        if unfilled is None:
            for number, last in enumerate(map(int, gaps)):
                if top[last] <= self._quota(counter, began[last], ends[last]):
                    continue
                filling = [silent[one] for one, span in enumerate(spans) if span[0] <= number <= span[1]]
                # A charge reads the limit before it waits for its turn.
                if top[last] > self._quota(counter, min(one.start for one in filling), ends[last]):
                    what = f"{name}: before the last of these {top[last]} units were charged, beyond the quota"
                    fillers = {attempt for one in filling for attempt in one.attempts}
                    yield Contradiction("wrong", what, (*sorted(fillers), *these(last)))
            return
        at, ones = unfilled
        near = sorted({attempt for one in ones for attempt in silent[one].attempts})
        if at is None:
            what = f"{name}: its result is stored, and its units are not in the counter while it was under way"
            yield Contradiction("doubled", what, tuple(near))
        else:
            place = int(gaps[at])
            what = f"{name}: before the last of these {gap[place]} units were charged that none of them asked"
            yield Contradiction("doubled", what, (*near, *these(place - 1, place)))

    def _quota(self, counter: Counter, start: float, end: float) -> int:
        """The highest in force at an instant between these."""
        return max(terms.units[counter.meter] for terms in self.limits[counter].within(start, end))

    @staticmethod
    def _pair(name: str, what: str, attempts: tuple[int, ...]) -> Contradiction:
        """Two attempts, or one and the counter's first or last state."""
        return Contradiction("wrong", f"{name}: {what if len(attempts) > 1 else 'it tells otherwise'}", attempts)

    @cached_property
    def _silent_keys(self) -> Sequence[int]:
        return [int(key) for key in np.flatnonzero((self.stored_units > 0) & ~self.is_charged)]

    @cached_property
    def _may_be_silent(self) -> Numbers:
        as_asked: Numbers = self.units == self.stored_units[self.key]
        silent: Numbers = as_asked & (self.meter_of_counter[self.stored_counter[self.key]] == self.meter) & self.unknown
        return silent

    def _silent_by_counter(self) -> dict[int, list[_Silent]]:
        silent = defaultdict(list)
        began = self._least(self.start, self._may_be_silent)
        for key in self._silent_keys:
            if began[key] < np.inf:
                first = min(self._of_key(key, self._may_be_silent), key=self.start.__getitem__)
                answered = sorted(self._of_key(key, self.is_200), key=self.end.__getitem__)
                one = _Silent(began[key], self.stored_by[key], int(self.stored_units[key]), (first, *answered[:1]))
                silent[int(self.stored_counter[key])].append(one)
        return silent

    def _least(self, of: Numbers, which: Numbers) -> Numbers:
        """The least of each key, infinite where there is none."""
        least = np.full(len(self.names), np.inf)
        np.minimum.at(least, self.key[which], of[which])
        return least

    @cached_property
    def _by_key(self) -> tuple[Numbers, Numbers]:
        order = np.argsort(self.key, kind="stable")
        return order, np.searchsorted(self.key[order], np.arange(len(self.names) + 1))

    def _of_key(self, key: int, which: Numbers | None = None) -> list[int]:
        """The attempts with a key."""
        order, edges = self._by_key
        attempts = order[edges[key] : edges[key + 1]]
        return [int(at) for at in (attempts if which is None else attempts[which[attempts]])]

    def _each(self, kind: Kind, what: str, which: Numbers) -> Iterator[Contradiction]:
        return (Contradiction(kind, what, (int(at),)) for at in np.flatnonzero(which))


class _Spans:
    """Spans of time, to be counted."""

    def __init__(self, starts: Numbers, ends: Numbers) -> None:
        self._starts, self._ends = sorted(starts), sorted(ends)

    def meeting(self, start: float, end: float) -> int:
        """How many have an instant in common with this one."""
        return bisect_left(self._starts, end) - bisect_left(self._ends, start)


def _merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Without those that overlap."""
    merged: list[tuple[float, float]] = []
    for span in sorted(spans):
        if merged and span[0] <= merged[-1][1]:
            start, end = merged.pop()
            span = start, max(end, span[1])
        merged.append(span)
    return merged


def windows(
    start: Numbers, end: Numbers, until: Numbers, surely: Numbers, forgotten: Sequence[tuple[float, float]]
) -> Iterator[tuple[float, Numbers]]:
    """Returns the windows of the abuse limit: no earlier than when each begins, and who counts in no other.

    The attempts are in the order in which they began; some count `surely`, between start and end, the others perhaps,
    until later. A window begins with its first request, a minute after the window before or later, or when Postgres
    has `forgotten` that one. So the first window is known well, and each after it a little less.
    """
    sure = np.flatnonzero(surely)
    if not len(sure):
        return
    soonest = np.minimum.accumulate(end[sure][::-1])[::-1]  # of those that began then or later the first end
    longest = np.maximum.accumulate(until)  # of those that began then or before the last
    never = (-np.inf, -np.inf)
    for (begin, since), (crash, _) in pairwise([never, *forgotten, (np.inf, np.inf)]):
        # `begin`: of the window, at the earliest. `since`: who begins then is in no window before.
        while begin < crash and (first := np.searchsorted(start[sure], since)) < len(sure):
            begun = np.searchsorted(start, begin, "right")
            if not begun or longest[begun - 1] < begin:
                begin = start[begun]
            inside = sure[first : np.searchsorted(start[sure], begin + WINDOW_SECONDS)]
            inside = inside[end[inside] < min(begin + WINDOW_SECONDS, crash)]
            if len(inside):
                yield float(begin), inside
            begin, since = begin + WINDOW_SECONDS, soonest[first] + WINDOW_SECONDS


def first_unfilled(gaps: Sequence[int], silent: Sequence[tuple[int, int, int]]) -> tuple[int | None, list[int]] | None:
    """Fills gaps of so many units, exactly, with silent charges: each with its first possible gap, its last, its units.

    Gives None if it can be done, and otherwise a gap that cannot be filled with those that could be in it, or no gap
    and charges that fit none. Of charges with equal units the most urgent is taken first, so few ways are left to
    follow; should they be too many (thousands unanswered at once), only the sum is known to be right.
    """
    arriving = defaultdict(list)
    for one, (first, last, units) in enumerate(silent):
        if first > last:
            return None, [one]
        arriving[first].append((units, last, one))
    ways: set[tuple[tuple[int, int, int], ...]] = {()}
    for at, gap in enumerate(gaps):
        waiting = {tuple(sorted((*way, *arriving[at]))) for way in ways}
        ways = {rest for way in waiting for rest in _rests(way, gap, at)}
        if not ways:
            return at, sorted({one for way in waiting for _, _, one in way})
        if len(ways) > MOST_STATES:
            return None if sum(gaps) == sum(units for _, _, units in silent) else (at, [])
    return None


def _rests(waiting: tuple[tuple[int, int, int], ...], gap: int, at: int) -> Iterator[tuple[tuple[int, int, int], ...]]:
    """What is left when charges of so many units were taken, for each way to do so that leaves none behind."""
    sizes = [list(same) for _, same in groupby(waiting, key=lambda one: one[0])]

    def take(
        size: int, left: int, rest: tuple[tuple[int, int, int], ...]
    ) -> Iterator[tuple[tuple[int, int, int], ...]]:
        if size == len(sizes):
            if not left:
                yield rest
            return
        units = sizes[size][0][0]
        urgent = sum(last == at for _, last, _ in sizes[size])
        for count in range(urgent, min(len(sizes[size]), left // units) + 1):
            yield from take(size + 1, left - count * units, (*rest, *sizes[size][count:]))

    return take(0, gap, ())
