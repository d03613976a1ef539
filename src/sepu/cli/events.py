"""`sepu events`: who crossed a threshold of a limit, and telling so to other systems."""

from collections.abc import Iterable

import click
from psycopg import Connection

from sepu.cli.database import prints_rows
from sepu.cli.output import Fields, example, instant, month
from sepu.metering.events import STATES, Event
from sepu.metering.events import list_events as listed

_COLUMNS = (
    *("eventId", "accountId", "externalId", "name", "period", "meter", "threshold", "limit", "committed", "crossedAt"),
    *("state", "attempts", "dueAt", "deliveredAt", "lastError"),
)


def _fields(event: Event) -> Fields:
    return {
        "eventId": event.event_id,
        "accountId": event.account_id,
        "externalId": event.external_id,
        "name": event.name,
        "period": event.period,
        "meter": event.meter,
        "threshold": event.threshold,
        "limit": event.limit,
        "committed": event.committed,
        "crossedAt": instant(event.crossed_at),
        "state": event.state,
        "attempts": event.attempts,
        "dueAt": instant(event.due_at),
        "deliveredAt": instant(event.delivered_at),
        "lastError": event.last_error,
    }


def _shown(row: Fields) -> Fields:
    return {
        "crossedAt": row["crossedAt"],
        "name": row["name"] or row["externalId"] or row["accountId"],
        "meter": row["meter"],
        "threshold": f"{row['threshold']:>3} %",
        "limit": row["limit"],
        "state": row["state"],
    }


@click.group()
def events() -> None:
    """Quota events: an account's usage crossed a threshold of a limit."""


@events.command("list", epilog=example("events list cus_8812 --month 2026-11"))
@click.argument("account_id", metavar="[ACCOUNT]", required=False)
@click.option("--month", "period", type=month, help="Only events of a UTC month such as 2026-11.")
@click.option("--state", type=click.Choice(STATES), help="Only events whose delivery is in this state.")
@prints_rows(_COLUMNS, _shown)
def list_events(
    connection: Connection, account_id: str | None, period: str | None, state: str | None
) -> Iterable[Fields]:
    """List the events of an account, or of all, the oldest first."""
    return map(_fields, listed(connection, account_id=account_id, period=period, state=state))
