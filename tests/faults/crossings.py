"""Whether the quota events are those that the charges of a history crossed: none is missing, none is there besides.

The usage headers tell of each charge its units, the counter after it and the limit that it was judged by, so they tell
what it crossed. A charge that nobody was told of lies between two that were told, or behind the last: so it is known
when it happened, and what such charges crossed together, unless the limit changed just then. In that case each of their
events has to be possible.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from math import inf
from typing import NamedTuple

import psycopg
from tests.faults.consistency import Ledger, limits_of
from tests.faults.history import Counter, History, Outcome

# An event is there when it can be delivered, too.
EVENTS = """
    select account_id, meter, period, threshold, unit_limit, q.committed
      from sepu.quota_event q
      join sepu.event_delivery using (account_id, period, meter, threshold, unit_limit)
     where account_id = any(%s)
"""
THRESHOLDS = """
    select account_id, meter, thresholds from sepu.account join sepu.plan_limit using (plan_id)
     where account_id = any(%s)
"""


# A charge reads its limit by so much earlier than it is committed, at most.
READ_SECONDS = 5


class Event(NamedTuple):
    """A threshold in percent of a limit, and the counter after the charge that crossed it."""

    threshold: int
    limit: int
    committed: int


class Recorded(NamedTuple):
    """What the database holds in the end. All plans that an account was on have the same thresholds."""

    events: Mapping[Counter, Set[Event]]
    thresholds: Mapping[tuple[str, str], Sequence[int]]  # of each account and meter


class Wrong(NamedTuple):
    """Events of a counter that are missing, or that no charge crossed."""

    missing: list[Event]
    extra: list[Event]


def read_events(connection: psycopg.Connection, accounts: list[str]) -> Recorded:
    """Reads what was recorded of these accounts."""
    events = defaultdict(set)
    for account, meter, period, *event in connection.execute(EVENTS, [accounts]):
        events[Counter(account, meter, period)].add(Event(*event))
    thresholds = {(account, meter): given for account, meter, given in connection.execute(THRESHOLDS, [accounts])}
    return Recorded(events, thresholds)


def crossed(before: int, committed: int, limit: int, thresholds: Sequence[int]) -> set[int]:
    """The thresholds that are reached with the first unit that is not below so many percent of the limit."""
    return {percent for percent in thresholds if before < -(-limit * percent // 100) <= committed}


def wrong_events(history: History, ledger: Ledger, recorded: Recorded) -> Iterator[tuple[Counter, Wrong]]:
    """Compares each counter with what the ledger holds in the end."""
    charges = defaultdict[Counter, list[tuple[int, int, int, float, float]]](list)
    counters = list(history.counters)
    for at, outcome in enumerate(history.outcome):
        if outcome == Outcome.CHARGED:
            units = history.units_of_request[history.request[at]]
            told_of = (history.committed[at], units, history.limit[at], history.start[at], history.end[at])
            charges[counters[history.counter[at]]].append(told_of)
    for counter in sorted(ledger.committed.keys() | recorded.events.keys()):
        account, meter, _ = counter
        thresholds = recorded.thresholds[account, meter]
        in_force = limits_of(counter, history, ledger)
        left, missing = set(recorded.events.get(counter, ())), set[Event]()
        state, since = 0, -inf
        # The end is a charge of no units.
        last = (ledger.committed.get(counter, 0), 0, 0, inf, inf)
        for total, units, limit, start, end in [*sorted(charges[counter]), last]:
            before = total - units
            ever = {terms.units[meter] for terms in in_force.within(since - READ_SECONDS, end)}
            possible = {
                event
                for event in left
                if state < event.committed <= before
                and event.limit in ever
                and event.threshold in crossed(state, event.committed, event.limit, thresholds)
            }
            left -= possible
            if len(ever) == 1:
                (only,) = ever
                found = {event.threshold for event in possible}
                gone = crossed(state, before, only, thresholds) - found
                missing |= {Event(threshold, only, before) for threshold in gone}
            told = {Event(threshold, limit, total) for threshold in crossed(before, total, limit, thresholds)}
            missing |= told - left
            left -= told
            state, since = total, start
        if missing or left:
            yield counter, Wrong(sorted(missing), sorted(left))
