"""Quota events: each time that a charge took an account's usage of a meter over a threshold of its limit."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import psycopg

from sepu.metering.scripts import run

STATES = ("due", "delivered", "dead")


@dataclass(frozen=True, slots=True)
class Event:
    """A crossing, and how far its delivery is."""

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
    """By the charge that crossed, with all before it."""
    crossed_at: datetime
    state: str | None
    """One of `STATES`; None if the delivery is past its retention."""
    attempts: int | None
    due_at: datetime | None
    delivered_at: datetime | None
    last_error: str | None

    @property
    def event_id(self) -> str:
        """Gives what names this event: an account crosses a threshold of a limit once a month and meter."""
        return ":".join((self.account_id, self.period, self.meter, str(self.threshold), str(self.limit)))


def list_events(
    connection: psycopg.Connection,
    *,
    account_id: str | None = None,
    period: str | None = None,
    state: str | None = None,
) -> Iterator[Event]:
    """Gives the events that pass all filters, the oldest first."""
    filters = {"account_id": account_id, "period": period, "state": state}
    for row in run(connection, "list_events", **filters):
        yield Event(*row)
