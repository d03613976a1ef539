"""Quota events: a charge took an account's usage of a meter over a threshold of its limit.

Each is delivered at least once, and a counter's events in order. A deliverer claims an event for a limited time, in one
statement. So several can run, and an unfinished event becomes due again.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

import psycopg

from sepu import limits
from sepu.admin.history import make_change
from sepu.database.statements import run
from sepu.errors import SepuError

# Longest Retry-After of an endpoint.
_MAX_RETRY_AFTER_SECONDS = 24 * 3600

STATES = ("due", "delivered", "dead")


@dataclass(frozen=True, slots=True)
class Event:
    """A crossing, and the state of its delivery."""

    account_id: str
    external_id: str | None
    name: str | None
    period: str
    meter: str
    threshold: int
    """Percent of the limit."""
    limit: int
    """The one in force then."""
    committed: int
    """Including the charge that crossed."""
    crossed_at: datetime
    state: str | None
    """One of `STATES`; None if the delivery is past its retention."""
    attempts: int | None
    due_at: datetime | None
    delivered_at: datetime | None
    last_error: str | None

    @property
    def event_id(self) -> str:
        """Returns the id: an account crosses a threshold of a limit once per month and meter."""
        return ":".join((self.account_id, self.period, self.meter, str(self.threshold), str(self.limit)))


def list_events(
    connection: psycopg.Connection,
    *,
    account_id: str | None = None,
    period: str | None = None,
    state: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    latest: int | None = None,
) -> Iterator[Event]:
    """Returns the events that pass all filters, the oldest first; only the `latest` newest, if given.

    `since` is inclusive, `until` exclusive.
    """
    filters = {"account_id": account_id, "period": period, "state": state, "since": since, "until": until}
    for row in run(connection, "list_events", **filters, latest=latest):
        yield Event(*row)


def show_event(connection: psycopg.Connection, event_id: str) -> Event:
    """Returns one event.

    Raises:
        SepuError: no such event.
    """
    named = _parsed(event_id)
    for event in list_events(connection, account_id=named["account_id"], period=named["period"]):
        if event.event_id == event_id:
            return event
    raise SepuError(f"there is no event {event_id!r}")


@dataclass(frozen=True, slots=True)
class Backlog:
    """Undelivered events."""

    due: int
    dead: int
    """Given up."""
    oldest_due_seconds: int
    """The age of the oldest event that is due; 0 if none is."""


@dataclass(frozen=True, slots=True)
class EndpointAnswer:
    """The result of an attempt to deliver an event; without an error it was delivered."""

    error: str | None = None
    retry_after: float = 0
    """Seconds that the endpoint asked for."""
    final: bool = False
    """The endpoint is gone and wants no more events."""
    status: int | None = field(default=None, compare=False)
    """HTTP status; None if no answer came."""


def claim_events(connection: psycopg.Connection, most: int = limits.webhooks.CONCURRENT) -> list[Event]:
    """Claims some due events, if any; no other deliverer gets them within `limits.webhooks.CLAIM_SECONDS`."""
    claimed: list[Event] = []
    while not claimed and (rows := run(connection, "next_deliveries", limit=most).fetchall()):
        for event in (Event(*row) for row in rows):  # another deliverer may claim them first
            given = {**_key(event), "due_at": event.due_at, "seconds": limits.webhooks.CLAIM_SECONDS}
            if claim := run(connection, "claim_delivery", **given).fetchone():
                claimed.append(replace(event, due_at=claim[0], attempts=claim[1]))
    return claimed


def record_delivery(connection: psycopg.Connection, event: Event) -> None:
    """Records that an event was delivered."""
    run(connection, "record_delivery", **_key(event))


def postpone_delivery(
    connection: psycopg.Connection, event: Event, error: str, retry_after: float = 0, *, final: bool = False
) -> int | None:
    """Records why a claimed event was not delivered.

    Returns the seconds until the next attempt; None if the event is given up, because the error is final or this was
    the last attempt.
    """
    attempts = event.attempts or 0
    seconds = None
    if not final and attempts < limits.webhooks.ATTEMPTS:
        grown = limits.webhooks.FIRST_RETRY_SECONDS * 4 ** max(0, attempts - 1)
        backoff = min(grown, limits.webhooks.MAX_RETRY_SECONDS)
        jitter = random.uniform(0.8, 1.2)  # noqa: S311  # no secret
        seconds = round(max(backoff * jitter, min(retry_after, _MAX_RETRY_AFTER_SECONDS)))
    run(connection, "postpone_delivery", **_key(event), due_at=event.due_at, seconds=seconds, error=error)
    return seconds


def retry_delivery(connection: psycopg.Connection, event_id: str) -> None:
    """Makes an event due again, whether it was given up or delivered.

    Raises:
        SepuError: no such event.
    """
    if make_change(connection, "events.retry", _parsed(event_id)["account_id"], event_id).outcome == "missing":
        raise SepuError(f"there is no event {event_id!r}")


def retry_all(
    connection: psycopg.Connection, state: str, since: datetime | None = None, until: datetime | None = None
) -> int:
    """Makes the events in a state that were recorded in a range of time due now; returns how many.

    Each is its own transaction, the oldest first.
    """
    found = list(list_events(connection, state=state, since=since, until=until))
    for event in found:
        retry_delivery(connection, event.event_id)
    return len(found)


def count_deliveries(connection: psycopg.Connection) -> Backlog:
    """Counts undelivered events."""
    ((due, dead, oldest),) = run(connection, "count_deliveries").fetchall()
    return Backlog(due, dead, oldest)


def _parsed(event_id: str) -> dict[str, str]:
    """Returns the parts of an event's id, named as in `_key`."""
    form = re.fullmatch(
        "(?P<account_id>[^:]+):(?P<period>[^:]+):(?P<meter>[^:]+):(?P<threshold>[0-9]{1,3}):(?P<limit>[0-9]{1,10})",
        event_id,
    )
    if form is None:
        raise SepuError(f"{event_id!r} is not the id of an event", "list events")
    return form.groupdict()


def _key(event: Event) -> dict[str, object]:
    return {
        "account_id": event.account_id,
        "period": event.period,
        "meter": event.meter,
        "threshold": event.threshold,
        "limit": event.limit,
    }
